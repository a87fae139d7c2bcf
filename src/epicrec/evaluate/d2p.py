"""D2P's tables and figures again: the paper's value beside ours, the honest ε beside both.

The protocol as far as the paper can be read (docs/d2p.md says where it cannot): 80 % of the trace
to learn from, 20 % held out; a list of N unseen items for every user with something held out;
precision, recall and F1 as means over users. On MovieLens a profile is what was rated, on
Jester, where nearly everything is, what was rated above 0. The asker's own profile is the true
one, as the paper's server has it; "server" rows rank from the asker's AlterEgo instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import (
    EMBEDDED,
    Catalogue,
    Dataset,
    Ratings,
    Scale,
    available,
    load_dataset,
    split_random,
)
from epicrec.errors import InputError
from epicrec.evaluate.d2p_figures import plot_budgets, plot_density, plot_sweeps
from epicrec.evaluate.metrics import list_metrics
from epicrec.models import Recommender
from epicrec.models.alterego import AlterEgoModel, aligned, alterego_matrix
from epicrec.models.alterego_items import D2PItems, D2PSvd
from epicrec.models.alterego_users import D2PUserKNN
from epicrec.models.bias import Popularity
from epicrec.models.covariance import CovarianceSVD
from epicrec.perturb.d2p import make_channel
from epicrec.perturb.d2p_choice import choose
from epicrec.perturb.groups import no_features, public_groups
from epicrec.perturb.rating_groups import average_cosine_distance, cosine_groups
from epicrec.perturb.substitution import Channel
from epicrec.privacy import AuditResult, audit_epsilon
from epicrec.progress import report

PAPER: dict[str, Any] = {
    "drop": {("ml-100k", "d2p"): 3.24, ("jester1-part1", "d2p"): 2.9, ("ml-100k", "i-d2p"): 1.89},
    "chosen": {
        "ml-100k": {"p": 0.7, "p_star": 0.03, "lam": 6.5, "f1": 8.5, "epsilon": 2.9},
        "jester1-part1": {"p": 0.8, "p_star": 0.01, "lam": 1.5, "f1": 23.1, "epsilon": 0.97},
    },
    "coverage_ratio": 1.5,
    "density": {"ML1": 99647, "MLV1": 76196, "MLV2": 16187, "MLV3": 6317, "MLV4": 750},
    "overhead_ms": {
        "ml-100k": {"recommend": 196, "online": 32, "offline": 4540, "mcsherry-mironov": 120_000},
        "jester1-part1": {"recommend": 24, "online": 12, "offline": 162, "mcsherry-mironov": 740},
    },
}
SIZES = (1, 5, 10, 20)
P_STARS = (0.0, 0.25, 0.5, 0.75, 1.0)
PS = (0.0, 0.1, 0.25, 0.5)
LAMBDAS = (0.0, 0.5, 1.0, 2.0, 4.0, 6.5)
BUDGETS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
METHODS: dict[str, type[Any]] = {"d2p": D2PUserKNN, "i-d2p": D2PItems, "d2p-svd": D2PSvd}


def reproduce(folder: str | Path, *, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Run the experiments, write `d2p.json` and the plots into `folder`, and return the tables.

    `quick` takes fewer settings and one draw. Where the paper's data is absent the embedded films
    stand in, and the tables say so.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = available()
    draws = 1 if quick else 3
    main = load_dataset("ml-100k") if "ml-100k" in found else load_dataset(EMBEDDED)
    datasets = [main]
    if "jester1-part1" in found and not quick:
        datasets.append(jester(load_dataset("jester1-part1"), seed=seed))
    trials = [trial(dataset, seed=seed) for dataset in datasets]
    sweeps = sweep_table(trials, quick=quick, draws=draws)
    budgets = budget_table(trials[0], (3.0,) if quick else BUDGETS, draws=1 if quick else 10)
    density = density_table(main, splits=1 if quick else 10)
    tables: dict[str, Any] = {
        "sweeps": sweeps,
        "drops": drop_table(sweeps),
        "epsilon": epsilon_table(trials),
        "coverage": coverage_table(trials[0], draws=draws),
        "density": density,
        "budgets": budgets,
        "overhead": [overhead(dataset) for dataset in datasets],
    }
    plots = [
        *plot_sweeps(sweeps, folder),
        *plot_budgets(budgets, PAPER["chosen"]["ml-100k"]["f1"] / 100, folder),
        *plot_density(density, SIZES, folder),
    ]
    result = {"paper": "d2p", "tables": tables, "plots": [str(path) for path in plots]}
    (folder / "d2p.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


# ---- one trial ----------------------------------------------------------------------------------


class Trial:
    """A data set divided for the protocol: profiles to learn from, what is held out, all seen."""

    def __init__(
        self, name: str, train: Ratings, test: Ratings, seen: Ratings, catalogue: Any
    ) -> None:
        self.name, self.train, self.test, self.seen = name, train, test, seen
        self.catalogue: Catalogue | None = catalogue
        self.judged = np.flatnonzero(test.user_counts > 0)


def trial(dataset: Dataset, *, seed: int = 0, liked_from: float | None = None) -> Trial:
    """Hold out 20 % of all ratings; a profile is what was rated, or what was liked."""
    if liked_from is None and dataset.name.startswith("jester"):
        liked_from = 0.0
    train, test = split_random(dataset.ratings, 0.2, seed=seed)
    if liked_from is None:
        return Trial(dataset.name, train, test, train, dataset.catalogue)
    liked = [part.select(part.values > liked_from) for part in (train, test)]
    return Trial(dataset.name, liked[0], liked[1], train, dataset.catalogue)


def jester(dataset: Dataset, *, users: int = 500, at_least: int = 50, seed: int = 0) -> Dataset:
    """Section 4.1.2: 500 users drawn among those with at least 50 ratings."""
    enough = np.flatnonzero(dataset.ratings.user_counts >= at_least)
    if len(enough) < users:
        raise InputError(
            f"{dataset.name} has {len(enough)} users with {at_least} ratings, not {users}"
        )
    drawn = np.sort(np.random.default_rng(seed).choice(enough, users, replace=False))
    return Dataset(dataset.name, dataset.ratings.users_at(drawn), dataset.catalogue)


def measure(
    model: Recommender, data: Trial, *, sizes: Sequence[int] = SIZES, server: bool = False
) -> dict[str, float]:
    """Fit, rank, and judge lists of several lengths; keys are `precision@5` and so on."""
    model.fit(data.train)
    judged = data.judged
    histories = data.train.as_history().users_at(judged)
    if server and isinstance(model, AlterEgoModel):
        scores = model.server_scores(histories.user_ids)
    else:
        scores = model._scores(histories)
    scores = np.array(scores, np.float64)
    seen = data.seen.users_at(judged)
    scores[seen.users, seen.items] = -np.inf
    held = data.test.users_at(judged)
    wanted = np.column_stack([held.users, held.items])
    longest = min(max(sizes), scores.shape[1])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :longest]
    users = np.repeat(np.arange(len(judged)), longest)
    ranks = np.tile(np.arange(1, longest + 1), len(judged))
    out: dict[str, float] = {}
    for n in sizes:
        found = list_metrics(users, best.ravel(), ranks, wanted, n, data.train.n_items)
        out |= {f"{name}@{n}": value for name, value in found.items()}
    return out


def mean_of(results: Iterable[dict[str, float]]) -> dict[str, float]:
    """The mean of each measure over several draws."""
    rows = list(results)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


# ---- the paper's tables and figures -------------------------------------------------------------


def sweep_table(trials: list[Trial], *, quick: bool, draws: int) -> list[dict[str, Any]]:
    """Figures 7 to 12 and 17: quality over p*, p and λ, as published, for d2p and (ML) i-d2p."""
    p_stars, ps, lambdas = (
        ((0.0, 0.5, 1.0), (0.0, 0.5), (1.0, 6.5)) if quick else (P_STARS, PS, LAMBDAS)
    )
    settings = [
        *({"swept": "p_star", "p": 0.5, "p_star": value, "lam": 1.0} for value in p_stars),
        *({"swept": "p", "p": value, "p_star": 0.0, "lam": 1.0} for value in ps),
        *({"swept": "lam", "p": 0.5, "p_star": 0.0, "lam": value} for value in lambdas),
    ]
    rows = []
    for data in trials:
        for method, cls in METHODS.items():
            if method == "d2p-svd" or (method == "i-d2p" and data is not trials[0]):
                continue  # not in the paper
            for done, setting in enumerate(settings):
                report(f"{data.name}, {method}", done, len(settings))
                options = {name: value for name, value in setting.items() if name != "swept"}
                models = [cls(as_published=True, seed=s, **options) for s in range(draws)]
                found = mean_of(measure(model, data) for model in models)
                rows.append({"data": data.name, "method": method, **setting, **found})
    return rows


def drop_table(sweeps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far Pr@5 falls from p* = 1, in per cent and in points, beside the paper's per cent."""
    rows = []
    for (data, method), paper in PAPER["drop"].items():
        own = {
            row["p_star"]: row["precision@5"]
            for row in sweeps
            if (row["data"], row["method"], row["swept"]) == (data, method, "p_star")
        }
        rows += [
            {
                "data": data, "method": method, "p_star": star, "precision@5": own[star],
                "drop_percent": 100 * (1 - own[star] / own[1.0]),
                "drop_points": 100 * (own[1.0] - own[star]), "paper": paper,
            }
            for star in sorted(own)
            if star < 1
        ]  # fmt: skip
    return rows


