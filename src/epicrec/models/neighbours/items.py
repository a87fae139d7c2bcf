"""Item neighbours: an item is scored by the most similar items in the history."""

from __future__ import annotations

from dataclasses import dataclass, field

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats, Array, Positions
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.machine import in_threads
from epicrec.models.base import Recommender, Task
from epicrec.models.bias import item_means, user_means
from epicrec.progress import report

_ITEMS_AT_ONCE = 512


@dataclass(kw_only=True, eq=False, repr=False)
class ItemKNN(Recommender):
    """Cosine similarity between items; each item keeps its `kept` nearest.

    Ratings: with residuals `e_ui = r_ui - b_ui` over the `Bias` model,
    `s_ij = Σ_u e_ui e_uj / (‖e_i‖ ‖e_j‖) · n_ij / (n_ij + shrinkage)` and
    `r̂_ui = b_ui + Σ_j s_ij e_uj / (Σ_j |s_ij| + ridge)` over the k nearest items j of the history.

    Lists: `s_ij = n_ij / √(n_i n_j)` and `score_i = Σ_j s_ji` over all items j of the history
    whose `kept` nearest hold i. `damping` is that of the `Bias` model.
    """

    task: Task = "lists"
    k: int = 30
    kept: int | None = None
    shrinkage: float = 50.0
    ridge: float = 0.1
    damping: float = 5.0

    mean_: float = field(init=False)
    item_bias_: AnyFloats = field(init=False)
    neighbours_: npt.NDArray[np.int32] = field(init=False)
    similarities_: npt.NDArray[np.float32] = field(init=False)

    def _fit(self, ratings: Ratings) -> None:
        if self.k <= 0 or (self.kept is not None and self.kept <= 0):
            raise InputError(f"k and kept must be at least 1, got {self.k} and {self.kept}")
        lists = self.task == "lists"
        self.mean_, self.item_bias_ = (
            (0.0, np.zeros(ratings.n_items)) if lists else item_means(ratings, self.damping)
        )
        kept = self.kept or (20 if lists else 300)
        self.neighbours_, self.similarities_ = nearest_items(
            ratings, self._residuals(ratings), kept, 0.0 if lists else self.shrinkage
        )

    def _scores(self, histories: Ratings) -> AnyFloats:
        out = np.zeros((histories.n_users, histories.n_items), np.float32)
        if self.task == "lists":
            _sum_similar(*self._similar(histories), out)
            return out
        _average_similar(*self._similar(histories), self.k, self.ridge, out)
        return out + self._baseline(histories)[:, None] + self.item_bias_

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        if self.task == "lists":
            return super()._predict(histories, rows, items)
        out = np.zeros(len(rows), np.float32)
        given = self._similar(histories)
        _average_similar_pairs(*given, self.k, self.ridge, rows, items, out)
        return self._baseline(histories)[rows] + self.item_bias_[items] + out

    def _similar(self, histories: Ratings) -> tuple[Array, ...]:
        """What the kernels read: histories with their residuals, and what is similar to what."""
        own = histories.indptr, histories.items, self._residuals(histories)
        return *own, self.neighbours_, self.similarities_

    def _baseline(self, histories: Ratings) -> AnyFloats:
        return self.mean_ + user_means(histories, self.mean_ + self.item_bias_, self.damping)

    def _residuals(self, histories: Ratings) -> npt.NDArray[np.float32]:
        if self.task == "lists":
            return histories.values
        base = np.repeat(self._baseline(histories), histories.user_counts)
        return (histories.values - base - self.item_bias_[histories.items]).astype(np.float32)


