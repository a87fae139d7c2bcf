"""D2P's tables: the paper's value beside ours, the honest ε beside both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epicrec.data import Dataset, Ratings
from epicrec.models import make_model
from epicrec.models.bias import Popularity
from epicrec.models.d2p.alterego_model import aligned
from epicrec.papers.d2p.models import PublishedD2PUsers
from epicrec.papers.d2p.protocol import SIZES, Trial, mean_of, measure, trial
from epicrec.papers.d2p.rating_groups import average_cosine_distance, cosine_groups, liked
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import hiding_lambda
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
METHODS = ("d2p", "i-d2p", "d2p-svd")
PUBLISHED = METHODS[:2]
"""Those of the paper; of these only the first on other data than the main one."""
P_STARS = (0.0, 0.25, 0.5, 0.75, 1.0)
PS = (0.0, 0.1, 0.25, 0.5)
LAMBDAS = (0.0, 0.5, 1.0, 2.0, 4.0, 6.5)
MOST_USERS = 300
"""Of so many users λ is chosen."""
WIDER = 200
"""The paper names neither how many neighbours it has nor how long the lists of its F1 are; with so
many, and with likes for profiles, lists of 20 come near it."""
BUDGETS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


def sweep_table(trials: list[Trial], *, quick: bool, draws: int) -> list[dict[str, Any]]:
    """Figures 7 to 12 and 17: quality over p*, p and λ, as published, for d2p and (ML) i-d2p."""
    p_stars, ps, lambdas = (
        ((0.0, 0.5, 1.0), (0.0, 0.5), (1.0, 6.5)) if quick else (P_STARS, PS, LAMBDAS)
    )
    settings: list[dict[str, Any]] = [
        *({"swept": "p_star", "p": 0.5, "p_star": value, "lam": 1.0} for value in p_stars),
        *({"swept": "p", "p": value, "p_star": 0.0, "lam": 1.0} for value in ps),
        *({"swept": "lam", "p": 0.5, "p_star": 0.0, "lam": value} for value in lambdas),
    ]
    rows = []
    for data in trials:
        for method in PUBLISHED if data is trials[0] else PUBLISHED[:1]:
            for done, setting in enumerate(settings):
                report(f"{data.name}, {method}", done, len(settings))
                options = {name: value for name, value in setting.items() if name != "swept"}
                models = [
                    make_model(method, as_published=True, seed=s, **options) for s in range(draws)
                ]
                found = mean_of(measure(model, data) for model in models)
                rows.append({"data": data.name, "method": method, **setting, **found})
    return rows


def drop_table(sweeps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far Pr@5 falls from p* = 1, in per cent and in points, beside the paper's per cent."""
    rows = []
    for data, method in dict.fromkeys((row["data"], row["method"]) for row in sweeps):
        paper = PAPER["drop"].get((data, method))
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
        model = PublishedD2PUsers(seed=0, **options)
        alike = PublishedD2PUsers(seed=0, weighted=False, **options)
        wider = PublishedD2PUsers(seed=0, k=WIDER, **options)
        likes = Trial(data.name, liked(data.seen), data.test, data.seen, data.catalogue, data.whole)
        rows.append(
            {
                "data": data.name,
                **options,
                "items": len(groups),
                "paper": paper["epsilon"],
                "least_group": int(groups.sizes.min()),
                "equation_12": channel.epsilon_bound,
                "exact": channel.epsilon,
                "median_group": int(np.median(groups.sizes)),
                "paper_f1": paper["f1"] / 100,
                "f1@10": measure(model, data)["f1@10"],
                "f1@10, most popular among neighbours": measure(alike, data)["f1@10"],
                f"f1@20, likes, {WIDER} neighbours": measure(wider, likes)["f1@20"],
                "average_distance": average_cosine_distance(data.whole),
            }
        )
    return rows


def epsilon_curve(data: Trial) -> list[dict[str, Any]]:
    """Figure 15: ε over p for several p*, with the paper's groups and with a floor."""
    n = data.train.n_items
    rows = []
    for name, floor in (("groups as published", 1), (f"at least {n // 20} in a group", n // 20)):
        groups = cosine_groups(data.train, 1.0, floor=floor)
        rows += [
            {
                "data": data.name, "groups": name, "p": p, "p_star": star,
                "least_group": int(groups.sizes.min()),
                "equation_12": channel.epsilon_bound, "exact": channel.epsilon,
            }
            for star in (0.0, 0.01, 0.1, 0.5)
            for p in (0.1, 0.3, 0.5, 0.7, 0.9)
            for channel in [Channel(groups, p, star)]
        ]  # fmt: skip
    return rows


def hiding_table(data: Trial) -> list[dict[str, Any]]:
    """Figures 13 and 14: over users the λ that hides their favourite category; and the average
    distance of items, the paper's beside ours."""
    chosen = PAPER["chosen"].get(data.name, {})
    average = {
        "data": data.name, "what": "average distance of items (Figure 14)",
        "λ": average_cosine_distance(data.whole), "paper": chosen.get("lam"),
    }  # fmt: skip
    if data.catalogue is None:
        return [average]
    catalogue = aligned(data.catalogue, data.train.item_ids)
    counts = (data.train.csr() != 0).astype(np.int64) @ catalogue.matrix.astype(np.int64)
    favourite = np.asarray(counts.todense()).argmax(axis=1)
    each = np.array(
        [
            hiding_lambda(
                catalogue, catalogue.categories[favourite[user]],
                data.train.items[data.train.row(user)],
            )
            for user in range(min(MOST_USERS, data.train.n_users))
        ]
    )  # fmt: skip
    shares = (("least", 0), ("quarter", 25), ("median", 50), ("three quarters", 75), ("most", 100))
    return [
        average,
        *(
            {"data": data.name, "what": f"{name} over users (Figure 13)",
             "λ": float(np.percentile(each, at)), "paper": None}
            for name, at in shares
        ),
    ]  # fmt: skip


def coverage_table(data: Trial, *, draws: int) -> list[dict[str, Any]]:
    """Figure 16: catalogue coverage over N at the paper's chosen setting, and without privacy."""
    rows = []
    settings: list[tuple[str, dict[str, Any]]] = [
        ("not private", {"p": 0.5, "p_star": 1.0, "lam": 1.0}),
        ("d2p, λ = 6.5", {"p": 0.7, "p_star": 0.03, "lam": 6.5}),
    ]
    for name, options in settings:
        models = [PublishedD2PUsers(seed=s, **options) for s in range(draws)]
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
                PublishedD2PUsers(p=0.5, p_star=0.5, lam=1.0, seed=seed),
                trial(Dataset(name, part, None), seed=seed),
            )
            for seed in range(splits)
        )
        rows.append(
            {
                "data": name, "users": part.n_users, "items": part.n_items, "ratings": len(part),
                "paper_ratings": PAPER["density"][name] if dataset.name == "ml-100k" else None,
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
        for method in METHODS:
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
                    make_model(method, epsilon=epsilon, catalogue=data.catalogue, seed=s, **options)
                    for s in range(draws)
                ]
                found = mean_of(measure(model, data) for model in models)
                rows.append(_budget_row(f"{method}, {how}", epsilon, found))
            models = [
                make_model(method, epsilon=epsilon, catalogue=data.catalogue, seed=s)
                for s in range(draws)
            ]
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
