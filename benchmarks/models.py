"""How fast are the models beside other libraries, and how good on which data?

    epicrec bench models                              beside other libraries on films; a minute
    epicrec bench models peers ml-100k --with ../env/bin/python
    epicrec bench models lists 100000 10000           lists over many items, beside implicit
    epicrec bench models predictions [DATA …]         covariance-knn beside covariance-svd
    epicrec bench models without-pairs [DATA]         the price of doing without pairs of items
    epicrec bench models carry-over [SET …]           what must hold on every data set; an hour
    epicrec bench models carry-over films books --out new.json
    epicrec bench models carry-over --from new.json --page docs/which-method.md

Times are processor seconds, the best of three after one that is not counted, as ratios in one run.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _measuring import Parts, seconds, show

from epicrec.data import Dataset, Ratings, Scale, load_dataset, split_random
from epicrec.errors import InputError
from epicrec.evaluate import evaluate, evaluate_rating
from epicrec.models import make_model
from epicrec.models.svd import SVD

# ---- beside other libraries ---------------------------------------------------------------------

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
TIMED = """
import json, sys, time
began = time.process_time()
{imports}
found = {{"import": time.process_time() - began}}
import numpy as np
users, items, values = (np.load(sys.argv[1])[name] for name in ("users", "items", "values"))
def best(work):
    work()
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
{work}
status = open("/proc/self/status").read()  # of this process alone, not of its parent
found["megabytes"] = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps(found))
"""
PEERS = {
    "epicrec, svd for histories": (
        "from epicrec.data import Ratings\nfrom epicrec.models import model_class\n"
        "SVD = model_class('svd')",
        "table = Ratings.from_columns(users, items, values)\n"
        "fit = lambda: SVD(task='lists').fit(table)\nfound['fit'] = best(fit)\n"
        "model = fit()\nfound['lists'] = best(lambda: model.recommend(table, n=10))",
    ),
    "implicit, als": (
        "from implicit.als import AlternatingLeastSquares",
        "from scipy.sparse import csr_matrix\nfrom threadpoolctl import threadpool_limits\n"
        "threadpool_limits(1, 'blas')\n"
        "table = csr_matrix((np.ones(len(users), np.float32), (users, items)))\n"
        "def fit():\n"
        "    model = AlternatingLeastSquares(factors=64, use_gpu=False, random_state=0)\n"
        "    model.fit(table, show_progress=False)\n    return model\n"
        "found['fit'] = best(fit)\nmodel = fit()\n"
        "everyone = np.arange(table.shape[0])\n"
        "found['lists'] = best(lambda: model.recommend(everyone, table, N=10))",
    ),
    "epicrec, item neighbours for histories": (
        "from epicrec.data import Ratings\nfrom epicrec.models import model_class\n"
        "ItemKNN = model_class('item-knn')",
        "table = Ratings.from_columns(users, items, values).as_history()\n"
        "fit = lambda: ItemKNN(task='lists').fit(table)\n"
        "found['fit'] = best(fit)\n"
        "model = fit()\nfound['lists'] = best(lambda: model.recommend(table, n=10))",
    ),
    "implicit, item-item cosine": (
        "from implicit.nearest_neighbours import CosineRecommender",
        "from scipy.sparse import csr_matrix\n"
        "table = csr_matrix((np.ones(len(users)), (users, items)))\n"
        "def fit():\n    model = CosineRecommender(K=20, num_threads=1)\n"
        "    model.fit(table, show_progress=False)\n    return model\n"
        "found['fit'] = best(fit)\nmodel = fit()\n"
        "everyone = np.arange(table.shape[0])\n"
        "found['lists'] = best(lambda: model.recommend(everyone, table, N=10))",
    ),
    "epicrec, svd for ratings": (
        "from epicrec.data import Ratings\nfrom epicrec.models import model_class\n"
        "SVD = model_class('svd')",
        "table = Ratings.from_columns(users, items, values)\n"
        "fit = lambda: SVD(task='ratings').fit(table)\nfound['fit'] = best(fit)\n"
        "model = fit()\nfound['predict'] = best(lambda: model.predict(table))",
    ),
    "surprise, SVD": (
        "import surprise",
        "import pandas as pd\n"
        "frame = pd.DataFrame({'u': users, 'i': items, 'r': values})\n"
        "reader = surprise.Reader(rating_scale=(values.min(), values.max()))\n"
        "table = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()\n"
        "fit = lambda: surprise.SVD(random_state=0).fit(table)\nfound['fit'] = best(fit)\n"
        "model = fit()\nasked = table.build_testset()\n"
        "found['predict'] = best(lambda: model.test(asked))",
    ),
    "lenskit, biased MF": (
        "import lenskit.als\nfrom lenskit.data import from_interactions_df",
        "import pandas as pd\nfrom lenskit.batch import predict\n"
        "from lenskit.pipeline import predict_pipeline\n"
        "frame = pd.DataFrame({'user_id': users, 'item_id': items, 'rating': values})\n"
        "table = from_interactions_df(frame)\n"
        "def fit():\n    pipe = predict_pipeline(lenskit.als.BiasedMFScorer(features=50))\n"
        "    pipe.train(table)\n    return pipe\n"
        "found['fit'] = best(fit)\nmodel = fit()\n"
        "found['predict'] = best(lambda: predict(model, frame, n_jobs=1))",
    ),
}  # fmt: skip


def _peer(peer: str, python: str, table: Path) -> dict[str, Any] | None:
    """What a peer took; None if this interpreter does not have it."""
    imports, work = PEERS[peer]
    script = TIMED.format(imports=imports, work=work)
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, str(table)], capture_output=True, text=True,
        env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
    )  # fmt: skip
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def peers(given: Namespace) -> None:
    """Import, fit, predictions, lists of ten and memory, each peer in a process of its own.

    All have the same ratings and one thread. `implicit` is there wherever the tests are; LensKit
    and Surprise bring much with them and belong into environments of their own, whose interpreters
    `--with` names. A line is one peer, with its multiple of ours.
    """
    ratings = load_dataset(given.data).ratings
    ours: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "ratings.npz"
        np.savez(table, users=ratings.users, items=ratings.items, values=ratings.values)
        for peer in PEERS:
            tries = (_peer(peer, python, table) for python in (sys.executable, *given.others))
            found = next((one for one in tries if one is not None), None)
            if found is None:
                show({"peer": peer, "missing": "name its interpreter: --with PYTHON"})
                continue
            if peer.startswith("epicrec"):
                ours = found
            ratio = {f"{name}, of ours": round(found[name] / ours[name], 2) for name in found}
            plain = {name: round(value, 4) for name, value in found.items()}
            line = {"peer": peer, "data": given.data, **plain}
            show(line if found is ours else line | ratio)


def lists(given: Namespace) -> None:
    """Processor seconds for lists of ten over random factors, ours and implicit's, and the ratio:
    the same factors, histories of thirty items, and one thread."""
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    rng, n, users = np.random.default_rng(0), given.items, given.users
    chosen = (n * rng.random((users, 30)) ** 3).astype(np.int64)  # the first are the most popular
    pairs = np.unique(np.stack([np.repeat(np.arange(users), 30), chosen.ravel()], 1), axis=0)
    table = Ratings.from_columns(*pairs.T).with_items(np.arange(n))
    ours, factors = SVD(), rng.normal(size=(n, given.factors)).astype(np.float32)
    ours.item_ids_, ours.scale_, ours.offsets_ = table.item_ids, None, np.zeros(n)
    ours.factors_ = ours.projections_ = factors
    theirs = AlternatingLeastSquares(factors=given.factors, use_gpu=False, num_threads=1)
    theirs.item_factors, theirs.user_factors = factors, table.csr() @ factors
    seen = csr_matrix(table.csr())
    with threadpool_limits(1):
        own = ours.recommend(table, n=10)["item_id"].to_numpy().reshape(users, 10)
        ids, _ = theirs.recommend(np.arange(users), seen, N=10)
        found = {
            "epicrec": _best(lambda: ours.recommend(table, n=10)),
            "implicit": _best(lambda: theirs.recommend(np.arange(users), seen, N=10)),
        }
    found |= {"ratio": round(found["epicrec"] / found["implicit"], 2)}
    same = round(float(np.mean(own == ids)), 5)
    show({"items": n, "users": users, "factors": given.factors, **found, "the same": same})


# ---- ours beside ours ---------------------------------------------------------------------------

LISTED = 200
"""How many users' lists are timed."""


