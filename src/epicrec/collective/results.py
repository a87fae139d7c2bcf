"""A round's result: everyone's sum with both noises, signed by both servers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.encoding import byte_fields, decode, encode
from epicrec.collective.keys import verify
from epicrec.collective.plausible import implausible
from epicrec.collective.refusals import Refusal
from epicrec.collective.sums import result_message
from epicrec.collective.task import Parameters


@dataclass(frozen=True, eq=False)
class Result:
    """What a round taught: anyone may have it, and everyone checks it."""

    parameters: Parameters
    people: int
    total: Integers
    leader: bytes
    helper: bytes

    def check(self, leader_key: bytes, helper_key: bytes) -> None:
        """Refuse a result that not both servers signed, or that honest people cannot give."""
        message = result_message(self.parameters, self.people, self.total)
        verify(leader_key, self.leader, message, "the result")
        verify(helper_key, self.helper, message, "the result")
        wrong = implausible(self.parameters, self.people, self.total)
        if wrong:
            raise Refusal("batchInvalid", f"no honest people give this result: {wrong}")

    def encoded(self) -> bytes:
        return encode(
            self.parameters.encoded(), self.people, self.total.astype("<i8").tobytes(),
            self.leader, self.helper,
        )  # fmt: skip

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        match decode(encoded):
            case [bytes() as parameters, int() as people, bytes() as total, bytes() as leader,
                  bytes() as helper]:  # fmt: skip
                found = Parameters.from_encoded(parameters)
            case _:
                raise Refusal("invalidMessage", "this is no result")
        if len(total) != 8 * found.length:
            raise Refusal("invalidMessage", "a result is not as long as its parameters say")
        return cls(found, people, np.frombuffer(total, "<i8").astype(np.int64), leader, helper)


@dataclass(frozen=True, eq=False)
class Taught:
    """A finished round as anyone fetches it: its result, and what was published for it.

    The parameters, which both signatures cover, hold the hash of what was published.
    """

    result: Result
    published: bytes

    def __post_init__(self) -> None:
        if hashlib.sha256(self.published).digest() != self.result.parameters.basis:
            raise Refusal("outdatedConfig", "what was published is not what the result is about")

    def encoded(self) -> bytes:
        return encode(self.result.encoded(), self.published)

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        result, published = byte_fields(encoded, 2)
        return cls(Result.from_encoded(result), published)
