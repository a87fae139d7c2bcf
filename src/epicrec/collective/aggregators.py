"""Aggregators: the two servers of a round, leader and helper, and what they have in common.

Messages and answers are bytes, the same in one process and over the network. A repeated request
gets the same bytes again; one that differs from the first is refused. Nothing is sent before what
it depends on is in the book. What is computed for long is computed outside of transactions.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Lock

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.keys import (
    RoundSecret,
    SignedKey,
    opener,
    public_part,
    sign,
    verifying_key,
)
from epicrec.collective.messages import Refusal, round_fields
from epicrec.collective.proofs.field import Words, add_into
from epicrec.collective.proofs.pine import Prepared, in_field
from epicrec.collective.results import (
    Aborted,
    Result,
    Taught,
    abort_message,
    check_plausible,
    commitment,
    opened,
    server_noise,
)
from epicrec.collective.rounds import (
    Book,
    Keys,
    Round,
    State,
    Store,
)
from epicrec.collective.shares import NUMBERS, Report, open_share
from epicrec.collective.task import Role, RoundParameters
from epicrec.machine import in_threads

Noise = Callable[[RoundParameters], Integers]

JOB = 256
"""How many reports are verified at once, at most."""
_AT_ONCE = 1 << 25
"""So many bytes of opened shares are in memory at once."""


class Aggregator:
    """The common part of both servers: keys for a round, the noisy share, the commitment to it."""

    role: Role

    def __init__(
        self,
        store: Store,
        keys: Keys,
        signing_key: bytes,
        other_key: bytes,
        *,
        noise: Noise = server_noise,
    ) -> None:
        if verifying_key(signing_key) == other_key:
            raise Refusal(
                "outdatedConfig", "leader and helper have the same key: two operators are needed"
            )
        self.store, self.keys = store, keys
        self.signing_key, self.other_key = signing_key, other_key
        self._noise = noise
        self._adding = Lock()

    def round(self, task: str, number: int) -> Round:
        with self.store.reading() as book:
            return found_in(book, task, number)

    def abort(self, message: bytes) -> bytes:
        """End a round without a result: its key and reports are deleted.

        The answer is our signature that the key is destroyed and nothing was shown. Only who
        destroys the key here and now can know that, as a sum destroys it before it is written;
        where it was gone before, by a sum, a reboot or a restore, the answer is empty.
        """
        task, number, _ = round_fields(message, 0)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.state == "finished":
                raise Refusal("stepMismatch", "this round is finished and cannot be given up")
            if found.state != "aborted":
                held = self._held(found) is not None
                unused = self.keys.destroy(task, number) and held and found.other is not None
                own = sign(self.signing_key, abort_message(found.announcement)) if unused else b""
                book.open(task, number, 0)
                book.forget(task, number)
                found = replace(found, state="aborted", share=b"", signatures=(own,))
                book.keep(found)
        return found.signatures[0]

    def is_lost(self, found: Round) -> bool:
        """Whether a round cannot go on, as its key is gone: after a reboot, or a restore."""
        return found.state in ("opening", "open", "frozen", "verified") and not self._held(found)

    def _held(self, found: Round) -> RoundSecret | None:
        kept = self.keys.get(found.parameters.task, found.parameters.round)
        secret = RoundSecret.from_encoded(kept) if kept else None
        return secret if secret and public_part(secret.sealing) == found.own.public else None

    def _secret(self, found: Round) -> RoundSecret:
        secret = self._held(found)
        if secret is None:
            raise Refusal(
                "unrecognizedTask",
                f"the key of round {found.parameters.round} is gone: it is over, or this machine "
                "was started again, or restored from a backup, in which there are no keys",
            )
        return secret

    def _new_round(self, book: Book, parameters: RoundParameters, published: bytes) -> Round:
        """A round with a key of its own. Numbers only rise, so no round is opened twice."""
        if hashlib.sha256(published).digest() != parameters.basis:
            raise Refusal("outdatedConfig", "what is published is not what the parameters say")
        last = book.last_round(parameters.task)
        if parameters.round <= last:
            raise Refusal(
                "outdatedConfig", f"round {parameters.round} is over; the next is {last + 1}"
            )
        secret = RoundSecret.new()
        self.keys.keep(parameters.task, parameters.round, secret.encoded())
        book.publish(parameters.task, parameters.round, published)
        own = SignedKey.make(self.signing_key, self.role, parameters, secret)
        return Round(parameters=parameters, role=self.role, own=own)

    def _preparing(
        self, found: Round, secret: RoundSecret, key: bytes
    ) -> Callable[[Report], Prepared | None]:
        """Our part in the check of a report; None where it cannot be opened or is not whole."""
        announcement, opening = found.announcement, opener(secret.sealing)
        server, proofs = NUMBERS[self.role], found.parameters.proofs

        def prepare(report: Report) -> Prepared | None:
            with suppress(Refusal):
                share = open_share(announcement, self.role, opening, report)
                return proofs.prepare(key, server, report.id, report.public, share)
            return None

        return prepare

    def _reports(self, found: Round, after: bytes = b"") -> Iterator[list[Report]]:
        """All reports of the book in batches, each read by itself, in order of their ids."""
        given = found.parameters
        most = max(1, min(JOB, _AT_ONCE // given.proofs.leader_size))
        while True:
            with self.store.reading() as book:
                batch = book.reports(given.task, given.round, after, most)
            if not batch:
                return
            yield batch
            after = batch[-1].id

    def _chosen(self, found: Round) -> tuple[int, bytes]:
        """How many reports were accepted, and the hash of their ids."""
        people, digest = 0, hashlib.sha256()
        for batch in self._reports(found):
            people += len(batch)
            for report in batch:
                digest.update(report.id)
        return people, digest.digest()

    def _add_up(self, found: Round, theirs: bytes = b"") -> Round:
        """The round with its noisy share, by one pass over the accepted reports.

        The sum begins with the noise and is nowhere but in memory. The key is destroyed before it
        is written: whatever is restored, and whatever crashes, nothing is added up twice.
        """
        given, secret = found.parameters, self._secret(found)
        key, announcement = opener(secret.sealing), found.announcement
        total = in_field(self._noise(given))
        digest = hashlib.sha256()

        def opened_vector(report: Report) -> Words:
            share = open_share(announcement, self.role, key, report)
            return given.proofs.vector(NUMBERS[self.role], share)

        for batch in self._reports(found):
            for report, vector in zip(batch, in_threads(opened_vector, batch), strict=True):
                add_into(total, vector)
                digest.update(report.id)
        if digest.digest() != found.chosen or not self.keys.destroy(given.task, given.round):
            raise Refusal("stepMismatch", "this round ended while it was added up")
        with self.store.transaction() as book:
            expect(found_in(book, given.task, given.round), "verified")
            found = replace(
                found, state="collected", share=total.tobytes(), salt=secrets.token_bytes(32),
                theirs=theirs,
            )  # fmt: skip
            book.forget(given.task, given.round)
            book.keep(found)
        return found

    def _commitment(self, found: Round) -> bytes:
        return commitment(found.parameters, self.role, found.share, found.salt)

    def _total(self, found: Round, share: bytes, salt: bytes) -> Integers:
        """Both shares opened, the other's being the one it committed to before it saw ours."""
        other: Role = "helper" if self.role == "leader" else "leader"
        if commitment(found.parameters, other, share, salt) != found.theirs:
            raise Refusal("invalidMessage", f"the {other}'s share is not the one it committed to")
        pair = (found.share, share) if self.role == "leader" else (share, found.share)
        total = opened(found.parameters, *pair)
        check_plausible(found.parameters, found.people, total)
        return total


