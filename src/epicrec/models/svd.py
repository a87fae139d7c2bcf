"""SVD: item factors from exact sums, without privacy.

For ratings, the weights of taste and factors are chosen on held-out ratings.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epicrec.arrays import AnyFloats, Floats, Integers
from epicrec.data import Catalogue, Ratings
from epicrec.errors import EpicrecWarning, InputError
from epicrec.models.base import Task
from epicrec.models.estimates import ItemEstimates, ItemSums, Spread, item_estimates, unclamped
from epicrec.models.factors import AtHome, FactorModel, history_state, in_stars, rating_state
from epicrec.models.features import item_features, public_columns, taste_columns
from epicrec.models.spectrum import (
    HISTORY_SAMPLING,
    SAMPLING,
    Reach,
    Spectrum,
    history_factors,
    history_scales,
    leading_eigenpairs,
    rating_factors,
    ridge_of,
)

HELD_OUT, MOST_JUDGES = 0.1, 5000
"""The part of the ratings that weights are judged on, and of how many users at most."""
OWN_MEANS = (0.2, 0.1, 0.35)
TASTES = (0.0, 0.05, 0.12, 0.25)
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STRENGTHS = (0.7, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class SVD(FactorModel):
    """Item factors from the eigenvectors of the items' covariance, without privacy.

    Ratings are centred on (shrunk) item means and clamped; user u's residuals v enter the
    covariance as v vᵀ/‖v‖, without the diagonal, whose noise is not shared by items. It is the
    covariance recommender of McSherry & Mironov (2009) with no noise, and as the matrix is only
    ever multiplied, never formed, its memory grows with the ratings and not with items². For
    ratings, how much weight taste and factors have is chosen on a held-out part of them.

    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> SVD(factors=2).fit(ratings).recommend([1], n=1)["item_id"].to_pylist()
    ['c']
    """

    factors: int | None = None
    task: Task = "lists"
    features: Sequence[str] | None = None

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        k = most_factors(self.factors, self.task)
        features = item_features(catalogue, ratings.item_ids, self.features)
        if self.task == "lists":
            self._hold(with_unseen(fit_histories(ratings, k), ratings.item_counts, features))
        else:
            self._hold(fit_ratings(ratings, k, features))
        self.columns_, self.unused_ = public_columns(catalogue, self.features)


def most_factors(factors: int | None, task: Task) -> int:
    """At most how many eigenvectors to look at; fewer are kept where fewer rise above the noise."""
    if factors is not None and factors < 1:
        raise InputError(f"factors must be at least 1, got {factors}; leave it out for the default")
    return factors or (200 if task == "lists" else 50)


def fit_histories(ratings: Ratings, k: int) -> dict[str, Any]:
    """The state of a factor model of histories, by exact sums."""
    counts = ratings.item_counts.astype(np.float64)
    scales = history_scales(counts)
    weights = 1 / np.maximum(ratings.user_counts, 1)
    pairs = leading_eigenpairs(pair_products(ratings, scales[ratings.items], weights), k)
    users = np.count_nonzero(ratings.user_counts)
    sampled = np.sqrt(HISTORY_SAMPLING * users) * counts / counts.sum() * scales**2
    factors, projections = history_factors(Spectrum(*pairs), scales, 0.0, sampled)
    return history_state(counts, factors, projections)


def with_unseen(state: dict[str, Any], counts: Integers, features: Any) -> dict[str, Any]:
    """The state with factors for items that nobody has seen yet: what their public features let one
    expect, by ridge regression over the items that were seen. Those stay as they are."""
    unseen, seen = np.flatnonzero(counts == 0), np.flatnonzero(counts)
    if not len(unseen) or features.shape[1] == 1:
        return state
    known = features[seen]
    square = (known.T @ known).toarray() + np.eye(features.shape[1])
    each = np.linalg.solve(square, known.T @ state["factors_"][seen].astype(np.float64))
    state["factors_"][unseen] = features[unseen] @ each
    return state


@dataclass(frozen=True)
class Weights:
    """How much of a rating's variance is the user's mean and taste, how many factors there are, and
    what they are multiplied by."""

    own_mean: float = OWN_MEANS[0]
    taste: float = 0.0
    rank: int = 0
    strength: float = 1.0


class _Learned:
    """Item means, the spread about them, and factors for what these leave."""

    def __init__(self, ratings: Ratings, features: Any, tastes: Floats) -> None:
        assert ratings.scale is not None
        self.ratings, self.scale, self.tastes = ratings, ratings.scale, tastes
        self.stars = in_stars(ratings.values, ratings.scale)
        self.counts = ratings.item_counts.astype(np.float64)
        sums = np.bincount(ratings.items, self.stars, ratings.n_items).astype(np.float64)
        still, centre = np.zeros(ratings.n_items), float(self.stars.mean())
        found = ItemSums(sums, self.counts, still, still)
        self.means: ItemEstimates = item_estimates(found, features, centre=centre)
        for _ in range(2):  # the variance of ratings about their items' means, and these again
            self.residuals = self.stars - self.means.means[ratings.items]
            fitted = min(float(np.sum(1 - self.means.doubt)) / len(ratings), 0.3)
            self.total = max(float(np.mean(self.residuals**2)) / (1 - fitted), 1e-6)
            self.means = item_estimates(found, features, centre=centre, within=self.total)
        self.factors = np.zeros((ratings.n_items, 0))

    def find_factors(self, weights: Weights, k: int) -> None:
        """The factors of what the user's mean and taste do not explain."""
        ratings, counts, total = self.ratings, self.counts, self.counts.sum()
        clamped = np.clip(self.residuals, -1, 1)
        squares = np.bincount(ratings.users, clamped**2, ratings.n_users)
        each = 1 / np.sqrt(np.maximum(squares, 1.0))
        mass = float(np.sum(each * ratings.user_counts.astype(np.float64) ** 2))
        variance = float(squares.sum() / len(ratings))
        sampled = np.sqrt(SAMPLING * variance / total) * counts
        least = float(np.sqrt(squares.max()))
        self.reach = Reach(np.sqrt(mass) * counts / total, sampled, counts, least)
        self.variance = variance
        left = np.sqrt(unclamped(variance)[1])
        known = self._columns(weights)[:, : 1 + self.tastes.shape[1]] * left
        pairs = pair_products(ratings, clamped, each, known * self.reach.reach[:, None])
        spectrum = Spectrum(*leading_eigenpairs(pairs, k))
        self.factors = rating_factors(spectrum, 0.0, self.reach, variance)

    def _columns(self, weights: Weights) -> Floats:
        own = Spread(self.total, weights.own_mean, weights.taste).columns(self.tastes)
        return np.hstack([own, self.factors[:, : weights.rank] * weights.strength])

    def state(self, weights: Weights) -> dict[str, Any]:
        spread = Spread(self.total, weights.own_mean, weights.taste)
        ridge = spread.noise
        if weights.rank:
            used = self.factors[:, : weights.rank] * weights.strength
            ridge = ridge_of(spread, used, self.reach, self.variance)
        return rating_state(self.means, self._columns(weights), ridge, self.scale)