def nearest_items(
    ratings: Ratings, values: npt.NDArray[np.float32], kept: int, shrinkage: float
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """For each item its `kept` most similar ones, best first; unused places hold -1.

    Memory is items × kept; the item × item matrix is made a row at a time and never held. Time is
    Σ_u n_u², the number of pairs of ratings by the same user.
    """
    kept = max(1, min(kept, ratings.n_items - 1))
    neighbours = np.full((ratings.n_items, kept), -1, np.int32)
    similarities = np.zeros((ratings.n_items, kept), np.float32)
    by_item = np.argsort(ratings.items, kind="stable")
    raters = ratings.users[by_item]
    starts = np.concatenate([[0], np.cumsum(ratings.item_counts)])
    by_item_values = values[by_item]
    norms = np.sqrt(np.bincount(ratings.items, values**2, minlength=ratings.n_items))

    def work(first: int) -> None:
        last = min(first + _ITEMS_AT_ONCE, ratings.n_items)
        _nearest(
            first, last, starts, raters, by_item_values, ratings.indptr, ratings.items, values,
            norms, np.float64(shrinkage), neighbours, similarities,
        )  # fmt: skip

    firsts = range(0, ratings.n_items, _ITEMS_AT_ONCE)
    for done, _ in enumerate(in_threads(work, firsts), 1):
        report("comparing items", done, len(firsts))
    return neighbours, similarities


@numba.njit(nogil=True, cache=True)
def _nearest(
    first: int,
    last: int,
    starts: Array,
    raters: Array,
    rater_values: Array,
    indptr: Array,
    items: Array,
    values: Array,
    norms: Array,
    shrinkage: float,
    neighbours: Array,
    similarities: Array,
) -> None:
    n_items, kept = len(norms), neighbours.shape[1]
    products, together = np.zeros(n_items, np.float64), np.zeros(n_items, np.int32)
    touched, found = np.empty(n_items, np.int64), np.empty(n_items, np.float64)
    for i in range(first, last):
        size = 0
        for at in range(starts[i], starts[i + 1]):
            user, value = raters[at], rater_values[at]
            for other in range(indptr[user], indptr[user + 1]):
                j = items[other]
                if together[j] == 0:
                    touched[size] = j
                    size += 1
                products[j] += value * values[other]
                together[j] += 1
        positive = 0
        for t in range(size):
            j = touched[t]
            scale = norms[i] * norms[j]
            if j != i and products[j] > 0 and scale > 0:
                found[positive] = products[j] / scale * together[j] / (together[j] + shrinkage)
                touched[positive] = j
                positive += 1
            products[j] = 0
            together[j] = 0
        threshold, ties = -1.0, 0
        if positive > kept:
            threshold = np.partition(found[:positive], positive - kept)[positive - kept]
            ties = kept - np.sum(found[:positive] > threshold)
        chosen = 0
        for t in range(positive):
            if found[t] > threshold or (found[t] == threshold and ties > 0):
                ties -= found[t] == threshold
                found[chosen], touched[chosen] = found[t], touched[t]
                chosen += 1
        order = np.argsort(-found[:chosen])
        for rank in range(chosen):
            neighbours[i, rank] = touched[order[rank]]
            similarities[i, rank] = found[order[rank]]


@numba.njit(nogil=True, cache=True)
def _sum_similar(
    indptr: Array,
    items: Array,
    residuals: Array,
    neighbours: Array,
    similarities: Array,
    out: Array,
) -> None:
    for user in range(len(indptr) - 1):
        for at in range(indptr[user], indptr[user + 1]):
            j = items[at]
            for rank in range(neighbours.shape[1]):
                i = neighbours[j, rank]
                if i < 0:
                    break
                out[user, i] += similarities[j, rank] * residuals[at]


@numba.njit(nogil=True, cache=True)
def _average(
    item: int, rated: Array, neighbours: Array, similarities: Array, k: int, ridge: float
) -> float:
    """The mean residual of the item's k nearest rated items; NaN marks an unrated one."""
    total, weight, used = 0.0, ridge, 0
    for rank in range(neighbours.shape[1]):
        j = neighbours[item, rank]
        if j < 0 or used == k:
            break
        if not np.isnan(rated[j]):
            total += similarities[item, rank] * rated[j]
            weight += similarities[item, rank]
            used += 1
    return total / weight if used else 0.0


@numba.njit(nogil=True, cache=True)
def _average_similar(
    indptr: Array,
    items: Array,
    residuals: Array,
    neighbours: Array,
    similarities: Array,
    k: int,
    ridge: float,
    out: Array,
) -> None:
    rated = np.full(out.shape[1], np.nan, np.float32)
    for user in range(len(indptr) - 1):
        own = items[indptr[user] : indptr[user + 1]]
        rated[own] = residuals[indptr[user] : indptr[user + 1]]
        for item in range(out.shape[1]):
            out[user, item] = _average(item, rated, neighbours, similarities, k, ridge)
        rated[own] = np.nan


@numba.njit(nogil=True, cache=True)
def _average_similar_pairs(
    indptr: Array,
    items: Array,
    residuals: Array,
    neighbours: Array,
    similarities: Array,
    k: int,
    ridge: float,
    rows: Array,
    wanted: Array,
    out: Array,
) -> None:
    rated = np.full(len(neighbours), np.nan, np.float32)
    at = 0
    for user in range(len(indptr) - 1):
        own = items[indptr[user] : indptr[user + 1]]
        rated[own] = residuals[indptr[user] : indptr[user + 1]]
        while at < len(rows) and rows[at] == user:
            out[at] = _average(wanted[at], rated, neighbours, similarities, k, ridge)
            at += 1
        rated[own] = np.nan
