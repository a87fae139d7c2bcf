"""A task and its rounds: what everyone has to agree on before anything is sent.

A task is one training of a shared model, with one privacy budget. It consists of rounds, each of
which opens one sum. Every report is bound to the hash of its round's parameters.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isfinite, sqrt
from typing import Literal, Self

from epicrec.collective.messages import VERSION, Refusal, decode, encode
from epicrec.collective.proofs.field import Q
from epicrec.collective.proofs.pine import Pine
from epicrec.errors import InputError
from epicrec.privacy import gaussian_guarantee, gaussian_mu, gaussian_sigma
from epicrec.privacy.guarantee import Guarantee
from epicrec.privacy.noise import LARGEST_SCALE

Role = Literal["leader", "helper"]

NAME = "common-model"
"""The default name of a task; hashed and signed with every round, so it stays as it is."""

_TAIL = 40
"""Noise beyond this many σ does not happen in the lifetime of the universe."""
_LONGEST, _GREATEST = 1 << 27, 1 << 31
"""Entries of a vector, and Δ: 3Δ² must be below q, or the norm cannot be proved."""
ASSUMES = (
    "a history is hidden, against an empty one from the same device, and not who takes part",
    "no more people send than a task can hold",
    "leader and helper share nothing",
    "the one that is not the adversary runs this program",
    "the helper's key is genuine",
    "items and their features are public",
    "whether and when a device sends does not depend on its history",
    "the encryption is not broken",
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One training of a shared model: its name, its budget, and how many people it can hold."""

    name: str
    mu: float
    delta: float
    most: int = 1 << 20

    @classmethod
    def of(cls, epsilon: float, delta: float, most: int = 1 << 20, name: str = NAME) -> Self:
        """A task whose rounds together are (ε, δ)-private for a person."""
        return cls(name=name, mu=gaussian_mu(epsilon, delta), delta=delta, most=most)

    def guarantee(self) -> Guarantee:
        """What all rounds together promise everyone who takes part."""
        return gaussian_guarantee(
            self.mu, self.delta, unit="user", relation="add or remove one", assumes=ASSUMES
        )


@dataclass(frozen=True, kw_only=True)
class RoundParameters:
    """One round of one task: what is summed, on which grid, with how much noise.

    `sensitivity` is Δ, the greatest L2 norm of what one device adds, in integers. `mu` is the μ of
    the whole task and `share` this round's part of μ²; `most` is the greatest number of people, and
    `basis` the SHA-256 of what is published for the round.
    """

    task: str
    round: int
    statistic: str
    length: int
    sensitivity: int
    mu: float
    delta: float
    share: Fraction
    most: int
    basis: bytes

    def __post_init__(self) -> None:
        whole = (self.round, self.length, self.sensitivity, self.most)
        if not all(type(number) is int and number >= 0 for number in whole):
            raise InputError("round, length, sensitivity and most must be integers of at least 0")
        if not 0 < self.length <= _LONGEST or not 0 < self.sensitivity <= _GREATEST:
            raise InputError(f"length goes from 1 to {_LONGEST:,}, sensitivity from 1 to 2**31")
        if not self.most:
            raise InputError("most is how many people can take part: at least 1")
        if not (isfinite(self.mu) and self.mu > 0 and 0 < self.delta < 1):
            raise InputError("mu must be above 0 and finite, delta between 0 and 1")
        if type(self.share) is not Fraction or not 0 < self.share <= 1:
            raise InputError(f"share must be a fraction above 0 and at most 1, not {self.share!r}")
        if len(self.basis) != 32 or self.sigma > LARGEST_SCALE or 2 * self._reach >= Q:
            raise InputError(
                "these parameters do not fit: the basis is a SHA-256, and people × Δ with the "
                "noise must stay below q / 2, some 2**63; use a coarser grid or fewer people"
            )

    @property
    def round_mu(self) -> float:
        """The μ of this round: the squares of all rounds add up to that of the task."""
        return self.mu * sqrt(self.share) * (1 - 2**-50)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of either server's noise, from the parameters alone."""
        return gaussian_sigma(self.sensitivity, self.round_mu)

    @property
    def _reach(self) -> float:
        """A bound on every entry of the opened sum, noise included."""
        return self.most * self.sensitivity + 2 * _TAIL * self.sigma

    @property
    def proofs(self) -> Pine:
        """How a device proves that its vector is no longer than Δ."""
        return Pine.of(self.length, self.sensitivity)

    def guarantee(self) -> Guarantee:
        """What this round promises a device that takes part."""
        return gaussian_guarantee(
            self.round_mu, self.delta, unit="user", relation="add or remove one", assumes=ASSUMES
        )

    def encoded(self) -> bytes:
        """The one encoding; it states σ and the modulus, though they follow from the rest."""
        return encode(
            VERSION, self.task, self.round, self.statistic, self.length, self.sensitivity,
            self.mu, self.delta, self.share, self.most, self.basis, self.sigma, Q,
        )  # fmt: skip

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        """Read `encoded`; refuse parameters whose σ or modulus does not follow from the rest."""
        fields = decode(encoded)
        names = ("task", "round", "statistic", "length", "sensitivity", "mu", "delta", "share",
                 "most", "basis")  # fmt: skip
        kinds = (str, int, str, int, int, float, float, Fraction, int, bytes)
        given = fields[1 : len(names) + 1]
        fit = len(fields) == len(names) + 3 and all(map(isinstance, given, kinds))
        try:
            found = cls(**dict(zip(names, given, strict=True))) if fit else None  # type: ignore[arg-type]
        except InputError as error:
            raise Refusal("invalidMessage", f"these are no parameters: {error}") from error
        if found is None or found.encoded() != encoded:
            raise Refusal("invalidMessage", "these parameters do not follow from each other")
        return found

    @cached_property
    def digest(self) -> bytes:
        """The hash by which a report is bound to all of the above."""
        return hashlib.sha256(self.encoded()).digest()