def epsilon_table(trials: list[Trial]) -> list[dict[str, Any]]:
    """The paper's chosen settings: their ε as stated, by (12), and the exact maximum; their F1."""
    rows = []
    for data in trials:
        if data.name not in PAPER["chosen"]:
            continue
        paper = PAPER["chosen"][data.name]
        groups = cosine_groups(data.train, paper["lam"])
        channel = Channel(groups, paper["p"], paper["p_star"])
        options = {name: paper[name] for name in ("p", "p_star", "lam")}
        model = D2PUserKNN(as_published=True, seed=0, **options)
        rows.append(
            {
                "data": data.name,
                **options,
                "items": len(groups),
                "paper": paper["epsilon"],
                "least_group": int(groups.sizes.min()),
                "equation_12": channel.published_epsilon,
                "exact": channel.epsilon,
                "median_group": int(np.median(groups.sizes)),
                "paper_f1": paper["f1"] / 100,
                "f1@10": measure(model, data)["f1@10"],
                "average_distance": average_cosine_distance(data.train),
            }
        )
    return rows


def coverage_table(data: Trial, *, draws: int) -> list[dict[str, Any]]:
    """Figure 16: catalogue coverage over N at the paper's chosen setting, and without privacy."""
    rows = []
    settings: list[tuple[str, dict[str, Any]]] = [
        ("not private", {"p": 0.5, "p_star": 1.0, "lam": 1.0}),
        ("d2p, λ = 6.5", {"p": 0.7, "p_star": 0.03, "lam": 6.5}),
    ]
    for name, options in settings:
        models = [D2PUserKNN(as_published=True, seed=s, **options) for s in range(draws)]
        found = mean_of(measure(model, data) for model in models)
        rows.append({"method": name} | {f"coverage@{n}": found[f"coverage@{n}"] for n in SIZES})
    return rows


