"""Archives: the files inside a zip, in memory, within limits on what they unpack to."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable

from epicrec.errors import InputError

MAX_FILE = 64 * 2**20
MAX_UNPACKED = 256 * 2**20
MAX_MEMBERS = 10_000
_CHUNK = 2**20
# what zipfile raises on headers that make no sense
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError,
    RuntimeError, OSError, ValueError, OverflowError,
)  # fmt: skip


def is_zip(data: bytes) -> bool:
    return data[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def check_size(name: str, data: bytes) -> None:
    """Refuse a file that is empty or too large."""
    if not data:
        raise InputError(f"{name} is empty; choose the file as it was exported")
    if len(data) > MAX_FILE:
        raise InputError(
            f"{name} has {len(data) / 2**20:.0f} MB, more than the {MAX_FILE // 2**20} MB that are "
            "read; choose the export itself, or split it"
        )


def unpack(name: str, data: bytes, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """The wanted files of a zip by their names inside it; nothing is written to disk.

    The limit counts the bytes that really come out, whatever the zip says of itself.
    """
    files: dict[str, bytes] = {}
    left = MAX_UNPACKED
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise InputError(
                    f"{name} holds {len(members):,} files, more than the {MAX_MEMBERS:,} that an "
                    "export has; choose the export itself"
                )
            for member in members:
                if member.is_dir() or not wanted(member.filename):
                    continue
                if member.flag_bits & 1:
                    raise InputError(
                        f"{name} is protected by a password; unpack it and choose the files inside"
                    )
                content = bytearray()
                with archive.open(member) as opened:
                    while chunk := opened.read(min(_CHUNK, left + 1)):
                        content += chunk
                        left -= len(chunk)
                        if left < 0:
                            raise InputError(
                                f"{name} unpacks to more than {MAX_UNPACKED // 2**20} MB; choose "
                                "the export itself"
                            )
                files[member.filename] = bytes(content)
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(
            f"{name} is a damaged zip: {error}. Download it again, then choose it again"
        ) from error
    return files


def decode(data: bytes) -> str:
    """Text in the encodings that exports come in."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
