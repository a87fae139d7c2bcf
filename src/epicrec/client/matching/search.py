"""Search: titles by name, person, theme and year, the best known first among equals."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from rapidfuzz import fuzz, process

from epicrec.arrays import Integers
from epicrec.data import Catalogue
from epicrec.data.works import compact, normalise, texts

PEOPLE = ("directors", "cast")
_YEAR = re.compile(r"(.*\S)\s+\(?((?:18|19|20)\d\d)\)?")
_TYPO = 75
"""How alike a misspelt name is, of 100."""


class Search:
    """An index of titles, people and themes.

    >>> films = Catalogue.from_columns([1, 2], ["Heat", "Up"], ["", ""], cast=["Al Pacino", ""])
    >>> Search(films, {"heat": [0], "up": [1]}).find("pacino").tolist()
    [0]
    """

    def __init__(self, catalogue: Catalogue, by_title: dict[str, list[int]]) -> None:
        """`by_title` has the positions of titles under each of their normalised names."""
        self._years, self._popularity = catalogue.years, catalogue.popularity
        self._titles = by_title
        self._people = _index(catalogue, PEOPLE)
        self._themes = _index(catalogue, ("themes",))
        self._surnames: dict[str, list[int]] = defaultdict(list)
        for name, films in self._people.items():
            self._surnames[name.rpartition(" ")[2]] += films

    def find(self, text: str) -> Integers:
        """The positions of what this finds, best first.

        The whole title comes before a whole person's name, the beginning of a title before a
        surname or a theme, then titles with all the words, and what is nearly spelt like it.
        """
        wanted = normalise(text)
        if not wanted:
            return np.zeros(0, np.int64)
        dated = _YEAR.fullmatch(text.strip())
        found = self._in_order(wanted)
        if dated and not self._titles.get(wanted):
            of_year = int(dated[2])
            earlier = self._in_order(normalise(dated[1]))
            found = [k for k in earlier if self._years[k] == of_year] or found
        return np.array(list(dict.fromkeys(found)), np.int64)

    def _in_order(self, wanted: str) -> list[int]:
        words = set(wanted.split())
        holding = [t for t in self._titles if wanted in t]
        tiers = [
            self._titles.get(wanted, []),
            _all(self._titles, (t for t in self._titles if compact(t) == compact(wanted))),
            self._people.get(wanted, []),
            _all(self._titles, (t for t in holding if t.startswith(f"{wanted} "))),
            [*self._surnames.get(wanted, []), *self._themes.get(wanted, [])],
            _all(self._titles, (t for t in self._titles if words <= set(t.split()))),
            _all(self._people, (n for n in self._people if words <= set(n.split()))),
            _all(self._titles, holding),
        ]
        if not any(tiers):
            near = [
                (score, index[name])
                for index in (self._titles, self._people, self._surnames)
                for name, score, _ in process.extract(
                    wanted, list(index), scorer=fuzz.ratio, score_cutoff=_TYPO, limit=10
                )
            ]
            tiers = [films for _, films in sorted(near, key=lambda pair: -pair[0])]
        return [k for tier in tiers for k in self._best_known(tier)]

    def _best_known(self, films: Iterable[int]) -> list[int]:
        known = self._popularity
        return list(films) if known is None else sorted(films, key=lambda k: -float(known[k]))


def _all(index: dict[str, list[int]], names: Iterable[str]) -> list[int]:
    return [k for name in names for k in index[name]]


def _index(catalogue: Catalogue, columns: Iterable[str]) -> dict[str, list[int]]:
    """The positions of titles under each normalised name in these columns ('|' between names)."""
    found: dict[str, list[int]] = defaultdict(list)
    for column in columns:
        for at, text in enumerate(texts(catalogue, column)):
            for name in (text or "").split("|"):
                if name:
                    found[normalise(name)].append(at)
    return dict(found)
