"""Viewing: what a source says of a person's history, before any film is recognised in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Evidence(StrEnum):
    """How we know of a film in the history, strongest first; the person chooses what counts."""

    WATCHED = "watched"
    RATED = "rated"
    STREAMED = "streamed"
    LOOKED_UP = "looked up"


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit to a page, as a browser recorded it; (url, when) names it."""

    url: str
    title: str
    when: datetime
    """In UTC."""
    source: str
    """The profile it came from, such as `Firefox: default-release`."""
    description: str = ""
    """What the page says of itself; only Firefox keeps it."""


@dataclass(frozen=True, slots=True)
class Viewing:
    """One line, or several lines on the same title, of a file that a person brought."""

    title: str
    source: str
    evidence: Evidence = Evidence.WATCHED
    year: int | None = None
    imdb_id: str | None = None
    """As in `tt0133093`."""
    tmdb_id: str | None = None
    watched_at: datetime | None = None
    """In UTC; midnight where the source knows the day only."""
    rating: float | None = None
    """In stars, 0.5 to 5."""
    maybe_episode: bool = False
    """The source lists episodes of series and films alike."""
    series: str = ""
    """The series that it is, or is an episode of, where the source says so."""
    film: bool = False
    """The source says that it is a film, and no series of that title."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a file leaves open; ask, then read it again with `answers[name]` set to a choice."""

    name: str
    text: str
    choices: Mapping[str, str]
    """From the answer to give back to the words to show."""


@dataclass(frozen=True, slots=True)
class Import:
    """What a file turned out to be. While there are questions there are no viewings."""

    kind: str
    """Such as `Letterboxd export`."""
    viewings: tuple[Viewing, ...] = ()
    questions: tuple[Question, ...] = ()
    dropped: Mapping[str, int] | None = None
    """How many lines were left out, by reason."""
    unread: tuple[str, ...] = ()
    """Lines, or parts of them, that could not be read, and why."""
