"""Whether accuracy carries over: what must hold on every data set, and which method.

    python benchmarks/carry_over.py                          # every set that is there
    python benchmarks/carry_over.py films books --out new.json
    python benchmarks/carry_over.py --from new.json --page docs/which-method.md

`books` is simulated: few ratings a user, a scale of ten, heavy tails. Checked are, with the mean of
four seeds where there is noise:

    svd <= bias + 0.001                          without privacy
    covariance-svd <= private-bias + 0.002       one rating hidden, at the same ε
    covariance-svd <= the damped user mean       one rating or a whole person hidden
    the error does not rise with ε               within two standard errors, and lists do not fall
    lists >= private popularity - 0.003          nDCG@10, a whole person hidden, at the same ε

What is measured is written to `--out`; a page of it is made with `--page`, where sets and methods
that were not measured now keep what stood there. The status is 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import Dataset, Ratings, Scale, load_dataset, split_random
from epicrec.errors import InputError
from epicrec.evaluate import evaluate, evaluate_rating
from epicrec.models import make_model

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
    for method in ("bias", "svd"):
        yield line(method, "none", None, errors(method))
    for epsilon in EPSILONS:
        found = errors("private-bias", epsilon=epsilon)
        yield line("private-bias", "rating", epsilon, found)
        for unit, delta in DELTAS.items():
            found = errors("covariance-svd", epsilon=epsilon, delta=delta, unit=unit)
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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", choices=("rmse", "ndcg"), help="ratings or lists alone")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--from", type=Path, dest="earlier", action="append", default=[])
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    for earlier in options.earlier:
        lines += json.loads(earlier.read_text("utf-8"))["measured"]
    for name in options.sets or ([] if options.earlier else SETS):
        try:
            data = books() if name == "books" else load_dataset(name)
        except InputError as error:
            print(error, file=sys.stderr)
            continue
        for kind, run in {"rmse": measured, "ndcg": measured_lists}.items():
            if options.only not in (None, kind):
                continue
            lines = [line for line in lines if line["data"] != data.name or kind not in line]
            for line in run(data, options.seeds):
                print(json.dumps(line), file=sys.stderr, flush=True)
                lines.append(line)
        if options.out:
            options.out.write_text(json.dumps({"measured": lines}), "utf-8")
    found = [*broken(lines)]
    if options.out:
        options.out.write_text(json.dumps({"measured": lines, "broken": found}, indent=1), "utf-8")
    if options.page:
        page(options.page, lines)
    print(table(cells(lines)))
    print("\n".join(found) or "everything holds")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
