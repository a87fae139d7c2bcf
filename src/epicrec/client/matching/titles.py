"""Titles: the many ways in which one title is written, parsed and normalised."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

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
_LAST_BRACKET = re.compile(r"^(.*\S)\s*[(\[]([^()\[\]]*)[)\]]$")
_NUMERALS = {
    "ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9", "xi": "11",
    "xii": "12", "xiii": "13", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5",
    "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11",
    "twelve": "12",
}  # fmt: skip
# "Withnail & I", "V for Vendetta" and "American History X" hold letters, not numerals
_NUMERALS_IN_SERIES = {"i": "1", "v": "5", "x": "10"}
_SERIES_WORDS = {"part", "vol", "volume", "chapter", "episode"}
_YEAR = r"(1[89]\d\d|20\d\d)"


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


def numbers(normal: str) -> frozenset[str]:
    """The numbers in a normalised title: sequels differ in nothing else."""
    return frozenset(word for word in normal.split() if word.isdigit())


def uninvert(title: str) -> str:
    """`Matrix, The` as `The Matrix`."""
    found = _INVERTED.match(title)
    if not found:
        return title
    name, article = found.groups()
    return f"{article}{'' if article.endswith(chr(39)) else ' '}{name}"


class Kind(Enum):
    """What the brackets after a title say it is."""

    FILM = "film"
    NOT_A_FILM = "not a film"
    UNSAID = "unsaid"


@dataclass(frozen=True, slots=True)
class ParsedTitle:
    """A title as somebody wrote it, in its parts."""

    title: str
    year: int | None = None
    kind: Kind = Kind.UNSAID
    alternatives: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.title, *self.alternatives)


_OTHER_WORKS = re.compile(
    r"\b(tv series|tv mini|tv episode|tv special|tv programme|television|miniseries|series|serie|"
    r"fernsehserie|video game|videogame|game|podcast|music video|novel|novella|book|roman|musical|"
    r"play|opera|soundtrack|album|song|band|single|franchise|character|comics?|disambiguation|"
    r"manga|short story|ship|company|magazine|poem|begriffsklärung|season \d+)\b",
    re.IGNORECASE,
)
_FILM_WORD = re.compile(r"\b(film|movie|película|film tv|short|video)\b", re.IGNORECASE)
_YEARS = re.compile(rf"\b{_YEAR}\b")
_SPAN = re.compile(rf"\b{_YEAR}\s*[–—-]\s*({_YEAR})?\s*$")


def read_title(text: str) -> ParsedTitle:
    """Take apart a title with its brackets: a year, a kind, other titles.

    >>> read_title("City of Lost Children, The (Cité des enfants perdus, La) (1995)").names
    ('The City of Lost Children', 'La Cité des enfants perdus')
    >>> read_title("Drive (2011 film)").year, read_title("Fargo (TV Series 2014–2024)").kind.value
    (2011, 'not a film')
    """
    rest, year, kind, others = text[:MAX_TITLE].strip(), None, Kind.UNSAID, []
    while found := _LAST_BRACKET.match(rest):
        inside = found.group(2).strip()
        said_year = _YEARS.search(inside)
        if inside and not inside.strip("IVX"):
            pass  # IMDb's mark for films of the same name and year
        elif _SPAN.search(inside) or _OTHER_WORKS.search(inside):
            kind = Kind.NOT_A_FILM
        elif _FILM_WORD.search(inside):
            kind = Kind.FILM if kind is Kind.UNSAID else kind
            year = year or (int(said_year.group(1)) if said_year else None)
        elif said_year and said_year.group() == inside:
            year = year or int(inside)
        elif inside:
            others.append(uninvert(re.sub(r"^a\.?k\.?a\.? ", "", inside, flags=re.IGNORECASE)))
        rest = found.group(1).strip()
    return ParsedTitle(uninvert(rest), year, kind, tuple(reversed(others)))


def heads(title: str) -> Iterator[str]:
    """The title before its subtitle, where it has one."""
    for mark in (":", " - ", " – ", " or "):
        head, found, _ = title.partition(mark)
        if found and head.strip():
            yield head.strip()


def read_slug(slug: str) -> tuple[ParsedTitle, ...]:
    """What the words of an address may mean: `dune-2021` is Dune of 2021, `blade-runner-2049` not.

    >>> [(r.title, r.year) for r in read_slug("dune-2021")]
    [('dune', 2021), ('dune 2021', None)]
    """
    words = [word for word in re.split(r"[-_+]+|%20", slug) if word]
    whole = ParsedTitle(" ".join(words))
    if len(words) > 1 and re.fullmatch(_YEAR, words[-1]):
        return ParsedTitle(" ".join(words[:-1]), int(words[-1])), whole
    return (whole,) if words else ()
