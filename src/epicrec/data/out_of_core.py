"""Out of core: ratings from files of any size into columns on the disk, in memory that stays small.

The rows are read once and put aside as records of codes; then every id has its position, and the
records are dealt into buckets of consecutive users, each of which is sorted by itself and written.
So a row is read and written three times, whatever the order of the file, and sorting costs
n log m for n rows in buckets of m. Where the users are in order already, the rows put aside serve
as the buckets. Memory holds one block or bucket, the ids, and a few bytes for each of these.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.arrays import Array, Integers
from epicrec.data.columns import (
    BadRow,
    check_rated,
    fitting,
    ids_of,
    optional,
    rating_values,
    repeats,
    said_off,
)
from epicrec.data.formats import Source
from epicrec.data.ids import find, is_ordered
from epicrec.data.ratings import Ratings, describe_columns
from epicrec.data.scale import KNOWN_SCALES, Scale
from epicrec.errors import EpicrecWarning, InputError
from epicrec.files import refused
from epicrec.progress import report

Codes = npt.NDArray[np.int32]

_AT_ONCE = 1 << 19
ROWS = 1 << 21
"""Rows of a bucket, at most, unless one user has more."""
MOST_BUCKETS = 256
"""Buckets are files that are open at once; with more rows than these take, buckets are larger."""
MOST_IDS = (1 << 31) - 2
"""Positions are int32, so no vocabulary is longer."""


@dataclass(frozen=True)
class _Aside:
    """The rows that were read: records of codes in their order, and what the codes mean."""

    path: Path
    record: np.dtype[Any]
    users: Vocabulary
    items: Vocabulary
    counts: Integers
    """The rows of each user, by code."""
    together: bool
    """Whether each user's rows are next to each other."""
    scale: Scale | None

    def blocks(self) -> Iterator[Array]:
        with self.path.open("rb") as file:
            while len(block := np.fromfile(file, self.record, _AT_ONCE)):
                yield block


@dataclass(frozen=True)
class _Order:
    """The final positions of users and items, by code."""

    user_ids: Array
    users: Codes
    item_ids: Array
    items: Codes
    """Items that are not listed come after those that are."""
    counts: Integers
    """The rows of each user, in order."""

    @classmethod
    def of(cls, aside: _Aside, listed: Array | None) -> _Order:
        user_ids, users = aside.users.in_order()
        counts = np.empty(len(user_ids), np.int64)
        counts[users] = aside.counts
        found, items = aside.items.in_order()
        if listed is not None:
            at = find(listed, found)
            behind = len(listed) + np.arange(len(found))
            items = np.where(at >= 0, at, behind).astype(np.int32)[items]
        return cls(user_ids, users, found if listed is None else listed, items, counts)