def partitions(ratings: Ratings) -> dict[str, Ratings]:
    """Figure 5: users and items sorted by how many ratings they have, each cut in half.

    ML1 is the 940 users and 1,680 items with most ratings. MLV1 has the busier users and the more
    popular items, MLV2 the same items and the other users, MLV3 the busier users and the rarer
    items, MLV4 the rest. Other data is cut at its own half.
    """
    n_users, n_items = min(940, ratings.n_users), min(1680, ratings.n_items)
    users = np.argsort(-ratings.user_counts, kind="stable")[:n_users]
    items = np.argsort(-ratings.item_counts, kind="stable")[:n_items]
    user_half, item_half = n_users // 2, n_items // 2
    parts = {
        "ML1": (users, items),
        "MLV1": (users[:user_half], items[:item_half]),
        "MLV2": (users[user_half:], items[:item_half]),
        "MLV3": (users[:user_half], items[item_half:]),
        "MLV4": (users[user_half:], items[item_half:]),
    }
    return {
        name: ratings.users_at(np.sort(some)).with_items(ratings.item_ids[np.sort(of)])
        for name, (some, of) in parts.items()
    }


def density_table(dataset: Dataset, *, splits: int = 1) -> list[dict[str, Any]]:
    """Table 3 and Figure 6: ratings of each part, and recall over N at p = p* = 0.5, λ = 1.

    Few users of the thinnest part have anything held out, so the mean is over several splits.
    """
    rows = []
    for name, part in partitions(dataset.ratings).items():
        found = mean_of(
            measure(
                D2PUserKNN(as_published=True, p=0.5, p_star=0.5, lam=1.0, seed=seed),
                trial(Dataset(name, part, None), seed=seed),
            )
            for seed in range(splits)
        )
        rows.append(
            {
                "data": name, "users": part.n_users, "items": part.n_items, "ratings": len(part),
                "paper_ratings": PAPER["density"][name],
                "density_percent": 100 * len(part) / (part.n_users * part.n_items),
                **{f"recall@{n}": found[f"recall@{n}"] for n in SIZES},
            }
        )  # fmt: skip
    return rows


