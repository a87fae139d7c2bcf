"""Groups: for each item, the items that may stand in for it, by distance between items.

Distance is D2P's Λ = 1/Ψ - 1 (equation 1) over a similarity Ψ in [0, 1], here from the public
catalogue; `papers.d2p.rating_groups` has the paper's, from the cosine of private ratings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.arrays import Floats, Integers, Positions
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.machine import in_threads
from epicrec.progress import report

GROUPS_VERSION = 1  # of how public groups are made; to be raised when they come out otherwise
_LARGEST = 1 << 28  # members of all groups together: 1 GB
ROWS_AT_ONCE = 256
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
    told apart on average. Time is items × the items compared, memory items × floor.
    """
    n = len(catalogue)
    floor = min(floor, n)
    check_members(n * floor)
    similarity = PublicSimilarity(catalogue)
    features = similarity.for_kernels()
    least = int(np.ceil(_STEPS / (1 + lam)))
    members = np.empty((n, floor), np.int32)
    by_rows(lambda first, last: _walk(first, last, least, *features, members), n, n * n)
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


def by_rows(work: Callable[[int, int], object], n: int, cost: int) -> list[Any]:
    """`work` on spans of 0 … n, in order; on all processors where that pays."""
    if cost < _WORTH_THREADS:
        return [work(0, n)]
    spans = [(first, min(first + ROWS_AT_ONCE, n)) for first in range(0, n, ROWS_AT_ONCE)]
    out = []
    for span, found in zip(spans, in_threads(lambda span: work(*span), spans), strict=True):
        out.append(found)
        report("grouping items", span[1], n)
    return out


def check_members(count: int) -> None:
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
    inside = _in_category(catalogue, category)
    own = np.flatnonzero(inside) if history is None else np.asarray(history)[inside[history]]
    if inside.all():
        raise InputError(f"every item is in {category!r}; there is nothing to hide it among")
    similarity = PublicSimilarity(catalogue)
    farthest = 0.0
    for start in range(0, len(own), ROWS_AT_ONCE):
        alike = similarity.rows(own[start : start + ROWS_AT_ONCE])[:, ~inside]
        farthest = max(farthest, float(distance(alike.max(axis=1)).max()))
    return farthest


def with_outsiders(groups: Groups, catalogue: Catalogue, category: str) -> Groups:
    """Groups of the same sizes in which at least half of what an item of the category may become
    lies outside it: the nearest such items take the places of some inside."""
    inside = _in_category(catalogue, category)
    similarity = PublicSimilarity(catalogue)
    items = groups.items.copy()
    for item in np.flatnonzero(inside):
        members = items[groups.indptr[item] : groups.indptr[item + 1]]
        lacking = min(-(-len(members) // 2), int((~inside).sum())) - int((~inside[members]).sum())
        if lacking <= 0:
            continue
        closeness = similarity.rows(np.array([item]))[0]
        closeness[inside] = closeness[members] = -1
        places = np.flatnonzero(inside[members] & (members != item))[-lacking:]
        members[places] = np.argsort(-closeness, kind="stable")[: len(places)]
    return Groups(groups.indptr, items)


def _in_category(catalogue: Catalogue, category: str) -> npt.NDArray[np.bool_]:
    """Which items have this category."""
    if category not in catalogue.categories:
        raise InputError(
            f"the catalogue has no category {category!r}; it has {', '.join(catalogue.categories)}"
        )
    column = catalogue.categories.index(category)
    return np.asarray(catalogue.matrix[:, [column]].todense()).ravel() > 0


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


def no_features(item_ids: npt.NDArray[Any]) -> Catalogue:
    """A catalogue that knows nothing of its items but their ids."""
    return Catalogue(
        item_ids=item_ids,
        titles=np.full(len(item_ids), "", dtype=object),
        years=np.zeros(len(item_ids), np.int32),
        categories=(),
        indptr=np.zeros(len(item_ids) + 1, np.int64),
        indices=np.zeros(0, np.int32),
    )
