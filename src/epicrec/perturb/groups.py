"""Groups: for each item, the items that may stand in for it, by distance between items.

Distance is D2P's Λ = 1/Ψ - 1 (equation 1) over a similarity Ψ in [0, 1]. By default Ψ comes from
the public catalogue; from the cosine of private ratings only as the paper has it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from os import sched_getaffinity
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.progress import report

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]

_LARGEST = 1 << 28  # members of all groups together: 1 GB
_ROWS_AT_ONCE = 256
_WORTH_THREADS = 1 << 26
_STEPS = 10_000  # of similarity: two machines agree on whole ones
_YEARS = 8.0  # years over which closeness falls by a factor e
_BANDS = 10
_WEIGHTS = {"categories": 0.7, "year": 0.3, "popularity": 0.3}


@dataclass(frozen=True, eq=False)
class Groups:
    """`items[indptr[s]:indptr[s + 1]]` are the positions of the group of item s; s is among them.

    >>> Groups.of([[0, 1], [1], [0, 1, 2]]).sizes.tolist()
    [2, 1, 3]
    """

    indptr: Integers
    items: Positions

    @classmethod
    def of(cls, members: list[list[int]]) -> Groups:
        """From a list of positions for each item."""
        indptr = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
        return cls(indptr, np.array([i for m in members for i in m], np.int32))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Integers:
        return np.diff(self.indptr)

    def members(self, item: int) -> Positions:
        """The positions of one item's group."""
        return self.items[self.indptr[item] : self.indptr[item + 1]]

    def matrix(self, data: npt.NDArray[Any] | None = None) -> Any:
        """A scipy item × member matrix, of ones or of one number for each row."""
        sizes = self.sizes
        values = np.ones(len(self.items)) if data is None else np.repeat(data, sizes)
        return csr_array((values, self.items, self.indptr), (len(self), len(self)))


# ---- from public features -------------------------------------------------------------------


class PublicSimilarity:
    """Ψ between items of a catalogue: how alike are categories, years and popularity.

    The weighted mean, over the features the catalogue has, of the cosine of the category rows
    (weight 0.7), exp(-|years apart| / 8) (0.3) and exp(-|popularity deciles apart|) (0.3). An item
    that lacks a feature is 0 alike in it to any other. In whole steps of 10⁻⁴, so that two machines
    agree.

    `parts` holds for each feature the rows of Ψ's steps between its distinct values and all items,
    and `codes` which of these rows an item has: Ψ of an item is the sum of its rows.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.n_items = n = len(catalogue)
        alike: list[tuple[float, Any, Any]] = []  # weight, similarity of distinct values, codes
        table = np.asarray(catalogue.matrix.todense()) > 0
        if table.any():
            packed = np.ascontiguousarray(np.packbits(table, axis=1))
            _, first, codes = np.unique(
                packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True
            )
            rows = table[first].astype(np.float64)
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
            alike.append((_WEIGHTS["categories"], rows @ rows.T, codes))
        if (catalogue.years > 0).any():
            years = np.where(catalogue.years > 0, catalogue.years, -1)
            alike.append((_WEIGHTS["year"], *_closeness(years, _YEARS)))
        popularity = catalogue.popularity
        if popularity is not None and len(np.unique(popularity)) > 1:
            ranks = np.argsort(np.argsort(popularity, kind="stable"), kind="stable")
            bands = np.where(popularity >= 0, ranks * _BANDS // n, -1)
            alike.append((_WEIGHTS["popularity"], *_closeness(bands, 1.0)))
        total = sum(weight for weight, _, _ in alike)
        self.codes = np.array([codes.ravel() for _, _, codes in alike], np.int64).reshape(-1, n)
        self.parts = tuple(
            np.rint(_STEPS * weight / total * table).astype(np.int16)[:, codes]
            for (weight, table, _), codes in zip(alike, self.codes, strict=True)
        )

    @property
    def plain(self) -> bool:
        """Whether the catalogue says nothing by which items could be alike."""
        return not self.parts

    def rows(self, items: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Ψ between these items and all items; 1 between an item and itself."""
        steps = np.zeros((len(items), self.n_items), np.int16)
        for codes, part in zip(self.codes, self.parts, strict=True):
            steps += part[codes[items]]
        steps[np.arange(len(items)), items] = _STEPS
        return np.asarray(steps / np.float32(_STEPS))


