"""User neighbours: an item is scored by what similar people thought of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats, Array
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.machine import in_threads, processors
from epicrec.models.base import Recommender, Task
from epicrec.models.bias import user_means


class Avg(Recommender):
    """Everything is predicted to be the user's own mean (Breese et al. 1998; Yang et al. 2019)."""

    mean_: float

    def _fit(self, ratings: Ratings) -> None:
        self.mean_ = float(ratings.values.mean(dtype=np.float64))

    def _scores(self, histories: Ratings) -> AnyFloats:
        means = plain_means(histories, self.mean_)
        return np.broadcast_to(means[:, None], (histories.n_users, histories.n_items))


class _UserBased(Recommender):
    """`r̂_ai = r̄_a + Σ_u w_au (r_ui - r̄_u) / Σ_u |w_au|` over the neighbours u who rated i.

    Only sums over one user's neighbours are held: memory is users + items for each thread, and time
    for one history is the number of ratings its items have, plus those of its neighbours.
    """

    needs_known_users = True
    common_only: ClassVar[bool] = False
    """Whether the similarity of two users is over their common items only."""
    k: int = 0
    """How many neighbours; 0 is all users."""
    shrinkage: float = 0.0
    """Similarities are shrunk as if there were so many more common items, all unlike."""
    ridge: float = 0.0
    mean_: float

    def _fit(self, ratings: Ratings) -> None:
        self.mean_ = float(ratings.values.mean(dtype=np.float64))

    def _scores(self, histories: Ratings) -> AnyFloats:
        known = self.histories_
        assert known is not None
        lists = self.task == "lists"
        means = self._means(histories)
        out = np.empty((histories.n_users, histories.n_items), np.float32)
        raters = np.argsort(known.items, kind="stable")
        arguments = (
            histories.indptr, histories.items, _read_only(self._compared(histories)),
            known.indptr, known.items, _read_only(self._compared(known)),
            _read_only(self._residuals(known)),
            np.concatenate([[0], np.cumsum(known.item_counts)]), raters, known.users,
            self.common_only, float(self.shrinkage), self.k, float(self.ridge), lists, out,
        )  # fmt: skip
        edges = np.linspace(0, histories.n_users, 4 * processors() + 1).astype(int)
        for _ in in_threads(lambda span: _score_users(*span, *arguments), pairwise(edges)):
            pass
        return out if lists else out + means[:, None]

    def _means(self, histories: Ratings) -> AnyFloats:
        return plain_means(histories, self.mean_)

    def _residuals(self, histories: Ratings) -> npt.NDArray[np.float32]:
        """What the neighbours' ratings say: how far they lie from their user's mean."""
        if self.task == "lists":
            return histories.values
        means = np.repeat(self._means(histories), histories.user_counts)
        return (histories.values - means).astype(np.float32)

    def _compared(self, histories: Ratings) -> npt.NDArray[np.float32]:
        """What two users are compared by."""
        return self._residuals(histories)


class Pcc(_UserBased):
    """All users as neighbours, weighted by Pearson's correlation over common items.

    Breese et al., equation 1, with each user's mean taken over all their ratings.
    """

    common_only = True


class Cos(_UserBased):
    """All users as neighbours, weighted by the cosine of their ratings (Yang et al., (9))."""

    def _compared(self, histories: Ratings) -> npt.NDArray[np.float32]:
        return histories.values


@dataclass(kw_only=True, eq=False, repr=False)
class UserKNN(_UserBased):
    """The k nearest users by the cosine of their centred ratings.

    It is shrunk by the number of common items, n/(n + `shrinkage`). Means of users are damped by
    `damping`, and weighted means by `ridge`. Lists: `score_i = Σ_u w_au` over the neighbours u who
    have seen i.
    """

    task: Task = "lists"
    k: int = 80
    shrinkage: float = 10.0
    ridge: float = 0.2
    damping: float = 5.0

    def _fit(self, ratings: Ratings) -> None:
        if self.k <= 0:
            raise InputError(f"k must be at least 1, got {self.k}")
        super()._fit(ratings)

    def _means(self, histories: Ratings) -> AnyFloats:
        flat = np.full(histories.n_items, self.mean_)
        return self.mean_ + user_means(histories, flat, self.damping)


def _read_only(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """As ratings are: arrays that may be written to are of another type, for which numba would
    compile everything once more."""
    same = values.view()
    same.flags.writeable = False
    return same


def plain_means(histories: Ratings, otherwise: float) -> AnyFloats:
    """Each history's mean rating; `otherwise` for an empty one."""
    counts = histories.user_counts
    sums = np.bincount(histories.users, histories.values, minlength=histories.n_users)
    return np.where(counts > 0, sums / np.maximum(counts, 1), otherwise)


@numba.njit(nogil=True, cache=True)
def _score_users(
    first: int,
    last: int,
    indptr: Array,
    items: Array,
    compared: Array,
    known_indptr: Array,
    known_items: Array,
    known_compared: Array,
    known_residuals: Array,
    item_starts: Array,
    raters: Array,
    rater_users: Array,
    common_only: bool,
    shrinkage: float,
    k: int,
    ridge: float,
    lists: bool,
    out: Array,
) -> None:
    n_known, n_items = len(known_indptr) - 1, out.shape[1]
    dot, own_square, their_square = np.zeros(n_known), np.zeros(n_known), np.zeros(n_known)
    common, weight = np.zeros(n_known, np.int64), np.zeros(n_known)
    whole = np.zeros(n_known)
    for user in range(n_known):
        for at in range(known_indptr[user], known_indptr[user + 1]):
            whole[user] += known_compared[at] ** 2
    value, total = np.zeros(n_items), np.zeros(n_items)
    for row in range(first, last):
        dot[:], own_square[:], their_square[:], common[:] = 0, 0, 0, 0
        square = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            mine = compared[at]
            square += mine * mine
            for other in range(item_starts[items[at]], item_starts[items[at] + 1]):
                place = raters[other]
                user, theirs = rater_users[place], known_compared[place]
                dot[user] += mine * theirs
                own_square[user] += mine * mine
                their_square[user] += theirs * theirs
                common[user] += 1
        for user in range(n_known):
            scale = own_square[user] * their_square[user] if common_only else square * whole[user]
            weight[user] = 0.0
            if common[user] > 0 and scale > 0:
                weight[user] = (
                    dot[user] / np.sqrt(scale) * common[user] / (common[user] + shrinkage)
                )
        if k > 0:  # keep the k largest positive weights
            weight = np.maximum(weight, 0.0)
            if k < n_known:
                weight[weight < np.partition(weight, n_known - k)[n_known - k]] = 0.0
        value[:], total[:] = 0, 0
        for user in range(n_known):
            if weight[user] != 0:
                for at in range(known_indptr[user], known_indptr[user + 1]):
                    value[known_items[at]] += weight[user] * known_residuals[at]
                    total[known_items[at]] += abs(weight[user])
        for item in range(n_items):
            if lists:
                out[row, item] = value[item]
            else:
                out[row, item] = value[item] / (total[item] + ridge) if total[item] > 0 else 0.0
