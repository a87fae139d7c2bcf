"""Vocabulary: ids as they come, a block at a time, each with a code in order of appearance."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.arrays import Array, Integers
from epicrec.errors import InputError

Codes = npt.NDArray[np.int32]

MOST = (1 << 31) - 2
"""Positions are int32, so no vocabulary is longer."""


class Vocabulary:
    """Codes of ids; memory grows with the ids and with nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers = _Numbers()
        self._texts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers) + len(self._texts)

    def codes(self, column: pa.ChunkedArray) -> Codes:
        """The code of each id of a column, as `ids_of` gives it; new ids get the next ones."""
        number = pa.types.is_integer(column.type)
        if len(self._texts if number else self._numbers):
            raise InputError(
                f"{self.name} is a number in one part and text in another; give all parts one type"
            )
        found = self._numbers.codes(_int64(column)) if number else self._of_texts(column)
        if len(self) > MOST:
            raise InputError(f"there are more than {MOST:,} ids in {self.name}, which is too many")
        return found

    def in_order(self) -> tuple[Array, Codes]:
        """The ids in order, and for each code the position of its id."""
        ids = np.array([*self._texts]) if self._texts else self._numbers.ids
        order = np.argsort(ids, kind="stable")
        position = np.empty(len(ids), np.int32)
        position[order] = np.arange(len(ids), dtype=np.int32)
        return ids[order], position

    def _of_texts(self, column: pa.ChunkedArray) -> Codes:
        encoded = pc.dictionary_encode(column).combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        known = self._texts
        codes = [known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()]
        return np.asarray(np.asarray(codes, np.int32)[encoded.indices.to_numpy()])


def _int64(column: pa.ChunkedArray) -> Integers:
    return np.asarray(pc.cast(column, pa.int64()).to_numpy(), np.int64)


class _Numbers:
    """Whole numbers by open addressing: a slot holds a code, and the code says which number."""

    def __init__(self) -> None:
        self._slots = np.full(1 << 12, -1, np.int32)
        self._ids = np.empty(_room(self._slots), np.int64)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    @property
    def ids(self) -> Integers:
        return self._ids[: self._known]

    def codes(self, values: Integers) -> Codes:
        out = np.empty(len(values), np.int32)
        done = 0
        while True:
            done, self._known = _look_up(values, done, self._slots, self._ids, self._known, out)
            if done == len(values):
                return out
            slots = np.full(2 * len(self._slots), -1, np.int32)
            ids = np.empty(_room(slots), np.int64)
            ids[: self._known] = self.ids
            _fill(self.ids, slots)
            self._slots, self._ids = slots, ids


def _room(slots: Codes) -> int:
    """How many ids a table takes before it is doubled."""
    return len(slots) // 4 * 3


@numba.njit(cache=True, nogil=True)
def _slot(value: Any, size: Any) -> Any:
    """Where a number is looked for first: the high bits of a product (Knuth's)."""
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@numba.njit(cache=True, nogil=True)
def _look_up(
    values: Integers, done: int, slots: Codes, ids: Integers, known: int, out: Codes
) -> tuple[int, int]:
    """Codes of the values from `done` on, until the table is full; how far it came, and how many
    are known then."""
    last = len(slots) - 1
    for at in range(done, len(values)):
        value = values[at]
        slot = _slot(value, len(slots))
        while slots[slot] >= 0 and ids[slots[slot]] != value:
            slot = (slot + 1) & last
        if slots[slot] < 0:
            if known == len(ids):
                return at, known
            slots[slot] = known
            ids[known] = value
            known += 1
        out[at] = slots[slot]
    return len(values), known


@numba.njit(cache=True, nogil=True)
def _fill(ids: Integers, slots: Codes) -> None:
    last = len(slots) - 1
    for code in range(len(ids)):
        slot = _slot(ids[code], len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) & last
        slots[slot] = code
