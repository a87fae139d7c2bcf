"""Rows: a few good shelves of films for one person, no film on two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from epicrec.arrays import Bools, Floats, Integers
from epicrec.client.ranking.content import popularity_of
from epicrec.client.ranking.scores import Row, best, parts_in_score, reasons
from epicrec.data import Catalogue
from epicrec.data.works import texts
from epicrec.models import Recommender

_LEAST = 6  # films that a row needs
_LIKE_IT = 2  # rows of films like one that was liked
_CATEGORIES = 5  # rows of categories
_NEAR = 4  # films like another come from the best of this part of all
_ENOUGH = 3  # films of a decade before it has a row
_ALIKE = 2  # films of one director in a row, unless the row is about what is alike


@dataclass
class Rows:
    """The rows of one person, made one after the other: each takes the best that is left."""

    catalogue: Catalogue
    scores: Floats
    watched: Integers
    liked: Integers
    """Those of them that contribute to the scores of others, the best liked first."""
    loved: Integers
    """Those that were rated high."""
    unwanted: Integers
    model: Recommender | None = None
    n: int = 12
    _rows: list[tuple[str, str | None, Integers]] = field(default_factory=list)

    def __post_init__(self) -> None:
        hidden = np.concatenate([self.watched, self.unwanted])
        self._left = best(self.scores, hidden, len(self.scores))  # best first
        self._columns = self.catalogue.matrix.tocsc()

    def all(self) -> list[Row]:
        """The best of all, then by turns what is like one film, a category, and the unexpected."""
        self._take("The best for you" if len(self.watched) else "Popular", self._left, least=1)
        like_it, categories = self._best_liked(), self._categories()
        for k in range(max(len(like_it), len(categories))):
            for film in like_it[k : k + 1]:
                self._like(film)
            for c in categories[k : k + 1]:
                self._category(c)
            if k == 0:
                self._hidden_gems()
                self._decade()
        self._something_different(categories)
        return self._with_reasons()

    def _take(
        self, title: str, order: Integers, category: str | None = None, least: int = _LEAST,
        *, varied: bool = True,
    ) -> None:  # fmt: skip
        films = self._varied(order)[: self.n] if varied and self.model is None else order[: self.n]
        if len(films) < least:
            return
        self._rows.append((title, category, films))
        self._left = self._left[~self._among(films)[self._left]]

    def _varied(self, order: Integers) -> Integers:
        """The first of these without more than two of one director: facts rank them together."""
        makers, taken, kept = texts(self.catalogue, "directors"), Counter[str](), []
        for film in order[: 5 * self.n].tolist():
            maker = (makers[film] or "").partition("|")[0]
            taken[maker] += 1
            if not maker or taken[maker] <= _ALIKE:
                kept.append(film)
        return np.array(kept, np.int64)

    def _among(self, films: Integers) -> Bools:
        among = np.zeros(len(self.catalogue), np.bool_)
        among[films] = True
        return among

    def _best_liked(self) -> list[int]:
        """The best liked films that are not of the same kind."""
        chosen: list[int] = []
        kinds: set[tuple[str, ...]] = set()
        for film in self.liked.tolist():
            kind = self.catalogue.categories_of(film)
            if kind not in kinds:
                chosen.append(film)
                kinds.add(kind)
            if len(chosen) == _LIKE_IT:
                break
        return chosen

    def _like(self, film: int) -> None:
        near = self._left[: max(10 * self.n, len(self._left) // _NEAR)]
        part = parts_in_score(self.catalogue, np.array([film]), near, self.model)[0]
        order = near[np.argsort(-part, kind="stable")][: int((part > 0).sum())]
        verb = "liked" if film in self.loved else "watched"
        self._take(f"Because you {verb} {self.catalogue.titles[film]}", order, varied=False)

    def _often(self) -> Integers:
        """How many liked films each category has."""
        return np.asarray(self.catalogue.matrix[self.liked].sum(axis=0), np.int64).ravel()

    def _categories(self) -> list[int]:
        """The categories with most liked films; without a history, those that are watched most."""
        often = self._often().astype(np.float64)
        if not often.any():
            often = np.asarray(self.catalogue.matrix.T @ popularity_of(self.catalogue)).ravel()
        order = sorted(range(len(often)), key=lambda c: (-often[c], c))
        return [c for c in order if often[c] > 0][:_CATEGORIES]

    def _of(self, c: int) -> Integers:
        """What is left of a category, best first."""
        films = self._columns.indices[self._columns.indptr[c] : self._columns.indptr[c + 1]]
        return self._left[self._among(films)[self._left]]

    def _category(self, c: int) -> None:
        name = self.catalogue.categories[c]
        self._take(name, self._of(c), name)

    def _hidden_gems(self) -> None:
        """Good ones that few people know."""
        if self.catalogue.popularity is None or not len(self.liked):
            return
        popularity = popularity_of(self.catalogue)
        good = self._left[: max(5 * self.n, len(self._left) // _NEAR)]
        self._take("Hidden gems", good[popularity[good] < np.median(popularity)])

    def _decade(self) -> None:
        years = self.catalogue.years
        liked = years[self.liked]
        decades, often = np.unique(liked[liked > 0] // 10 * 10, return_counts=True)
        if not len(decades) or often.max() < _ENOUGH:
            return
        decade = int(decades[often.argmax()])
        self._take(f"From the {decade}s", self._left[years[self._left] // 10 * 10 == decade])

    def _something_different(self, usual: list[int]) -> None:
        """The best of a category that is seldom watched, and of none that is often."""
        if not len(self.liked):
            return
        often, matrix = self._often(), self.catalogue.matrix
        others = self._left[np.asarray(matrix[self._left][:, usual].sum(axis=1)).ravel() == 0]
        count = np.asarray(matrix[others].sum(axis=0)).ravel()
        seldom = [c for c in range(len(often)) if count[c] >= _LEAST and c not in usual]
        if seldom:
            c = min(seldom, key=lambda c: (int(often[c]), -int(count[c])))
            films = self._of(c)
            title = f"Something different: {self.catalogue.categories[c]}"
            self._take(title, films[self._among(others)[films]])

    def _with_reasons(self) -> list[Row]:
        shown = np.concatenate([films for *_, films in self._rows])
        why = reasons(self.catalogue, self.liked, np.unique(shown), self.model)
        return [
            Row(title, tuple(why[int(film)] for film in films), category)
            for title, category, films in self._rows
        ]


def positions(catalogue: Catalogue, items: Sequence[str]) -> Integers:
    """Where these are in the catalogue, without those that are not."""
    at = catalogue.positions(items)
    return at[at >= 0]
