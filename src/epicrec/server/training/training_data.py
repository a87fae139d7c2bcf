"""Training data: all stored feedback and releases, corrected for the mechanisms that drew them.

Feedback in clear is taken as it is. Releases with the same method and public settings came through
one mechanism, and the perturber of that method corrects for it (`Perturber.told`). What cannot be
corrected is left out, and the operator is told how much that is and why.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix
from sqlalchemy import Connection

from epicrec.arrays import Bools, Integers
from epicrec.data import Catalogue, find
from epicrec.data.embedded import drawn_by
from epicrec.errors import InputError
from epicrec.models.d2p.alterego_model import aligned
from epicrec.perturb import perturber_class
from epicrec.perturb.contract import Sent, Told, Totals
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel
from epicrec.progress import report
from epicrec.server.feedback_rules import FeedbackRules
from epicrec.server.store import catalogue, feedback, histories, users
from epicrec.server.store.histories import FeedbackChunk, Mechanism, MechanismTotals

MOST_MECHANISMS = 32
"""Mechanisms learned from, those with most releases first: each costs time and memory."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What is known of all histories, over all items that any release names."""

    user_keys: Integers
    features: Catalogue
    """The public catalogue over the items of `events`."""
    clear: AlterEgos
    """Positive feedback that was given or released in clear."""
    drawn: list[tuple[Mechanism, AlterEgos]]
    """Events that went through a mechanism."""
    totals: list[Totals]
    totalled: int
    """How many releases the totals are of."""
    seen: csr_matrix
    """Users × visible items in order of their keys: what they are certain to have seen."""
    rows: int
    left_out: dict[str, int]
    """The number of releases, or rows of feedback, that nothing is learned from, by the reason."""
    lists: list[Catalogue]
    """Clients' lists of items that releases were drawn from; to be stored, as later versions of
    the client have others."""

    @property
    def people(self) -> int:
        """How many people popularity is corrected from."""
        return len(np.unique(self.events.user_ids)) + self.totalled

    @cached_property
    def events(self) -> AlterEgos:
        """All events, each with the mechanism it went through."""
        parts = [held for _, held in self.drawn]
        clear = [self.clear] if self.clear.counts.nnz or not parts else []
        return AlterEgos.joined([*clear, *parts])


def gather(connection: Connection, rules: FeedbackRules) -> TrainingData:
    """Read everything in chunks, and correct for each mechanism."""
    items = catalogue.visible(connection)
    public = catalogue.public(connection)
    if public is None:
        raise InputError("the catalogue is empty, so nothing can be recommended; POST /api/items")
    ids = catalogue.all_ids(connection)
    user_keys = np.array(users.keys(connection), np.int64)
    of_release, received = histories.mechanisms(connection)
    chosen = sorted(received, key=lambda one: -received[one].releases)[:MOST_MECHANISMS]
    number = {mechanism: at for at, mechanism in enumerate(chosen)}
    number_of = {key: number.get(one, _TOO_MANY) for key, one in of_release.items()}
    rows = _read(connection, rules, number_of, len(chosen))
    left_out = Counter(rows.ignored)
    for mechanism in received.keys() - set(chosen):
        left_out[f"more than {MOST_MECHANISMS} mechanisms"] += received[mechanism].releases
    clear, drawn, totals, totalled = [_clear(rows, public, ids)], [], [], 0
    lists = Lists(connection, public)
    for at, mechanism in enumerate(chosen):
        own = rows.released[at]
        try:
            told = _corrected(mechanism, received[mechanism], own, lists, ids, rules)
        except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
            left_out[f"{mechanism.method}: {_why(error)}"] += received[mechanism].releases
            continue
        totals += [told.totals] if told.totals else []
        totalled += received[mechanism].releases if told.totals else 0
        if told.events is None:
            if not told.totals and own:
                reason = f"{mechanism.method}: no correction is known"
                left_out[reason] += received[mechanism].releases
        elif told.events.channels[0].p_star == 1:
            clear.append(told.events)
        else:
            drawn.append((mechanism, told.events))
    known = _summed(clear)
    seen = _seen(user_keys, items, ids, rows, clear[1:])
    names = np.unique(np.concatenate([known.item_ids, *(held.item_ids for _, held in drawn)]))
    return TrainingData(
        user_keys, aligned(public, names), known, drawn, _merged(totals), totalled, seen,
        rows.number, dict(left_out), [*lists.found.values()],
    )  # fmt: skip


