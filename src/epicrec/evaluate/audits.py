"""Audits: for each mechanism two neighbouring inputs, and the output that best tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.evaluate.black_box import audit_black_box
from epicrec.evaluate.releases import EPICREC
from epicrec.models import PRIVATE, Recommender, make_model
from epicrec.models.alterego.items import D2PItems, D2PSvd
from epicrec.models.alterego.users import D2PUserKNN
from epicrec.models.covariance.budget import Budget
from epicrec.models.covariance.moments import Moments, Overall
from epicrec.models.covariance.ratings import LOOK, MOMENTS_SHARE, OVERALL, SECOND_SHARE
from epicrec.models.covariance.statistics import ItemEffects, PairSums
from epicrec.models.private_bias import ForAndAgainst, released_totals
from epicrec.models.taste import Spread
from epicrec.perturb.contract import Perturber
from epicrec.perturb.d2p.choice import choose
from epicrec.perturb.d2p.groups import no_features
from epicrec.privacy import AuditResult, audit_epsilon
from epicrec.progress import report
from epicrec.settings import check, given

D2P_MODELS: dict[str, type[Any]] = {"d2p": D2PUserKNN, "i-d2p": D2PItems, "d2p-svd": D2PSvd}


def audit_epicrec(method: str, *, epsilon: float = 1.0, runs: int = 8000) -> AuditResult:
    """A 95 % lower bound on ε from real releases of two histories that differ in one item.

    The output is how much likelier the noisy totals are with the item than without: the
    logarithm of the likelihood ratio, the best test there is (Neyman and Pearson).
    """
    titles, genres = ["a", "b", "c"], ["War|Drama", "War", "Drama"]
    perturber = EPICREC[method](Catalogue.from_columns([1, 2, 3], titles, genres), epsilon=epsilon)
    without = {"War": 1, "Drama": 0}

    def outputs(history: list[int], done: int) -> list[float]:
        found: list[float] = []
        for run in range(runs):
            if run % 500 == 0:
                report("drawing releases", done + run, 2 * runs)
            release = perturber.release(history)
            found.append(
                sum(
                    (abs(noisy - without[name]) - abs(noisy - without[name] - 1))
                    / release.settings["scales"][name]
                    for name, noisy in release.aggregates.items()
                )
            )
        return found

    return audit_epsilon(outputs([1, 2], 0), outputs([2], runs))


def audit_d2p(method: str = "d2p", *, epsilon: float = 3.0, runs: int = 2000) -> AuditResult:
    """A 95 % lower bound on ε from what another user is recommended.

    The victim has one item, the one or the other of two. The asker has none, so the first item of
    their list is the most popular among AlterEgos, of which there is one: nothing tells more about
    it.
    """
    if method not in D2P_MODELS:
        raise InputError(f"there is no audit of {method!r} here; use {' or '.join(D2P_MODELS)}")
    ids = np.arange(20)
    chosen = choose(no_features(ids), epsilon)  # once, and not for each of the runs
    options = {name: getattr(chosen, name) for name in ("p", "p_star", "lam", "floor")}
    shown: list[list[int]] = []
    for item in (0, 1):
        victim = Ratings.from_columns([0], [item]).with_items(ids)
        asker = Ratings.from_columns([1], [item]).with_items(ids).select(np.array([False]))
        model = D2P_MODELS[method](correct=False, **options)
        first = [int(np.argmax(model.fit(victim)._scores(asker)[0])) for _ in range(runs)]
        shown.append(first)
    return audit_epsilon(*shown)


def audit_covariance(method: str, *, epsilon: float = 1.0, runs: int = 20_000) -> AuditResult:
    """A 95 % lower bound on the ε of all measurements together, of either method.

    The neighbours are a user with 24 ratings at an end of the scale, of items that others rate at
    the other, and the same user with one more. The output is the logarithm of how much likelier the
    measurements are with it than without: nothing tells them apart better.
    """
    del method  # both methods release the same
    scale, delta, n = Scale(1, 5, 1), 1e-6, 25
    whole = Ratings.from_columns(np.zeros(n, int), np.arange(n), np.full(n, 5.0), scale=scale)
    pair = [whole.select(np.arange(n) > 0), whole]
    outputs = [np.zeros(runs), np.zeros(runs)]
    for part, statistic, share in _of_ratings(
        Budget(epsilon, delta, "rating", "gaussian", None), n
    ):
        without, with_it = (statistic(ratings) for ratings in pair)
        for out, total in zip(outputs, (without, with_it), strict=True):
            released, spread = part.measure(statistic, share, np.tile(total, (runs, 1)))
            if part.noise == "laplace":
                nearer = np.abs(released - without) - np.abs(released - with_it)
                out += nearer.sum(axis=1) * (sqrt(2) / spread)
            else:
                out += (released - without) @ ((with_it - without) / spread**2)
    return audit_epsilon(*outputs, delta=delta)


def _of_ratings(budget: Budget, n: int) -> Iterator[tuple[Budget, Any, float]]:
    """What a private fit measures of ratings where pairs of items pay, and by which shares."""
    scale, low = Scale(1, 5, 1), np.full(n, -128, np.int16)
    first = budget.part(LOOK + OVERALL, "laplace")
    yield first, ForAndAgainst(scale), LOOK / (LOOK + OVERALL)
    yield first, Overall(scale), OVERALL / (LOOK + OVERALL)
    left = budget.part(1 - LOOK - OVERALL)
    yield left, ItemEffects("rating", 2, scale), SECOND_SHARE
    yield left, Moments("rating", 2, scale, low, np.zeros((n, 0)), Spread(1.0)), MOMENTS_SHARE
    yield left, PairSums("rating", 2, scale, low), 1 - SECOND_SHARE - MOMENTS_SHARE


def audit_yang(method: str, *, epsilon: float = 1.0, runs: int = 20_000) -> AuditResult:
    """A 95 % lower bound on the ε of a method's outputs on two neighbouring inputs.

    * `dpi-*`: a person's only rating is the lowest or the highest; the output is what is released.
    * `private-bias` (`avg`, `pcc`, `cos`): a best rating is there or not; the output is its total.
    * `dpm-avg`: one of three ratings is the lowest or the highest; the output is the prediction.
    * `dpm-pcc`, `dpm-cos`: **the attack**. Two items have one and the same rater, who rates them
      alike or not. With r̂_ai - r̂_aj = w'_au (r_ui - r_uj)/Σ|w'| the averages' noise cancels, and
      the two predictions differ only if the ratings do. Needs a few hundred runs.
    """
    if method.startswith("dpi-"):
        outputs = [_dpi_outputs(value, epsilon, runs) for value in (1.0, 5.0)]
    elif method == "dpm-avg":
        outputs = [_dpm_avg_outputs(value, epsilon, runs) for value in (1.0, 5.0)]
    elif method in ("dpm-pcc", "dpm-cos"):
        outputs = [
            np.array([_difference(method, value, epsilon) for _ in range(min(runs, 400))])
            for value in (4.0, 3.0)
        ]
    elif PRIVATE.get(method, method) == "private-bias":
        outputs = [_total_outputs(raters, epsilon, runs) for raters in (1, 2)]
    else:
        raise InputError(f"there is no audit of {method!r} here; use dpi-*, dpm-* or private-bias")
    return audit_epsilon(*outputs)


def _dpi_outputs(value: float, epsilon: float, runs: int) -> Any:
    """Every user is one run: with one rating, `dpi-avg` predicts what was released."""
    ratings = Ratings.from_columns(np.arange(runs), np.zeros(runs, int), np.full(runs, value))
    model = make_model("dpi-avg", epsilon=epsilon).fit(ratings, items=[0], scale="1:5:1")
    return model.predict(ratings)["score"].to_numpy()


def _dpm_avg_outputs(value: float, epsilon: float, runs: int) -> Any:
    users, items = np.repeat(np.arange(runs), 3), np.tile(np.arange(3), runs)
    ratings = Ratings.from_columns(users, items, np.where(items == 0, value, 3.0))
    model = make_model("dpm-avg", epsilon=epsilon).fit(ratings, items=range(3), scale="1:5:1")
    return model.predict(ratings.select(ratings.items == 0), histories=ratings)["score"].to_numpy()


def _total_outputs(raters: int, epsilon: float, runs: int) -> Any:
    """Every item is one run: its first total, with this many raters who think the best of it."""
    users, items = np.divmod(np.arange(raters * runs), runs)
    ratings = Ratings.from_columns(users, items, np.full(len(users), 5.0))
    return released_totals(ratings, epsilon, None)[0]


def _difference(method: str, value: float, epsilon: float) -> float:
    """How far apart an active user's predictions of y and z are, which only `ann` has rated."""
    rows = [("ann", "x", 3), ("ann", "y", 4), ("ann", "z", value), ("bob", "x", 2), ("bob", "w", 5)]
    others = Ratings.from_columns(*zip(*rows, strict=True))
    own = Ratings.from_columns(["eve"] * 3, ["x", "w", "v"], [3.0, 4.0, 2.0])
    asked = pa.table({"user_id": ["eve", "eve"], "item_id": ["y", "z"]})
    model = make_model(method, epsilon=epsilon).fit(others, items=[*"wxyz"], scale="1:5:1")
    y, z = model.predict(asked, histories=own)["score"].to_pylist()
    return float(abs(y - z) > 1e-4)


