"""Ledger: every release on disk before the data leaves, their total, and a limit to it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import exp
from pathlib import Path
from typing import Any, get_args

from epicrec.errors import BudgetExceededError, EpicrecError, InputError
from epicrec.files import locked, sync_folder
from epicrec.privacy.accounting import NeedsDeltaError, compose, gaussian_epsilon
from epicrec.privacy.guarantee import UNITS, Guarantee, Relation, Status, Unit


class LedgerDamagedError(EpicrecError):
    """The ledger's file was altered or damaged; what has been spent is no longer certain."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded release."""

    at: str  # when, UTC, ISO 8601
    about: str
    group: str | None
    disclosure: bool  # sent in the clear: listed, not counted in ε
    guarantee: Guarantee
    returned: bool = False  # takes back the earlier entry about the same: nothing of it was shown


class Ledger:
    """An append-only record of releases that refuses the one that would exceed its limit.

    Releases about the same data add up. Releases with different `group` labels are about disjoint
    data (each history item enters one batch only) and cost the maximum; a release without a group
    is about all data and adds to every group. A guarantee for a coarser unit also covers the finer
    ones, so the total for `rating` counts releases made at `item` and `user` too (`_restate`).

    The file holds one JSON object per line, each with a checksum over itself and the line before.
    `spend` returns only when the line is on the disk. A line cut short by a crash was never
    acknowledged and is dropped; any other damage is an error. Processes take turns by a file lock.
    With `path=None` the ledger lives in memory. `limit_epsilon` and `limit_delta` bound the total.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        limit_epsilon: float,
        limit_delta: float = 0.0,
    ) -> None:
        if not limit_epsilon > 0:
            raise InputError(f"limit_epsilon must be above 0, not {limit_epsilon}")
        if not 0 <= limit_delta < 1:
            raise InputError(f"limit_delta must be at least 0 and below 1, not {limit_delta}")
        self.path = None if path is None else Path(path)
        self.limit_epsilon = limit_epsilon
        self.limit_delta = limit_delta
        self._memory: list[Entry] = []
        self._lock = threading.Lock()

    def spend(
        self,
        guarantee: Guarantee,
        *,
        about: str,
        group: str | None = None,
        disclosure: bool = False,
    ) -> Entry:
        """Record a release before it is made, or raise BudgetExceededError and record nothing.

        `guarantee` is what it costs, `about` says what it is, `group` which part of the data.
        Data sent in clear has no ε: record it with `Guarantee.none()` and `disclosure=True`.
        """
        if disclosure != (guarantee.status == "none"):
            raise InputError(
                "this release has no privacy guarantee: if it is meant to be sent in clear, "
                "record it with disclosure=True"
                if not disclosure
                else "disclosure=True is for data sent in clear: pass Guarantee.none()"
            )
        if guarantee.reproducible:
            raise InputError(
                "the noise came from a seed, which is not private: draw it again without a seed"
            )
        entry = Entry(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            about=about,
            group=group,
            disclosure=disclosure,
            guarantee=guarantee,
        )
        with self._open() as (entries, append):
            try:
                totals = self._totals([*entries, entry])
            except NeedsDeltaError as error:
                raise BudgetExceededError(f"{error}. Nothing was recorded.") from error
            for total in totals.values():
                if total.epsilon > self.limit_epsilon:
                    raise BudgetExceededError(
                        f"with this release the total would be: {total} The limit is "
                        f"ε = {self.limit_epsilon:g}, δ = {self.limit_delta:g}; nothing was "
                        "recorded. Release less or with more noise, or raise the limit."
                    )
            append(entry)
        return entry

    def take_back(self, *, about: str) -> Entry:
        """Record that what was spent about this has shown nothing, and counts no more.

        Only where it is certain, as when both servers of a round signed that they destroyed their
        keys. What was taken back stays listed.
        """
        with self._open() as (entries, append):
            spent = [entry for entry in entries if entry.about == about]
            if not spent:
                raise InputError(f"nothing was spent about {about!r}")
            if spent[-1].returned:
                return spent[-1]
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry = replace(spent[-1], at=now, returned=True)
            append(entry)
        return entry

    def entries(self) -> tuple[Entry, ...]:
        """Everything recorded, oldest first, disclosures included."""
        with self._open() as (entries, _):
            return tuple(entries)

    def total(self) -> dict[Unit, Guarantee]:
        """What all releases cost together, for each unit that any of them was about."""
        return self._totals(self.entries())

    def _totals(self, entries: Sequence[Entry]) -> dict[Unit, Guarantee]:
        counted = [entry for entry in _not_returned(entries) if not entry.disclosure]
        totals: dict[Unit, Guarantee] = {}
        for unit in UNITS:
            if all(entry.guarantee.unit != unit for entry in counted):
                continue
            covering = [e for e in counted if UNITS.index(e.guarantee.unit) >= UNITS.index(unit)]
            change = any(e.guarantee.relation == "change one" for e in covering)
            everywhere = [_restate(e, unit, change) for e in covering if e.group is None]
            groups: dict[str, list[Guarantee]] = {}
            for entry in covering:
                if entry.group is not None:
                    groups.setdefault(entry.group, []).append(_restate(entry, unit, change))
            totals[unit] = _most_expensive(
                [compose(everywhere + own, self.limit_delta) for own in groups.values() or [[]]]
            )
        return totals

    @contextmanager
    def _open(self) -> Iterator[tuple[list[Entry], Callable[[Entry], None]]]:
        """The entries and a way to add one, for one process and thread until the block ends."""
        with self._lock:
            if self.path is None:
                yield self._memory, self._memory.append
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path, wait=True) as handle:
                entries, end, check = _parse(_read_all(handle), self.path)
                if end == 0:  # before the first line, so that a line implies a durable file
                    sync_folder(self.path.parent)
                yield entries, lambda entry: _append(handle, end, _line(entry, check))


def _not_returned(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without those that a later one took back."""
    kept: dict[int, Entry] = {}
    for place, entry in enumerate(entries):
        if entry.returned:
            kept.pop(
                max((at for at, one in kept.items() if one.about == entry.about), default=-1), None
            )
        else:
            kept[place] = entry
    return list(kept.values())


