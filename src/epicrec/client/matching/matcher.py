"""Matcher: which film of the catalogue a visited page or an imported line is about.

In tiers, most certain first: a number in the address or the file; the whole title on a site of
films, with a year at most one off; then only suggestions for the person to review. A title that
merely occurs in a text never counts: "it", "up" and "her" are films.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from rapidfuzz import fuzz, process

from epicrec.client.matching.film_sites import Clue, read_page
from epicrec.client.matching.search import Search
from epicrec.client.matching.titles import (
    ALTERNATIVES,
    SHARED_TITLES,
    Kind,
    ParsedTitle,
    heads,
    numbers,
    read_title,
)
from epicrec.client.viewing import Evidence, Viewing, Visit
from epicrec.data.catalogue import Catalogue
from epicrec.data.works import MAX_TITLE, SERIES, compact, normalise, texts
from epicrec.progress import report

ItemId = str | int


class Status(StrEnum):
    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    """Several films of that title: ask."""
    SUGGESTED = "suggested"
    """Perhaps one of the candidates: ask."""
    NOT_A_FILM = "not a film"
    NOT_IN_CATALOGUE = "not in the catalogue"


@dataclass(frozen=True, slots=True)
class Match:
    """What a page or line is about, and why we think so."""

    status: Status
    why: str
    evidence: Evidence
    item_id: ItemId | None = None
    candidates: tuple[ItemId, ...] = ()
    """Likeliest first."""
    confidence: float = 0.0
    title: str = ""
    """The title as read, for the review table."""
    year: int | None = None
    key: str = ""
    """Under which the person's answer is remembered: `remembered[key]` is a film or None for none.
    Empty where there is nothing to ask about."""


_FUZZY = 92
_SHARED = frozenset(normalise(title) for title in SHARED_TITLES)
_SEASON = re.compile(
    r": (?:(?:season|series|limited series|mini-?series|part|chapter|volume|collection|episode|"
    r"staffel|saison|temporada|stagione|teil|folge|épisode|episodio|book|"
    r"miniserie)\b.*|[^:]*\b(?:season|series|staffel|saison|temporada|stagione) \d+\b.*)",
    re.IGNORECASE,
)
_SEGMENTS = re.compile(r"\s+[-–—|•·»]\s+|\s*[|•»]\s*")
_NOISE = re.compile(
    r"\b(official|trailer|teaser|full movie|movie|film|review|reviews|watch|stream|online|free|hd|"
    r"4k|explained|ending|ost|clip|scene)\b",
    re.IGNORECASE,
)


class Matcher:
    """The catalogue, indexed by numbers and by titles.

    >>> films = Catalogue.from_columns([1, 2], ["Heat", "Dune"], ["Crime", ""], year=[1995, 2021])
    >>> found = Matcher(films).match(Viewing("Heat", "Letterboxd", year=1995))
    >>> found.status.value, found.item_id
    ('matched', 1)
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._ids: list[ItemId] = catalogue.item_ids.tolist()
        self._years: list[int] = []
        self._by_title: dict[str, list[int]] = defaultdict(list)
        self._by_compact: dict[str, list[int]] = defaultdict(list)
        self._by_head: dict[str, list[int]] = defaultdict(list)
        self._imdb, self._tmdb = texts(catalogue, "imdb_id"), texts(catalogue, "tmdb_id")
        self._is_series = [kind == SERIES for kind in texts(catalogue, "kind")]
        self._by_imdb = {number: i for i, number in enumerate(self._imdb) if number}
        self._by_tmdb = {number: i for i, number in enumerate(self._tmdb) if number}
        further = texts(catalogue, "alternatives")
        for i, (text, listed) in enumerate(
            zip(catalogue.titles, catalogue.years.tolist(), strict=True)
        ):
            said = read_title(str(text))
            year = listed or said.year or 0
            self._years.append(year)
            known = ALTERNATIVES.get((said.title, year), ())
            written = (further[i] or "").split("|")
            # the whole text too: some titles do end in brackets
            for name in {*said.names, str(text), *known, *written} - {""}:
                normal = normalise(name)
                if normal and i not in self._by_title[normal]:
                    self._by_title[normal].append(i)
                    self._by_compact[compact(normal)].append(i)
            for head in heads(said.title):
                self._by_head[normalise(head)].append(i)
        self._titles = list(self._by_title)
        self._by_shape: dict[tuple[frozenset[str], int], list[str]] = defaultdict(list)
        for title in self._titles:
            self._by_shape[numbers(title), len(title)].append(title)
        self._decided: dict[Clue, Match] = {}

    def match(
        self,
        thing: Visit | Viewing,
        remembered: Mapping[str, ItemId | None] | None = None,
        *,
        scan: bool = False,
    ) -> Match:
        """The film that a visit or viewing is about.

        `remembered` holds the person's earlier answers by `Match.key` and overrules everything.
        `scan` also offers suggestions from sites that are not known for films.
        """
        if isinstance(thing, Viewing):
            return self._with_answer(self._match_viewing(thing), remembered)
        return self._with_answer(self._match_page(thing, read_page(thing), scan), remembered)

    def match_all(
        self,
        things: Iterable[Visit | Viewing],
        remembered: Mapping[str, ItemId | None] | None = None,
        *,
        scan: bool = False,
    ) -> Iterator[Match]:
        """`match` of each, in order, with progress. A player's page that names no film takes the
        name from another page with the same number."""
        things = list(things)
        clues = [read_page(thing) if isinstance(thing, Visit) else None for thing in things]
        named = {clue.work: clue for clue in clues if clue and clue.work and clue.readings}
        for done, (thing, clue) in enumerate(zip(things, clues, strict=True)):
            if done % 5_000 == 0:
                report("recognising films", done, len(things))
            if isinstance(thing, Viewing):
                found = self._match_viewing(thing)
            else:
                if clue and not clue.readings and clue.work in named:
                    clue = replace(named[clue.work], evidence=clue.evidence)
                found = self._match_page(thing, clue, scan)
            yield self._with_answer(found, remembered)
        report("recognising films", len(things), len(things))

    def search(self, text: str, n: int = 20) -> list[ItemId]:
        """Titles by name, person, theme or year. See `Search.find`."""
        return [self._ids[k] for k in self._search.find(text)[:n]]

    @cached_property
    def _search(self) -> Search:
        return Search(self.catalogue, self._by_title)

    def _match_page(self, visit: Visit, clue: Clue | None, scan: bool) -> Match:
        if clue is None:
            return self._scan(visit) if scan else _NOTHING
        if not clue.film:
            return replace(_NOTHING, why=f"not a film's page on {clue.site}")
        if not (clue.readings or clue.imdb_id or clue.tmdb_id):
            return replace(
                _NOTHING, why=f"the page on {clue.site} names no film", evidence=clue.evidence
            )
        return self._cached(clue)

    def _match_viewing(self, viewing: Viewing) -> Match:
        said = read_title(viewing.title)
        if said.kind is Kind.NOT_A_FILM and viewing.year is None and not viewing.series:
            return _another(viewing, "named as something else")
        year = viewing.year or said.year
        reading = ParsedTitle(said.title, year, said.kind, (*said.alternatives, viewing.title))
        # a list of films and episodes names a series in front of an episode only
        sorted_out = viewing.series or viewing.maybe_episode or viewing.film
        clue = Clue(
            viewing.source, film=True, readings=(reading,), evidence=viewing.evidence,
            imdb_id=viewing.imdb_id, tmdb_id=viewing.tmdb_id,
            series=bool(viewing.series) if sorted_out else None,
        )  # fmt: skip
        found = self._cached(clue)
        missed = found.status in (Status.NOT_IN_CATALOGUE, Status.SUGGESTED)
        if not missed or viewing.series or not viewing.maybe_episode:
            return found
        # the whole title was tried first: "Dune: Part Two" is a film
        in_season = _SEASON.search(viewing.title[:MAX_TITLE]) or viewing.title.count(":") >= 2
        of = self._series_of(viewing, bool(in_season))
        return of or (_another(viewing, "an episode of a series") if in_season else found)

    def _series_of(self, viewing: Viewing, in_season: bool) -> Match | None:
        """The series that an episode's title begins with: the longest that there is. Without a
        season's name it may be a film's subtitle, so no film may have that title."""
        parts = viewing.title[:MAX_TITLE].split(":")
        for end in range(len(parts) - 1, 0, -1):
            head = ParsedTitle(":".join(parts[:end]).strip())
            clue = Clue(viewing.source, film=True, readings=(head,), series=True)
            exact = self._exact(clue, head)
            if exact and not in_season and self._exact(replace(clue, series=False), head):
                return None
            if exact:
                blank = replace(
                    _NOTHING, evidence=viewing.evidence, title=head.title,
                    key=f"series {normalise(head.title)}",
                )  # fmt: skip
                if len(exact) == 1:
                    return self._found(blank, exact, 0.95, "an episode of it")
                return self._ask(blank, Status.AMBIGUOUS, exact, "several series of this title")
        return None

    def _cached(self, clue: Clue) -> Match:
        if clue not in self._decided:
            self._decided[clue] = self._decide(clue)
        return self._decided[clue]

    def _decide(self, clue: Clue) -> Match:
        """Number, whole title, then what only resembles it."""
        by_number = self._by_imdb.get(clue.imdb_id or "", self._by_tmdb.get(clue.tmdb_id or ""))
        first = clue.readings[0] if clue.readings else ParsedTitle("")
        what = "series" if clue.series else "film"
        key = f"{normalise(first.title)}|{first.year or ''}"
        blank = Match(
            Status.NOT_IN_CATALOGUE, f"no {what} of this title in the catalogue ({clue.site})",
            clue.evidence, title=first.title, year=first.year,
            key=clue.imdb_id or (f"series {key}" if clue.series else key),
        )  # fmt: skip
        if by_number is not None:
            return self._found(blank, [by_number], 1.0, f"its number on {clue.site}")
        for reading in clue.readings:
            exact = self._exact(clue, reading)
            if exact:
                shared = not (reading.year or clue.series) and normalise(reading.title) in _SHARED
                if len(exact) == 1 and clue.sure and not shared:
                    confidence = 0.99 if reading.year == self._years[exact[0]] else 0.9
                    return self._found(blank, exact, confidence, f"its title on {clue.site}")
                if len(exact) > 1 and clue.sure:
                    return self._ask(blank, Status.AMBIGUOUS, exact, "several works of this title")
                why = f"the title on {clue.site} may mean something else"
                return self._ask(blank, Status.SUGGESTED, exact, why)
        for reading in clue.readings:
            if not clue.sure and reading.year is None:
                continue  # too little to go on
            near = self._near(clue, reading)
            if near:
                return self._ask(blank, Status.SUGGESTED, near, "the title is nearly the same")
        return blank

    def _exact(self, clue: Clue, reading: ParsedTitle) -> list[int]:
        """Films of exactly this title and of this year, the same year before one next to it."""
        items: dict[int, None] = {}
        for name in reading.names:
            items.update(dict.fromkeys(self._by_title.get(normalise(name), ())))
        if not items and reading.year:
            written = self._by_compact.get(compact(normalise(reading.title)), ())
            items = dict.fromkeys(
                i for i in written if self._years[i] == reading.year
            )  # "WallE (2008)": the year makes up for the spelling
        return self._fitting(items, clue, reading)

    def _near(self, clue: Clue, reading: ParsedTitle) -> list[int]:
        normal = normalise(reading.title)
        items = dict.fromkeys(self._by_compact.get(compact(normal), ()))
        if reading.year:
            for head in (normal, *(normalise(h) for h in heads(reading.title))):
                same = (*self._by_head.get(head, ()), *self._by_title.get(head, ()))
                items.update(dict.fromkeys(i for i in same if self._years[i] == reading.year))
        for title in self._resembling(normal):
            items.update(dict.fromkeys(self._by_title[title]))
        return self._fitting(items, clue, reading)

    def _resembling(self, normal: str) -> list[str]:
        """Titles with the same numbers that differ in a letter or two."""
        same = numbers(normal)
        # lengths further apart cannot reach the ratio, which is 2 · common / (length + length)
        slack = 2 * len(normal) * (100 - _FUZZY) // _FUZZY
        shapes = range(len(normal) - slack, len(normal) + slack + 1)
        close = [title for size in shapes for title in self._by_shape.get((same, size), ())]
        ranked = process.extract(normal, close, scorer=fuzz.ratio, score_cutoff=_FUZZY, limit=5)
        return [title for title, _, _ in ranked]

    def _fitting(self, items: Iterable[int], clue: Clue, reading: ParsedTitle) -> list[int]:
        """Those whose year and numbers do not contradict."""
        fitting = [
            i
            for i in items
            if clue.series in (None, self._is_series[i])
            and (not clue.imdb_id or self._imdb[i] in (None, clue.imdb_id))
            and (not clue.tmdb_id or self._tmdb[i] in (None, clue.tmdb_id))
            and (not reading.year or not self._years[i] or abs(self._years[i] - reading.year) <= 1)
        ]
        if reading.year:
            same_year = [i for i in fitting if self._years[i] == reading.year]
            return same_year or fitting
        popularity = self.catalogue.popularity
        if popularity is not None:
            fitting.sort(key=lambda i: -popularity[i])
        return fitting

    def _scan(self, visit: Visit) -> Match:
        """A whole part of another site's title that is a film's, with a year or a word of film."""
        text = visit.title[:MAX_TITLE]
        filmlike = bool(_NOISE.search(text))
        for part in _SEGMENTS.split(text)[:6]:
            said = read_title(_NOISE.sub(" ", part).strip(" :,\"'“”"))
            if said.kind is Kind.NOT_A_FILM or not said.title:
                continue
            words = normalise(said.title).count(" ") + 1
            if said.year or words >= 3 or (filmlike and words >= 2):
                found = self._cached(Clue("another site", film=True, sure=False, readings=(said,)))
                if found.candidates:
                    return found
        return _NOTHING

    def _found(self, blank: Match, items: list[int], confidence: float, why: str) -> Match:
        return replace(
            blank, status=Status.MATCHED, why=why, item_id=self._ids[items[0]],
            candidates=(self._ids[items[0]],), confidence=confidence,
        )  # fmt: skip

    def _ask(self, blank: Match, status: Status, items: list[int], why: str) -> Match:
        return replace(
            blank, status=status, why=why, candidates=tuple(self._ids[i] for i in items),
            confidence=0.5,
        )  # fmt: skip

    def _with_answer(self, found: Match, remembered: Mapping[str, ItemId | None] | None) -> Match:
        if not remembered or not found.key or found.key not in remembered:
            return found
        answer = remembered[found.key]
        if answer is None:
            return replace(
                found, status=Status.NOT_A_FILM, why="you said it is none", item_id=None,
                candidates=(), confidence=1.0,
            )  # fmt: skip
        return replace(
            found, status=Status.MATCHED, why="you said so", item_id=answer, candidates=(answer,),
            confidence=1.0,
        )  # fmt: skip


_NOTHING = Match(Status.NOT_A_FILM, "not a page about a film", Evidence.LOOKED_UP)


def _another(viewing: Viewing, what: str) -> Match:
    return replace(_NOTHING, why=what, evidence=viewing.evidence, title=viewing.title)
