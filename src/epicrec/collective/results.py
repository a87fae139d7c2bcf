"""Results: each server's noisy sum, the sum that both open and sign, and how a round ends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Self

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.keys import verify
from epicrec.collective.messages import VERSION, Refusal, byte_fields, decode, encode
from epicrec.collective.proofs.field import Q, Words, add_into
from epicrec.collective.proofs.pine import elements, in_field
from epicrec.collective.shares import Announcement
from epicrec.collective.task import Role, RoundParameters
from epicrec.privacy.noise import integer_gaussian
from epicrec.seeds import derived

# ---- sums -------------------------------------------------------------------------------------


def server_noise(parameters: RoundParameters, seed: int | None = None) -> Integers:
    """One server's whole noise, drawn on zeros because a share can be anything modulo q.

    With a seed it is repeatable and not private.
    """
    return integer_gaussian(parameters.length, parameters.sigma, seed=seed)


def opened(parameters: RoundParameters, leader: bytes, helper: bytes) -> Integers:
    """Everyone's sum with both noises, from both servers' noisy shares."""
    total, other = (elements(share).copy() for share in (leader, helper))
    if not len(total) == len(other) == parameters.length:
        raise Refusal("invalidMessage", "a noisy share is not as long as the round's vectors")
    add_into(total, other)
    return _centred(total)


def _centred(words: Words) -> Integers:
    """Elements of the field as integers from -q/2 to q/2."""
    return (words + np.where(words > Q // 2, np.uint64((1 << 64) - Q), np.uint64(0))).view(np.int64)


def seeded(role: Role, seed: int | None) -> Callable[[RoundParameters], Integers]:
    """A server's noise: private without a seed, repeatable with one."""
    return lambda parameters: server_noise(parameters, derived(seed, role, parameters.round))


def released(parameters: RoundParameters, total: Integers, seed: int | None = None) -> Integers:
    """What a round opens to, from everyone's plain sum: that sum with both servers' noises.

    The same integers as with shares, which cancel, at a cost that does not grow with people.
    """
    one = in_field(total)
    add_into(one, in_field(seeded("leader", seed)(parameters)))
    other = in_field(seeded("helper", seed)(parameters))
    return opened(parameters, one.tobytes(), other.tobytes())


def commitment(parameters: RoundParameters, role: Role, share: bytes, salt: bytes) -> bytes:
    """A server's commitment to its noisy share, given before either server shows one."""
    return hashlib.sha256(
        encode(VERSION, "commitment", role, parameters.digest, salt, share)
    ).digest()


def set_message(parameters: RoundParameters, people: int, chosen: bytes) -> bytes:
    """What both servers sign before anything is added up: these reports are the round's."""
    return encode(VERSION, "reports", parameters.digest, people, chosen)


def abort_message(announcement: Announcement) -> bytes:
    """What a server signs when a round ends without a result: its key of this announcement is
    destroyed, and it has shown no share."""
    return encode(VERSION, "abort: key destroyed, nothing shown", announcement.encoded())


def result_message(parameters: RoundParameters, people: int, total: Integers) -> bytes:
    """What both servers sign: these sums, of so many people, for these parameters."""
    return encode(VERSION, "result", parameters.digest, people, total.astype("<i8").tobytes())


# ---- results ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Result:
    """The sum of a round, public and signed by both servers; everyone checks it."""

    parameters: RoundParameters
    people: int
    total: Integers
    leader: bytes
    helper: bytes

    def check(self, leader_key: bytes, helper_key: bytes) -> None:
        """Refuse a result unless both servers signed it and honest people can have given it."""
        message = result_message(self.parameters, self.people, self.total)
        verify(leader_key, self.leader, message, "the result")
        verify(helper_key, self.helper, message, "the result")
        check_plausible(self.parameters, self.people, self.total)

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
                found = RoundParameters.from_encoded(parameters)
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


@dataclass(frozen=True)
class Aborted:
    """A round that ended without a result; with both signatures it has cost nobody anything."""

    announcement: Announcement
    leader: bytes
    helper: bytes

    def check(self, leader_key: bytes, helper_key: bytes) -> None:
        message = abort_message(self.announcement)
        verify(leader_key, self.leader, message, "the end of the round")
        verify(helper_key, self.helper, message, "the end of the round")

    def encoded(self) -> bytes:
        return encode(self.announcement.encoded(), self.leader, self.helper)

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        announcement, leader, helper = byte_fields(encoded, 3)
        return cls(Announcement.from_encoded(announcement), leader, helper)


# ---- plausibility -----------------------------------------------------------------------------

_FALSE_ALARM = 1e-9


def check_plausible(parameters: RoundParameters, people: int, total: Integers) -> None:
    """Refuse a sum that no people give whose norms were proved, noise included.

    One of the servers lied then. A false alarm has a probability below 10⁻⁹.
    """
    deviations = -NormalDist().inv_cdf(_FALSE_ALARM / (2 * parameters.length))
    room = deviations * sqrt(2) * parameters.sigma
    beyond = np.abs(total).max() > people * parameters.sensitivity + room
    if beyond or not 0 <= people <= parameters.most:
        raise Refusal("batchInvalid", f"{people} people cannot give this result: a server lies")
