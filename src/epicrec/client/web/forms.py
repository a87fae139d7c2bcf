"""Forms: the fields and files that a browser sends.

A small form is read in memory. The files of a large one go onto the disk as they come, since they
may be larger than memory.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterable
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import BinaryIO
from urllib.parse import parse_qs

from epicrec.errors import InputError

MOST = 2**30
"""Bytes of a form with files that go onto the disk."""
_MOST_HEAD = 2**14
_FIELD = re.compile(rb'[;\s]name="([^"]*)"')
_FILE = re.compile(rb'filename="([^"]*)"')
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?')


def boundary_of(kind: str) -> bytes | None:
    """What separates the fields of a form of this content type; None if it has no files."""
    found = _BOUNDARY.search(kind)
    if not kind.startswith("multipart/form-data") or found is None:
        return None
    return found.group(1).encode()


def read_form(kind: str, body: bytes) -> tuple[dict[str, list[str]], list[tuple[str, bytes]]]:
    """The fields and files of a form, in either of the two ways a browser writes one."""
    boundary = boundary_of(kind)
    if boundary is None:
        text = body.decode("utf-8", "replace")
        return parse_qs(text, keep_blank_values=True, max_num_fields=20_000), []
    form: dict[str, list[str]] = {}
    files: list[tuple[str, bytes]] = []
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name, file = _FIELD.search(head), _FILE.search(head)
        content = content.removesuffix(b"\r\n")
        if file is not None:
            files.append((file.group(1).decode("utf-8", "replace"), content))
        elif name is not None:
            form.setdefault(name.group(1).decode(), []).append(content.decode("utf-8", "replace"))
    return form, files


class Unpacking:
    """A form, piece by piece; its files are written into a folder, under their own names."""

    def __init__(self, folder: Path, boundary: bytes) -> None:
        self._folder, self._mark = folder, b"\r\n--" + boundary
        self._left = b"\r\n"  # so that the first mark is like the others
        self._in_head = False
        self._file: BinaryIO | None = None

    def feed(self, piece: bytes) -> None:
        self._left += piece
        while self._step():
            pass

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _step(self) -> bool:
        """Up to the next mark, or the end of a head; whether there is more to read."""
        if self._in_head:
            head, end, rest = self._left.partition(b"\r\n\r\n")
            if len(head) > _MOST_HEAD:
                raise InputError("this is no form that a browser sends; choose the files again")
            if end:
                self._left, self._in_head, self._file = rest, False, self._opened(head)
            return bool(end)
        content, mark, rest = self._left.partition(self._mark)
        if not mark:  # its first letters may be here already
            at = max(len(content) - len(self._mark) + 1, 0)
            content, self._left = content[:at], content[at:]
        if self._file is not None:
            self._file.write(content)
        if mark:
            self.close()
            self._left, self._in_head = rest, True
        return bool(mark)

    def _opened(self, head: bytes) -> BinaryIO | None:
        """A file by its own name alone: no path leads out."""
        found = _FILE.search(head)
        path = found.group(1).decode("utf-8", "replace").replace("\\", "/") if found else ""
        name = PurePosixPath(path).name
        return (self._folder / name).open("wb") if name not in ("", "..") else None


async def received(pieces: AsyncIterable[bytes], kind: str, folder: Path) -> Path:
    """The files of a form in a new folder below this one; the caller deletes it."""
    boundary = boundary_of(kind)
    if boundary is None:
        raise InputError("no file was chosen; choose one first")
    there = folder / token_hex(8)
    there.mkdir(parents=True, mode=0o700)
    unpacking, size = Unpacking(there, boundary), 0
    try:
        async for piece in pieces:
            size += len(piece)
            if size > MOST:
                raise InputError(f"the files are too large; {MOST // 2**20:,} MB are read")
            unpacking.feed(piece)
    except BaseException:
        shutil.rmtree(there, ignore_errors=True)
        raise
    finally:
        unpacking.close()
    return there
