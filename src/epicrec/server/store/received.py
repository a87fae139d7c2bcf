"""Received: releases and feedback as a training reads them, and as one person's list needs them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

from epicrec.arrays import Integers
from epicrec.server.meaning import Meaning
from epicrec.server.store.database import rows_of
from epicrec.server.store.schema import feedback, releases

_CHUNK = 200_000


@dataclass(frozen=True)
class Law:
    """What releases have in common that one correction serves: method, public settings, type."""

    method: str
    settings: str
    """JSON, the same for the same settings."""
    kind: str
    proved: bool
    """Whether all of them state a proved guarantee, from noise nobody can draw again."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.settings}"


@dataclass
class Under:
    """How many releases came under a law, and the sums of their aggregates."""

    releases: int = 0
    aggregates: dict[str, int] = field(default_factory=dict)


def laws(connection: Connection) -> tuple[dict[int, Law], dict[Law, Under]]:
    """The law of every release that names one, by key; and what came under each."""
    query = select(
        releases.c.release_key, releases.c.method, releases.c.settings, releases.c.feedback_type,
        releases.c.guarantee, releases.c.aggregates,
    ).where(releases.c.method != "")  # fmt: skip
    of_release: dict[int, Law] = {}
    under: dict[Law, Under] = {}
    found = connection.execution_options(yield_per=_CHUNK).execute(query)
    for key, method, settings, kind, guarantee, aggregates in found:
        stated = json.loads(guarantee)
        proved = stated.get("status") == "proved" and not stated.get("reproducible")
        law = Law(method, settings, kind, proved)
        of_release[key] = law
        held = under.setdefault(law, Under())
        held.releases += 1
        for name, value in json.loads(aggregates).items():
            if isinstance(value, int):
                held.aggregates[name] = held.aggregates.get(name, 0) + value
    return of_release, under


@dataclass(frozen=True)
class Part:
    """Columns of feedback, in order of user and item; `kinds` are positions in `names`."""

    users: Integers
    items: Integers
    values: npt.NDArray[np.float64]
    kinds: Integers
    releases: Integers
    names: list[str]


def stream(connection: Connection) -> Iterator[Part]:
    """All feedback, in pieces."""
    key = [*feedback.primary_key]
    query = select(*key, feedback.c.value).order_by(*key)
    names: dict[str, int] = {}
    found = connection.execution_options(yield_per=_CHUNK).execute(query)
    for part in found.partitions():
        user, item, kind, release, value = zip(*part, strict=True)
        codes = np.array([names.setdefault(name, len(names)) for name in kind])
        yield Part(
            np.array(user), np.array(item), np.array(value, np.float64), codes, np.array(release),
            [*names],
        )  # fmt: skip


def given_ratings(
    connection: Connection, kind: str
) -> tuple[Integers, Integers, npt.NDArray[np.float64]]:
    """The ratings that users gave in clear: user keys, item keys, values."""
    query = select(feedback.c.user_key, feedback.c.item_key, feedback.c.value).where(
        feedback.c.feedback_type == kind, feedback.c.release_key == 0
    )
    rows = connection.execute(query.order_by(feedback.c.user_key, feedback.c.item_key)).all()
    user, item, value = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(user, np.int64), np.array(item, np.int64), np.array(value, np.float64)


_OF_USER = """
SELECT item_key, feedback.feedback_type, value, method, settings
FROM feedback LEFT JOIN releases USING (release_key) WHERE feedback.user_key ="""


@dataclass
class Own:
    """What one person has here, by keys of items."""

    known: set[int] = field(default_factory=set)
    """All they gave in clear: nothing of it is recommended."""
    liked: set[int] = field(default_factory=set)
    ratings: dict[int, float] = field(default_factory=dict)
    drawn: dict[str, dict[int, float]] = field(default_factory=dict)
    """What stands in releases, by the name of their law."""


def in_clear(rows: Iterable[tuple[int, str, float]], meaning: Meaning, rating_type: str) -> Own:
    """What rows of item, type and value say that were given in clear."""
    own, against = Own(), set()
    for item, kind, value in rows:
        sign = meaning.sign(kind, value)
        own.known.add(item)
        if sign > 0:
            own.liked.add(item)
        elif sign < 0:
            against.add(item)
        if kind == rating_type:
            own.ratings[item] = value
    own.liked -= against
    return own


def of_user(connection: Connection, user_key: int, meaning: Meaning, rating_type: str) -> Own:
    """What a user gave and released."""
    place = "?" if connection.dialect.name == "sqlite" else "%b"
    rows = rows_of(connection, f"{_OF_USER} {place}", (user_key,))
    clear = [(item, kind, value) for item, kind, value, method, _ in rows if not method]
    own = in_clear(clear, meaning, rating_type)
    for item, kind, value, method, settings in rows:
        if method and meaning.counts(kind):
            counts = own.drawn.setdefault(f"{method} {settings}", {})
            counts[item] = counts.get(item, 0.0) + value
    return own