def result_of(found: Round) -> Result:
    """The signed result of a finished round."""
    if found.state != "finished":
        raise Refusal("stepMismatch", "this round has no result yet")
    total = np.frombuffer(found.total, "<i8").astype(np.int64)
    return Result(found.parameters, found.people, total, *found.signatures)


def aborted_by(found: Round) -> Aborted:
    """The signed end of a round without a result."""
    if found.state != "aborted" or not found.is_signed_by_both:
        raise Refusal("stepMismatch", "this round was not given up by both servers")
    return Aborted(found.announcement, *found.signatures)


def taught_by(book: Book, found: Round) -> Taught:
    """A finished round of the leader's, as anyone fetches it."""
    given = found.parameters
    return Taught(result_of(found), book.published(given.task, given.round))


def finished(found: Round, total: Integers, signatures: tuple[bytes, bytes]) -> Round:
    return replace(
        found, state="finished", total=total.astype("<i8").tobytes(), signatures=signatures
    )


def found_in(book: Book, task: str, number: int) -> Round:
    found = book.round(task, number)
    if found is None:
        raise Refusal("unrecognizedTask", f"there is no round {number} of the task {task!r} here")
    return found


def expect(found: Round, *states: State) -> None:
    if found.state not in states:
        raise Refusal("stepMismatch", f"this round is {found.state}, not {' or '.join(states)}")
