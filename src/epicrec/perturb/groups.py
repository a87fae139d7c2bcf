"""Groups: for each item, the items that may stand in for it, by distance between items.

Distance is D2P's Λ = 1/Ψ - 1 (equation 1) over a similarity Ψ in [0, 1]. By default Ψ comes from
the public catalogue; from the cosine of private ratings only as the paper has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]

_LARGEST = 1 << 28  # members of all groups together: 1 GB
_ROWS_AT_ONCE = 256
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
    that lacks a feature is 0 alike in it to any other. Rounded to 10⁻⁴, so that two machines agree.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.n_items = len(catalogue)
        categories = np.asarray(catalogue.matrix.todense(), np.float32)
        norms = np.linalg.norm(categories, axis=1, keepdims=True)
        self.categories = categories / np.maximum(norms, 1e-9)
        self.closeness: list[tuple[float, npt.NDArray[np.intp], npt.NDArray[np.float32]]] = []
        weights = {"categories": _WEIGHTS["categories"]} if self.categories.any() else {}
        if (catalogue.years > 0).any():
            weights["year"] = _WEIGHTS["year"]
            self._add("year", catalogue.years, catalogue.years > 0, _YEARS)
        popularity = catalogue.popularity
        if popularity is not None and len(np.unique(popularity)) > 1:
            weights["popularity"] = _WEIGHTS["popularity"]
            ranks = np.argsort(np.argsort(popularity, kind="stable"), kind="stable")
            self._add("popularity", ranks * _BANDS // len(ranks), popularity >= 0, 1.0)
        total = sum(weights.values()) or 1.0
        self.category_weight = weights.get("categories", 0.0) / total
        self.closeness = [(weight / total, codes, table) for weight, codes, table in self.closeness]

    def _add(self, name: str, values: Any, known: Any, scale: float) -> None:
        distinct, codes = np.unique(np.where(known, values, -1), return_inverse=True)
        table = np.exp(-np.abs(distinct[:, None] - distinct) / scale).astype(np.float32)
        table[distinct == -1, :] = 0
        table[:, distinct == -1] = 0
        self.closeness.append((_WEIGHTS[name], codes, table))

    @property
    def plain(self) -> bool:
        """Whether the catalogue says nothing by which items could be alike."""
        return self.category_weight == 0 and not self.closeness

    def rows(self, items: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Ψ between these items and all items; 1 between an item and itself."""
        out: npt.NDArray[Any] = self.category_weight * (self.categories[items] @ self.categories.T)
        for weight, codes, table in self.closeness:
            out += weight * table[codes[items]][:, codes]
        rounded = np.asarray(np.round(out, 4), np.float32)
        rounded[np.arange(len(items)), items] = 1
        return rounded


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

    Groups of one size waste nothing where ε is ruled by the smallest. Sampling (by a fixed hash of
    the pair) instead of taking the nearest gives items with like features different groups, so what
    they stand for can still be told apart on average. Rows are made a few at a time.
    """
    n = len(catalogue)
    floor = min(floor, n)
    _check_members(n * floor)
    similarity = PublicSimilarity(catalogue)
    members = np.empty((n, floor), np.int32)
    for start in range(0, n, _ROWS_AT_ONCE):
        items = np.arange(start, min(start + _ROWS_AT_ONCE, n))
        alike = similarity.rows(items)
        chance = _pair_hash(items, n)
        key = np.where(alike >= np.float32(1 / (1 + lam)), chance, 2 - alike + 1e-6 * chance)
        key[np.arange(len(items)), items] = -1
        nearest = np.argpartition(key, floor - 1, axis=1)[:, :floor]
        members[items] = np.sort(nearest, axis=1)
    return Groups(np.arange(n + 1, dtype=np.int64) * floor, members.ravel())


def _pair_hash(rows: npt.NDArray[Any], n: int) -> npt.NDArray[np.float32]:
    """A number in [0, 1) for each pair, the same everywhere and for ever (splitmix64)."""
    x: Any = (rows.astype(np.uint64)[:, None] << np.uint64(32)) + np.arange(n, dtype=np.uint64)
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> np.uint64(31))) >> np.uint64(40)
    return np.asarray(x / np.float64(1 << 24), np.float32)


# ---- from private ratings, as published -----------------------------------------------------


def cosine_groups(ratings: Ratings, lam: float, *, neighbours: int = 0, floor: int = 1) -> Groups:
    """Algorithm 1: all items within `lam` by the cosine of who rated them; rare items have few.

    With `neighbours` = K the group is joined with the K groups that share most items with it
    (Definition 4). A `floor` fills small groups up with the nearest items. **Made from private
    ratings and not itself private**: the paper's proof takes the groups for public.
    """
    seen = ratings.as_history().csr().astype(np.float64)
    norms = np.sqrt(ratings.item_counts)
    columns = seen.tocsc()
    members: list[npt.NDArray[np.int32]] = []
    for start in range(0, ratings.n_items, _ROWS_AT_ONCE):
        items = np.arange(start, min(start + _ROWS_AT_ONCE, ratings.n_items))
        alike = (columns[:, items].T @ seen).toarray()
        alike /= np.maximum(norms[items, None] * norms, 1e-12)
        alike[np.arange(len(items)), items] = 2
        near = alike >= 1 / (1 + lam) - 1e-12  # Λ ≤ λ
        for row in np.flatnonzero(near.sum(axis=1) < floor):
            near[row, np.argsort(-alike[row], kind="stable")[:floor]] = True
        members.extend(np.flatnonzero(row).astype(np.int32) for row in near)
        _check_members(sum(len(m) for m in members))
    groups = _grouped(members)
    return with_neighbours(groups, neighbours) if neighbours else groups


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
