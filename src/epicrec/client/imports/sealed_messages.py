"""Sealed messages of the extension: only this client can open them, and only it can answer.

ECDH on P-256 with a key of the sender's for each message, HKDF-SHA256, AES-256-GCM: what the
WebCrypto of every browser has. A message is the sender's public point (65 bytes), a nonce (12) and
the ciphertext; the answer is a nonce and a ciphertext under a second key of the same agreement, so
only a client that can open the message can answer it. `extension/seal.js` is the other side.
"""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

POINT, NONCE = 65, 12
_MESSAGE, _ANSWER = b"epicrec extension message 1", b"epicrec extension answer 1"
_CURVE = ec.SECP256R1()


class SealedKey:
    """The key pair of one pairing."""

    def __init__(self, secret: int) -> None:
        self._key = ec.derive_private_key(secret, _CURVE)
        self.public = self._key.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )

    @classmethod
    def new(cls) -> SealedKey:
        return cls(ec.generate_private_key(_CURVE).private_numbers().private_value)

    @classmethod
    def from_text(cls, text: str) -> SealedKey:
        return cls(int(text, 16))

    def to_text(self) -> str:
        return f"{self._key.private_numbers().private_value:x}"

    def open(self, sealed: bytes) -> bytes | None:
        """What was sealed to this key; None where it was not, or was changed."""
        point, nonce = sealed[:POINT], sealed[POINT : POINT + NONCE]
        try:
            return self._cipher(point, _MESSAGE).decrypt(nonce, sealed[POINT + NONCE :], None)
        except (ValueError, InvalidTag):
            return None

    def answer(self, sealed: bytes, content: bytes) -> bytes:
        """An answer to a message that was opened."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + self._cipher(sealed[:POINT], _ANSWER).encrypt(nonce, content, None)

    def _cipher(self, point: bytes, about: bytes) -> AESGCM:
        sender = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, point)
        shared = self._key.exchange(ec.ECDH(), sender)
        return AESGCM(HKDF(SHA256(), 32, point + self.public, about).derive(shared))
