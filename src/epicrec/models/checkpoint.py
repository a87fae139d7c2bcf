"""A checkpoint: a fit that was killed goes on with the same sums and the same draws of noise.

Of every measurement the exact sum is written when it has been taken, and the release when its noise
has been drawn, before anything is computed from it; each file appears whole or not at all. A
release that is there is never drawn again, and once it is there the exact sum goes. So there is at
most one draw that anyone has seen of each measurement, however often the program is killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from epicrec._version import __version__
from epicrec.arrays import Integers
from epicrec.engine import Engine, Statistic
from epicrec.errors import InputError
from epicrec.files import check_folder, write_whole
from epicrec.models.base import Recommender
from epicrec.models.saving import settings_of


@contextmanager
def kept_in(folder: str | Path, model: Recommender) -> Iterator[None]:
    """Keep what the model's fit sums up and draws in this folder, and begin with what is there.

    What leaves this block without an error is done: the folder is then cleared. While it is not,
    the folder may hold exact sums, so only its owner may read it.
    """
    folder = check_folder(folder)
    if not model.by_sums:
        raise InputError(f"{model!r} does not learn from sums; leave out the checkpoint")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = _Kept(folder, model, model.engine)
    try:
        with FileLock(folder / "lock", timeout=0):
            engine, once = model.engine, model.once
            model.engine, model.once = kept.sum, kept.once
            try:
                yield
            finally:
                model.engine, model.once = engine, once
            kept.clear()
    except Timeout:
        raise InputError(f"another fit is at work in {folder}; let it end, or end it") from None


class _Kept:
    def __init__(self, folder: Path, model: Recommender, engine: Engine) -> None:
        self.folder, self.engine = folder, engine
        # another version may spend the budget otherwise on the same sums
        self.about: dict[str, Any] = {"version": __version__, "method": model.method}
        self.about["parameters"] = settings_of(model)
        self.number, self.of = 0, ""

    def sum(self, statistic: Statistic, ratings: Any) -> Integers:
        """The exact sum; where its release is known, that, as nothing else is needed."""
        if self.number == 0:
            self._check_same(ratings)
        self.of = digest(statistic)
        known = self._read("release")
        if known is None:
            known = self._read("sum")
        if known is None:
            known = self.engine(statistic, ratings)
            self._write("sum", known)
        return known

    def once(self, draw: Callable[[], Integers]) -> Integers:
        """The release: the one that is known, or else this draw, known from now on."""
        known = self._read("release")
        if known is None:
            known = draw()
            self._write("release", known)
        self._path("sum").unlink(missing_ok=True)
        self.number += 1
        return known

    def clear(self) -> None:
        for path in [*self.folder.glob("*.npz"), self.folder / "fit.json"]:
            path.unlink(missing_ok=True)

    def _check_same(self, ratings: Any) -> None:
        """Refuse to go on with the numbers of another fit."""
        ids = hashlib.sha256("\n".join(map(str, ratings.item_ids)).encode()).hexdigest()
        about = self.about | {"items": ids, "scale": ratings.scale and ratings.scale.text}
        text, path = json.dumps(about, sort_keys=True), self.folder / "fit.json"
        if not path.exists():
            write_whole(path, lambda file: file.write(text.encode()))
        elif path.read_text(encoding="utf-8") != text:
            raise self._another()

    def _path(self, kind: str) -> Path:
        return self.folder / f"{self.number:03}.{kind}.npz"

    def _read(self, kind: str) -> Integers | None:
        path = self._path(kind)
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as file:
            if str(file["of"]) != self.of:
                raise self._another()
            return np.asarray(file["numbers"])

    def _write(self, kind: str, numbers: Integers) -> None:
        write_whole(self._path(kind), lambda file: np.savez(file, of=self.of, numbers=numbers))

    def _another(self) -> InputError:
        return InputError(
            f"{self.folder} holds what another fit began: other settings, items or scale, or "
            "another version; finish that one as it was begun, or name another folder"
        )


def digest(statistic: Statistic) -> str:
    """What a statistic is made of, as a hash: another one would be another measurement."""
    found = hashlib.sha256(type(statistic).__name__.encode())
    for field in fields(statistic):  # type: ignore[arg-type]
        value = getattr(statistic, field.name)
        found.update(field.name.encode())
        if hasattr(value, "indptr"):  # sparse
            parts = [value.data, value.indices, value.indptr]
        else:
            parts = [value] if isinstance(value, np.ndarray) else [np.array(repr(value).encode())]
        for part in parts:
            found.update(f"{part.dtype} {part.shape}".encode())
            found.update(part.tobytes())
    return found.hexdigest()