def _closeness(values: npt.NDArray[Any], scale: float) -> tuple[Floats, npt.NDArray[np.intp]]:
    """exp(-|a - b| / scale) between the distinct values, 0 where one is -1 (unknown)."""
    distinct, codes = np.unique(values, return_inverse=True)
    table = np.exp(-np.abs(distinct[:, None] - distinct) / scale)
    return table * np.outer(distinct >= 0, distinct >= 0), codes


def distance(similarity: npt.NDArray[Any]) -> Floats:
    """Λ = 1/Ψ - 1 (equation 1); infinite where nothing is alike.

    >>> distance(np.array([1.0, 0.5, 0.0])).tolist()
    [0.0, 1.0, inf]
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1 / np.asarray(similarity, np.float64) - 1)


@lru_cache(maxsize=4)
def public_groups(catalogue: Catalogue, lam: float, floor: int) -> Groups:
    """Groups of exactly `floor` items: a sample of those within `lam`, or the nearest.

    Groups of one size waste nothing where ε is ruled by the smallest. Sampling (a walk over the
    catalogue, from a start and by a stride that a hash of the item gives) instead of taking the
    nearest gives items with like features different groups, so what they stand for can still be
    told apart on average. Time is items × the items looked at, memory items × floor.
    """
    n = len(catalogue)
    floor = min(floor, n)
    _check_members(n * floor)
    similarity = PublicSimilarity(catalogue)
    parts = similarity.parts or (np.zeros((1, n), np.int16),)
    codes = similarity.codes if similarity.parts else np.zeros((1, n), np.int64)
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    rows, at = np.concatenate(parts), (codes + starts[:, None]).T.copy()
    least = int(np.ceil(_STEPS / (1 + lam)))
    members = np.empty((n, floor), np.int32)
    _in_threads(lambda first, last: _walk(first, last, least, rows, at, members), n, n * n)
    return Groups(np.arange(n + 1, dtype=np.int64) * floor, members.ravel())


@numba.njit(nogil=True, cache=True)
def _walk(first: int, last: int, least: int, rows: Any, at: Any, members: Any) -> None:
    """Fill the groups of some items; `rows[at[i]]` sum to the steps of Ψ of item i."""
    n, floor = len(at), members.shape[1]
    rest, rest_items = np.empty(n, np.int32), np.empty(n, np.int32)
    counts = np.empty(least, np.int32)
    for i in range(first, last):
        word = _mixed(np.uint64(i))
        j, stride = np.int64(word % np.uint64(n)), 1
        if n > 2:
            stride += np.int64(_mixed(word) % np.uint64(n - 1))
            while _common_divisor(stride, n) > 1:
                stride = stride % (n - 1) + 1
        members[i, 0] = i
        size, others = 1, 0
        for _ in range(n):
            if size == floor:
                break
            if j != i:
                steps = 0
                for part in range(at.shape[1]):
                    steps += rows[at[i, part], j]
                near = np.int64(steps >= least)  # no branch: it would be mispredicted
                members[i, size] = rest_items[others] = j
                rest[others] = steps
                size += near
                others += 1 - near
            j += stride
            if j >= n:
                j -= n
        if size < floor:  # fill up with the nearest of the others
            counts[:] = 0
            for k in range(others):
                counts[rest[k]] += 1
            worst, better = least, size
            while better < floor:
                worst -= 1
                better += counts[worst]
            for k in range(others):
                if rest[k] > worst:
                    members[i, size] = rest_items[k]
                    size += 1
            for k in range(others):
                if size < floor and rest[k] == worst:
                    members[i, size] = rest_items[k]
                    size += 1


@numba.njit(nogil=True, cache=True)
def _mixed(x: Any) -> Any:
    """A word that looks random, the same everywhere and for ever (splitmix64)."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(nogil=True, cache=True)
