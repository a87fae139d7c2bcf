"""Aggregators: the two servers of a round, leader and helper, and what they have in common.

Messages and answers are bytes, the same in one process and over the network. A repeated request
gets the same bytes again; one that differs from the first is refused. Nothing is sent before what
it depends on is in the book.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.keys import (
    SignedKey,
    new_round_key,
    new_signing_key,
    opener,
    public_part,
    sign,
    verify,
    verifying_key,
)
from epicrec.collective.messages import Refusal, byte_fields, encode, round_fields
from epicrec.collective.results import (
    Result,
    Taught,
    check_plausible,
    commitment,
    noisy_sum,
    opened,
    result_message,
    seeded,
    server_noise,
)
from epicrec.collective.rounds import Book, MemoryStore, Round, State, Store
from epicrec.collective.shares import Report, Words, open_share, sealed_sizes
from epicrec.collective.task import Role, RoundParameters

Noise = Callable[[RoundParameters], Integers]


class Aggregator:
    """The common part of both servers: keys for a round, the noisy share, the commitment to it."""

    role: Role

    def __init__(
        self, store: Store, signing_key: bytes, other_key: bytes, *, noise: Noise = server_noise
    ) -> None:
        if verifying_key(signing_key) == other_key:
            raise Refusal(
                "outdatedConfig", "leader and helper have the same key: two operators are needed"
            )
        self.store, self.signing_key, self.other_key = store, signing_key, other_key
        self._noise = noise

    def round(self, task: str, number: int) -> Round:
        with self.store.transaction() as book:
            return found_in(book, task, number)

    def abort(self, message: bytes) -> bytes:
        """Abort a round: its key and reports are deleted, and what was sent for it is lost."""
        task, number, _ = round_fields(message, 0)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.state == "finished":
                raise Refusal("stepMismatch", "this round is finished and cannot be given up")
            book.burn(report.id for report in book.reports(task, number) if not found.ids)
            book.forget(task, number)
            book.keep(replace(found, state="aborted", share=None))
        return b""

    def _new_round(self, book: Book, parameters: RoundParameters) -> Round:
        """A round with a key of its own. Numbers only rise, so no round is opened twice."""
        last = book.last_round(parameters.task)
        if parameters.round <= last:
            raise Refusal(
                "outdatedConfig", f"round {parameters.round} is over; the next is {last + 1}"
            )
        key = new_round_key()
        book.keep_key(parameters.task, parameters.round, key)
        own = SignedKey.make(self.signing_key, self.role, parameters, public_part(key))
        return Round(parameters=parameters, role=self.role, own=own)

    def _collected(self, book: Book, found: Round, shares: Iterator[tuple[bytes, Words]]) -> Round:
        """The round with its noisy share. The key is deleted: nothing else can be summed."""
        ids: list[bytes] = []

        def counted() -> Iterator[Words]:
            for report_id, share in shares:
                ids.append(report_id)
                yield share

        parameters = found.parameters
        total = noisy_sum(parameters, counted(), self._noise(parameters))
        book.forget(parameters.task, parameters.round)
        return replace(
            found, state="collected", ids=tuple(ids), share=total.tobytes(),
            salt=secrets.token_bytes(32),
        )  # fmt: skip

    def _open(
        self, book: Book, found: Round, sealed: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, Words]]:
        """The shares that open, with their ids; the others are left out."""
        parameters = found.parameters
        key = book.key(parameters.task, parameters.round)
        if key is None:
            raise Refusal(
                "unrecognizedTask",
                f"the key of round {parameters.round} is gone: it is over, or this server was "
                "restored from a backup, in which there are no keys",
            )
        announcement, opening = found.announcement, opener(key)
        for report_id, share in sealed:
            try:
                yield report_id, open_share(announcement, self.role, opening, report_id, share)
            except Refusal:
                continue

    def _commitment(self, found: Round) -> bytes:
        assert found.share is not None
        return commitment(found.parameters, self.role, found.share, found.salt)

    def _total(self, found: Round, share: bytes, salt: bytes) -> Integers:
        """Both shares opened, the other's being the one it committed to before it saw ours."""
        other: Role = "helper" if self.role == "leader" else "leader"
        if commitment(found.parameters, other, share, salt) != found.theirs:
            raise Refusal("invalidMessage", f"the {other}'s share is not the one it committed to")
        assert found.share is not None
        pair = (found.share, share) if self.role == "leader" else (share, found.share)
        total = opened(found.parameters, *pair)
        check_plausible(found.parameters, len(found.ids), total)
        return total