AUDITS: dict[str, Callable[..., AuditResult]] = {
    **dict.fromkeys(EPICREC, audit_epicrec),
    **dict.fromkeys(D2P_MODELS, audit_d2p),
    "private-bias": audit_yang,
    **dict.fromkeys(("dpi-avg", "dpi-pcc", "dpi-cos", "dpi-svd"), audit_yang),
    **dict.fromkeys(("dpm-avg", "dpm-pcc", "dpm-cos"), audit_yang),
    **dict.fromkeys(("covariance-svd", "covariance-knn"), audit_covariance),
}
"""The mechanisms that have an audit of their own."""


def audit(
    method: str | Recommender | Perturber, *, epsilon: float = 1.0, runs: int | None = None
) -> AuditResult:
    """A 95 % lower bound on what a mechanism really leaks, to be held against its claim.

    A method by name has its own audit where there is one; any other, and a model or perturber that
    is given as it is, is a black box.
    """
    how = given(runs=runs)
    check("the audit", audit, {"epsilon": epsilon, **how})
    name = PRIVATE.get(method, method) if isinstance(method, str) else None
    if name not in AUDITS:
        return audit_black_box(method, epsilon=epsilon, **how)
    return replace(AUDITS[name](name, epsilon=epsilon, **how), claimed=epsilon)
