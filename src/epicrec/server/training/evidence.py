"""Evidence: what all releases and feedback in the store say, each corrected by its own mechanism.

Rows given in clear are taken as they are. Releases with the same method and public settings are one
law, and the perturber of that method says what they tell (`Perturber.told`); what cannot be
corrected is not learned from, and the operator is told how much that is and why.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix
from sqlalchemy import Connection

from epicrec.arrays import Integers
from epicrec.data import Catalogue, find
from epicrec.data.usual import drawn_by
from epicrec.errors import InputError
from epicrec.models.d2p.alterego_model import aligned
from epicrec.perturb import perturber_class
from epicrec.perturb.contract import Sent, Told, Totals
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel
from epicrec.progress import report
from epicrec.server.meaning import Meaning
from epicrec.server.store import catalogue, people, received, releases
from epicrec.server.store.received import Law, Part, Under

MOST_LAWS = 32
"""Laws that are learned from, those with most releases first: each costs time and memory."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of everybody's histories, over all items that any release names."""

    user_keys: Integers
    features: Catalogue
    """The public catalogue over the items of `events`."""
    clear: AlterEgos
    """What counts for an item, given or released as it is."""
    drawn: list[tuple[Law, AlterEgos]]
    """Events that went through a law."""
    totals: list[Totals]
    seen: csr_matrix
    """Users × visible items in order of their keys: what they have for certain."""
    rows: int
    left_out: dict[str, int]
    """Releases, or rows of feedback, that nothing is learned from, by the reason."""
    lists: list[Catalogue]
    """The lists of items that they were drawn by; to be kept, as later versions have others."""

    @cached_property
    def events(self) -> AlterEgos:
        """All events, each with the law it went through."""
        parts = [held for _, held in self.drawn]
        clear = [self.clear] if self.clear.counts.nnz or not parts else []
        return AlterEgos.joined([*clear, *parts])


def gather(connection: Connection, meaning: Meaning) -> Evidence:
    """Read everything, in pieces, and have each law corrected."""
    items = catalogue.visible(connection)
    public = catalogue.public(connection)
    if public is None:
        raise InputError("the catalogue is empty, so nothing can be recommended; POST /api/items")
    ids = catalogue.all_ids(connection)
    user_keys = np.array(people.keys(connection), np.int64)
    of_release, under = received.laws(connection)
    chosen = sorted(under, key=lambda law: -under[law].releases)[:MOST_LAWS]
    number = {law: at for at, law in enumerate(chosen)}
    law_of = {key: number.get(law, -2) for key, law in of_release.items()}
    table = _read(connection, meaning, law_of, len(chosen))
    left_out = Counter(table.ignored)
    for law in under.keys() - set(chosen):
        left_out[f"more than {MOST_LAWS} laws"] += under[law].releases
    clear, drawn, totals = [_clear(table, public, ids)], [], []
    lists = _Lists(connection, public)
    for at, law in enumerate(chosen):
        try:
            told = _told(law, under[law], table.under[at], lists, ids, meaning)
        except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
            left_out[f"{law.method}: {_why(error)}"] += under[law].releases
            continue
        totals += [told.totals] if told.totals else []
        if told.events is None:
            if not told.totals and table.under[at]:
                left_out[f"{law.method}: no correction is known"] += under[law].releases
        elif told.events.channels[0].p_star == 1:
            clear.append(told.events)
        else:
            drawn.append((law, told.events))
    known = _summed(clear)
    seen = _seen(user_keys, items, ids, table, clear[1:])
    names = np.unique(np.concatenate([known.item_ids, *(held.item_ids for _, held in drawn)]))
    return Evidence(
        user_keys, aligned(public, names), known, drawn, _merged(totals), seen, table.rows,
        dict(left_out), [*lists.found.values()],
    )  # fmt: skip


# ---- reading ----------------------------------------------------------------------------------


@dataclass
class _Table:
    """Rows by what they are: given in clear, or under the law of a release."""

    known: list[tuple[Integers, Integers, Any]]
    """Given in clear: user, item, and 1 for it, -1 against it or 0."""
    under: list[list[tuple[Integers, Integers, Any]]]
    ignored: Counter[str]
    rows: int = 0


def _read(connection: Connection, meaning: Meaning, law_of: dict[int, int], n: int) -> _Table:
    table = _Table([], [[] for _ in range(n)], Counter())
    keys = np.array(sorted(law_of), np.int64)
    laws = np.array([law_of[key] for key in keys.tolist()], np.int64)
    total = releases.total(connection)
    for part in received.stream(connection):
        law = np.full(len(part.users), -1)
        if len(keys):
            at = np.minimum(keys.searchsorted(part.releases), len(keys) - 1)
            law = np.where(keys[at] == part.releases, laws[at], -1)
        _in_clear(part, law == -1, meaning, table)
        for number in np.unique(law[law >= 0]).tolist():
            own = law == number
            table.under[number].append((part.users[own], part.items[own], part.values[own]))
        table.rows += len(part.users)
        report("reading releases", table.rows, total)
    return table