def predictions(given: Namespace) -> None:
    """Processor seconds for held-out ratings and for lists of ten, by either, and the ratio."""
    for name in given.data:
        data = load_dataset(name)
        train, test = split_random(data.ratings, 0.1, seed=0)
        some = train.users_at(np.arange(min(LISTED, train.n_users)))
        found: dict[str, Any] = {"data": data.name, "ratings": len(test)}
        for method in ("covariance-svd", "covariance-knn"):
            model = make_model(method, epsilon=20.0, task="ratings", seed=0).fit(
                train, data.catalogue
            )
            found[f"predict, {method}"] = _best(partial(model.predict, test, histories=train))
            found[f"lists, {method}"] = _best(partial(model.recommend, some, n=10))
        for what in ("predict", "lists"):
            slow, fast = (found[f"{what}, covariance-{kind}"] for kind in ("knn", "svd"))
            found[f"{what}, ratio"] = round(slow / fast, 1)
        show(found)


def _best(call: Callable[[], object]) -> float:
    call()
    return round(min(seconds(call, 3)), 4)


def without_pairs(given: Namespace) -> None:
    """RMSE with all statistics, and with `factors=0`: without pairs of items, for which memory may
    be too small."""
    data = load_dataset(given.data)
    for epsilon in (1.0, 10.0):
        figures = {"epsilon": epsilon}
        for name, settings in (("with pairs", {}), ("without", {"factors": 0})):
            found = evaluate(
                "covariance-svd",
                data,
                protocol="rating",
                epsilon=epsilon,
                delta=1e-6,
                seed=0,
                settings=settings,
            )
            figures[name] = round(found.metrics["rmse"], 4)
        show(figures)