def fit_ratings(ratings: Ratings, k: int, features: Any) -> dict[str, Any]:
    """The state of a factor model of ratings, by exact sums."""
    tastes = taste_columns(features)
    if np.ptp(ratings.values) > 0:
        weights = _chosen(ratings, k, features, tastes)
    else:
        weights = Weights()
        warnings.warn(
            f"all ratings are {ratings.values[0]:g}, so all predictions are; to learn from what "
            "was seen make the model with task='lists'",
            EpicrecWarning,
            stacklevel=2,
        )
    learned = _Learned(ratings, features, tastes)
    if weights.rank:
        learned.find_factors(weights, k)
    return learned.state(weights)


def _chosen(ratings: Ratings, k: int, features: Any, tastes: Floats) -> Weights:
    """The weights that predict held-out ratings best, where it is clear that they do."""
    rng = np.random.default_rng(0)
    judges = np.flatnonzero(ratings.user_counts > 1)
    if len(judges) > MOST_JUDGES:
        judges = np.sort(rng.choice(judges, MOST_JUDGES, replace=False))
    judging = np.zeros(ratings.n_users, np.bool_)
    judging[judges] = True
    held = judging[ratings.users] & (rng.random(len(ratings)) < HELD_OUT)
    if not held.any() or held.all():
        return Weights()
    learned = _Learned(ratings.select(~held), features, tastes)
    history, asked = learned.ratings.users_at(judges), ratings.select(held).users_at(judges)
    truth = in_stars(asked.values, learned.scale)

    def errors(weights: Weights) -> Floats:
        state = {name.removesuffix("_"): part for name, part in learned.state(weights).items()}
        found = AtHome(**state).predictions(history, asked.users, asked.items)
        return np.asarray((in_stars(found, learned.scale) - truth) ** 2)

    best = Weights()
    squares = errors(best)

    def consider(weights: Weights) -> None:
        """Take these where they are better by more than a standard error."""
        nonlocal best, squares
        found = errors(weights)
        gain = squares - found
        if gain.mean() > gain.std() / np.sqrt(len(gain)):
            best, squares = weights, found

    for own_mean in OWN_MEANS[1:]:
        consider(replace(best, own_mean=own_mean))
    for taste in TASTES[1:] if tastes.shape[1] else ():
        consider(replace(best, taste=taste))
    learned.find_factors(best, k)
    found = learned.factors.shape[1]
    for rank in sorted({min(rank, found) for rank in RANKS} - {0}):
        for strength in STRENGTHS:
            consider(replace(best, rank=rank, strength=strength))
    return best


def pair_products(
    ratings: Ratings, values: AnyFloats, weights: AnyFloats, known: AnyFloats | None = None
) -> Any:
    """Σ_u w_u v_u v_uᵀ, less B Bᵀ of what is `known` already, without its diagonal, as an operator
    that never forms the matrix."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator

    scaled = values * np.repeat(np.sqrt(weights), ratings.user_counts)
    rows = csr_array(
        (scaled.astype(np.float32), ratings.items, ratings.indptr),
        shape=(ratings.n_users, ratings.n_items),
    )
    columns = rows.T
    diagonal = np.bincount(ratings.items, scaled**2, ratings.n_items)
    less = np.zeros((ratings.n_items, 0)) if known is None else known
    diagonal -= np.sum(less**2, axis=1)

    def times(x: AnyFloats) -> AnyFloats:
        flat = x.reshape(ratings.n_items, -1)
        out = columns @ (rows @ flat.astype(np.float32)) - diagonal[:, None] * flat
        out -= less @ (less.T @ flat)
        return np.asarray(out.reshape(x.shape), np.float64)

    shape = (ratings.n_items, ratings.n_items)
    return LinearOperator(shape, matvec=times, matmat=times, dtype=np.dtype(np.float64))
