"""Histories: stored feedback and releases, as training reads all; and what one user gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, select, tuple_

from epicrec.arrays import Floats, Integers
from epicrec.server.feedback_rules import FeedbackRules
from epicrec.server.store.schema import feedback, releases
from epicrec.server.store.sql import rows_of

MOST_OF_CATEGORY = 500
"""No release counts for more items of a category, whatever it claims."""
_CHUNK = 200_000
_ANSWERS_AT_ONCE = 500


# ---- everybody's ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mechanism:
    """What releases that one correction serves have in common: method, public settings, type."""

    method: str
    settings: str
    """Canonical JSON."""
    kind: str
    proved: bool
    """Whether they state a proved guarantee, from noise that nobody can reproduce."""


@dataclass
class MechanismTotals:
    """How many releases came through a mechanism, and the sums of their aggregates."""

    releases: int = 0
    aggregates: dict[str, int] = field(default_factory=dict)


def mechanisms(
    connection: Connection,
) -> tuple[dict[int, Mechanism], dict[Mechanism, MechanismTotals]]:
    """The mechanism of every release by its key, and the totals of each mechanism."""
    query = select(
        releases.c.release_key, releases.c.method, releases.c.settings, releases.c.feedback_type,
        releases.c.guarantee, releases.c.aggregates,
    )  # fmt: skip
    of_release: dict[int, Mechanism] = {}
    totals: dict[Mechanism, MechanismTotals] = {}
    found = connection.execution_options(yield_per=_CHUNK).execute(query)
    for key, method, settings, kind, guarantee, aggregates in found:
        stated = json.loads(guarantee)
        proved = stated.get("status") == "proved" and not stated.get("reproducible")
        mechanism = Mechanism(method, settings, kind, proved)
        of_release[key] = mechanism
        total = totals.setdefault(mechanism, MechanismTotals())
        total.releases += 1
        for name, value in json.loads(aggregates).items():
            if isinstance(value, int):
                bounded = max(-MOST_OF_CATEGORY, min(value, MOST_OF_CATEGORY))
                total.aggregates[name] = total.aggregates.get(name, 0) + bounded
    return of_release, totals


def answers(
    connection: Connection, mechanisms: Sequence[Mechanism]
) -> Iterator[tuple[Integers, Integers, list[bytes]]]:
    """The answers of releases through these mechanisms, in order of user and in chunks that divide
    no user's: user keys, places of the mechanisms, packed bits."""
    place = {(one.method, one.settings, one.kind): at for at, one in enumerate(mechanisms)}
    stated = (releases.c.method, releases.c.settings, releases.c.feedback_type)
    query = select(releases.c.user_key, *stated, releases.c.answers).where(
        releases.c.answers.is_not(None), tuple_(*stated).in_([*place])
    )
    query = query.order_by(releases.c.user_key, releases.c.release_key)
    rows: list[tuple[int, int, bytes]] = []
    for user, *how, bits in connection.execution_options(yield_per=_ANSWERS_AT_ONCE).execute(query):
        if len(rows) >= _ANSWERS_AT_ONCE and user != rows[-1][0]:
            yield _columns(rows)
            rows = []
        rows.append((user, place[tuple(how)], bytes(bits)))
    if rows:
        yield _columns(rows)


def _columns(rows: list[tuple[int, int, bytes]]) -> tuple[Integers, Integers, list[bytes]]:
    users, places, bits = zip(*rows, strict=True)
    return np.array(users, np.int64), np.array(places, np.int64), [*bits]


@dataclass(frozen=True)
class FeedbackChunk:
    """Columns of feedback in order of user and item; `kinds` are positions in `names`."""

    users: Integers
    items: Integers
    values: Floats
    kinds: Integers
    releases: Integers
    names: list[str]


def stream(connection: Connection) -> Iterator[FeedbackChunk]:
    """All feedback, in chunks."""
    key = [*feedback.primary_key]
    query = select(*key, feedback.c.value).order_by(*key)
    names: dict[str, int] = {}
    found = connection.execution_options(yield_per=_CHUNK).execute(query)
    for part in found.partitions():
        user, item, kind, release, value = zip(*part, strict=True)
        codes = np.array([names.setdefault(name, len(names)) for name in kind])
        yield FeedbackChunk(
            np.array(user), np.array(item), np.array(value, np.float64), codes, np.array(release),
            [*names],
        )  # fmt: skip


def given_ratings(connection: Connection, kind: str) -> tuple[Integers, Integers, Floats]:
    """The ratings that users gave in clear: user keys, item keys, values."""
    query = select(feedback.c.user_key, feedback.c.item_key, feedback.c.value).where(
        feedback.c.feedback_type == kind, feedback.c.release_key == 0
    )
    rows = connection.execute(query.order_by(feedback.c.user_key, feedback.c.item_key)).all()
    user, item, value = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(user, np.int64), np.array(item, np.int64), np.array(value, np.float64)


# ---- one user's -------------------------------------------------------------------------------

_OF_USER = """
SELECT item_key, feedback_type, value FROM feedback WHERE release_key = 0 AND user_key ="""


@dataclass
class UserHistory:
    """What the server has of one user, by keys of items."""

    known: set[int] = field(default_factory=set)
    """All they gave in clear; none of it is recommended."""
    liked: set[int] = field(default_factory=set)
    ratings: dict[int, float] = field(default_factory=dict)


def in_clear(
    rows: Iterable[tuple[int, str, float]], rules: FeedbackRules, rating_type: str
) -> UserHistory:
    """The history that rows of item, type and value make, all given in clear."""
    own, disliked = UserHistory(), set()
    for item, kind, value in rows:
        sign = rules.sign(kind, value)
        own.known.add(item)
        if sign > 0:
            own.liked.add(item)
        elif sign < 0:
            disliked.add(item)
        if kind == rating_type:
            own.ratings[item] = value
    own.liked -= disliked
    return own


def of_user(
    connection: Connection, user_key: int, rules: FeedbackRules, rating_type: str
) -> UserHistory:
    """What a user gave in clear."""
    place = "?" if connection.dialect.name == "sqlite" else "%b"
    rows = rows_of(connection, f"{_OF_USER} {place}", (user_key,))
    return in_clear([(item, kind, value) for item, kind, value in rows], rules, rating_type)
