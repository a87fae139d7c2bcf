"""Vault: the store's bytes under a passphrase, written whole or not at all.

AES-256-GCM with a key from scrypt; a new nonce for every write. Without the passphrase the
file tells its size and nothing else.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from epicrec.errors import EpicrecError, InputError
from epicrec.files import sync_folder

_HEADER = b"epicrec sealed store 1\n"
_SALT, _NONCE = 16, 12
LEAST = 8


class WrongPassphraseError(EpicrecError):
    """The passphrase does not open this store."""


class DamagedError(InputError):
    """What is on the disk cannot be read as a history."""


class Vault:
    """One sealed file, open under its passphrase."""

    def __init__(self, path: Path, passphrase: str, salt: bytes) -> None:
        self.path, self._salt = path, salt
        derived = Scrypt(salt, length=32, n=2**15, r=8, p=1).derive(passphrase.encode())
        self._cipher = AESGCM(derived)

    @classmethod
    def new(cls, path: Path, passphrase: str) -> Vault:
        if len(passphrase) < LEAST:
            raise InputError(f"a passphrase needs {LEAST} characters or more; take a few words")
        return cls(path, passphrase, secrets.token_bytes(_SALT))

    @classmethod
    def open(cls, path: Path, passphrase: str) -> tuple[Vault, bytes]:
        """The vault and what is in it."""
        data = path.read_bytes()
        head = len(_HEADER)
        if data[:head] != _HEADER:
            raise DamagedError(f"{path} is not a sealed store; restore it from a copy")
        vault = cls(path, passphrase, data[head : head + _SALT])
        body = data[head + _SALT :]
        try:
            return vault, vault._cipher.decrypt(body[:_NONCE], body[_NONCE:], _HEADER)
        except InvalidTag:
            raise WrongPassphraseError("this passphrase does not open the store") from None

    def sealed(self, content: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return _HEADER + self._salt + nonce + self._cipher.encrypt(nonce, content, _HEADER)

    def write(self, content: bytes) -> None:
        write_private(self.path, self.sealed(content))


def is_sealed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


def write_private(path: Path, content: bytes) -> None:
    """Replace a file that only its owner may read; at any moment the old or the new is there."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