def budget_table(data: Trial, budgets: Sequence[float], *, draws: int) -> list[dict[str, Any]]:
    """F1@10 at an honest ε, with and without the correction, and with the paper's p and λ."""
    popular = measure(Popularity(), data)
    rows = [_budget_row("popularity, not private", None, popular)]
    for epsilon in budgets:
        for method, cls in METHODS.items():
            for how, options in (
                ("corrected", {}),
                ("not corrected", {"correct": False}),
                ("paper's p and λ, corrected", _paper_options(data, epsilon)),
                (
                    "paper's p and λ, not corrected",
                    {"correct": False} | _paper_options(data, epsilon),
                ),
            ):
                models = [
                    cls(epsilon=epsilon, catalogue=data.catalogue, seed=s, **options)
                    for s in range(draws)
                ]
                found = mean_of(measure(model, data) for model in models)
                rows.append(_budget_row(f"{method}, {how}", epsilon, found))
            models = [cls(epsilon=epsilon, catalogue=data.catalogue, seed=s) for s in range(draws)]
            found = mean_of(measure(model, data, server=True) for model in models)
            rows.append(_budget_row(f"{method}, corrected, ranked by the server", epsilon, found))
            report("budgets", len(rows), 1 + 5 * len(METHODS) * len(budgets))
    return rows


def _paper_options(data: Trial, epsilon: float) -> dict[str, Any]:
    """p = 0.7, λ = 6.5 and a p* a tenth of the paper's, with the least floor that keeps to ε."""
    n, p, star = data.train.n_items, 0.7, 0.003
    room = p * (1 - star) * np.expm1(epsilon) / n - star
    while room <= (1 - p) * (1 - star) / n:
        star /= 2
        if star < 1e-9:
            return {"lam": 6.5, "p_star": 0.0}
        room = p * (1 - star) * np.expm1(epsilon) / n - star
    floor = int(np.ceil((1 - p) * (1 - star) / room * (1 + 1e-9)))
    return {"p": p, "p_star": star, "lam": 6.5, "floor": max(1, floor)}


def _budget_row(method: str, epsilon: float | None, found: dict[str, float]) -> dict[str, Any]:
    names = ("precision@10", "recall@10", "f1@10", "ndcg@10", "coverage@10", "precision@5")
    return {"method": method, "epsilon": epsilon} | {name: found[name] for name in names}