class Helper(Aggregator):
    """Sees seeds only. Sums one list of reports a round, once."""

    role = "helper"

    def begin(self, message: bytes) -> bytes:
        """Open a round with the leader's parameters and key; answer with a key of our own."""
        encoded, public, signature = byte_fields(message, 3)
        parameters, other = RoundParameters.from_encoded(encoded), SignedKey(public, signature)
        other.check(self.other_key, "leader", parameters)
        with self.store.transaction() as book:
            found = book.round(parameters.task, parameters.round)
            if found is None:
                made = self._new_round(book, parameters)
                found = replace(made, other=other, state="open")
                book.keep(found)
            elif (found.parameters, found.other) != (parameters, other):
                raise Refusal("outdatedConfig", "this round was opened with other parameters")
        return encode(found.own.public, found.own.signature)

    def aggregate(self, message: bytes) -> bytes:
        """Sum this list, whose ids are used up; answer with a commitment and what did not open."""
        task, number, fields = round_fields(message)
        asked = hashlib.sha256(message).digest()
        ids, sealed = fields[::2], fields[1::2]
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.asked is None:
                expect(found, "open")
                if len(set(ids)) != len(ids) or len(ids) != len(sealed):
                    raise Refusal("batchInvalid", "a report stands twice in this list")
                if len(ids) > found.parameters.most:
                    raise Refusal("batchInvalid", f"more than {found.parameters.most} reports")
                new = book.burn(ids)
                pairs = (pair for pair in zip(ids, sealed, strict=True) if pair[0] in new)
                shares = self._open(book, found, pairs)
                found = replace(self._collected(book, found, shares), asked=asked)
                book.keep(found)
            elif found.asked != asked:
                raise Refusal(
                    "batchQueriedMultipleTimes", "this round was added up over another list"
                )
            expect(found, "collected", "finished")
        counted = set(found.ids)
        return encode(self._commitment(found), *(name for name in ids if name not in counted))

    def reveal(self, message: bytes) -> bytes:
        """Show the noisy share to a leader that has committed to its own."""
        task, number, (theirs,) = round_fields(message, 1)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            expect(found, "collected", "finished")
            if found.theirs is None:
                found = replace(found, theirs=theirs)
                book.keep(found)
            elif found.theirs != theirs:
                raise Refusal("stepMismatch", "the leader committed to another share before")
        assert found.share is not None
        return encode(found.share, found.salt)

    def confirm(self, message: bytes) -> bytes:
        """Sign the result, if it is what both shares open to and the leader signed it."""
        task, number, (share, salt, signature) = round_fields(message, 3)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            expect(found, "collected", "finished")
            total = self._total(found, share, salt)
            signed = result_message(found.parameters, len(found.ids), total)
            verify(self.other_key, signature, signed, "the result")
            own = sign(self.signing_key, signed)
            book.keep(finished(found, total, (signature, own)))
        return own


class HelperLink(Protocol):
    """The helper as the leader reaches it: itself, or over the network."""

    def begin(self, message: bytes) -> bytes: ...
    def aggregate(self, message: bytes) -> bytes: ...
    def reveal(self, message: bytes) -> bytes: ...
    def confirm(self, message: bytes) -> bytes: ...
    def abort(self, message: bytes) -> bytes: ...


