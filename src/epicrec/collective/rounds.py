"""Rounds: what a server remembers of a round, the book it is written in, and the keys beside it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import RLock
from typing import Any, Literal, Protocol, Self, get_args

from epicrec.collective.keys import SignedKey
from epicrec.collective.messages import Refusal, decode, encode
from epicrec.collective.shares import Announcement, Report
from epicrec.collective.task import Role, RoundParameters

State = Literal["opening", "open", "frozen", "verified", "collected", "finished", "aborted"]
"""In this order: "frozen" takes no more reports, "verified" has its set of them signed by both,
"collected" has a noisy share and no key, "finished" a result."""

STATES: tuple[State, ...] = get_args(State)

ACCEPTED, UNREADABLE, UNPROVED, REPEATED, REFUSED = range(5)
REASONS = ("accepted", "unreadable", "not proved", "repeated", "refused by the helper")
"""What becomes of a report, by the numbers above."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round as one server has it, but for its reports, what is published, and its key."""

    parameters: RoundParameters
    role: Role
    own: SignedKey
    state: State = "opening"
    other: SignedKey | None = None
    people: int = 0
    """How many reports count, from "verified" on."""
    chosen: bytes = b""
    """The hash of their ids."""
    agreed: tuple[bytes, ...] = ()
    """Both signatures over it: the leader's, then the helper's."""
    share: bytes = b""
    """The noisy share, once it was drawn."""
    salt: bytes = b""
    theirs: bytes = b""
    """The other's commitment to its share."""
    total: bytes = b""
    """The opened sums, little-endian int64."""
    signatures: tuple[bytes, ...] = ()
    """Over the result, or over the end without one: the leader's, then the helper's."""

    @property
    def is_signed_by_both(self) -> bool:
        return len(self.signatures) == 2 and all(self.signatures)

    @property
    def announcement(self) -> Announcement:
        if self.other is None:
            raise Refusal("stepMismatch", "this round is not open yet")
        keys = (self.own, self.other) if self.role == "leader" else (self.other, self.own)
        return Announcement(self.parameters, *keys)

    def encoded(self) -> bytes:
        keys = [(each.public, each.committed, each.signature) for each in (self.own, self.other)
                if each is not None]  # fmt: skip
        return encode(
            self.parameters.encoded(), self.role, encode(*(part for key in keys for part in key)),
            self.state, self.people, self.chosen, encode(*self.agreed), self.share, self.salt,
            self.theirs, self.total, encode(*self.signatures),
        )  # fmt: skip

    @classmethod
    @lru_cache(maxsize=16)
    def from_encoded(cls, encoded: bytes) -> Self:
        """Read what `encoded` wrote, in our own book."""
        found: list[Any] = decode(encoded)
        keys: list[Any] = decode(found[2])
        agreed, signatures = (tuple(decode(found[at])) for at in (6, 11))
        return cls(
            parameters=RoundParameters.from_encoded(found[0]), role=found[1],
            own=SignedKey(*keys[:3]), other=SignedKey(*keys[3:]) if keys[3:] else None,
            state=found[3], people=found[4], chosen=found[5], agreed=agreed,  # type: ignore[arg-type]
            share=found[7], salt=found[8], theirs=found[9], total=found[10],
            signatures=signatures,  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A batch of reports that was verified, and what became of each of them."""

    asked: bytes
    """The leader's: the last id of the batch. The helper's: the hash of what it was asked."""
    outcome: bytes
    """One of `REASONS` for each report."""


class Book(Protocol):
    """What may be read and written within one transaction."""

    def round(self, task: str, number: int) -> Round | None: ...

    def last_round(self, task: str) -> int:
        """The greatest number a round of this task ever had; -1 before the first."""

    def keep(self, found: Round) -> None: ...

    def publish(self, task: str, number: int, published: bytes) -> None:
        """Keep what a round's statistic is computed with, as devices fetch it."""

    def published(self, task: str, number: int) -> bytes: ...

    def open(self, task: str, number: int, most: int) -> None:
        """Make room for so many reports; 0 takes no more."""

    def take_places(self, task: str, number: int, places: int) -> bool:
        """Count so many reports more; False where there is no room for them."""

    def count(self, task: str, number: int) -> int:
        """How many places were taken."""

    def admit(self, task: str, number: int, token: bytes, report_id: bytes) -> bool:
        """Use an admission token; False where another report of the round was sent with it."""

    def report(self, task: str, number: int, report_id: bytes) -> Report | None: ...

    def add_reports(self, task: str, number: int, reports: Iterable[Report]) -> None: ...

    def reports(self, task: str, number: int, after: bytes, most: int) -> list[Report]:
        """The next ones in order of their ids, which does not reveal who came when."""

    def drop_reports(self, task: str, number: int, ids: Iterable[bytes]) -> None: ...

    def burnt(self, ids: Iterable[bytes]) -> set[bytes]:
        """Which of these were used before."""

    def burn(self, ids: Iterable[bytes]) -> None:
        """Mark report ids as used for ever."""

    def jobs(self, task: str, number: int) -> int:
        """How many batches were verified."""

    def job(self, task: str, number: int, index: int) -> Job | None: ...

    def add_job(self, task: str, number: int, index: int, job: Job) -> None: ...

    def forget(self, task: str, number: int) -> None:
        """Delete the round's reports for ever."""


class Store(Protocol):
    """Holds the book. A transaction happens entirely or not at all."""

    def transaction(self) -> AbstractContextManager[Book]:
        """One at a time, but for those that take reports."""

    def uploading(self) -> AbstractContextManager[Book]:
        """A transaction that takes a report, beside others that do."""

    def reading(self) -> AbstractContextManager[Book]:
        """The book for reading; it waits for nobody and makes nobody wait."""


class Keys(Protocol):
    """Holds the secrets of rounds where no database, folder copy or backup has them."""

    def get(self, task: str, number: int) -> bytes | None: ...

    def keep(self, task: str, number: int, secret: bytes) -> None: ...

    def destroy(self, task: str, number: int) -> bool:
        """Delete for ever; True for the one caller that did it."""


class MemoryKeys:
    """Secrets that end with the process."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], bytes] = {}

    def get(self, task: str, number: int) -> bytes | None:
        return self.kept.get((task, number))

    def keep(self, task: str, number: int, secret: bytes) -> None:
        self.kept[task, number] = secret

    def destroy(self, task: str, number: int) -> bool:
        return self.kept.pop((task, number), None) is not None


class MemoryBook:
    """A book that lives as long as the process: for experiments and tests."""

    def __init__(self) -> None:
        self.rounds: dict[tuple[str, int], Round] = {}
        self.bases: dict[tuple[str, int], bytes] = {}
        self.places: dict[tuple[str, int], tuple[int, int]] = {}
        self.inbox: dict[tuple[str, int], dict[bytes, Report]] = {}
        self.verified: dict[tuple[str, int], dict[int, Job]] = {}
        self.admitted: dict[tuple[str, int, bytes], bytes] = {}
        self.used: dict[bytes, None] = {}
        self.order: list[bytes] = []
        self.undo: list[Callable[[], object]] = []

    def round(self, task: str, number: int) -> Round | None:
        return self.rounds.get((task, number))

    def last_round(self, task: str) -> int:
        return max((number for name, number in self.rounds if name == task), default=-1)

    def keep(self, found: Round) -> None:
        self._put(self.rounds, (found.parameters.task, found.parameters.round), found)

    def publish(self, task: str, number: int, published: bytes) -> None:
        self._put(self.bases, (task, number), published)

    def published(self, task: str, number: int) -> bytes:
        return self.bases[task, number]

    def open(self, task: str, number: int, most: int) -> None:
        self._put(self.places, (task, number), (self.count(task, number), most))

    def take_places(self, task: str, number: int, places: int) -> bool:
        taken, most = self.places.get((task, number), (0, 0))
        if taken + places > most:
            return False
        self._put(self.places, (task, number), (taken + places, most))
        return True

    def count(self, task: str, number: int) -> int:
        return self.places.get((task, number), (0, 0))[0]

    def admit(self, task: str, number: int, token: bytes, report_id: bytes) -> bool:
        if (task, number, token) not in self.admitted:
            self._put(self.admitted, (task, number, token), report_id)
        return self.admitted[task, number, token] == report_id

    def report(self, task: str, number: int, report_id: bytes) -> Report | None:
        return self.inbox.get((task, number), {}).get(report_id)

    def add_reports(self, task: str, number: int, reports: Iterable[Report]) -> None:
        for report in reports:
            self._put(self.inbox.setdefault((task, number), {}), report.id, report)

    def reports(self, task: str, number: int, after: bytes, most: int) -> list[Report]:
        found = self.inbox.get((task, number), {})
        if not after:
            self.order = sorted(found)
        start = bisect_right(self.order, after)
        return [found[name] for name in self.order[start : start + most]]

    def drop_reports(self, task: str, number: int, ids: Iterable[bytes]) -> None:
        for name in ids:
            self._drop(self.inbox[task, number], name)

    def burnt(self, ids: Iterable[bytes]) -> set[bytes]:
        return {name for name in ids if name in self.used}

    def burn(self, ids: Iterable[bytes]) -> None:
        for name in ids:
            self._put(self.used, name, None)

    def jobs(self, task: str, number: int) -> int:
        return len(self.verified.get((task, number), {}))

    def job(self, task: str, number: int, index: int) -> Job | None:
        return self.verified.get((task, number), {}).get(index)

    def add_job(self, task: str, number: int, index: int, job: Job) -> None:
        self._put(self.verified.setdefault((task, number), {}), index, job)

    def forget(self, task: str, number: int) -> None:
        self._drop(self.inbox, (task, number))

    def _put(self, place: dict[Any, Any], name: Any, value: Any) -> None:
        back = partial(place.__setitem__, name, place.get(name))
        self.undo.append(back if name in place else partial(place.pop, name))
        place[name] = value

    def _drop(self, place: dict[Any, Any], name: Any) -> None:
        if name in place:
            self.undo.append(partial(place.__setitem__, name, place.pop(name)))


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

    uploading = reading = transaction


def outcomes(book: Book, task: str, number: int) -> dict[str, int]:
    """What became of the reports that were verified so far: how many for each reason."""
    counted = Counter[int]()
    for index in range(book.jobs(task, number)):
        job = book.job(task, number, index)
        counted.update(job.outcome if job else b"")
    return {REASONS[code]: count for code, count in sorted(counted.items())}
