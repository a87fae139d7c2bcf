"""Folders of trainings: written, then adopted; users who leave are overwritten in all of them."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.arrays import Array
from epicrec.errors import InputError
from epicrec.files import locked, sync_folder
from epicrec.server.operations.file_permissions import opener

ARRAYS = (
    "item_keys",  # of the items that may be recommended, ascending
    "item_factors",
    "gram",  # item_factorsᵀ item_factors
    "popularity",  # share of users who released the item
    "category_starts",  # category c holds the items category_items[starts[c]:starts[c + 1]]
    "category_items",
    "user_keys",  # ascending
    "user_factors",
    "seen_starts",  # user u released the items seen_items[starts[u]:starts[u + 1]]
    "seen_items",
    "top_items",  # each user's list, best first, -1 where it ends
    "top_scores",
)
_PERSONAL = {"user_factors": 0, "seen_items": -1, "top_items": -1, "top_scores": 0}
"""The arrays about users, and the value that overwrites those who left."""


def save(folder: Path, meta: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a training; it counts only once `adopt` names it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    for name in ARRAYS:
        with open(folder / f"{name}.npy", "wb", opener=opener) as file:
            np.save(file, arrays[name], allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
    _write_meta(folder, meta, {name: _sum(arrays[name]) for name in ARRAYS})


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `save` wrote: meta data, and arrays mapped into memory after a check of their sums."""
    try:
        meta, sums = _meta(folder)
        arrays: dict[str, Array] = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ARRAYS
        }
        for name in sums.keys() & arrays.keys():
            if sums[name] != _sum(arrays[name]):
                raise ValueError(f"{name}.npy is not what was written")
    except (OSError, ValueError, KeyError) as error:
        raise unreadable(folder, error) from error
    return meta, arrays


def unreadable(folder: Path, error: Exception) -> InputError:
    return InputError(f"{folder} holds no training that can be read: {error}")


def _meta(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The contents of `meta.json`, and the checksums of the arrays that are not being changed."""
    meta: dict[str, Any] = json.loads((folder / "meta.json").read_text("utf-8"))
    sums: dict[str, int] = meta.pop("sums")
    if sums.pop("meta") != zlib.crc32(json.dumps(meta).encode()):
        raise ValueError("meta.json is not what was written")
    return meta, sums


def _write_meta(folder: Path, meta: dict[str, Any], sums: dict[str, int]) -> None:
    own = {"meta": zlib.crc32(json.dumps(meta).encode())}
    write_atomically(folder / "meta.json", json.dumps(meta | {"sums": sums | own}))


def _sum(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def adopt(models: Path, number: int) -> None:
    """Make a training the current one in one step, and remove all but it and the one before."""
    before = current(models)
    write_atomically(models / "current", str(number))
    for folder in models.iterdir():
        if folder.is_dir() and folder.name not in (str(number), str(before)):
            shutil.rmtree(folder, ignore_errors=True)


def numbers(models: Path) -> list[int]:
    """The current training and the earlier ones that are left, newest first."""
    newest = current(models)
    if newest is None:
        return []
    found = [int(path.name) for path in models.iterdir() if path.name.isdecimal()]
    return [newest, *sorted((number for number in found if number < newest), reverse=True)]


def current(models: Path) -> int | None:
    """The number of the current training."""
    try:
        return int((models / "current").read_text())
    except (OSError, ValueError):
        return None


def has_learned(models: Path) -> bool:
    """Whether the current training was learned from any feedback; True where it is unreadable."""
    number = current(models)
    try:
        learned = number is not None and np.load(models / str(number) / "seen_items.npy").size
    except (OSError, ValueError):
        return True
    return bool(learned)


def discard(models: Path) -> None:
    """Remove every training."""
    (models / "current").unlink(missing_ok=True)
    for folder in models.iterdir():
        shutil.rmtree(folder, ignore_errors=True)


def scrub(models: Path, user_keys: Sequence[int]) -> None:
    """Overwrite all that the trainings on disk hold about these users; call `seal` later."""
    wanted = np.array(sorted(user_keys), np.int64)
    with locked(models / ".lock", wait=True):
        for folder in _trainings(models):
            try:
                _scrub(folder, wanted)
            except (OSError, ValueError, KeyError):  # a damaged one cannot be served either
                shutil.rmtree(folder, ignore_errors=True)


def seal(models: Path) -> None:
    """Write new checksums for what was overwritten."""
    with locked(models / ".lock", wait=True):
        for folder in _trainings(models):
            try:
                meta, sums = _meta(folder)
                changed = [name for name in _PERSONAL if name not in sums]
                for name in changed:
                    sums[name] = _sum(np.load(folder / f"{name}.npy", mmap_mode="r"))
            except (OSError, ValueError, KeyError):
                continue
            if changed:
                _write_meta(folder, meta, sums)


def _trainings(models: Path) -> list[Path]:
    return [path for path in models.glob("*") if (path / "meta.json").exists()]


def _scrub(folder: Path, wanted: Array) -> None:
    known = np.load(folder / "user_keys.npy", mmap_mode="r")
    starts = np.load(folder / "seen_starts.npy", mmap_mode="r")
    columns = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in _PERSONAL}
    spans = [
        (columns[name], slice(starts[row], starts[row + 1]) if name == "seen_items" else row, empty)
        for row in np.flatnonzero(np.isin(known, wanted))
        for name, empty in _PERSONAL.items()
    ]
    if all(np.all(column[span] == empty) for column, span, empty in spans):
        return
    meta, sums = _meta(folder)
    # no checksum until it is sealed: a crash in between must not make the training unreadable
    _write_meta(folder, meta, {name: s for name, s in sums.items() if name not in _PERSONAL})
    for column, span, empty in spans:
        column[span] = empty
    for column in columns.values():
        column.flush()


def write_atomically(path: Path, text: str) -> None:
    """Replace a file: it holds the old text or the new one, never a part, even after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", opener=opener) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