class Leader(Aggregator):
    """Takes reports, sees masked vectors only, and runs a round from its start to its result."""

    role = "leader"

    def start(self, parameters: RoundParameters, published: bytes, helper: HelperLink) -> Round:
        """Open a round with the helper. After a crash the same call resumes it."""
        if hashlib.sha256(published).digest() != parameters.basis:
            raise Refusal("outdatedConfig", "what is published is not what the parameters say")
        with self.store.transaction() as book:
            found = book.round(parameters.task, parameters.round)
            if found is None:
                found = replace(self._new_round(book, parameters), published=published)
                book.keep(found)
            elif found.parameters != parameters:
                raise Refusal("outdatedConfig", "this round was opened with other parameters")
        own = found.own
        answer = helper.begin(encode(parameters.encoded(), own.public, own.signature))
        other = SignedKey(*byte_fields(answer, 2))
        other.check(self.other_key, "helper", parameters)
        with self.store.transaction() as book:
            found = found_in(book, parameters.task, parameters.round)
            if found.state == "opening":
                found = replace(found, other=other, state="open")
                book.keep(found)
        return found

    def upload(self, task: str, number: int, report: Report, token: bytes = b"") -> None:
        """Take a report; repeating it changes nothing.

        A `token` admits one report a round; without one, reports are taken from anybody.
        """
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.state != "open":
                raise Refusal("reportTooLate", f"round {number} takes no more reports")
            if (len(report.leader), len(report.helper)) != sealed_sizes(found.parameters):
                raise Refusal("reportRejected", "a report of this round has another length")
            if not book.admit(task, number, token or report.id, report.id):
                raise Refusal("reportRejected", "this device sent another report for this round")
            before = book.report(task, number, report.id)
            if before == report:
                return
            if before is not None:
                raise Refusal("reportRejected", "another report has this id")
            if book.count(task, number) >= found.parameters.most:
                raise Refusal("reportRejected", "as many took part in this round as can")
            book.add_report(task, number, report)

    def collect(self, task: str, number: int, helper: HelperLink) -> Result:
        """Close a round and open its sum with the helper. After a crash the same call resumes."""
        found = self._freeze(task, number)
        if found.state == "frozen":
            found = self._add_up(task, number, helper.aggregate(self._job(task, number)))
        expect(found, "collected", "finished")
        if found.state == "collected":
            answer = helper.reveal(encode(task, number, self._commitment(found)))
            total = self._total(found, *byte_fields(answer, 2))
            message = result_message(found.parameters, len(found.ids), total)
            own = sign(self.signing_key, message)
            assert found.share is not None
            other = helper.confirm(encode(task, number, found.share, found.salt, own))
            verify(self.other_key, other, message, "the result")
            found = finished(found, total, (own, other))
            with self.store.transaction() as book:
                book.keep(found)
        return result_of(found)

    def _freeze(self, task: str, number: int) -> Round:
        """Take no more reports; the ids of those that are here and can be opened are used up."""
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.state == "open":
                sealed = ((report.id, report.leader) for report in book.reports(task, number))
                ids = tuple(name for name, _ in self._open(book, found, sealed))
                new = book.burn(ids)
                found = replace(found, state="frozen", ids=tuple(i for i in ids if i in new))
                book.keep(found)
        return found

    def _job(self, task: str, number: int) -> bytes:
        with self.store.transaction() as book:
            chosen = set(found_in(book, task, number).ids)
            reports = [each for each in book.reports(task, number) if each.id in chosen]
        return encode(task, number, *(part for each in reports for part in (each.id, each.helper)))

    def _add_up(self, task: str, number: int, answer: bytes) -> Round:
        """Our noisy share of exactly the reports that the helper could open as well."""
        theirs, *rejected = byte_fields(answer)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            expect(found, "frozen")
            left = set(found.ids) - set(rejected)
            sealed = ((r.id, r.leader) for r in book.reports(task, number) if r.id in left)
            shares = self._open(book, found, sealed)
            found = replace(self._collected(book, found, shares), theirs=theirs)
            book.keep(found)
        return found


def two_servers(seed: int | None = None) -> tuple[Leader, Helper]:
    """A leader and a helper that know each other's keys, with books in memory."""
    one, other = new_signing_key(), new_signing_key()
    return (
        Leader(MemoryStore(), one, verifying_key(other), noise=seeded("leader", seed)),
        Helper(MemoryStore(), other, verifying_key(one), noise=seeded("helper", seed)),
    )


def result_of(found: Round) -> Result:
    """The signed result of a finished round."""
    if found.total is None:
        raise Refusal("stepMismatch", "this round has no result yet")
    total = np.frombuffer(found.total, "<i8").astype(np.int64)
    return Result(found.parameters, found.people, total, *found.signatures)


def taught_by(found: Round) -> Taught:
    """A finished round of the leader's, as anyone fetches it."""
    return Taught(result_of(found), found.published)


def finished(found: Round, total: Integers, signatures: tuple[bytes, bytes]) -> Round:
    return replace(
        found, state="finished", people=len(found.ids), total=total.astype("<i8").tobytes(),
        signatures=signatures,
    )  # fmt: skip


def found_in(book: Book, task: str, number: int) -> Round:
    found = book.round(task, number)
    if found is None:
        raise Refusal("unrecognizedTask", f"there is no round {number} of the task {task!r} here")
    return found


def expect(found: Round, *states: State) -> None:
    if found.state not in states:
        raise Refusal("stepMismatch", f"this round is {found.state}, not {' or '.join(states)}")
