"""Groups as published: from the cosine of private ratings, which the paper takes for public."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings
from epicrec.perturb.d2p.groups import ROWS_AT_ONCE, Groups, by_rows, check_members, distance


def cosine_groups(ratings: Ratings, lam: float, *, neighbours: int = 0, floor: int = 1) -> Groups:
    """Algorithm 1: all items within `lam` by the cosine of who rated them; rare items have few.

    With `neighbours` = K the group is joined with the K groups that share most items with it
    (Definition 4). A `floor` fills small groups up with the nearest items. **Made from private
    ratings and not itself private**: the paper's proof takes the groups for public.

    Items are taken from the most rated on. As n_ij ≤ min(n_i, n_j), two within λ have counts with
    a ratio of at least 1/(1+λ)², so others are not looked at. Time is at most Σ_u n_u²/2.
    """
    n = ratings.n_items
    order = np.argsort(-ratings.item_counts, kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    events = _by_rank(ratings.indptr, ratings.items, rank)
    norms = np.sqrt(ratings.item_counts[order])
    least = 1 / (1 + lam) - 1e-12  # Λ ≤ λ
    found = by_rows(
        lambda first, last: _near_pairs(first, last, least, norms, ratings.indptr, *events),
        n,
        int(np.sum(ratings.user_counts.astype(np.int64) ** 2)),
    )
    check_members(n + 2 * sum(len(one) for one, _ in found))
    one, other = (np.concatenate(side) for side in zip(*found, strict=True))
    groups = _both_ways(order, one, other)
    if floor > 1:
        groups = _filled_up(groups, ratings, floor)
    return with_neighbours(groups, neighbours) if neighbours else groups


@numba.njit(nogil=True, cache=True)
def _by_rank(indptr: Any, items: Any, rank: Any) -> Any:
    """Who has the item of each rank; histories by rank; the place there of each (item, user)."""
    starts = np.zeros(len(rank) + 1, np.int64)
    for event in range(len(items)):
        starts[rank[items[event]] + 1] += 1
    starts = np.cumsum(starts)
    raters, at = np.empty(len(items), np.int32), starts[:-1].copy()
    for user in range(len(indptr) - 1):
        for event in range(indptr[user], indptr[user + 1]):
            r = rank[items[event]]
            raters[at[r]] = user
            at[r] += 1
    histories, places = np.empty(len(items), np.uint32), np.empty(len(items), np.int64)
    free = indptr[:-1].copy()
    for r in range(len(rank)):
        for event in range(starts[r], starts[r + 1]):
            user = raters[event]
            histories[free[user]], places[event] = r, free[user]
            free[user] += 1
    return starts, raters, histories, places


@numba.njit(nogil=True, cache=True)
def _near_pairs(
    first: int, last: int, least: float, norms: Any, indptr: Any, starts: Any, raters: Any,
    histories: Any, places: Any,
) -> Any:  # fmt: skip
    """The pairs of ranks i < j with n_ij ≥ least·norm_i·norm_j, for i in a span."""
    n = len(norms)
    together = np.zeros(n, np.int32)
    one, other = np.empty(1 << 12, np.int32), np.empty(1 << 12, np.int32)
    size = 0
    for i in range(first, last):
        need = least * norms[i]
        stop = n  # the first rank with too few ratings
        low = i + 1
        while low < stop:
            middle = (low + stop) // 2
            if norms[middle] >= need:
                low = middle + 1
            else:
                stop = middle
        for event in range(starts[i], starts[i + 1]):
            at, end = np.uint64(places[event] + 1), np.uint64(indptr[raters[event] + 1])
            while at < end and histories[at] < stop:
                together[histories[at]] += 1
                at += np.uint64(1)
        for j in range(i + 1, stop):
            if together[j] > 0 and together[j] >= need * norms[j]:
                if size == len(one):
                    one, other = np.append(one, one), np.append(other, other)
                one[size], other[size] = i, j
                size += 1
            together[j] = 0
    return one[:size], other[:size]


@numba.njit(nogil=True, cache=True)
def _rows_of_pairs(order: Any, one: Any, other: Any) -> Any:
    n = len(order)
    indptr = np.zeros(n + 1, np.int64)
    indptr[1:] = 1
    for pair in range(len(one)):
        indptr[order[one[pair]] + 1] += 1
        indptr[order[other[pair]] + 1] += 1
    indptr = np.cumsum(indptr)
    items, free = np.empty(indptr[n], np.int32), indptr[:-1].copy()
    for i in range(n):
        items[free[i]] = i
        free[i] += 1
    for pair in range(len(one)):
        i, j = order[one[pair]], order[other[pair]]
        items[free[i]], items[free[j]] = j, i
        free[i] += 1
        free[j] += 1
    return indptr, items


def _both_ways(order: Any, one: Any, other: Any) -> Groups:
    """Each item with those it is paired with; pairs are given once, by rank."""
    return Groups(*_rows_of_pairs(order, one, other))


def _filled_up(groups: Groups, ratings: Ratings, floor: int) -> Groups:
    """Groups below the floor get the items nearest by cosine as well."""
    seen = ratings.as_history().csr().astype(np.float64)
    norms = np.maximum(np.sqrt(ratings.item_counts), 1e-12)
    members: list[npt.NDArray[Any]] = [groups.members(item) for item in range(len(groups))]
    for item in np.flatnonzero(groups.sizes < floor):
        raters = np.asarray(seen[:, [item]].todense()).ravel()
        alike = (raters @ seen) / norms
        alike[members[item]] = np.inf
        members[item] = np.argsort(-alike, kind="stable")[:floor].astype(np.int32)
    return _grouped(members)


def with_neighbours(groups: Groups, k: int) -> Groups:
    """Each group joined with the k groups it shares most items with (Definition 4)."""
    matrix = groups.matrix()
    turned = matrix.T.tocsr()
    members: list[npt.NDArray[np.int32]] = []
    for start in range(0, len(groups), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(groups)))
        shared = (matrix[rows] @ turned).toarray()
        shared[np.arange(len(rows)), rows] = 0
        for row, item in enumerate(rows):
            best = np.argsort(-shared[row], kind="stable")[:k]
            joined = [groups.members(int(j)) for j in best if shared[row, j] > 0]
            members.append(np.unique(np.concatenate([groups.members(int(item)), *joined])))
        check_members(sum(len(m) for m in members))
    return _grouped(members)


def _grouped(members: list[npt.NDArray[np.int32]]) -> Groups:
    indptr = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
    return Groups(indptr, np.concatenate(members))


def liked(ratings: Ratings) -> Ratings:
    """What each user rated no lower than their own mean: the paper's binary ratings, as read."""
    sums = np.bincount(ratings.users, ratings.values, ratings.n_users)
    means = sums / np.maximum(ratings.user_counts, 1)
    return ratings.select(ratings.values >= means[ratings.users] - 1e-9)


def average_cosine_distance(ratings: Ratings) -> float:
    """Figure 14 as published: the mean finite distance of the items that a user rated, by who liked
    them, averaged over users."""
    likes = liked(ratings).as_history()
    seen = likes.csr().astype(np.float64)
    norms = np.sqrt(np.maximum(likes.item_counts, 1))
    apart = distance((seen.T @ seen).toarray() / (norms[:, None] * norms))
    means = []
    for user in range(ratings.n_users):
        own = ratings.items[ratings.row(user)]
        pairs = apart[np.ix_(own, own)][np.triu_indices(len(own), 1)]
        if np.isfinite(pairs).any():
            means.append(pairs[np.isfinite(pairs)].mean())
    return float(np.mean(means))
