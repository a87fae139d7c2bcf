"""Rounds: what a server remembers of a round, and the book that it is written in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any, Literal, Protocol, Self

from epicrec.collective.keys import SignedKey
from epicrec.collective.messages import Refusal, decode, encode
from epicrec.collective.shares import ID, Announcement, Report
from epicrec.collective.task import Role, RoundParameters

State = Literal["opening", "open", "frozen", "collected", "finished", "aborted"]
"""In this order. From "frozen" on the reports are used up; "collected" has a noisy share."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round as one server has it, but for its reports and its sealing key."""

    parameters: RoundParameters
    role: Role
    own: SignedKey
    state: State = "opening"
    published: bytes = b""
    """The leader's: what the statistic is computed with, as devices fetch it."""
    other: SignedKey | None = None
    ids: tuple[bytes, ...] = ()
    """The reports that count."""
    asked: bytes | None = None
    """The helper's: the hash of the one list that it was asked to sum."""
    share: bytes | None = None
    """The noisy share, once it was drawn."""
    salt: bytes = b""
    theirs: bytes | None = None
    """The other's commitment to its share."""
    people: int = 0
    total: bytes | None = None
    """The opened sums, little-endian int64."""
    signatures: tuple[bytes, ...] = ()
    """The leader's, then the helper's."""

    @property
    def announcement(self) -> Announcement:
        if self.other is None:
            raise Refusal("stepMismatch", "this round is not open yet")
        keys = (self.own, self.other) if self.role == "leader" else (self.other, self.own)
        return Announcement(self.parameters, *keys)

    def encoded(self) -> bytes:
        other = self.other or SignedKey(b"", b"")
        return encode(
            self.parameters.encoded(), self.role, self.own.public, self.own.signature, self.state,
            self.published, other.public, other.signature, b"".join(self.ids), self.asked or b"",
            self.share or b"", self.salt, self.theirs or b"", self.people, self.total or b"",
            *self.signatures,
        )  # fmt: skip

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        """Read what `encoded` wrote, in our own book."""
        found: list[Any] = decode(encoded)
        ids = found[8]
        return cls(
            parameters=RoundParameters.from_encoded(found[0]), role=found[1],
            own=SignedKey(found[2], found[3]), state=found[4], published=found[5],
            other=SignedKey(found[6], found[7]) if found[6] else None,
            ids=tuple(ids[at : at + ID] for at in range(0, len(ids), ID)), asked=found[9] or None,
            share=found[10] or None, salt=found[11], theirs=found[12] or None, people=found[13],
            total=found[14] or None, signatures=tuple(found[15:]),
        )  # fmt: skip


class Book(Protocol):
    """What may be read and written within one transaction."""

    def round(self, task: str, number: int) -> Round | None: ...

    def last_round(self, task: str) -> int:
        """The greatest number a round of this task ever had; -1 before the first."""

    def keep(self, found: Round) -> None: ...

    def key(self, task: str, number: int) -> bytes | None: ...

    def keep_key(self, task: str, number: int, key: bytes) -> None: ...

    def forget(self, task: str, number: int) -> None:
        """Delete the round's sealing key and its reports for ever."""

    def burn(self, ids: Iterable[bytes]) -> set[bytes]:
        """Mark report ids as used for ever; return those that were not used before."""

    def report(self, task: str, number: int, report_id: bytes) -> Report | None: ...

    def add_report(self, task: str, number: int, report: Report) -> None: ...

    def reports(self, task: str, number: int) -> Iterator[Report]:
        """All of a round in order of their ids, which does not reveal who came when."""

    def count(self, task: str, number: int) -> int: ...

    def admit(self, task: str, number: int, token: bytes, report_id: bytes) -> bool:
        """Use an admission token; False where another report of the round was sent with it."""


class Store(Protocol):
    """Holds the book. A transaction happens entirely or not at all, one at a time."""

    def transaction(self) -> AbstractContextManager[Book]: ...


class MemoryBook:
    """A book that lives as long as the process: for experiments and tests."""

    def __init__(self) -> None:
        self.rounds: dict[tuple[str, int], Round] = {}
        self.used: set[bytes] = set()
        self.keys: dict[tuple[str, int], bytes] = {}
        self.inbox: dict[tuple[str, int], dict[bytes, Report]] = {}
        self.admitted: dict[tuple[str, int, bytes], bytes] = {}
        self.undo: list[Callable[[], object]] = []

    def round(self, task: str, number: int) -> Round | None:
        return self.rounds.get((task, number))

    def last_round(self, task: str) -> int:
        return max((number for name, number in self.rounds if name == task), default=-1)

    def keep(self, found: Round) -> None:
        self._put(self.rounds, (found.parameters.task, found.parameters.round), found)

    def key(self, task: str, number: int) -> bytes | None:
        return self.keys.get((task, number))

    def keep_key(self, task: str, number: int, key: bytes) -> None:
        self._put(self.keys, (task, number), key)

    def forget(self, task: str, number: int) -> None:
        held: tuple[dict[tuple[str, int], Any], ...] = (self.keys, self.inbox)
        for place in held:
            old = place.pop((task, number), None)
            if old is not None:
                self.undo.append(partial(place.__setitem__, (task, number), old))

    def burn(self, ids: Iterable[bytes]) -> set[bytes]:
        new = set(ids) - self.used
        self.used |= new
        self.undo.append(partial(self.used.difference_update, new))
        return new

    def report(self, task: str, number: int, report_id: bytes) -> Report | None:
        return self.inbox.get((task, number), {}).get(report_id)

    def add_report(self, task: str, number: int, report: Report) -> None:
        self._put(self.inbox.setdefault((task, number), {}), report.id, report)

    def reports(self, task: str, number: int) -> Iterator[Report]:
        found = self.inbox.get((task, number), {})
        return (found[report_id] for report_id in sorted(found))

    def count(self, task: str, number: int) -> int:
        return len(self.inbox.get((task, number), {}))

    def admit(self, task: str, number: int, token: bytes, report_id: bytes) -> bool:
        if (task, number, token) not in self.admitted:
            self._put(self.admitted, (task, number, token), report_id)
        return self.admitted[task, number, token] == report_id

    def _put(self, place: dict[Any, Any], name: Any, value: Any) -> None:
        back = partial(place.__setitem__, name, place.get(name))
        self.undo.append(back if name in place else partial(place.pop, name))
        place[name] = value


class MemoryStore:
    """Keeps a `MemoryBook`, and rolls back a transaction that failed."""

    def __init__(self) -> None:
        self.book = MemoryBook()
        self._lock = RLock()

    @contextmanager
    def transaction(self) -> Iterator[MemoryBook]:
        with self._lock:
            self.book.undo.clear()
            try:
                yield self.book
            except BaseException:
                for step in reversed(self.book.undo):
                    step()
                raise