def into_columns(
    source: Source,
    folder: Path,
    *,
    items: Array | None = None,
    scale: Scale | None = None,
    rows: int = ROWS,
) -> tuple[Ratings, int]:
    """Ratings mapped from columns in the folder, and how many rows were left out because their
    items are not listed or their values off the scale: bit by bit those of `load_dataset`.

    The folder holds all the columns afterwards or, after an error, what it held before.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".ratings-", dir=folder) as unfinished:
            place, columns = Path(unfinished), Path(unfinished, "columns")
            columns.mkdir()
            aside = source.through(lambda blocks: _put_aside(blocks, place / "rows", scale))
            order = _Order.of(aside, items)
            indptr = _write(aside, order, place, scale, rows)
            whole = {"user_ids": order.user_ids, "item_ids": order.item_ids, "indptr": indptr}
            for name, column in whole.items():
                np.save(columns / f"{name}.npy", column, allow_pickle=False)
            names = [*whole, *_columns(aside.record)]
            describe_columns(columns, names, aside.scale, items is not None, scale is not None)
            for path in sorted(columns.iterdir(), key=lambda path: path.suffix == ".json"):
                os.replace(path, folder / path.name)
    except BadRow as bad:
        raise InputError(bad.said(source.place)) from bad
    except OSError as error:
        raise refused(folder, error) from error
    return Ratings.open(folder), int(order.counts.sum() - indptr[-1])


def _put_aside(blocks: Iterator[pa.Table], path: Path, scale: Scale | None) -> _Aside:
    """The rows as records of codes, checked one by one."""
    users, items = Vocabulary("user_id"), Vocabulary("item_id")
    counts = np.zeros(0, np.int64)
    scales: tuple[Scale, ...] = KNOWN_SCALES
    record, row, rated = _record([]), 0, False
    together, last = True, 0
    with path.open("wb") as file:
        for block in blocks:
            if row == 0:
                record, rated = _record(block.column_names), "rating" in block.column_names
                if scale is not None:
                    check_rated(block.column_names)
            records = np.empty(len(block), record)
            records["value"] = values = rating_values(block, row)
            if rated and scale is None:
                scales = fitting(values, scales, row)
            records["user"] = codes = users.codes(ids_of(block, "user_id", row))
            if together and len(codes):
                # codes are given in the order of appearance: one that comes back is a smaller one
                together, last = bool(codes[0] >= last and is_ordered(codes)), int(codes[-1])
            records["item"] = items.codes(ids_of(block, "item_id", row))
            for name in ("timestamp", "probe"):
                if name in block.column_names:
                    records[name] = optional(block, name, record[name], row)
            if len(users) > len(counts):
                counts = np.concatenate([counts, np.zeros(len(users), np.int64)])
            np.add.at(counts, codes, 1)
            records.tofile(file)
            row += len(block)
    if row == 0:
        raise InputError("there are no ratings; give at least one row")
    found = scales[0] if rated and scale is None else scale
    return _Aside(path, record, users, items, counts[: len(users)], together, found)


def _record(names: list[str]) -> np.dtype[Any]:
    fields: list[Any] = [("user", "<i4"), ("item", "<i4"), ("value", "<f4")]
    fields += [("timestamp", "<i8")] if "timestamp" in names else []
    fields += [("probe", "?")] if "probe" in names else []
    return np.dtype(fields)


def _columns(record: np.dtype[Any]) -> dict[str, str]:
    """The columns of `Ratings` that a record has, and the names of its own fields for them."""
    columns = {"items": "item", "values": "value", "timestamps": "timestamp", "probe": "probe"}
    return {name: field for name, field in columns.items() if field in (record.names or ())}


def _write(aside: _Aside, order: _Order, place: Path, scale: Scale | None, rows: int) -> Integers:
    """Write the columns, bucket by bucket; return where each user's ratings begin."""
    edges = _edges(order.counts, rows)
    kept = np.empty(len(order.user_ids), np.int64)
    off = 0
    with ExitStack() as files:
        columns = {
            field: files.enter_context(
                _Column(place / "columns" / f"{name}.npy", aside.record[field])
            )
            for name, field in _columns(aside.record).items()
        }
        for at, bucket in enumerate(_buckets(aside, order, edges, place)):
            first, last = edges[at], edges[at + 1]
            records = _sorted(bucket, aside, order)
            keep = records["item"] < len(order.item_ids)
            if scale is not None:
                holds = scale.holds(records["value"])
                off += int(np.count_nonzero(~holds))
                keep &= holds
            records = records if keep.all() else records[keep]
            kept[first:last] = np.bincount(records["user"] - first, minlength=last - first)
            for field, column in columns.items():
                column.append(records[field])
            report("sorting ratings", at + 1, len(edges) - 1)
    if scale is not None and off:
        warnings.warn(said_off(off, int(order.counts.sum()), scale), EpicrecWarning, stacklevel=4)
    return np.concatenate([[0], np.cumsum(kept)])


