"""Works: which film or series an entry of a catalogue is, whatever list it is in.

Lists number the same film differently, and no number is in all of them. So a work has several
names, and two entries are the same work if they share one. Within a catalogue this is made an
equivalence relation, a public property of the catalogue that no history changes (`Works`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from epicrec.arrays import Bools, Integers
from epicrec.data.catalogue import Catalogue

FILM, SERIES = "film", "series"
"""The kinds of works."""
RULE = 1
"""The version of the rule by which entries are one work."""
MAX_TITLE = 300
"""Letters that are read: the longest film title has some 200, and a hostile page more."""

_ARTICLES = (
    "the|a|an|le|la|les|l'|un|une|il|lo|gli|el|los|las|der|die|das|ein|eine|den|det|en|o|os|as"
)
_INVERTED = re.compile(rf"^(.+), ({_ARTICLES})$", re.IGNORECASE)
_LEADING_ARTICLE = re.compile(r"^(?:the|a|an) (?=.)")
_APOSTROPHES = re.compile(r"['’‘`´ʼ]")
_RAISED = re.compile("[¼½¾⅓⅔¹²³]")
_NOT_WORDS = re.compile(r"[\W_]+")
_NUMERALS = {
    "ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9", "xi": "11",
    "xii": "12", "xiii": "13", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
    "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11",
    "twelve": "12",
}  # fmt: skip
# "Withnail & I", "V for Vendetta" and "American History X" hold letters, not numerals
_NUMERALS_IN_SERIES = {"i": "1", "v": "5", "x": "10"}
_SERIES_WORDS = {"part", "vol", "volume", "chapter", "episode"}


@lru_cache(maxsize=65_536)
def normalise(title: str) -> str:
    """The title's words in small letters without marks, numerals as digits, articles in front.

    >>> normalise("Matrix, The"), normalise("WALL·E"), normalise("Rocky II"), normalise("Amélie")
    ('the matrix', 'wall e', 'rocky 2', 'amelie')
    """
    # 8½ is "8 1/2" and Alien³ "Alien 3"; the compatibility form would write 81/2
    text = _RAISED.sub(r" \g<0>", uninvert(title[:MAX_TITLE].strip().replace("™", "")))
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c)).casefold()
    text = _APOSTROPHES.sub("", text.replace("&", " and ").replace("+", " and "))
    words = _NOT_WORDS.sub(" ", text).split()
    for k, word in enumerate(words):
        if word in _NUMERALS:
            words[k] = _NUMERALS[word]
        elif word in _NUMERALS_IN_SERIES and k and words[k - 1] in _SERIES_WORDS:
            words[k] = _NUMERALS_IN_SERIES[word]
    return " ".join(words)


def compact(normal: str) -> str:
    """A normalised title without its leading article and its spaces."""
    return _LEADING_ARTICLE.sub("", normal).replace(" ", "")


def uninvert(title: str) -> str:
    """`Matrix, The` as `The Matrix`."""
    found = _INVERTED.match(title)
    if not found:
        return title
    name, article = found.groups()
    return f"{article}{'' if article.endswith(chr(39)) else ' '}{name}"


def work_ids(
    title: str,
    year: int | None,
    *,
    kind: str = FILM,
    imdb_id: str | None = None,
    tmdb_id: str | None = None,
    alternatives: Iterable[str] = (),
) -> frozenset[str]:
    """The names of a work: its numbers at IMDb and TMDB, and each title with its year and kind.

    Lists disagree about the year by one, so the next year is in a name too. Two works that share
    only such a name are taken for one, which withholds a film and never counts one twice.

    >>> heat = work_ids("Heat", 1995)
    >>> bool(heat & work_ids("HEAT", 1996, imdb_id="tt0113277")), heat & work_ids("Heat", 1986)
    (True, frozenset())
    """
    names = {f"imdb {imdb_id}"} if imdb_id else set()
    if tmdb_id:
        names.add(f"tmdb {kind} {tmdb_id}")
    titles = {compact(normalise(name)) for name in (title, *alternatives)} - {""}
    years = (year, year + 1) if year else (0,)
    return frozenset(names | {f"{kind} {name} {y}" for name in titles for y in years})


def works_of(catalogue: Catalogue, item_id: str) -> frozenset[str]:
    """The names of an item of a catalogue; its id alone where the catalogue has no title of it."""
    at = int(catalogue.positions([item_id])[0])
    return _names(catalogue, at) if at >= 0 else frozenset({unknown(item_id)})


def _names(catalogue: Catalogue, at: int) -> frozenset[str]:
    item_id = str(catalogue.item_ids[at])
    if not str(catalogue.titles[at]).strip():
        return frozenset({unknown(item_id)})
    found = work_ids(
        str(catalogue.titles[at]),
        int(catalogue.years[at]) or None,
        kind=SERIES if column(catalogue, "kind", at) == SERIES else FILM,
        imdb_id=column(catalogue, "imdb_id", at),
        tmdb_id=column(catalogue, "tmdb_id", at),
        alternatives=(column(catalogue, "alternatives", at) or "").split("|"),
    )
    return found or frozenset({unknown(item_id)})


def unknown(item_id: str) -> str:
    """The name of an item if nothing is known of it but its id in some list."""
    return f"item {item_id}"


# ---- the works of a catalogue -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Works:
    """The works of a catalogue, in the order of their first items: a public list.

    Items that share a name are one work, and so are all that are joined by a chain of such items.
    """

    catalogue: Catalogue
    of_item: Integers
    """For each item of the catalogue, the place of its work."""
    version: str
    """The version of the rule, and a hash of all that this list and its categories depend on."""

    def __len__(self) -> int:
        return int(self.of_item.max()) + 1

    def having(self, items: Bools) -> Bools:
        """The works with at least one of these items of the catalogue."""
        found = np.zeros(len(self), np.bool_)
        found[self.of_item[items]] = True
        return found


_WORKS: WeakKeyDictionary[Catalogue, Works] = WeakKeyDictionary()


def catalogue_works(catalogue: Catalogue) -> Works:
    """The works of a catalogue, computed from it alone, once.

    >>> films = Catalogue.from_columns([1, 2, 3], ["Heat", "Heat, The", "HEAT"], ["", "", ""],
    ...     year=[1995, 2013, 1996])
    >>> catalogue_works(films).of_item.tolist()
    [0, 1, 0]
    """
    if catalogue not in _WORKS:
        first: dict[str, int] = {}
        joined = list(range(len(catalogue)))

        def root(item: int) -> int:
            while joined[item] != item:
                joined[item] = item = joined[joined[item]]
            return item

        for item in range(len(catalogue)):
            for name in _names(catalogue, item):
                one, other = root(item), root(first.setdefault(name, item))
                joined[max(one, other)] = min(one, other)
        _, of_item = np.unique([root(item) for item in range(len(catalogue))], return_inverse=True)
        said = hashlib.sha256(catalogue.version.encode() + of_item.astype("<i8").tobytes())
        version = f"{RULE}-{said.hexdigest()[:16]}"
        _WORKS[catalogue] = Works(catalogue, of_item.astype(np.int64), version)
    return _WORKS[catalogue]


# ---- what a catalogue says of an item ---------------------------------------------------------

_TEXTS: WeakKeyDictionary[Catalogue, dict[str, list[str | None]]] = WeakKeyDictionary()


def texts(catalogue: Catalogue, name: str) -> list[str | None]:
    """A column that a catalogue has beside title, year and categories, as text, IMDb's numbers in
    IMDb's form; None throughout where it has none. Kept, as pages ask for it film by film."""
    known = _TEXTS.setdefault(catalogue, {})
    if name not in known:
        values: list[Any] = [None] * len(catalogue)
        if catalogue.extra is not None and name in catalogue.extra.column_names:
            values = catalogue.extra[name].to_pylist()
        as_text = imdb_number if name == "imdb_id" else as_number
        known[name] = [as_text(value) for value in values]
    return known[name]


def column(catalogue: Catalogue, name: str, at: int) -> str | None:
    """What a catalogue says of an item beside title, year and categories."""
    return texts(catalogue, name)[at]


def imdb_number(value: Any) -> str | None:
    """IMDb's number in IMDb's form: MovieLens writes 114709 for tt0114709."""
    text = as_number(value)
    if text is None:
        return None
    return f"tt{text:>07}" if text.isdigit() else text


def as_number(value: Any) -> str | None:
    """A site's number for a film as text, None where there is none."""
    if value is None or value != value or value == "":
        return None
    return str(int(value)) if isinstance(value, float) else str(value)