# ---- whether accuracy carries over --------------------------------------------------------------

SETS = ("films", "books", "ml-latest-small-2016", "ml-100k", "jester5k", "yelp-2013", "ml-1m")
EPSILONS = (0.1, 1.0, 10.0)
SEEDS = 4
DELTAS = {"rating": 1e-6, "user": 1e-5}
USER_DAMPING = 5.0
LISTS = ("popularity", "covariance-svd")
COLUMNS = (
    "people", "ratings", "user mean", "bias", "svd", "private-bias, one rating",
    "covariance-svd, one rating", "covariance-svd, one user",
    *(f"lists by {method}, one user" for method in LISTS),
)  # fmt: skip


def books(users: int = 3000, items: int = 6000, ratings: int = 30_000, seed: int = 5) -> Dataset:
    """Sparse ratings from 1 to 10 with long tails of users, items and errors."""
    rng = np.random.default_rng(seed)
    often = rng.pareto(1.1, users) + 1
    known = (np.arange(items) + 10.0) ** -0.8
    user = rng.choice(users, 2 * ratings, p=often / often.sum())
    item = rng.choice(items, 2 * ratings, p=known / known.sum())
    user, item = rng.permutation(np.unique(np.stack([user, item], 1), axis=0))[:ratings].T
    taste, kind = rng.normal(size=(users, 4)), 0.25 * rng.normal(size=(items, 4))
    values = 7.6 + 0.5 * rng.normal(size=items)[item] + 0.9 * rng.normal(size=users)[user]
    values += (taste[user] * kind[item]).sum(axis=1) + 1.05 * rng.standard_t(4, len(user))
    scale = Scale(1, 10, 1)
    found = Ratings.from_columns(user, item, np.clip(np.rint(values), 1, 10), scale=scale)
    return Dataset("books", found, None)


def user_mean_error(train: Ratings, test: Ratings) -> float:
    """Of the mean of a user's ratings, damped to the mean of all."""
    mean = float(train.values.mean(dtype=np.float64))
    above = np.bincount(train.users, train.values - mean, train.n_users)
    predicted = mean + (above / (train.user_counts + USER_DAMPING))[test.users]
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def measured(data: Dataset, seeds: int) -> Iterator[dict[str, Any]]:
    """The errors on one data set, a fifth of its ratings held out."""
    train, test = split_random(data.ratings, 0.2, seed=0)

    def errors(method: str, **settings: Any) -> list[float]:
        draws = range(seeds) if "epsilon" in settings else [0]
        found = []
        for seed in draws:
            model = make_model(
                method, **settings | ({"seed": seed} if "epsilon" in settings else {})
            )
            metrics, _ = evaluate_rating(model, train, test, catalogue=data.catalogue)
            found.append(metrics["rmse"])
        return found

    def line(method: str, unit: str, epsilon: float | None, found: list[float]) -> dict[str, Any]:
        return {"data": data.name, "people": train.n_users, "ratings": len(train),
                "method": method, "unit": unit, "epsilon": epsilon, "rmse": found}  # fmt: skip

    yield line("user mean", "none", None, [user_mean_error(train, test)])
    yield line("bias", "none", None, errors("bias"))
    yield line("svd", "none", None, errors("svd", task="ratings"))
    for epsilon in EPSILONS:
        found = errors("private-bias", epsilon=epsilon)
        yield line("private-bias", "rating", epsilon, found)
        for unit, delta in DELTAS.items():
            private = {"epsilon": epsilon, "delta": delta, "unit": unit}
            found = errors("covariance-svd", task="ratings", **private)
            yield line("covariance-svd", unit, epsilon, found)


