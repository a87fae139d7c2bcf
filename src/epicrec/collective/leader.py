"""The leader: takes reports, and runs a round from its start to its result."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Protocol

from epicrec.collective.aggregator import Aggregator, expect, finished, found_in, result_of
from epicrec.collective.keys import SignedKey, sign, verify
from epicrec.collective.messages import Refusal, byte_fields, encode
from epicrec.collective.results import Result, result_message
from epicrec.collective.rounds import Round
from epicrec.collective.shares import Report, sealed_sizes
from epicrec.collective.task import RoundParameters


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