def _most_expensive(totals: list[Guarantee]) -> Guarantee:
    """What holds for every group: the largest ε and δ, the weakest status, all assumptions."""
    worst = max(totals, key=lambda total: total.epsilon)
    gaussian = [total.mu for total in totals if total.mu is not None]
    return replace(
        worst,
        delta=max(total.delta for total in totals) if worst.status != "none" else 0.0,
        status=max((total.status for total in totals), key=get_args(Status).index),
        assumes=tuple(dict.fromkeys(line for total in totals for line in total.assumes)),
        mu=max(gaussian) if len(gaussian) == len(totals) else None,
    )


def _restate(entry: Entry, unit: Unit, change: bool) -> Guarantee:
    """An entry's guarantee as it holds for a unit that it covers.

    Changing a unit is removing it and adding it back changed: two steps of "add or remove one".
    So is adding or removing a part of it (one rating of a user who stays).
    """
    given = replace(entry.guarantee, unit=unit)
    relation: Relation = "change one" if change else "add or remove one"
    if given.relation == "change one" or (unit == entry.guarantee.unit and not change):
        return given
    if given.mu is not None:
        mu = 2 * given.mu
        epsilon, delta = gaussian_epsilon(mu, given.delta) or mu, given.delta
    else:
        mu = None
        epsilon, delta = 2 * given.epsilon, (1 + exp(min(given.epsilon, 700))) * given.delta
    if delta >= 1:
        return Guarantee.none(unit=unit, relation=relation)
    return replace(given, relation=relation, epsilon=epsilon, delta=delta, mu=mu)


def _line(entry: Entry, previous: str) -> bytes:
    body = asdict(entry) | {"guarantee": entry.guarantee.to_dict()}
    return _dump(body | {"check": _check(body, previous)}) + b"\n"


def _check(body: dict[str, Any], previous: str) -> str:
    return hashlib.sha256(previous.encode() + _dump(body)).hexdigest()[:32]


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _parse(data: bytes, path: Path) -> tuple[list[Entry], int, str]:
    """The entries, where the last whole line ends, and its checksum."""
    entries: list[Entry] = []
    check = "epicrec ledger 1"
    end = data.rfind(b"\n") + 1
    for number, line in enumerate(data[:end].splitlines(), start=1):
        try:
            body = json.loads(line)
            stated = body.pop("check")
            if stated != _check(body, check):
                raise InputError("the checksum does not match")
            guarantee = Guarantee.from_dict(body.pop("guarantee"))
            entries.append(Entry(guarantee=guarantee, **body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerDamagedError(
                f"{path}, line {number}, was altered or damaged ({error}), so what has been spent "
                "is not certain. Restore the file from a backup; otherwise move it away and treat "
                "everything released so far as known."
            ) from error
        check = stated
    return entries, end, check


def _read_all(handle: int) -> bytes:
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        return file.read()


def _append(handle: int, end: int, line: bytes) -> None:
    os.ftruncate(handle, end)  # drop a line that a crash cut short
    os.lseek(handle, end, os.SEEK_SET)
    while line:
        line = line[os.write(handle, line) :]
    os.fsync(handle)