def _in_clear(part: Part, own: npt.NDArray[np.bool_], meaning: Meaning, table: _Table) -> None:
    sign = np.zeros(len(part.users), np.int8)
    for at, kind in enumerate(part.names):
        mine = own & (part.kinds == at)
        sign[mine] = meaning.likes(kind, part.values[mine])
        neither = int((sign[mine] == 0).sum())
        if neither:
            table.ignored[f"rows of type {kind} that say neither yes nor no"] += neither
    table.known.append((part.users[own], part.items[own], sign[own]))


def _matrix(
    users: Integers, items: Integers, values: Any, names: Catalogue, ids: dict[int, str]
) -> tuple[Any, Integers]:
    """People × items of a catalogue, and who they are; items it does not know are dropped."""
    user_ids, row = np.unique(users, return_inverse=True)
    keys, which = np.unique(items, return_inverse=True)
    places = find(names.item_ids, np.array([ids.get(key, "") for key in keys.tolist()], np.str_))
    column = places[which] if len(keys) else np.zeros(0, np.int64)
    kept = column >= 0
    shape = (len(user_ids), len(names))
    made = csr_array((np.asarray(values, np.float64)[kept], (row[kept], column[kept])), shape)
    made.sum_duplicates()
    return made, user_ids


def _clear(table: _Table, public: Catalogue, ids: dict[int, str]) -> AlterEgos:
    """What people like, given in clear; of an item with both, what is against it wins."""
    users, items, sign = _joined(table.known)
    # in order of user and item: several types of feedback on one item stand side by side
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
class _Lists:
    """The lists of items that releases were drawn by: the one of now, those of earlier days, and
    those that clients begin with, cut to what is listed here."""

    connection: Connection
    public: Catalogue
    found: dict[str, Catalogue] = field(default_factory=dict)
    """Of clients, not kept yet."""

    def of(self, version: str) -> Catalogue:
        """The list with this version; where nobody knows it, the one of now."""
        if version in ("", self.public.version):
            return self.public
        known = catalogue.kept(self.connection, version) or self.found.get(version)
        if known is None and (usual := drawn_by(version, self.public.item_ids)) is not None:
            known = self.found[version] = usual
        return known or self.public


def _told(
    law: Law, under: Under, rows: list[Any], lists: _Lists, ids: dict[int, str], meaning: Meaning
) -> Told:
    """What the releases under a law say, over the catalogue they name."""
    if not meaning.counts(law.kind):
        raise InputError(f"releases of type {law.kind} count for nothing")
    settings = json.loads(law.settings)
    names = lists.of(str(settings.get("catalogue", "")))
    users, items, values = _joined(rows)
    counts, user_ids = _matrix(users, items, values, names, ids)
    sent = Sent(
        settings=settings, counts=counts, user_ids=user_ids, aggregates=under.aggregates,
        releases=under.releases, liked=meaning.least(law.kind),
    )  # fmt: skip
    return perturber_class(law.method).told(sent, names)


def _why(error: Exception) -> str:
    """Our own errors in full; others may quote what a client wrote."""
    return str(error) if isinstance(error, InputError) else "settings that cannot be read"


def _summed(parts: list[AlterEgos]) -> AlterEgos:
    """All that is known for certain, as through one law."""
    if len(parts) == 1:
        return parts[0]
    joined = AlterEgos.joined(parts)
    law = Channel.identity(joined.n_items)
    return AlterEgos.of(law, joined.by_item(), joined.user_ids, joined.item_ids)


def _seen(
    user_keys: Integers, items: list[tuple[int, str, list[str]]], ids: dict[int, str],
    table: _Table, clear: list[AlterEgos],
) -> csr_matrix:  # fmt: skip
    """Who has what for certain, over the visible items in order of their keys."""
    item_keys = np.array([key for key, _, _ in items], np.int64)
    key_of = {item_id: key for key, item_id in ids.items()}
    parts = [(users, things) for users, things, _ in table.known]
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
    """Totals of people who noised the same categories, added up."""
    found: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for told in totals:
        held = found.setdefault(tuple(sorted(told)), {name: (0.0, 0.0) for name in told})
        for name, (value, variance) in told.items():
            held[name] = (held[name][0] + value, held[name][1] + variance)
    return [*found.values()]
