"""Aggregator: what leader and helper have in common in a round, in the order that is safe.

Messages and answers are bytes, the same in one process and over the network. A repeated request
gets the same bytes again; one that differs from the first is refused. Nothing is sent before what
it depends on is in the book.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.keys import SignedKey, new_round_key, opener, public_part, verifying_key
from epicrec.collective.messages import Refusal, round_fields
from epicrec.collective.results import (
    Result,
    Taught,
    check_plausible,
    commitment,
    noisy_sum,
    opened,
    server_noise,
)
from epicrec.collective.rounds import Book, Round, State, Store
from epicrec.collective.shares import Words, open_share
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