def measured_lists(data: Dataset, seeds: int) -> Iterator[dict[str, Any]]:
    """nDCG@10 of private lists and of private popularity, a whole person hidden."""
    for epsilon, method in itertools.product(EPSILONS, LISTS):
        found = [
            evaluate(
                method, data, protocol="topn", epsilon=epsilon, delta=DELTAS["user"], unit="user",
                seed=seed,
            ).metrics["ndcg"]
            for seed in range(seeds)
        ]  # fmt: skip
        yield {"data": data.name, "method": method, "unit": "user", "epsilon": epsilon,
               "ndcg": found}  # fmt: skip


def broken(lines: list[dict[str, Any]]) -> Iterator[str]:
    """What should hold of the measurements and does not, in words."""
    yield from broken_lists([line for line in lines if "ndcg" in line])
    lines = [line for line in lines if "rmse" in line]
    by = {(x["data"], x["method"], x["unit"], x["epsilon"]): x["rmse"] for x in lines}
    mean = {key: statistics.fmean(found) for key, found in by.items()}
    for data in dict.fromkeys(x["data"] for x in lines):
        plain = {name: mean[data, name, "none", None] for name in ("user mean", "bias", "svd")}
        if plain["svd"] > plain["bias"] + 0.001:
            yield f"{data}: svd {plain['svd']:.4f} is worse than bias {plain['bias']:.4f}"
        for epsilon in EPSILONS:
            own = mean[data, "covariance-svd", "rating", epsilon]
            other = mean[data, "private-bias", "rating", epsilon]
            if own > other + 0.002:
                yield f"{data}, ε = {epsilon:g}: {own:.4f}, and private-bias {other:.4f}"
        for unit in DELTAS:
            for epsilon in EPSILONS:
                own = mean[data, "covariance-svd", unit, epsilon]
                if own > plain["user mean"]:
                    yield f"{data}, {unit}, ε = {epsilon:g}: {own:.4f} is worse than the user mean"
            for less, more in itertools.pairwise(EPSILONS):
                both = [by[data, "covariance-svd", unit, epsilon] for epsilon in (less, more)]
                if rises(*both):
                    yield f"{data}, {unit}: the error rises from ε = {less:g} to {more:g}"


def broken_lists(lines: list[dict[str, Any]]) -> Iterator[str]:
    mean = {(x["data"], x["epsilon"], x["method"]): statistics.fmean(x["ndcg"]) for x in lines}
    for data, epsilon in dict.fromkeys((x["data"], x["epsilon"]) for x in lines):
        plain, own = (mean[data, epsilon, method] for method in LISTS)
        if own < plain - 0.003:
            yield f"{data}, lists, ε = {epsilon:g}: {own:.4f}, and popularity {plain:.4f}"
    by = {(x["data"], x["epsilon"]): x["ndcg"] for x in lines if x["method"] == LISTS[1]}
    for (data, less), (other, more) in itertools.pairwise(by):
        if data == other and rises(by[data, more], by[data, less]):
            yield f"{data}: lists become worse from ε = {less:g} to {more:g}"


def rises(less: list[float], more: list[float]) -> bool:
    """Whether the second errors are larger by more than two standard errors."""
    spread = [statistics.variance(x) / len(x) if len(x) > 1 else 0.0 for x in (less, more)]
    return statistics.fmean(more) - statistics.fmean(less) > 2 * math.sqrt(sum(spread))


