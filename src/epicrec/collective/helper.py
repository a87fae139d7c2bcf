"""Helper: the server that sees seeds only, and answers the leader."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from epicrec.collective.aggregators import JOB, Aggregator, Noise, expect, finished, found_in
from epicrec.collective.keys import SignedKey, committed, sign, verification_key, verify
from epicrec.collective.messages import Refusal, byte_fields, encode, round_fields
from epicrec.collective.proofs.pine import elements
from epicrec.collective.results import result_message, server_noise, set_message
from epicrec.collective.rounds import (
    ACCEPTED,
    REPEATED,
    UNPROVED,
    UNREADABLE,
    Book,
    Job,
    Keys,
    Round,
    Store,
)
from epicrec.collective.shares import Report
from epicrec.collective.task import RoundParameters
from epicrec.machine import in_threads

Check = Callable[[RoundParameters, bytes, Sequence[RoundParameters]], None]
"""Refuses a round by its parameters, what is published for it, and the rounds before it."""


class Helper(Aggregator):
    """Sees seeds only. Verifies each report once, and sums one set of them a round, once."""

    role = "helper"

    def __init__(
        self,
        store: Store,
        keys: Keys,
        signing_key: bytes,
        other_key: bytes,
        *,
        noise: Noise = server_noise,
        check: Check = lambda *_: None,
    ) -> None:
        super().__init__(store, keys, signing_key, other_key, noise=noise)
        self._check = check

    def begin(self, message: bytes) -> bytes:
        """Open a round with the leader's parameters and key; answer with a key of our own and our
        half of the verification key, which the leader's is committed not to depend on."""
        encoded, published, *key = byte_fields(message, 5)
        parameters, other = RoundParameters.from_encoded(encoded), SignedKey(*key)
        other.check(self.other_key, "leader", parameters)
        with self.store.transaction() as book:
            found = book.round(parameters.task, parameters.round)
            if found is None:
                before = (book.round(parameters.task, n) for n in range(parameters.round))
                self._check(parameters, published, [one.parameters for one in before if one])
                made = self._new_round(book, parameters, published)
                found = replace(made, other=other, state="open")
                book.open(parameters.task, parameters.round, parameters.most)
                book.keep(found)
            elif (found.parameters, found.other) != (parameters, other):
                raise Refusal("outdatedConfig", "this round was opened with other parameters")
        half, own = self._secret(found).half, found.own
        return encode(own.public, own.committed, own.signature, half)

    def verify(self, message: bytes) -> bytes:
        """Verify a batch of reports, once: for each, the answer has 1 where it is accepted.

        Nothing else is told, and nothing is stored but the ids that are used up, what becomes of
        each report, and the accepted ones as they are sealed.
        """
        task, number, fields = round_fields(message)
        if len(fields) % 4 != 2:
            raise Refusal("invalidMessage", "a batch has four fields for each report")
        half, place, *rest = fields
        asked, index = hashlib.sha256(message).digest(), int.from_bytes(place, "big")
        with self.store.reading() as book:
            found, done = found_in(book, task, number), book.jobs(task, number)
            job = book.job(task, number, index)
        if index == done:
            expect(found, "open", "frozen")
            parts = [rest[at : at + 4] for at in range(0, len(rest), 4)]
            reports = [
                (Report(name, public, b"", sealed), verifier)
                for name, public, sealed, verifier in parts
            ]
            job = self._verified(found, half, asked, reports)
            with self.store.transaction() as book:
                before = book.job(task, number, index)
                job = before or self._accepted(book, index, found, job, [r for r, _ in reports])
        if job is None or job.asked != asked:
            raise Refusal(
                "batchQueriedMultipleTimes", f"batch {index} of this round has other reports"
            )
        return bytes(one == ACCEPTED for one in job.outcome)

    def _verified(
        self, found: Round, half: bytes, asked: bytes, reports: list[tuple[Report, bytes]]
    ) -> Job:
        """What each report is by its proof alone."""
        assert found.other is not None
        if committed("leader", half) != found.other.committed:
            raise Refusal("invalidMessage", "this is not the half that the leader committed to")
        if len(reports) > JOB or len({one.id for one, _ in reports}) != len(reports):
            raise Refusal("batchInvalid", f"a batch has at most {JOB} reports, each of them once")
        secret = self._secret(found)
        prepare = self._preparing(found, secret, verification_key(half, secret.half))
        proofs = found.parameters.proofs

        def outcome(given: tuple[Report, bytes]) -> int:
            report, verifier = given
            own = prepare(report)
            if own is None:
                return UNREADABLE
            with suppress(Refusal):
                if proofs.accepts(elements(verifier), own.verifier):
                    return ACCEPTED
            return UNPROVED

        return Job(asked, bytes(in_threads(outcome, reports)))

    def _accepted(
        self, book: Book, index: int, found: Round, job: Job, reports: list[Report]
    ) -> Job:
        """The job as it is written: all its ids are used up; one that was before is refused."""
        task, number = found.parameters.task, found.parameters.round
        found = found_in(book, task, number)
        expect(found, "open", "frozen")
        burnt = book.burnt([one.id for one in reports])
        outcome = [
            REPEATED if report.id in burnt else one
            for report, one in zip(reports, job.outcome, strict=True)
        ]
        chosen = [one for one, code in zip(reports, outcome, strict=True) if code == ACCEPTED]
        if not book.take_places(task, number, len(chosen)):
            raise Refusal("batchInvalid", f"more than {found.parameters.most} reports")
        book.burn({one.id for one in reports} - burnt)
        book.add_reports(task, number, chosen)
        job = Job(job.asked, bytes(outcome))
        book.add_job(task, number, index, job)
        book.keep(replace(found, state="frozen"))
        return job

    def agree(self, message: bytes) -> bytes:
        """Sign the set of reports that the leader signed, if it is the one that we accepted."""
        task, number, (count, chosen, signature) = round_fields(message, 3)
        people = int.from_bytes(count, "big")
        found = self.round(task, number)
        if found.state in ("open", "frozen"):
            own = self._chosen(found)
            if own != (people, chosen):
                raise Refusal("batchInvalid", "these are not the reports that were accepted here")
            signed = set_message(found.parameters, people, chosen)
            verify(self.other_key, signature, signed, "the set of reports")
            with self.store.transaction() as book:
                expect(found_in(book, task, number), "open", "frozen")
                found = replace(
                    found, state="verified", people=people, chosen=chosen,
                    agreed=(signature, sign(self.signing_key, signed)),
                )  # fmt: skip
                book.keep(found)
        expect(found, "verified", "collected", "finished")
        if (found.people, found.chosen) != (people, chosen):
            raise Refusal("batchQueriedMultipleTimes", "another set of reports was signed before")
        return found.agreed[1]

    def aggregate(self, message: bytes) -> bytes:
        """Sum the set that both servers signed; answer with a commitment to our noisy share."""
        task, number, _ = round_fields(message, 0)
        with self._adding:
            found = self.round(task, number)
            if found.state == "verified":
                found = self._add_up(found)
        expect(found, "collected", "finished")
        return self._commitment(found)

    def reveal(self, message: bytes) -> bytes:
        """Show the noisy share to a leader that has committed to its own."""
        task, number, (theirs,) = round_fields(message, 1)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            expect(found, "collected", "finished")
            if not found.theirs:
                found = replace(found, theirs=theirs)
                book.keep(found)
            elif found.theirs != theirs:
                raise Refusal("stepMismatch", "the leader committed to another share before")
        return encode(found.share, found.salt)

    def confirm(self, message: bytes) -> bytes:
        """Sign the result, if it is what both shares open to and the leader signed it."""
        task, number, (share, salt, signature) = round_fields(message, 3)
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            expect(found, "collected", "finished")
            total = self._total(found, share, salt)
            signed = result_message(found.parameters, found.people, total)
            verify(self.other_key, signature, signed, "the result")
            own = sign(self.signing_key, signed)
            book.keep(finished(found, total, (signature, own)))
        return own
