"""Leader: the server that takes reports and runs a round from its start to its result."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from epicrec.collective.aggregators import Aggregator, expect, finished, found_in, result_of
from epicrec.collective.helper import Helper
from epicrec.collective.keys import (
    SignedKey,
    committed,
    new_signing_key,
    sign,
    verification_key,
    verify,
    verifying_key,
)
from epicrec.collective.messages import Refusal, byte_fields, encode
from epicrec.collective.results import Result, abort_message, result_message, seeded, set_message
from epicrec.collective.rounds import (
    ACCEPTED,
    REFUSED,
    REPEATED,
    UNREADABLE,
    Job,
    MemoryKeys,
    MemoryStore,
    Round,
)
from epicrec.collective.shares import Report, sealed_sizes
from epicrec.collective.task import RoundParameters
from epicrec.machine import in_threads


class HelperLink(Protocol):
    """The helper as the leader reaches it: itself, or over the network."""

    def begin(self, message: bytes) -> bytes: ...
    def verify(self, message: bytes) -> bytes: ...
    def agree(self, message: bytes) -> bytes: ...
    def aggregate(self, message: bytes) -> bytes: ...
    def reveal(self, message: bytes) -> bytes: ...
    def confirm(self, message: bytes) -> bytes: ...
    def abort(self, message: bytes) -> bytes: ...


class Leader(Aggregator):
    """Takes reports, sees masked vectors only, and runs a round from its start to its result."""

    role = "leader"

    def start(self, parameters: RoundParameters, published: bytes, helper: HelperLink) -> Round:
        """Open a round with the helper. After a crash the same call resumes it."""
        task, number = parameters.task, parameters.round
        with self.store.transaction() as book:
            found = book.round(task, number)
            if found is None:
                found = self._new_round(book, parameters, published)
                book.keep(found)
            elif found.parameters != parameters:
                raise Refusal("outdatedConfig", "this round was opened with other parameters")
        secret, own = self._secret(found), found.own
        answer = helper.begin(
            encode(parameters.encoded(), published, own.public, own.committed, own.signature)
        )
        *key, half = byte_fields(answer, 4)
        other = SignedKey(*key)
        other.check(self.other_key, "helper", parameters)
        if committed("helper", half) != other.committed:
            raise Refusal("invalidMessage", "this is not the half that the helper committed to")
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.state == "opening":
                self.keys.keep(task, number, replace(secret, other=half).encoded())
                found = replace(found, other=other, state="open")
                book.open(task, number, parameters.most)
                book.keep(found)
        return found

    def upload(self, task: str, number: int, report: Report, token: bytes = b"") -> None:
        """Take a report; repeating it changes nothing.

        A `token` admits one report a round; without one, reports are taken from anybody.
        """
        with self.store.uploading() as book:
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
            if not book.take_places(task, number, 1):
                raise Refusal("reportRejected", "no more can take part in this round")
            book.add_reports(task, number, [report])

    def collect(self, task: str, number: int, helper: HelperLink) -> Result:
        """Close a round and open its sum with the helper. After a crash the same call resumes."""
        found = self._freeze(task, number)
        if found.state == "frozen":
            self._verify(found, helper)
            found = self._agree(found, helper)
        if found.state == "verified":
            found = self._add_up(found, helper.aggregate(encode(task, number)))
        expect(found, "collected", "finished")
        if found.state == "collected":
            answer = helper.reveal(encode(task, number, self._commitment(found)))
            total = self._total(found, *byte_fields(answer, 2))
            message = result_message(found.parameters, found.people, total)
            own = sign(self.signing_key, message)
            other = helper.confirm(encode(task, number, found.share, found.salt, own))
            verify(self.other_key, other, message, "the result")
            found = finished(found, total, (own, other))
            with self.store.transaction() as book:
                book.keep(found)
        return result_of(found)

    def give_up(self, task: str, number: int, helper: HelperLink) -> Round:
        """Abort a round here and at the helper, and keep both signatures that nothing was shown."""
        message = encode(task, number)
        own, theirs = self.abort(message), b""
        try:
            theirs = helper.abort(message)
        except Refusal as error:
            if error.kind != "unrecognizedTask":  # it never heard of the round
                raise
        found = self.round(task, number)
        if theirs and found.other is not None:
            signed = abort_message(found.announcement)
            verify(self.other_key, theirs, signed, "the end of the round")
        with self.store.transaction() as book:
            found = replace(found, signatures=(own, theirs))
            book.keep(found)
        return found

    def _freeze(self, task: str, number: int) -> Round:
        """Take no more reports."""
        with self.store.transaction() as book:
            found = found_in(book, task, number)
            if found.state == "open":
                self._secret(found)
                found = replace(found, state="frozen")
                book.open(task, number, 0)
                book.keep(found)
        return found

    def _verify(self, found: Round, helper: HelperLink) -> None:
        """Verify with the helper what is not verified yet, batch after batch."""
        task, number = found.parameters.task, found.parameters.round
        with self.store.reading() as book:
            done = book.jobs(task, number)
            last = book.job(task, number, done - 1)
        batches = self._reports(found, last.asked if last else b"")
        for index, batch in enumerate(batches, start=done):
            self._verify_batch(found, index, batch, helper)

    def _verify_batch(
        self, found: Round, index: int, batch: list[Report], helper: HelperLink
    ) -> None:
        task, number = found.parameters.task, found.parameters.round
        secret = self._secret(found)
        key = verification_key(secret.half, secret.other)
        ids = [report.id for report in batch]
        with self.store.reading() as book:
            burnt = book.burnt(ids)
        prepared = list(in_threads(self._preparing(found, secret, key), batch))
        outcome = {
            name: UNREADABLE if part is None else REFUSED
            for name, part in zip(ids, prepared, strict=True)
        }
        outcome |= dict.fromkeys(burnt, REPEATED)
        asked = [
            (report, part)
            for report, part in zip(batch, prepared, strict=True)
            if part is not None and report.id not in burnt
        ]
        fields = [
            field
            for report, part in asked
            for field in (report.id, report.public, report.helper, part.verifier.tobytes())
        ]
        answer = helper.verify(encode(task, number, secret.half, index.to_bytes(4, "big"), *fields))
        if len(answer) != len(asked):
            raise Refusal("invalidMessage", "the helper's answer is about other reports")
        accepted = (report.id for (report, _), one in zip(asked, answer, strict=True) if one)
        outcome |= dict.fromkeys(accepted, ACCEPTED)
        with self.store.transaction() as book:
            expect(found_in(book, task, number), "frozen")
            book.burn(set(ids) - burnt)
            book.drop_reports(task, number, [name for name in ids if outcome[name] != ACCEPTED])
            job = Job(ids[-1], bytes(outcome[name] for name in ids))
            book.add_job(task, number, index, job)

    def _agree(self, found: Round, helper: HelperLink) -> Round:
        """Both servers sign which reports count, before anything is added up."""
        task, number = found.parameters.task, found.parameters.round
        people, chosen = self._chosen(found)
        message = set_message(found.parameters, people, chosen)
        own = sign(self.signing_key, message)
        theirs = helper.agree(encode(task, number, people.to_bytes(8, "big"), chosen, own))
        verify(self.other_key, theirs, message, "the set of reports")
        with self.store.transaction() as book:
            expect(found_in(book, task, number), "frozen")
            found = replace(
                found, state="verified", people=people, chosen=chosen, agreed=(own, theirs)
            )
            book.keep(found)
        return found


def two_servers(seed: int | None = None) -> tuple[Leader, Helper]:
    """A leader and a helper that know each other's keys, with everything in memory."""
    one, other = new_signing_key(), new_signing_key()
    return (
        Leader(
            MemoryStore(), MemoryKeys(), one, verifying_key(other), noise=seeded("leader", seed)
        ),
        Helper(
            MemoryStore(), MemoryKeys(), other, verifying_key(one), noise=seeded("helper", seed)
        ),
    )