def overhead(dataset: Dataset) -> dict[str, Any]:
    """Table 4: processor milliseconds, the paper's beside ours, and the ratio in this run.

    Offline is what is done once in a while: groups, everybody's draws and the matrix of AlterEgos;
    public groups change with the catalogue only, so a refresh is the draws. McSherry & Mironov's is
    the fit of `CovarianceSVD` as published: noisy item effects and covariance, cleaned. Online is
    one user's AlterEgo.
    """
    ratings = dataset.ratings
    history, n = ratings.as_history(), ratings.n_items
    catalogue = no_features(ratings.item_ids)
    if dataset.catalogue is not None:
        catalogue = aligned(dataset.catalogue, ratings.item_ids)
    one = history.users_at(np.array([int(np.argsort(history.user_counts)[history.n_users // 2])]))
    whole = ratings
    if ratings.scale is not None and ratings.scale.step < 0.1:  # too fine for the paper's sums
        scale = Scale(ratings.scale.low, ratings.scale.high, 1)
        whole = replace(ratings, values=np.rint(ratings.values), scale=scale)

    def published() -> object:
        drawn = Channel(cosine_groups(history, 1.0), 0.5, 0.5).draw(history.items)
        return alterego_matrix(history, drawn, n)

    def public() -> object:
        public_groups.cache_clear()
        drawn = Channel(public_groups(catalogue, 1.0, max(1, n // 20)), 0.5, 0.0)
        return alterego_matrix(history, drawn.draw(history.items), n)

    channel, _ = make_channel(catalogue, p=0.5)
    theirs = _milliseconds(lambda: CovarianceSVD(as_published=True, theta=5.0).fit(whole))
    ours = {
        "as published": _milliseconds(published),
        "public groups": _milliseconds(public),
        "all AlterEgos": _milliseconds(lambda: channel.draw(history.items)),
    }
    models = {name: cls(p=0.5, catalogue=catalogue).fit(ratings) for name, cls in METHODS.items()}
    return {
        "data": dataset.name,
        "offline_ms": ours,
        "mcsherry_mironov_ms": theirs,
        "ratio": {how: theirs / spent for how, spent in ours.items()},
        "online_ms": _milliseconds(lambda: channel.draw(one.items)),
        "recommend_ms": {
            name: _milliseconds(partial(model.recommend, one, n=10))
            for name, model in models.items()
        },
        "paper_ms": PAPER["overhead_ms"].get(dataset.name),
    }


def _milliseconds(call: Callable[[], object], rounds: int = 7) -> float:
    """The median processor time of several calls, after one that is not counted."""
    call()
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1000 * float(np.median(spent))


# ---- audit --------------------------------------------------------------------------------------


def audit_d2p(method: str = "d2p", *, epsilon: float = 3.0, runs: int = 2000) -> AuditResult:
    """A 95 % lower bound on ε from what another user is recommended.

    The victim has one item, the one or the other of two. The asker has none, so the first item of
    their list is the most popular among AlterEgos, of which there is one: nothing tells more about
    it.
    """
    if method not in METHODS:
        raise InputError(f"there is no audit of {method!r} here; use {' or '.join(METHODS)}")
    ids = np.arange(20)
    chosen = choose(no_features(ids), epsilon)  # once, and not for each of the runs
    options = {name: getattr(chosen, name) for name in ("p", "p_star", "lam", "floor")}
    shown: list[list[int]] = []
    for item in (0, 1):
        victim = Ratings.from_columns([0], [item]).with_items(ids)
        asker = Ratings.from_columns([1], [item]).with_items(ids).select(np.array([False]))
        model = METHODS[method](correct=False, **options)
        first = [int(np.argmax(model.fit(victim)._scores(asker)[0])) for _ in range(runs)]
        shown.append(first)
    return audit_epsilon(*shown)