# ---- reading ----------------------------------------------------------------------------------

_IN_CLEAR, _TOO_MANY = -1, -2
"""In place of a mechanism's number: there is none, or it is one too many."""


@dataclass
class _Rows:
    """Rows of feedback by how they came: in clear, or in releases by the number of a mechanism."""

    clear: list[tuple[Integers, Integers, Any]]
    """User, item, and 1 for positive feedback, -1 for negative, 0 for neither."""
    released: list[list[tuple[Integers, Integers, Any]]]
    """User, item and value."""
    ignored: Counter[str]
    number: int = 0


def _read(connection: Connection, rules: FeedbackRules, number_of: dict[int, int], n: int) -> _Rows:
    found = _Rows([], [[] for _ in range(n)], Counter())
    keys = np.array(sorted(number_of), np.int64)
    numbers = np.array([number_of[key] for key in keys.tolist()], np.int64)
    total = feedback.total(connection)
    for chunk in histories.stream(connection):
        mechanism = np.full(len(chunk.users), _IN_CLEAR)
        if len(keys):
            at = np.minimum(keys.searchsorted(chunk.releases), len(keys) - 1)
            mechanism = np.where(keys[at] == chunk.releases, numbers[at], _IN_CLEAR)
        _add_clear(chunk, mechanism == _IN_CLEAR, rules, found)
        for number in np.unique(mechanism[mechanism >= 0]).tolist():
            own = mechanism == number
            found.released[number].append((chunk.users[own], chunk.items[own], chunk.values[own]))
        found.number += len(chunk.users)
        report("reading releases", found.number, total)
    return found


def _add_clear(chunk: FeedbackChunk, own: Bools, rules: FeedbackRules, found: _Rows) -> None:
    sign = np.zeros(len(chunk.users), np.int8)
    for at, kind in enumerate(chunk.names):
        mine = own & (chunk.kinds == at)
        sign[mine] = rules.signs(kind, chunk.values[mine])
        neither = int((sign[mine] == 0).sum())
        if neither:
            found.ignored[f"rows of type {kind} that say neither yes nor no"] += neither
    found.clear.append((chunk.users[own], chunk.items[own], sign[own]))


def _matrix(
    users: Integers, items: Integers, values: Any, names: Catalogue, ids: dict[int, str]
) -> tuple[Any, Integers]:
    """Users × items of a catalogue, and the users' keys; items it does not know are dropped."""
    user_ids, row = np.unique(users, return_inverse=True)
    keys, which = np.unique(items, return_inverse=True)
    places = find(names.item_ids, np.array([ids.get(key, "") for key in keys.tolist()], np.str_))
    column = places[which] if len(keys) else np.zeros(0, np.int64)
    kept = column >= 0
    shape = (len(user_ids), len(names))
    made = csr_array((np.asarray(values, np.float64)[kept], (row[kept], column[kept])), shape)
    made.sum_duplicates()
    return made, user_ids


def _clear(found: _Rows, public: Catalogue, ids: dict[int, str]) -> AlterEgos:
    """What users like, given in clear; of an item with both, negative feedback wins."""
    users, items, sign = _joined(found.clear)
    # in order of user and item: several types of feedback on one item are neighbours
    first = np.ones(len(users), np.bool_)
    first[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
    place, n = np.cumsum(first) - 1, int(first.sum())
    liked = (np.bincount(place, sign > 0, n) > 0) & (np.bincount(place, sign < 0, n) == 0)
    users, items = users[first][liked], items[first][liked]
    counts, user_ids = _matrix(users, items, np.ones(len(users)), public, ids)
    return AlterEgos.of(Channel.identity(len(public)), counts, user_ids, public.item_ids)


def _joined(parts: list[Any]) -> tuple[Any, ...]:
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8)
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


