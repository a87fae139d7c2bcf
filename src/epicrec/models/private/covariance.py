"""The private covariance recommenders: measure with noise once, then everybody ranks at home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats, Positions
from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.machine import in_threads
from epicrec.models.base import Recommender, Task
from epicrec.models.factors import AtHome, FactorModel, ReleasedFactors, solve
from epicrec.models.features import assumption, fame_of, item_features, public_columns
from epicrec.models.private.budget import Budget, NoiseKind, check_budget
from epicrec.models.private.lists import release_histories
from epicrec.models.private.ratings import release_ratings
from epicrec.models.private.statistics import Unit
from epicrec.models.svd import fit_histories, fit_ratings, most_factors
from epicrec.privacy import Guarantee
from epicrec.progress import report

LONGEST = 2000
"""Up to this length of a history, all its covariances are computed at once where many are asked
for."""


FAME = "the catalogue's column {!r} is public, and was not computed from these people"


@dataclass(kw_only=True, eq=False, repr=False)
class CovarianceSVD(ReleasedFactors):
    """Item factors from noisy item effects and a noisy item × item covariance.

    McSherry & Mironov (2009), improved: item effects (`ItemEffects`, measured twice) and a
    covariance (`PairSums`), integer sums with integer noise; all else is computed from what was
    released (`spectrum`), and each user's part from their own ratings, at home.

    Neighbours differ by one `unit` added or removed: a rating, or a user with all their ratings.
    The sensitivities are proved in docs/covariance.md. The guarantee is ε (`noise="laplace"`) or
    (ε, δ) by exact Gaussian composition (`noise="gaussian"`). `epsilon=None` is the same without
    noise. `factors=0` measures no pairs of items, whose matrix may be too large.

    For histories (`task="lists"`) there are no pairs: counts and tastes are measured
    (`lists`), and `fame` may name a public column of the catalogue that tells beforehand which
    items are popular.
    """

    status = "proved"
    units = ("rating", "user")

    epsilon: float | None = None
    delta: float = 1e-6
    unit: Unit = "rating"
    noise: NoiseKind = "gaussian"
    task: Task = "lists"
    factors: int | None = None
    features: Sequence[str] | None = None
    fame: str | None = None
    seed: int | None = None

    @property
    def by_sums(self) -> bool:
        return self.epsilon is not None

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        self._check()
        without_pairs = self.factors == 0 and self.epsilon is not None
        k = 0 if without_pairs else most_factors(self.factors, self.task)
        features = item_features(catalogue, ratings.item_ids, self.features)
        self.columns_, self.unused_ = public_columns(catalogue, self.features)
        fame = None if self.fame is None else fame_of(catalogue, self.fame, ratings.item_ids)
        if self.epsilon is None:
            promise = Guarantee.none(unit=self.unit)
            if self.task == "lists":
                state = fit_histories(ratings, k)
            else:
                state = fit_ratings(ratings, k, features)
        else:
            budget = Budget(
                self.epsilon, self.delta, self.unit, self.noise, self.seed, once=self.once
            )
            ratings = budget.bounded(ratings)
            if self.task == "lists":
                state = release_histories(ratings, features, budget, self.engine, fame)
            else:
                state = release_ratings(ratings, features, budget, k, self.engine)
            famous = [] if fame is None else [FAME.format(self.fame)]
            promise = budget.guarantee(*assumption(self.columns_), *famous)
            self.unused_ = [name for name in self.unused_ if name != self.fame]
            state["released_"] = budget.spent
        self._hold(state)
        self.guarantee_ = promise.to_dict()

    def _check(self) -> None:
        check_budget(self.epsilon, self.delta, self.unit, self.noise)


class ByNeighbours(FactorModel):
    """Predicts an item from the `k` of the user's rated items that are nearest to it."""

    default_k: ClassVar[int] = 40
    k: int | None
    weights_: npt.NDArray[np.float32] | None = None
    """What neighbours are chosen by, where it is not their covariance with the item."""

    def _check_k(self) -> None:
        if self.k is not None and self.k < 1:
            raise InputError(f"k must be at least 1 neighbour, got {self.k}")

    def _parts(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        return Recommender._parts(self, histories)

    def _scores(self, histories: Ratings) -> AnyFloats:
        rows = np.repeat(np.arange(histories.n_users), len(self.offsets_))
        items = np.tile(np.arange(len(self.offsets_)), histories.n_users)
        return self._predict(histories, rows, items).reshape(histories.n_users, -1)

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        k = self.k or self.default_k
        return neighbour_predictions(self.at_home, histories, k, rows, items, self.weights_)


@dataclass(kw_only=True, eq=False, repr=False)
class CovarianceKNN(ByNeighbours, CovarianceSVD):
    """Neighbours by the same released covariance, with ridge weights solved at the user's side.

    McSherry & Mironov (2009), section 5.1, after Bell & Koren (2007): item i is predicted from the
    user's `k` rated items N with the largest covariance with i, by the weights
    (C_NN + s² I)⁻¹ C_Ni, where C is the cleaned covariance F Fᵀ of `CovarianceSVD`. `k` is 40.
    """

    task: Task = "ratings"
    k: int | None = None

    def _check(self) -> None:
        super()._check()
        self._check_k()
        if self.task == "lists":
            raise InputError(
                "covariance-knn weighs neighbours by their ratings; for histories use "
                "covariance-svd"
            )


def neighbour_predictions(
    home: AtHome,
    histories: Ratings,
    k: int,
    rows: Positions,
    items: Positions,
    weights: npt.NDArray[np.float32] | None = None,
) -> AnyFloats:
    """expected_i + C_iN (C_NN + s²·I + V_N)⁻¹ residuals_N for each (row, item), rows ascending.

    C is F Fᵀ, V the variance of the items' means, and N are the k items of the history whose
    covariance with i is largest in size; or, where `weights` are given (up to the diagonal, row
    after row), whose weight with i is largest. Whoever has no more than k has the same N for all
    items, and is solved once.
    """
    lie, residuals = home.expected(histories)
    noise = np.full(len(home.offsets), float(home.ridge))
    if home.variance is not None:
        noise += home.variance
    out = np.zeros(len(rows))
    rows, items = rows.astype(np.int64), items.astype(np.int64)
    factors = np.ascontiguousarray(home.factors, np.float64)
    alike = np.zeros(0, np.float32) if weights is None else weights
    arrays = (histories.indptr, histories.items, residuals, factors, noise, alike, k)
    starts = np.searchsorted(rows, np.arange(histories.n_users + 1))
    edges = np.unique(np.searchsorted(starts, np.linspace(0, len(rows), 65))).tolist()
    edges = [0, *(edge for edge in edges if 0 < edge < histories.n_users), histories.n_users]

    def run(span: tuple[int, int]) -> int:
        _predict_users(*arrays, starts, items, out, *span)
        return int(starts[span[1]])

    for done in in_threads(run, pairwise(edges)):
        report("predicting from neighbours", done, len(rows))
    expected = home.offsets[items]
    if home.doubt is not None:
        expected = expected + home.doubt[items] * lie[rows]
    return np.asarray(expected + out)


@numba.njit(cache=True, nogil=True, fastmath=True)
def _predict_users(
    indptr: Any,
    history: Any,
    residuals: Any,
    factors: Any,
    noise: Any,
    alike: Any,
    k: int,
    starts: Any,
    items: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    matrix = np.empty((k, k))
    solved = np.empty(k)
    near = np.empty(k, np.int64)
    for user in range(start, stop):
        first, asked = indptr[user], starts[user + 1] - starts[user]
        n = indptr[user + 1] - first
        if n == 0 or asked == 0:
            continue
        rows = history[first : first + n]
        own = factors[rows]
        wanted = items[starts[user] : starts[user + 1]]
        at_once = n <= LONGEST and 4 * asked * k * k > n * n
        every = _products(own) if at_once else np.empty((0, 0))
        count = min(k, n)
        covariance, size = np.empty(n), np.empty(n)
        for x in range(count):
            near[x] = x
        for at in range(asked):
            for x in range(n):
                covariance[x] = _product(factors[wanted[at]], own[x])
            if n > k:
                for x in range(n):
                    if len(alike) == 0:
                        size[x] = abs(covariance[x])
                    else:
                        low, high = min(wanted[at], rows[x]), max(wanted[at], rows[x])
                        size[x] = alike[high * (high + 1) // 2 + low]
                _largest(size, k, near)
            if n > k or at == 0:
                for x in range(count):
                    solved[x] = residuals[first + near[x]]
                    for y in range(x, count):
                        if at_once:
                            matrix[x, y] = every[near[x], near[y]]
                        else:
                            matrix[x, y] = _product(own[near[x]], own[near[y]])
                    matrix[x, x] += noise[rows[near[x]]]
                solve(matrix, solved, count)
            total = 0.0
            for x in range(count):
                total += covariance[near[x]] * solved[x]
            out[starts[user] + at] = total


@numba.njit(cache=True, nogil=True, fastmath=True)
def _product(one: Any, other: Any) -> float:
    total = 0.0
    for a in range(len(one)):
        total += one[a] * other[a]
    return total


@numba.njit(cache=True, nogil=True)
def _products(rows: Any) -> Any:
    """Inner products of each row with itself and those behind it."""
    n = len(rows)
    out = np.empty((n, n))
    for x in range(n):
        for y in range(x, n):
            out[x, y] = _product(rows[x], rows[y])
    return out


@numba.njit(cache=True, nogil=True)
def _largest(size: Any, k: int, out: Any) -> None:
    """Where the k largest values stand, in order; of equal ones, the first."""
    bound = np.partition(size, len(size) - k)[len(size) - k]
    ties = k
    for at in range(len(size)):
        ties -= size[at] > bound
    found = 0
    for at in range(len(size)):
        if size[at] > bound or (size[at] == bound and ties > 0):
            ties -= size[at] == bound
            out[found] = at
            found += 1
