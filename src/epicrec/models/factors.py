"""Factor models: each user is solved from their own ratings against the items' factors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats, Positions
from epicrec.data import Ratings, Scale
from epicrec.machine import in_threads
from epicrec.models.base import Recommender
from epicrec.models.estimates import ItemEstimates
from epicrec.privacy import Guarantee
from epicrec.progress import report

ITEMS_TO_CHANGE = 3.0
"""How many rated items it takes to move where a user's items usually lie."""
POPULARITY = 1e-6
"""The most popular item's score beside that of the factors: it orders what they leave tied."""


@dataclass(frozen=True)
class AtHome:
    """What a person needs to predict ratings from their own: r̂_i = offset_i + doubt_i·u + F_i·p.

    u is where the person's items usually lie, above where items do: an item that little is known
    about (`doubt`, 0 to 1) is expected there. p is the ridge solution over the history H,
    (F_Hᵀ W F_H + s² I)⁻¹ F_Hᵀ W (r - offset_H - doubt_H·u) with W = s²/(s² + variance_H): the
    posterior mean of p ~ Normal(0, I) when ratings have noise of variance s² and item means are
    known up to `variance`.
    """

    offsets: AnyFloats
    factors: AnyFloats
    ridge: float
    doubt: AnyFloats | None = None
    variance: AnyFloats | None = None
    usual: float = 0.0

    def expected(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        """u of each person, and the residuals of their ratings."""
        items, users, n = histories.items, histories.users, histories.n_users
        residuals = np.asarray(histories.values - self.offsets[items], np.float64)
        if self.doubt is None:
            return np.zeros(n), residuals
        above = self.offsets[items] - self.usual
        lie = np.bincount(users, above, n) / (histories.user_counts + ITEMS_TO_CHANGE)
        return lie, residuals - self.doubt[items] * lie[users]

    def people(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        """u and p of each person."""
        lie, residuals = self.expected(histories)
        if self.variance is None:
            return lie, solve_users(histories, residuals, self.factors, self.ridge)
        sure = 1 / np.sqrt(1 + self.variance / self.ridge)
        factors = (self.factors * sure[:, None]).astype(self.factors.dtype)
        return lie, solve_users(histories, residuals * sure[histories.items], factors, self.ridge)

    def predictions(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        """r̂ of some (history, item) pairs."""
        lie, people = self.people(histories)
        level = self.offsets[items] + inner_products(people, self.factors, rows, items)
        return np.asarray(level if self.doubt is None else level + self.doubt[items] * lie[rows])


class FactorModel(Recommender):
    """Scores are offsets + factors · p, with p computed from the user's own history.

    For ratings that is `AtHome`. For a history without ratings, p is the sum of the projections of
    its items.
    """

    _scores_in_cache = 1 << 20

    offsets_: AnyFloats
    factors_: AnyFloats
    projections_: AnyFloats
    ridge_: float
    doubt_: AnyFloats | None = None
    variance_: AnyFloats | None = None
    usual_: float = 0.0

    def _fit(self, ratings: Ratings) -> None:
        self._fit_with(ratings, None)

    def _hold(self, state: dict[str, Any]) -> None:
        """Take this state in place of that of an earlier fit."""
        for name in ("doubt_", "variance_", "usual_"):
            vars(self).pop(name, None)
        vars(self).update(state)

    @property
    def at_home(self) -> AtHome:
        return AtHome(
            self.offsets_, self.factors_, self.ridge_, self.doubt_, self.variance_, self.usual_
        )

    def _scores(self, histories: Ratings) -> AnyFloats:
        scores, offsets = self._parts(histories)
        return np.asarray(scores + offsets)

    def _parts(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        lie, found = self._people(histories)
        users = found.astype(self.factors_.dtype)
        if len(users) <= 2:  # waking BLAS threads takes longer than the work
            scores = np.einsum("uk,ik->ui", users, self.factors_)
        else:
            scores = users @ self.factors_.T
        if self.doubt_ is not None:
            scores = scores + np.outer(lie, self.doubt_)
        return scores, self.offsets_

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        if self.task == "ratings":
            return self.at_home.predictions(histories, rows, items)
        _, users = self._people(histories)
        return np.asarray(self.offsets_[items] + inner_products(users, self.factors_, rows, items))

    def _people(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        if self.task == "ratings":
            return self.at_home.people(histories)
        users = np.asarray(histories.csr() @ self.projections_, np.float64)
        return np.zeros(len(users)), users


class ReleasedFactors(FactorModel):
    """Factors computed from what a fit released, with the guarantee of just that."""

    guarantee_: dict[str, Any]

    @property
    def guarantee(self) -> Guarantee:
        self._check_fitted()
        return Guarantee.from_dict(self.guarantee_)


def history_state(counts: AnyFloats, factors: AnyFloats, projections: AnyFloats) -> dict[str, Any]:
    """The state of a model from what was learned: popularity decides where the factors do not."""
    return {
        "offsets_": POPULARITY * counts / max(float(counts.max()), 1.0),
        "factors_": factors.astype(np.float32),
        "projections_": projections.astype(np.float32),
    }


def rating_state(
    found: ItemEstimates, columns: AnyFloats, ridge: float, scale: Scale
) -> dict[str, Any]:
    """The state of a model from what was learned in stars."""
    star = scale.star
    return {
        "offsets_": scale.middle + found.means * star,
        "factors_": (columns * star).astype(np.float32),
        "ridge_": ridge * star**2,
        "doubt_": found.doubt,
        "variance_": found.variance * star**2,
        "usual_": scale.middle + found.usual * star,
    }


def in_stars(values: npt.NDArray[Any], scale: Scale) -> npt.NDArray[np.float64]:
    """Ratings as stars from the middle of their scale: its ends are -2 and 2."""
    return np.clip((values.astype(np.float64) - scale.middle) / scale.star, -2, 2)


def solve_users(
    histories: Ratings, residuals: AnyFloats, factors: AnyFloats, ridge: float
) -> AnyFloats:
    """Each user's ridge solution (F_Hᵀ F_H + ridge·I)⁻¹ F_Hᵀ residuals_H, on all processors."""
    out = np.zeros((histories.n_users, factors.shape[1]))
    residuals = np.ascontiguousarray(residuals, np.float64)
    given: Any = (histories.indptr, histories.items, residuals, factors, float(ridge), out)
    if len(histories) < 10_000:
        _solve_range(*given, 0, histories.n_users)
        return out
    cuts = np.searchsorted(histories.indptr, np.linspace(0, len(histories), 65)[1:-1])
    edges = [0, *np.unique(cuts).tolist(), histories.n_users]
    parts = in_threads(lambda span: _solve_range(*given, *span), pairwise(edges))
    for done, _ in zip(edges[1:], parts, strict=True):
        report("solving users", done, histories.n_users)
    return out


@numba.njit(nogil=True, cache=True)
def _solve_range(
    indptr: Any,
    items: Any,
    residuals: Any,
    factors: Any,
    ridge: float,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """By user; the normal matrix is filled on and right of its diagonal only."""
    k = factors.shape[1]
    matrix = np.empty((k, k))
    row = np.empty(k)
    for user in range(start, stop):
        for a in range(k):
            row[a] = 0.0
            matrix[a, a] = ridge
            for b in range(a + 1, k):
                matrix[a, b] = 0.0
        for at in range(indptr[user], indptr[user + 1]):
            item = factors[items[at]]
            residual = residuals[at]
            for a in range(k):
                f = np.float64(item[a])
                row[a] += f * residual
                for b in range(a, k):
                    matrix[a, b] += f * item[b]
        solve(matrix, row, k)
        for a in range(k):
            out[user, a] = row[a]


@numba.njit(cache=True, nogil=True)
def solve(matrix: Any, right: Any, n: int) -> None:
    """The solution of the first n equations, in place of their right side, by Cholesky.

    Numbers are copied one by one, because compiling the assignment of an array takes seconds.
    Only the matrix on and right of its diagonal is read; its factor takes its place. Each finished
    row is taken off all that are left, along rows, so that processors do several columns at once.
    """
    for a in range(n):
        root = np.sqrt(matrix[a, a])
        matrix[a, a] = root
        right[a] /= root
        for b in range(a + 1, n):
            matrix[a, b] /= root
        for b in range(a + 1, n):
            times = matrix[a, b]
            for c in range(b, n):
                matrix[b, c] -= times * matrix[a, c]
            right[b] -= times * right[a]
    for a in range(n - 1, -1, -1):
        total = right[a]
        for c in range(a + 1, n):
            total -= matrix[a, c] * right[c]
        right[a] = total / matrix[a, a]


@numba.njit(nogil=True, cache=True)
def inner_products(users: Any, items: Any, rows: Any, columns: Any) -> Any:
    """The inner products of some (user, item) pairs."""
    out = np.zeros(len(rows))
    for at in range(len(rows)):
        for a in range(users.shape[1]):
            out[at] += users[rows[at], a] * items[columns[at], a]
    return out
