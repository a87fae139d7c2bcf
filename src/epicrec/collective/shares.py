"""Shares: from a device's integers to two sealed shares, and back to a server's own share."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from epicrec.arrays import Integers
from epicrec.collective.keys import SEALING, SignedKey, fingerprint, seal, unseal
from epicrec.collective.messages import VERSION, Refusal, byte_fields, encode
from epicrec.collective.task import Role, RoundParameters

Words = npt.NDArray[np.unsignedinteger[Any]]

ID, SEED = 16, 32
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

    def binding(self, role: Role, report_id: bytes) -> bytes:
        """Everything that a share is bound to; it cannot be opened for anything else."""
        return encode(
            VERSION, "report", role, self.parameters.task, self.parameters.round, report_id,
            self.leader.public, self.helper.public, self.parameters.digest,
        )  # fmt: skip

    def encoded(self) -> bytes:
        return encode(
            self.parameters.encoded(), self.leader.public, self.leader.signature,
            self.helper.public, self.helper.signature,
        )  # fmt: skip

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        parameters, *keys = byte_fields(encoded, 5)
        return cls(
            RoundParameters.from_encoded(parameters), SignedKey(*keys[:2]), SignedKey(*keys[2:])
        )


@dataclass(frozen=True)
class Report:
    """What a device sends, once: an id, and a sealed share for each server."""

    id: bytes
    leader: bytes
    helper: bytes

    def encoded(self) -> bytes:
        return encode(self.id, self.leader, self.helper)

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        found = cls(*byte_fields(encoded, 3))
        if len(found.id) != ID:
            raise Refusal("invalidMessage", f"a report's id has {ID} bytes")
        return found


@dataclass(frozen=True, eq=False)
class Cut:
    """A contribution and its two halves, x - stream(seed) and the seed, before they are sealed."""

    announcement: Announcement
    id: bytes
    seed: bytes
    numbers: Integers

    @classmethod
    def make(cls, announcement: Announcement, vector: Integers) -> Self:
        """Cut a contribution with fresh randomness; one whose norm is too large becomes zeros."""
        numbers = allowed(announcement.parameters, vector)
        return cls(announcement, secrets.token_bytes(ID), secrets.token_bytes(SEED), numbers)

    @property
    def helper(self) -> Words:
        """The helper's half, which the seed expands to."""
        bound = self.announcement.binding("helper", self.id)
        return stream(self.announcement.parameters, self.seed, bound)

    @property
    def leader(self) -> Words:
        return as_words(self.announcement.parameters, self.numbers) - self.helper

    def sealed(self) -> Report:
        """Both halves for their servers; as long as the parameters say, whatever is in them."""
        keys, bound = self.announcement, self.announcement.binding
        return Report(
            self.id,
            seal(keys.leader.public, self.leader.tobytes(), bound("leader", self.id)),
            seal(keys.helper.public, self.seed, bound("helper", self.id)),
        )

    def encoded(self) -> bytes:
        return encode(self.id, self.seed, self.numbers.astype("<i8").tobytes())

    @classmethod
    def from_encoded(cls, announcement: Announcement, encoded: bytes) -> Self:
        """Read what `encoded` wrote, in our own drawer."""
        report_id, seed, numbers = byte_fields(encoded, 3)
        return cls(announcement, report_id, seed, np.frombuffer(numbers, "<i8").astype(np.int64))


def make_report(announcement: Announcement, vector: Integers) -> Report:
    """Cut a contribution in two and seal both halves."""
    return Cut.make(announcement, vector).sealed()


def sealed_sizes(parameters: RoundParameters) -> tuple[int, int]:
    """How long the leader's and the helper's sealed share are, in bytes."""
    return parameters.length * parameters.bits // 8 + SEALING, SEED + SEALING


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


def as_words(parameters: RoundParameters, vector: Integers) -> Words:
    """Integers modulo 2**bits."""
    return vector.view(np.uint64).astype(parameters.word)


def stream(parameters: RoundParameters, seed: bytes, bound: bytes) -> Words:
    """The helper's share: ChaCha20 with a key that the seed and all it is bound to decide."""
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=bound).derive(seed)
    cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    words = cipher.update(bytes(parameters.length * parameters.bits // 8))
    return np.frombuffer(words, dtype=parameters.word)


def open_share(
    announcement: Announcement,
    role: Role,
    key: MLKEM768X25519PrivateKey,
    report_id: bytes,
    sealed: bytes,
) -> Words:
    """A server's own share of a report; refused where it was sealed for anything else."""
    parameters, bound = announcement.parameters, announcement.binding(role, report_id)
    plain = unseal(key, sealed, bound)
    if role == "helper":
        if len(plain) != SEED:
            raise Refusal("reportRejected", f"a seed has {SEED} bytes, this one {len(plain)}")
        return stream(parameters, plain, bound)
    if len(plain) != parameters.length * parameters.bits // 8:
        raise Refusal("reportRejected", "a share is not as long as the round's vectors")
    return np.frombuffer(plain, dtype=parameters.word)
