"""The helper: sees seeds only, and sums one list of reports a round, once."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from epicrec.collective.aggregator import Aggregator, expect, finished, found_in
from epicrec.collective.keys import SignedKey, sign, verify
from epicrec.collective.messages import Refusal, byte_fields, encode, round_fields
from epicrec.collective.results import result_message
from epicrec.collective.task import RoundParameters


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
