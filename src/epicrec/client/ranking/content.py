"""Content: what suits a person by public facts alone.

A title's score is the logarithm of how likely somebody with this history watches it next: its
popularity, how much more often than others they watch its kind, years, genres, country and degree
of fame, and how alike it is to what they watched by its themes, directors and cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from epicrec.arrays import Floats, Integers
from epicrec.data import Catalogue
from epicrec.data.works import texts

HABITS = {"kind": 1.0, "years": 1.0, "genres": 1.0, "country": 1.0, "fame": 0.5}
"""How much each habit counts; half for fame, as the others already tell much of it."""
TELLING = ("themes", "directors", "cast")
"""The groups of facts that make two titles alike and explain a recommendation: sharing a genre or a
decade would be a coincidence. Where a catalogue has none of them, genres must do."""
PRIOR = 10.0
"""A habit is believed as if the person had watched so many titles as everybody does before."""
DISLIKED = 0.5
"""How much a disliked title counts against what is like it, beside a liked one."""
_EXPLAINS = 0.1
"""The share of a product that a fact must have in order to be named."""


@dataclass(frozen=True, eq=False)
class Content:
    """The facts of a catalogue's titles."""

    popularity: Floats
    """Each title's share of all viewing."""
    habits: dict[str, Any]
    """Titles × values of each habit, sparse, of zeros and ones."""
    telling: Any
    """Titles × telling facts, sparse. Each group has length one, and in it a fact that few titles
    share counts more."""
    facts: list[tuple[str, str]]
    """The group and the name of each telling fact."""

    def scores(self, watched: Integers, liked: Floats) -> Floats:
        """Of all titles, for somebody who watched these and liked them so much.

        With c of n watched titles of one value, whose share of all viewing is p, the habit is
        log((c + k·p) / ((n + k)·p)) where k is `PRIOR`; a title of several genres has the sum of
        theirs over the root of their number. Products with titles are added up over the root of n.
        """
        scores = np.log(self.popularity)
        for name, values in self.habits.items():
            usual = values.T @ self.popularity
            often = values[watched].sum(axis=0)
            habit = np.log((often + PRIOR * usual + 1e-9) / ((len(watched) + PRIOR) * usual + 1e-9))
            several = np.sqrt(np.maximum(np.asarray(values.sum(axis=1)).ravel(), 1.0))
            scores += HABITS[name] * (values @ habit) / several
        taste = self.telling[watched].T @ liked / np.sqrt(max(len(watched), 1))
        return np.asarray(scores + self.telling @ taste)

    def shared(self, one: int, other: int, most: int = 3) -> list[tuple[str, str]]:
        """The facts that carry the product of two titles, the greatest share first."""
        both = self.telling[[one]].multiply(self.telling[[other]]).tocoo()
        facts, parts = both.coords[1], both.data
        order = np.argsort(-parts, kind="stable")[:most]
        return [self.facts[facts[k]] for k in order if parts[k] >= _EXPLAINS * parts.sum()]


_KEPT: WeakKeyDictionary[Catalogue, Content] = WeakKeyDictionary()


def content_of(catalogue: Catalogue) -> Content:
    """Kept, as every ranking needs it."""
    if catalogue not in _KEPT:
        _KEPT[catalogue] = _read(catalogue)
    return _KEPT[catalogue]


def content_scores(
    catalogue: Catalogue, watched: Integers, stars: Mapping[int, float], low: float
) -> Floats:
    """The scores of all titles for somebody who watched these; `stars` by position, where known."""
    liked = [1.0 if stars.get(k, low) >= low else -DISLIKED for k in watched.tolist()]
    return content_of(catalogue).scores(watched, np.array(liked))


def popularity_of(catalogue: Catalogue) -> Floats:
    """Each title's share of all viewing; alike for all where nothing is known."""
    if catalogue.popularity is None:
        return np.full(len(catalogue), 1 / len(catalogue))
    positive = np.asarray(catalogue.popularity.clip(min=0) + 0.01)
    return np.asarray(positive / positive.sum(), np.float64)


def _read(catalogue: Catalogue) -> Content:
    from scipy.sparse import csr_array, hstack

    popularity, n = popularity_of(catalogue), len(catalogue)
    halvings = np.log2(popularity.max() / popularity).astype(np.int64)
    own: dict[str, Callable[[int], tuple[Any, ...]]] = {
        "genres": catalogue.categories_of,
        "years": lambda at: (int(catalogue.years[at]) // 5,) if catalogue.years[at] else (),
        "fame": lambda at: (int(halvings[at]),),
    }

    def ones_of(name: str) -> tuple[Any, list[Any]]:
        each = [own[name](at) for at in range(n)] if name in own else _split(catalogue, name)
        return _ones(each)

    habits = {name: ones_of(name)[0] for name in HABITS}
    telling = {group: ones_of(group) for group in TELLING}
    if not any(ones.nnz for ones, _ in telling.values()):
        telling = {"genres": ones_of("genres")}
    blocks, facts = [], list[tuple[str, str]]()
    for group, (ones, names) in telling.items():
        rare = ones.multiply(np.sqrt(np.log(n / np.maximum(ones.sum(axis=0), 1)))[None, :]).tocsr()
        lengths = np.sqrt(np.asarray(rare.multiply(rare).sum(axis=1)).ravel())
        blocks.append(rare.multiply(1 / np.maximum(lengths, 1e-9)[:, None]).tocsr())
        facts += [(group, str(name)) for name in names]
    kept = {name: ones for name, ones in habits.items() if ones.nnz}
    return Content(popularity, kept, csr_array(hstack(blocks)), facts)


def _split(catalogue: Catalogue, name: str) -> list[tuple[str, ...]]:
    """What a column of text says of each title, '|' between several things."""
    return [tuple(filter(None, (text or "").split("|"))) for text in texts(catalogue, name)]


def _ones(each: list[tuple[Any, ...]]) -> tuple[Any, list[Any]]:
    """Titles × values as a sparse matrix of ones, and the values."""
    from scipy.sparse import csr_array

    numbers: dict[Any, int] = {}
    columns = [numbers.setdefault(value, len(numbers)) for own in each for value in own]
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in each])])
    shape = (len(each), len(numbers))
    return csr_array((np.ones(len(columns)), columns, indptr), shape=shape), list(numbers)