def _common_divisor(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _in_threads(work: Callable[[int, int], object], n: int, cost: int) -> list[Any]:
    """`work` on spans of 0 … n, in order; on all processors where that pays."""
    spans = [(first, min(first + _ROWS_AT_ONCE, n)) for first in range(0, n, _ROWS_AT_ONCE)]
    if cost < _WORTH_THREADS:
        return [work(0, n)]
    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        tasks = [(last, pool.submit(work, first, last)) for first, last in spans]
        out = []
        for last, task in tasks:
            out.append(task.result())
            report("grouping items", last, n)
    return out


# ---- from private ratings, as published -----------------------------------------------------


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
    found = _in_threads(
        lambda first, last: _near_pairs(first, last, least, norms, ratings.indptr, *events),
        n,
        int(np.sum(ratings.user_counts.astype(np.int64) ** 2)),
    )
    _check_members(n + 2 * sum(len(one) for one, _ in found))
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
    members = [groups.members(item) for item in range(len(groups))]
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
    for start in range(0, len(groups), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(groups)))
        shared = (matrix[rows] @ turned).toarray()
        shared[np.arange(len(rows)), rows] = 0
        for row, item in enumerate(rows):
            best = np.argsort(-shared[row], kind="stable")[:k]
            joined = [groups.members(int(j)) for j in best if shared[row, j] > 0]
            members.append(np.unique(np.concatenate([groups.members(int(item)), *joined])))
        _check_members(sum(len(m) for m in members))
    return _grouped(members)


def _grouped(members: list[npt.NDArray[np.int32]]) -> Groups:
    indptr = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
    return Groups(indptr, np.concatenate(members))


def _check_members(count: int) -> None:
    if count > _LARGEST:
        raise InputError(
            f"the groups would hold {count:,} members in all, more than {_LARGEST:,}; choose a "
            "smaller floor or λ (a group of everything is p = 1)"
        )


# ---- choosing λ -----------------------------------------------------------------------------


def hiding_lambda(
    catalogue: Catalogue, category: str, history: npt.NDArray[Any] | None = None
) -> float:
    """The smallest λ at which every item of a category reaches one outside it.

    Section 4.2.3, Figure 13: for each such item the least distance to an item of another category,
    and the largest of these; 0 where there is no such item. The paper takes the items of the
    `history` (positions); that λ depends on it and is not to be told to anyone. Without a history
    all items of the category are taken, and λ is public.
    """
    if category not in catalogue.categories:
        raise InputError(
            f"the catalogue has no category {category!r}; it has {', '.join(catalogue.categories)}"
        )
    column = catalogue.categories.index(category)
    inside = np.asarray(catalogue.matrix[:, [column]].todense()).ravel() > 0
    own = np.flatnonzero(inside) if history is None else np.asarray(history)[inside[history]]
    if inside.all():
        raise InputError(f"every item is in {category!r}; there is nothing to hide it among")
    if not len(own):
        return 0.0
    return float(distance(PublicSimilarity(catalogue).rows(own)[:, ~inside].max(axis=1)).max())


def average_lambda(catalogue: Catalogue, history: npt.NDArray[Any]) -> float:
    """The mean finite distance between the items of a history (Figure 14), given as positions.

    It depends on the history and is not to be told to anyone.
    """
    own = np.asarray(history)
    if len(own) < 2:
        return 0.0
    apart = distance(PublicSimilarity(catalogue).rows(own)[:, own])
    upper = apart[np.triu_indices(len(own), 1)]
    upper = upper[np.isfinite(upper)]
    return float(upper.mean()) if len(upper) else 0.0


def average_cosine_distance(ratings: Ratings) -> float:
    """Figure 14 as published: each user's mean finite distance, averaged over users."""
    seen = ratings.as_history().csr().astype(np.float64)
    norms = np.sqrt(np.maximum(ratings.item_counts, 1))
    alike = (seen.T @ seen).toarray() / (norms[:, None] * norms)
    apart = distance(alike)
    means = []
    for user in range(ratings.n_users):
        own = ratings.items[ratings.row(user)]
        if len(own) > 1:
            means.append(apart[np.ix_(own, own)][np.triu_indices(len(own), 1)].mean())
    return float(np.mean(means))
