"""Results: each server's noisy sum, the sum that both open and sign, and its plausibility."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Self

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.keys import verify
from epicrec.collective.messages import VERSION, Refusal, byte_fields, decode, encode
from epicrec.collective.shares import Words, as_words
from epicrec.collective.task import Role, RoundParameters
from epicrec.privacy.noise import integer_gaussian

# ---- sums -------------------------------------------------------------------------------------


def server_noise(parameters: RoundParameters, seed: int | None = None) -> Integers:
    """One server's whole noise, drawn on zeros because a share can be anything modulo 2**bits.

    With a seed it is repeatable and not private.
    """
    return integer_gaussian(parameters.length, parameters.sigma, seed=seed)


def noisy_sum(parameters: RoundParameters, shares: Iterable[Words], noise: Integers) -> Words:
    """The sum of the shares modulo 2**bits, noise included: never one without the other."""
    total = as_words(parameters, noise)
    for share in shares:
        total += share
    return total


def opened(parameters: RoundParameters, leader: bytes, helper: bytes) -> Integers:
    """Everyone's sum with both noises, from both servers' noisy shares."""
    one, other = (np.frombuffer(share, parameters.word) for share in (leader, helper))
    if len(one) != parameters.length or len(other) != parameters.length:
        raise Refusal("invalidMessage", "a noisy share is not as long as the round's vectors")
    signed = np.dtype(f"<i{parameters.bits // 8}")
    return (one + other).view(signed).astype(np.int64)


def commitment(parameters: RoundParameters, role: Role, share: bytes, salt: bytes) -> bytes:
    """A server's commitment to its noisy share, given before either server shows one."""
    return hashlib.sha256(
        encode(VERSION, "commitment", role, parameters.digest, salt, share)
    ).digest()


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


# ---- plausibility -----------------------------------------------------------------------------

_FALSE_ALARM = 1e-9
_DIAGONAL, _BELOW = 5, 7


def check_plausible(parameters: RoundParameters, people: int, total: Integers) -> None:
    """Refuse a sum that honest people cannot give, noise included, so that nobody ranks with it.

    This does not keep lies out: one device can move a sum as far as it likes, modulo the modulus.
    It refuses those that show. A false alarm has a probability below 10⁻⁹.
    """
    wrong = implausible(parameters, people, total)
    if wrong:
        raise Refusal("batchInvalid", f"no honest people give this result: {wrong}")


def implausible(parameters: RoundParameters, people: int, total: Integers) -> str | None:
    """What is wrong with a sum, or None. Unless its statistic has a check, norms are checked."""
    if not 0 <= people <= parameters.most:
        return f"{people} people took part, and at most {parameters.most} can"
    return _CHECKS.get(parameters.statistic, _norms)(parameters, people, total)


def _deviations(tests: int) -> float:
    """How many standard deviations noise may be off in so many tests: 6 or more."""
    return max(6.0, -NormalDist().inv_cdf(_FALSE_ALARM / (2 * tests)))


def _norms(parameters: RoundParameters, people: int, total: Integers) -> str | None:
    """No entry is beyond what so many vectors of norm Δ add up to."""
    room = _deviations(parameters.length) * sqrt(2) * parameters.sigma
    if np.abs(total).max() > people * parameters.sensitivity + room:
        return f"an entry is beyond what {people} people can add up to"
    return None


def _counts(parameters: RoundParameters, people: int, total: Integers) -> str | None:
    """Nobody counts less than nothing, nor more than once."""
    room = _deviations(parameters.length) * sqrt(2) * parameters.sigma
    if total.min() < -room:
        return "a count is below zero"
    return _norms(parameters, people, total)


def _products(parameters: RoundParameters, people: int, total: Integers) -> str | None:
    """A sum of z zᵀ has no negative direction, and a trace of at most one for each person.

    Packed as in `TasteProducts`, 5 z_j² on the diagonal and 7 z_i z_j below. The noise on such a
    matrix of side d reaches no further than 2√d of that on its diagonal, except with a probability
    that falls like a Gaussian's (Davidson and Szarek 2001).
    """
    size = int((sqrt(8 * parameters.length + 1) - 1) / 2)
    spread, one = sqrt(2) * parameters.sigma / _DIAGONAL, parameters.sensitivity / _DIAGONAL
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = total / _BELOW
    matrix[np.diag_indices(size)] *= _BELOW / _DIAGONAL
    if np.trace(matrix) > people * one + _deviations(1) * spread * sqrt(size):
        return f"the trace is beyond what {people} people can add up to"
    if np.linalg.eigvalsh(matrix)[0] < -spread * (2 * sqrt(size) + _deviations(1)):  # lower part
        return "a direction has a negative square"
    return _norms(parameters, people, total)


_CHECKS: dict[str, Callable[[RoundParameters, int, Integers], str | None]] = {
    "counts": _counts,
    "products": _products,
}
