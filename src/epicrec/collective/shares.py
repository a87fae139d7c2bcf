"""Shares: from a device's integers to two sealed shares with a proof, and back to one of them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey

from epicrec.arrays import Integers
from epicrec.collective.keys import SEALING, SignedKey, fingerprint, seal, unseal
from epicrec.collective.messages import VERSION, Refusal, byte_fields, encode
from epicrec.collective.proofs.field import Words
from epicrec.collective.proofs.pine import HELPER, HELPER_ID, LEADER_ID, NONCE, PUBLIC, RANDOM
from epicrec.collective.task import Role, RoundParameters

ID = NONCE
"""A report's id is the nonce of its proof."""
NUMBERS: dict[Role, int] = {"leader": LEADER_ID, "helper": HELPER_ID}
"""The servers as proofs number them."""
_CHUNK = 4096


@dataclass(frozen=True)
class Announcement:
    """An open round as devices see it: the parameters and both servers' keys for it."""

    parameters: RoundParameters
    leader: SignedKey
    helper: SignedKey

    def check(self, leader_key: bytes, helper_key: bytes) -> None:
        """Refuse unless both servers signed exactly this with their pinned keys."""
        if leader_key == helper_key or self.leader.public == self.helper.public:
            raise Refusal(
                "outdatedConfig",
                "leader and helper have the same key: they are one, and would read everything "
                f"({fingerprint(helper_key)})",
            )
        self.leader.check(leader_key, "leader", self.parameters)
        self.helper.check(helper_key, "helper", self.parameters)

    def binding(self, role: Role, report_id: bytes, public: bytes) -> bytes:
        """Everything that a share is bound to; it cannot be opened for anything else.

        `public` is the report's public share: a server that changes the other's part in the joint
        randomness would learn from the answer what the share is about.
        """
        return encode(
            VERSION, "report", role, self.parameters.task, self.parameters.round, report_id,
            public, self.leader.public, self.leader.committed,
            self.helper.public, self.helper.committed, self.parameters.digest,
        )  # fmt: skip

    def encoded(self) -> bytes:
        keys = (self.leader, self.helper)
        parts = (part for key in keys for part in (key.public, key.committed, key.signature))
        return encode(self.parameters.encoded(), *parts)

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        parameters, *keys = byte_fields(encoded, 7)
        return cls(
            RoundParameters.from_encoded(parameters), SignedKey(*keys[:3]), SignedKey(*keys[3:])
        )


@dataclass(frozen=True)
class Report:
    """What a device sends, once: an id, a public share, and a sealed share for each server."""

    id: bytes
    public: bytes
    leader: bytes
    helper: bytes

    def encoded(self) -> bytes:
        return encode(self.id, self.public, self.leader, self.helper)

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        found = cls(*byte_fields(encoded, 4))
        if len(found.id) != ID or len(found.public) != PUBLIC:
            raise Refusal(
                "invalidMessage", f"a report's id has {ID} bytes, and {PUBLIC} are public"
            )
        return found


@dataclass(frozen=True, eq=False)
class Cut:
    """A contribution and all the randomness that it is cut and proved with, before it is sealed."""

    announcement: Announcement
    id: bytes
    random: bytes
    numbers: Integers

    @classmethod
    def make(cls, announcement: Announcement, vector: Integers) -> Self:
        """Cut a contribution with fresh randomness; one whose norm is too large becomes zeros."""
        numbers = allowed(announcement.parameters, vector)
        return cls(announcement, secrets.token_bytes(ID), secrets.token_bytes(RANDOM), numbers)

    @cached_property
    def shares(self) -> tuple[bytes, bytes, bytes]:
        """The public share, the leader's with the proof, and the helper's seeds."""
        return self.announcement.parameters.proofs.shard(self.numbers, self.id, self.random)

    @property
    def helper(self) -> Words:
        """The helper's half, which its first seed expands to."""
        return self.announcement.parameters.proofs.vector(HELPER_ID, self.shares[2])

    @property
    def leader(self) -> Words:
        return self.announcement.parameters.proofs.vector(LEADER_ID, self.shares[1])

    def sealed(self) -> Report:
        """Both halves for their servers; as long as the parameters say, whatever is in them."""
        keys, (public, leader, helper) = self.announcement, self.shares
        return Report(
            self.id,
            public,
            seal(keys.leader.public, leader, keys.binding("leader", self.id, public)),
            seal(keys.helper.public, helper, keys.binding("helper", self.id, public)),
        )

    def encoded(self) -> bytes:
        return encode(self.id, self.random, self.numbers.astype("<i8").tobytes())

    @classmethod
    def from_encoded(cls, announcement: Announcement, encoded: bytes) -> Self:
        """Read what `encoded` wrote, in our own drawer."""
        report_id, random, numbers = byte_fields(encoded, 3)
        return cls(announcement, report_id, random, np.frombuffer(numbers, "<i8").astype(np.int64))


def make_report(announcement: Announcement, vector: Integers) -> Report:
    """Cut a contribution in two, prove its norm and seal both halves."""
    return Cut.make(announcement, vector).sealed()


def sealed_sizes(parameters: RoundParameters) -> tuple[int, int]:
    """How long the leader's and the helper's sealed share are, in bytes."""
    return parameters.proofs.leader_size + SEALING, HELPER + SEALING


def allowed(parameters: RoundParameters, vector: Integers) -> Integers:
    """The vector if its norm is at most Δ, in exact integers; else zeros.

    This check, and nothing that was computed before it, is why Δ is the sensitivity.
    """
    nothing = np.zeros(parameters.length, np.int64)
    if vector.dtype != np.int64 or vector.shape != nothing.shape:
        return nothing
    bound = parameters.sensitivity
    if not bool(np.all((vector <= bound) & (vector >= -bound))):
        return nothing
    return vector if squared_norm(vector) <= bound**2 else nothing


def squared_norm(vector: Integers) -> int:
    """Σ x² of integers up to 2⁴⁰, exactly: in two halves of 20 bits, 4096 entries at once."""
    high, low = vector >> 20, vector & ((1 << 20) - 1)
    at = np.arange(0, len(vector), _CHUNK)
    if not at.size:
        return 0
    parts = [
        np.add.reduceat(a * b, at).tolist() for a, b in ((high, high), (high, low), (low, low))
    ]
    squares, mixed, rest = map(sum, parts)
    return int((squares << 40) + (mixed << 21) + rest)


def open_share(
    announcement: Announcement, role: Role, key: MLKEM768X25519PrivateKey, report: Report
) -> bytes:
    """A server's own share of a report; refused where it was sealed for anything else."""
    bound = announcement.binding(role, report.id, report.public)
    return unseal(key, report.leader if role == "leader" else report.helper, bound)