def cells(lines: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """What was measured of each data set, by column: errors, and then lists."""
    rows: dict[str, dict[str, str]] = {}
    by: dict[tuple[str, str], dict[float, str]] = {}
    for line in lines:
        data, kind = line["data"], "rmse" if "rmse" in line else "ndcg"
        row, mean = rows.setdefault(data, {}), f"{statistics.fmean(line[kind]):.3f}"
        if kind == "rmse":
            row |= {"people": f"{line['people']:,}", "ratings": f"{line['ratings']:,}"}
        named = f"{line['method']}, one {line['unit']}"
        if line["epsilon"] is None:
            row[line["method"]] = mean
        else:
            column = named if kind == "rmse" else f"lists by {named}"
            by.setdefault((data, column), {})[line["epsilon"]] = mean
    for (data, column), found in by.items():
        rows[data][column] = " / ".join(found.get(epsilon, "") for epsilon in EPSILONS)
    return rows


def table(rows: dict[str, dict[str, str]]) -> str:
    """One row a data set, one column a method with every ε."""
    lines = [["data", *COLUMNS], ["---"] * (1 + len(COLUMNS))]
    for data in sorted(rows, key=lambda name: SETS.index(name) if name in SETS else len(SETS)):
        lines.append([data, *(rows[data].get(column, "") for column in COLUMNS)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read(text: str) -> dict[str, dict[str, str]]:
    """The rows of a table as `table` writes it; of another one none."""
    lines = [line[2:-2].split(" | ") for line in text.splitlines()]
    if not lines or lines[0] != ["data", *COLUMNS]:
        return {}
    return {data: dict(zip(COLUMNS, found, strict=False)) for data, *found in lines[2:]}


def page(path: Path, lines: list[dict[str, Any]]) -> None:
    """Put the table between the marks of a page that is otherwise written by hand; what was not
    measured now stays as it stood there."""
    start, end = "<!-- measured -->\n", "<!-- end -->"
    text = path.read_text("utf-8")
    begin, stop = text.index(start) + len(start), text.index(end)
    rows = read(text[begin:stop])
    for data, found in cells(lines).items():
        rows[data] = rows.get(data, {}) | found
    path.write_text(f"{text[:begin]}{table(rows)}\n{text[stop:]}", "utf-8")


def carry_over(given: Namespace) -> int:
    """Check on data sets what must hold on every one; status 1 where something does not.

    `books` is simulated: few ratings a user, a scale of ten, heavy tails. With the mean of some
    seeds where there is noise:

        svd <= bias + 0.001                          without privacy
        covariance-svd <= private-bias + 0.002       rating level, at the same ε
        covariance-svd <= the damped user mean       rating or user level
        the error does not rise with ε               within two standard errors; lists do not fall
        lists >= private popularity - 0.003          nDCG@10, user level, at the same ε

    `--page` puts the table into a page; sets and methods that were not measured now keep what was
    there.
    """
    lines: list[dict[str, Any]] = []
    for earlier in given.earlier:
        lines += json.loads(earlier.read_text("utf-8"))["measured"]
    for name in given.sets or ([] if given.earlier else SETS):
        try:
            data = books() if name == "books" else load_dataset(name)
        except InputError as error:
            print(error, file=sys.stderr)
            continue
        for kind, run in {"rmse": measured, "ndcg": measured_lists}.items():
            if given.only not in (None, kind):
                continue
            lines = [line for line in lines if line["data"] != data.name or kind not in line]
            for line in run(data, given.seeds):
                print(json.dumps(line), file=sys.stderr, flush=True)
                lines.append(line)
        if given.out:
            given.out.write_text(json.dumps({"measured": lines}), "utf-8")
    found = [*broken(lines)]
    if given.out:
        given.out.write_text(json.dumps({"measured": lines, "broken": found}, indent=1), "utf-8")
    if given.page:
        page(given.page, lines)
    print(table(cells(lines)))
    print("\n".join(found) or "everything holds")
    return 1 if found else 0


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("peers", peers)
    part.add_argument("data", nargs="?", default="films")
    part.add_argument("--with", dest="others", action="append", default=[], metavar="PYTHON")
    part = found.add("lists", lists)
    part.add_argument("items", nargs="?", type=int, default=10_000)
    part.add_argument("users", nargs="?", type=int, default=10_000)
    part.add_argument("--factors", type=int, default=64)
    found.add("predictions", predictions).add_argument("data", nargs="*", default=["films"])
    found.add("without-pairs", without_pairs).add_argument("data", nargs="?", default="ml-1m")
    part = found.add("carry-over", carry_over)
    part.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}")
    part.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 0 on")
    part.add_argument("--only", choices=("rmse", "ndcg"), help="only ratings, or only lists")
    part.add_argument("--out", type=Path, help="what was measured, as JSON")
    part.add_argument("--from", type=Path, dest="earlier", action="append", default=[])
    part.add_argument("--page", type=Path, help="a page with a place for the table")
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