def _edges(counts: Integers, rows: int) -> list[int]:
    """Where buckets of consecutive users begin, each with at most so many rows, or one user."""
    behind = np.cumsum(counts)
    most = max(rows, int(behind[-1]) // MOST_BUCKETS)
    edges = [0]
    while edges[-1] < len(counts):
        before = int(behind[edges[-1] - 1]) if edges[-1] else 0
        edges.append(max(int(np.searchsorted(behind, before + most, "right")), edges[-1] + 1))
    return edges


def _buckets(aside: _Aside, order: _Order, edges: list[int], place: Path) -> Iterator[Array]:
    """The rows of consecutive users, with positions for codes, in the order they came in."""
    if aside.together and is_ordered(order.users):
        with aside.path.open("rb") as file:
            for rows in np.add.reduceat(order.counts, edges[:-1]):
                yield _placed(np.fromfile(file, aside.record, rows), order)
        return
    for bucket in _dealt(aside, order, edges, place):
        yield np.fromfile(bucket, aside.record)
        bucket.unlink()


def _placed(records: Array, order: _Order) -> Array:
    """Records with positions for codes."""
    records["user"] = order.users[records["user"]]
    records["item"] = order.items[records["item"]]
    return records


def _dealt(aside: _Aside, order: _Order, edges: list[int], place: Path) -> list[Path]:
    """The rows in buckets, with positions for codes; in a bucket they keep their order."""
    paths = [place / f"bucket-{at}" for at in range(len(edges) - 1)]
    bucket_of = np.repeat(np.arange(len(paths), dtype=np.int16), np.diff(edges))
    done = 0
    with ExitStack() as opened:
        files = [opened.enter_context(path.open("wb", buffering=0)) for path in paths]
        for block in aside.blocks():
            block = _placed(block, order)
            buckets = bucket_of[block["user"]]
            block = block[np.argsort(buckets, kind="stable")]
            cuts = np.concatenate([[0], np.cumsum(np.bincount(buckets, minlength=len(paths)))])
            for at in np.flatnonzero(np.diff(cuts)):
                files[at].write(block[cuts[at] : cuts[at + 1]].tobytes())
            done += len(block)
            report("dealing ratings", done, int(order.counts.sum()))
    return paths


def _sorted(records: Array, aside: _Aside, order: _Order) -> Array:
    """A bucket by user and item, no pair of them twice."""
    width = int(order.items.max()) + 1
    keys = (records["user"] - records["user"].min()).astype(np.int64) * width + records["item"]
    if not (keys[1:] > keys[:-1]).all():
        by_key = np.argsort(keys, kind="stable")
        records, keys = records[by_key], keys[by_key]
        repeated = np.flatnonzero(keys[1:] == keys[:-1])
        if repeated.size:
            raise _repeated(records[repeated[0]], aside, order)
    return records


def _repeated(record: Any, aside: _Aside, order: _Order) -> BadRow:
    """The error for the first two rows of this user and item, found in what was put aside."""
    user = int(np.flatnonzero(order.users == record["user"])[0])
    item = int(np.flatnonzero(order.items == record["item"])[0])
    rows: list[int] = []
    before = 0
    for block in aside.blocks():
        here = np.flatnonzero((block["user"] == user) & (block["item"] == item))
        rows += (before + here).tolist()
        before += len(block)
    ids, at = aside.items.in_order()
    return BadRow(repeats(order.user_ids[record["user"]], ids[at[item]]), rows[1], rows[0])


class _Column:
    """An `.npy` file that grows: its header has room for any length and is written last."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self._file, self._dtype, self._length = path.open("wb"), dtype, 0
        self._write_header()

    def _write_header(self) -> None:
        self._file.seek(0)
        what = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, what)

    def append(self, values: Array) -> None:
        self._file.write(values.tobytes())
        self._length += len(values)

    def __enter__(self) -> _Column:
        return self

    def __exit__(self, *_: object) -> None:
        self._write_header()
        self._file.close()


# ---- codes of ids ----------------------------------------------------------------------------


class Vocabulary:
    """Ids as they come, each with a code in order of appearance.

    Memory grows with the ids and with nothing else.
    """

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
        if len(self) > MOST_IDS:
            raise InputError(
                f"there are more than {MOST_IDS:,} ids in {self.name}, which is too many"
            )
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
    """The slot where the search for a number begins: the high bits of a product (Knuth's)."""
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@numba.njit(cache=True, nogil=True)
def _look_up(
    values: Integers, done: int, slots: Codes, ids: Integers, known: int, out: Codes
) -> tuple[int, int]:
    """Write the codes of the values from `done` on, until the table is full; return how far that
    was, and how many ids are known by then."""
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