@dataclass
class Lists:
    """The lists of items that releases were drawn from: the current one, earlier ones, and those
    that clients start with, cut to what is listed here."""

    connection: Connection
    public: Catalogue
    found: dict[str, Catalogue] = field(default_factory=dict)
    """Lists of clients that are not stored yet."""

    def of(self, version: str) -> Catalogue:
        """The list with this version; the current one where it is unknown."""
        known = catalogue.kept(self.connection, version) or self.found.get(version)
        if known is None and version in ("", self.public.version):
            return self.public
        if known is None and (usual := drawn_by(version, self.public.item_ids)) is not None:
            known = self.found[version] = usual
        return known or self.public


def _corrected(
    mechanism: Mechanism, received: MechanismTotals, rows: list[Any], lists: Lists,
    ids: dict[int, str], rules: FeedbackRules,
) -> Told:  # fmt: skip
    """What the releases of a mechanism say, over the catalogue they name."""
    if not rules.counts(mechanism.kind):
        raise InputError(f"releases of type {mechanism.kind} count for nothing")
    settings = json.loads(mechanism.settings)
    names = lists.of(str(settings.get("catalogue", "")))
    users, items, values = _joined(rows)
    counts, user_ids = _matrix(users, items, values, names, ids)
    sent = Sent(
        settings=settings, counts=counts, user_ids=user_ids, aggregates=received.aggregates,
        releases=received.releases, liked=rules.least(mechanism.kind),
    )  # fmt: skip
    return perturber_class(mechanism.method).told(sent, names)


def _why(error: Exception) -> str:
    """Our own errors in full; others may quote what a client wrote."""
    return str(error) if isinstance(error, InputError) else "settings that cannot be read"


def _summed(parts: list[AlterEgos]) -> AlterEgos:
    """All that is known for certain, as through one mechanism."""
    if len(parts) == 1:
        return parts[0]
    joined = AlterEgos.joined(parts)
    channel = Channel.identity(joined.n_items)
    return AlterEgos.of(channel, joined.by_item(), joined.user_ids, joined.item_ids)


def _seen(
    user_keys: Integers, items: list[tuple[int, str, list[str]]], ids: dict[int, str],
    found: _Rows, clear: list[AlterEgos],
) -> csr_matrix:  # fmt: skip
    """What users are certain to have seen, over the visible items in order of their keys."""
    item_keys = np.array([key for key, _, _ in items], np.int64)
    key_of = {item_id: key for key, item_id in ids.items()}
    parts = [(users, things) for users, things, _ in found.clear]
    for held in clear:
        rows, columns = held.counts.tocoo().coords  # also what nobody likes
        keys = np.array([key_of.get(str(name), -1) for name in held.item_ids.tolist()], np.int64)
        parts.append((held.user_ids[rows], keys[columns]))
    users, things = _joined(parts)[:2]
    row, column = find(user_keys, users), find(item_keys, things)
    kept = (row >= 0) & (column >= 0)
    shape = (len(user_keys), len(item_keys))
    seen = csr_matrix((np.ones(int(kept.sum()), np.float32), (row[kept], column[kept])), shape)
    seen.sum_duplicates()
    seen.data[:] = 1
    return seen


def _merged(totals: list[Totals]) -> list[Totals]:
    """Totals of users who noised the same categories, added up."""
    found: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for told in totals:
        held = found.setdefault(tuple(sorted(told)), {name: (0.0, 0.0) for name in told})
        for name, (value, variance) in told.items():
            held[name] = (held[name][0] + value, held[name][1] + variance)
    return [*found.values()]
