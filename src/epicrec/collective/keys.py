"""Keys: signing keys that last, and sealing keys for one round, signed with them."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Self

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from epicrec.collective.messages import VERSION, Refusal, byte_fields, encode
from epicrec.collective.task import Role, RoundParameters

SUITE = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
"""Post-quantum and classical: what is sealed today stays sealed for quantum computers."""
SEALING = 1136
"""How many bytes sealing adds to a message."""
_LATTICE = 1184
_SEED = 64
_HALF = 32


def new_signing_key() -> bytes:
    """A server's lasting key, 32 bytes."""
    return secrets.token_bytes(32)


def verifying_key(signing_key: bytes) -> bytes:
    """What devices pin and the other server is configured with."""
    return Ed25519PrivateKey.from_private_bytes(signing_key).public_key().public_bytes_raw()


def fingerprint(key: bytes) -> str:
    """A key as people compare it: eight groups of four."""
    text = hashlib.sha256(encode(VERSION, "fingerprint", key)).hexdigest()[:32]
    return " ".join(text[at : at + 4] for at in range(0, 32, 4))


def sign(signing_key: bytes, message: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(signing_key).sign(message)


def verify(key: bytes, signature: bytes, message: bytes, what: str) -> None:
    """Refuse unless the holder of this key has signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError) as error:
        raise Refusal(
            "invalidMessage", f"{what} is not signed with the key {fingerprint(key)}"
        ) from error


def new_round_key() -> bytes:
    """A private sealing key: used in one round, deleted after it, never in a backup."""
    lattice = MLKEM768PrivateKey.generate().private_bytes_raw()
    return lattice + X25519PrivateKey.generate().private_bytes_raw()


def public_part(round_key: bytes) -> bytes:
    lattice = MLKEM768PrivateKey.from_seed_bytes(round_key[:_SEED])
    curve = X25519PrivateKey.from_private_bytes(round_key[_SEED:])
    return lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()


def seal(public: bytes, plain: bytes, info: bytes) -> bytes:
    """Bytes that only the key's holder can open, and only with the same `info`."""
    try:
        lattice = MLKEM768PublicKey.from_public_bytes(public[:_LATTICE])
        curve = X25519PublicKey.from_public_bytes(public[_LATTICE:])
    except ValueError as error:
        raise Refusal("invalidMessage", "this is no sealing key") from error
    return SUITE.encrypt(plain, MLKEM768X25519PublicKey(lattice, curve), info=info)


def opener(round_key: bytes) -> MLKEM768X25519PrivateKey:
    """A sealing key made ready to open with."""
    return MLKEM768X25519PrivateKey(
        MLKEM768PrivateKey.from_seed_bytes(round_key[:_SEED]),
        X25519PrivateKey.from_private_bytes(round_key[_SEED:]),
    )


def unseal(key: MLKEM768X25519PrivateKey, sealed: bytes, info: bytes) -> bytes:
    try:
        return SUITE.decrypt(sealed, key, info=info)
    except (InvalidTag, ValueError) as error:
        raise Refusal("reportRejected", "a share was sealed for something else") from error


@dataclass(frozen=True)
class RoundSecret:
    """What a server must not keep longer than a round: its sealing key, and what it knows of the
    key for verification, its own half and, at the leader, the helper's.

    It is in memory alone: in no database, data folder or backup.
    """

    sealing: bytes
    half: bytes
    other: bytes = b""

    @classmethod
    def new(cls) -> Self:
        return cls(new_round_key(), secrets.token_bytes(_HALF))

    def encoded(self) -> bytes:
        return encode(self.sealing, self.half, self.other)

    @classmethod
    def from_encoded(cls, encoded: bytes) -> Self:
        return cls(*byte_fields(encoded, 3))


def committed(role: Role, half: bytes) -> bytes:
    """A server's commitment to its half of the verification key, in its signed key."""
    return hashlib.sha256(encode(VERSION, "verification half", role, half)).digest()


def verification_key(leader: bytes, helper: bytes) -> bytes:
    """The key that decides where proofs are queried: drawn by both servers, unknown to devices."""
    return hashlib.sha256(encode(VERSION, "verification key", leader, helper)).digest()


@dataclass(frozen=True)
class SignedKey:
    """A server's sealing key for a round and its commitment to its half of the verification key,
    signed for that round's parameters and that role."""

    public: bytes
    committed: bytes
    signature: bytes

    @classmethod
    def make(
        cls, signing_key: bytes, role: Role, parameters: RoundParameters, secret: RoundSecret
    ) -> Self:
        public, half = public_part(secret.sealing), committed(role, secret.half)
        return cls(public, half, sign(signing_key, _key_message(role, parameters, public, half)))

    def check(self, key: bytes, role: Role, parameters: RoundParameters) -> None:
        message = _key_message(role, parameters, self.public, self.committed)
        verify(key, self.signature, message, f"the {role}'s key for this round")


def _key_message(role: Role, parameters: RoundParameters, public: bytes, committed: bytes) -> bytes:
    return encode(VERSION, "round key", role, parameters.digest, public, committed)
