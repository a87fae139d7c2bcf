"""Groups: for each item, the items that may stand in for it, by distance between items.

Distance is D2P's Λ = 1/Ψ - 1 (equation 1) over a similarity Ψ in [0, 1]. By default Ψ comes from
the public catalogue; from the cosine of private ratings only as the paper has it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
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

    For the kernels: the categories of an item as bits (`masks`) and 1/√ of their number, and for
    year and popularity the steps of Ψ between distinct values (`tables`, one after the other) and
    which of these an item has (`codes`). Memory grows with the items, not with their square.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.n_items = n = len(catalogue)
        self.members = csr_array(catalogue.matrix, dtype=np.float64)
        counts = np.diff(self.members.indptr)
        self.inverse = 1 / np.sqrt(np.maximum(counts, 1))
        weights = {"categories": _WEIGHTS["categories"]} if counts.any() else {}
        alike: list[tuple[float, Floats, Any]] = []
        if (catalogue.years > 0).any():
            years = np.where(catalogue.years > 0, catalogue.years, -1)
            alike.append((_WEIGHTS["year"], *_closeness(years, _YEARS)))
        popularity = catalogue.popularity
        if popularity is not None and len(np.unique(popularity)) > 1:
            ranks = np.argsort(np.argsort(popularity, kind="stable"), kind="stable")
            bands = np.where(popularity >= 0, ranks * _BANDS // n, -1)
            alike.append((_WEIGHTS["popularity"], *_closeness(bands, 1.0)))
        step = _STEPS / (sum(weights.values()) + sum(weight for weight, _, _ in alike) or 1.0)
        self.category_steps = step * weights.get("categories", 0.0)
        self.tables = tuple(np.rint(step * weight * table) for weight, table, _ in alike)
        self.codes = np.array([codes for _, _, codes in alike], np.int64).reshape(-1, n)

    @property
    def plain(self) -> bool:
        """Whether the catalogue says nothing by which items could be alike."""
        return self.category_steps == 0 and not self.tables

    def rows(self, items: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Ψ between these items and all items; 1 between an item and itself."""
        shared = (self.members[items] @ self.members.T).toarray()
        steps = np.floor(
            self.category_steps * shared * self.inverse[items, None] * self.inverse + 0.5
        )
        for codes, table in zip(self.codes, self.tables, strict=True):
            steps += table[codes[items]][:, codes]
        steps[np.arange(len(items)), items] = _STEPS
        return np.asarray(steps / _STEPS, np.float32)

    def covariance_times(self, x: Floats) -> Floats:
        """Ψ, centred and with the number of items as its trace, times a vector or each column.

        It is a sum over features, and each is applied on its distinct values only.
        """
        out = self._times(x - x.mean(axis=0))
        return np.asarray((out - out.mean(axis=0)) * self._trace_scale)

    def _times(self, x: Floats) -> Floats:
        flat = x.reshape(self.n_items, -1)
        scaled = self.inverse[:, None] * flat
        out = (
            self.category_steps * self.inverse[:, None] * (self.members @ (self.members.T @ scaled))
        )
        for codes, table in zip(self.codes, self.tables, strict=True):
            which = csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))))
            out += (table @ (which @ flat))[codes]
        return np.asarray(out.reshape(x.shape) / _STEPS)

    @cached_property
    def _trace_scale(self) -> float:
        trace = self.category_steps * np.count_nonzero(np.diff(self.members.indptr))
        for codes, table in zip(self.codes, self.tables, strict=True):
            trace += float(table.diagonal()[codes].sum())
        mean = float(self._times(np.ones(self.n_items)).mean())
        return self.n_items / max(trace / _STEPS - mean, 1e-9)

    def for_kernels(self) -> tuple[Any, ...]:
        """Masks, 1/√, steps of the categories; codes, tables and where each table begins."""
        words = max(1, -(-self.members.shape[1] // 64))
        bits = np.zeros((self.n_items, 64 * words), np.bool_)
        bits[:, : self.members.shape[1]] = self.members.toarray() > 0
        masks = np.packbits(bits, axis=1).view(np.uint64)
        tables = [table.astype(np.int64).ravel() for table in self.tables]
        starts = np.cumsum([0, *(len(table) for table in tables)])[:-1]
        widths = np.array([len(table) for table in self.tables], np.int64)
        codes = self.codes.T.copy()
        rows = codes * widths + starts  # where an item's row of each table begins
        flat = np.concatenate([np.zeros(0, np.int64), *tables])
        return masks, self.inverse, self.category_steps, rows, codes, flat


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
    features = similarity.for_kernels()
    least = int(np.ceil(_STEPS / (1 + lam)))
    members = np.empty((n, floor), np.int32)
    _in_threads(lambda first, last: _walk(first, last, least, *features, members), n, n * n)
    return Groups(np.arange(n + 1, dtype=np.int64) * floor, members.ravel())


@numba.njit(nogil=True, cache=True)
def _walk(
    first: int, last: int, least: int, masks: Any, inverse: Any, category_steps: float, rows: Any,
    codes: Any, tables: Any, members: Any,
) -> None:  # fmt: skip
    """Fill the groups of some items."""
    n, floor = members.shape
    rest, rest_items = np.empty(n, np.int32), np.empty(n, np.int32)
    counts = np.empty(least, np.int32)
    for i in range(first, last):
        start = _mixed(np.uint64(i))
        j: Any = np.int64(start % np.uint64(n))
        stride: Any = 1
        if n > 2:
            stride += np.int64(_mixed(start) % np.uint64(n - 1))
            while _common_divisor(stride, n) > 1:
                stride = stride % (n - 1) + 1
        members[i, 0] = i
        size: Any = 1
        others: Any = 0
        for _ in range(n):
            if size == floor:
                break
            if j != i:
                shared = np.uint64(0)
                for word in range(masks.shape[1]):
                    shared += _ones(masks[i, word] & masks[j, word])
                steps: Any = np.int64(category_steps * shared * inverse[i] * inverse[j] + 0.5)
                for part in range(rows.shape[1]):
                    steps += tables[rows[i, part] + codes[j, part]]
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
def _ones(x: Any) -> Any:
    """How many bits of a word are set."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


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
