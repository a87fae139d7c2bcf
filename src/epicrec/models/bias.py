"""Bias and popularity: the two baselines any recommender has to beat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from epicrec.arrays import AnyFloats, Positions
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.base import Recommender
from epicrec.privacy import Guarantee


@dataclass(kw_only=True, eq=False, repr=False)
class Bias(Recommender):
    """Damped global, item and user means.

    `b_ui = μ + b_i + b_u`, with `b_i = Σ_u (r_ui - μ) / (n_i + d)` and
    `b_u = Σ_i (r_ui - μ - b_i) / (n_u + d)`, where d is the damping. The user's part is solved from
    the history in the call.
    """

    damping: float = 5.0

    mean_: float = field(init=False)
    item_bias_: AnyFloats = field(init=False)

    def _fit(self, ratings: Ratings) -> None:
        if self.damping < 0:
            raise InputError(f"damping must be 0 or more, got {self.damping}")
        self.mean_, self.item_bias_ = item_means(ratings, self.damping)

    def _scores(self, histories: Ratings) -> AnyFloats:
        return (self.mean_ + self._user_bias(histories))[:, None] + self.item_bias_

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        return self.mean_ + self._user_bias(histories)[rows] + self.item_bias_[items]

    def _user_bias(self, histories: Ratings) -> AnyFloats:
        return user_means(histories, self.mean_ + self.item_bias_, self.damping)


@dataclass(kw_only=True, eq=False, repr=False)
class Popularity(Recommender):
    """Items by how many people have them: `score_i = n_i`, the same for everyone.

    With an `epsilon` the counts are integer sums with Gaussian noise, proved (ε, δ)-differentially
    private when one `unit` is added or removed: one item of a history, or a user with all of it. At
    the user level each of a user's c items counts as 1/√c, so that a user counts as one in all.
    """

    task = "lists"
    status = "proved"
    units = ("rating", "user")

    epsilon: float | None = None
    delta: float = 1e-6
    unit: Literal["rating", "user"] = "rating"
    seed: int | None = None

    counts_: AnyFloats = field(init=False)
    guarantee_: dict[str, Any] | None = field(default=None, init=False)

    @property
    def guarantee(self) -> Guarantee:
        self._check_fitted()
        return Guarantee.from_dict(self.guarantee_) if self.guarantee_ else Guarantee.none()

    @property
    def by_sums(self) -> bool:
        return self.epsilon is not None

    def _fit(self, ratings: Ratings) -> None:
        from epicrec.models.private.budget import Budget, check_budget
        from epicrec.models.private.lists import FIRST_COUNTS, measure_counts

        check_budget(self.epsilon, self.delta, self.unit)
        if self.epsilon is None:
            self.counts_, self.guarantee_ = ratings.item_counts.astype(np.float64), None
            return
        budget = Budget(self.epsilon, self.delta, self.unit, "gaussian", self.seed, once=self.once)
        ratings = budget.bounded(ratings)
        # as private lists begin: with the same seed, lists that are popularity are these
        first = measure_counts(ratings, budget, FIRST_COUNTS, self.engine)
        rest = measure_counts(ratings, budget, 1 - FIRST_COUNTS, self.engine, turn=1)
        self.counts_ = (first + rest).counts
        self.guarantee_, self.released_ = budget.guarantee().to_dict(), budget.spent

    def _scores(self, histories: Ratings) -> AnyFloats:
        return np.broadcast_to(self.counts_, (histories.n_users, len(self.counts_)))


def item_means(ratings: Ratings, damping: float) -> tuple[float, AnyFloats]:
    """The global mean, and each item's damped mean above it (0 for an item nobody rated)."""
    mean = float(ratings.values.mean(dtype=np.float64))
    sums = np.bincount(ratings.items, ratings.values - mean, minlength=ratings.n_items)
    return mean, sums / np.maximum(ratings.item_counts + damping, 1e-12)


def user_means(histories: Ratings, offsets: AnyFloats, damping: float) -> AnyFloats:
    """Each history's damped mean above the item offsets (0 for an empty history)."""
    residuals = histories.values - offsets[histories.items]
    sums = np.bincount(histories.users, residuals, minlength=histories.n_users)
    return np.asarray(sums / np.maximum(histories.user_counts + damping, 1e-12))
