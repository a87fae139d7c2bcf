"""A server's noisy sum, its commitment to it, and what both open together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.encoding import VERSION, encode
from epicrec.collective.refusals import Refusal
from epicrec.collective.shares import Words, as_words
from epicrec.collective.task import Parameters, Role
from epicrec.privacy.noise import integer_gaussian


def noise(parameters: Parameters, seed: int | None = None) -> Integers:
    """One server's whole noise. Drawn on zeros: a share is anything modulo 2**bits.

    With a seed it is repeatable and not private.
    """
    return integer_gaussian(parameters.length, parameters.sigma, seed=seed)


def noisy_sum(parameters: Parameters, shares: Iterable[Words], noise: Integers) -> Words:
    """The shares added up modulo 2**bits, with the noise in it: never one without the other."""
    total = as_words(parameters, noise)
    for share in shares:
        total += share
    return total


def opened(parameters: Parameters, leader: bytes, helper: bytes) -> Integers:
    """Everyone's sum with both noises, from both servers' noisy shares."""
    one, other = (np.frombuffer(share, parameters.word) for share in (leader, helper))
    if len(one) != parameters.length or len(other) != parameters.length:
        raise Refusal("invalidMessage", "a noisy share is not as long as the round's vectors")
    signed = np.dtype(f"<i{parameters.bits // 8}")
    return (one + other).view(signed).astype(np.int64)


def commitment(parameters: Parameters, role: Role, share: bytes, salt: bytes) -> bytes:
    """What a server says of its noisy share before either shows one."""
    return hashlib.sha256(
        encode(VERSION, "commitment", role, parameters.digest, salt, share)
    ).digest()


def result_message(parameters: Parameters, people: int, total: Integers) -> bytes:
    """What both servers sign: these sums, of so many people, for these parameters."""
    return encode(VERSION, "result", parameters.digest, people, total.astype("<i8").tobytes())
