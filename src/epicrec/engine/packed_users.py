"""Users packed into Arrow: one row a user, whose items and ratings are bytes.

In a column these bytes lie beside each other as compressed rows, so a batch of users becomes
`Ratings` without a copy. These functions run on the machines of a cluster and need no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.arrays import Integers
from epicrec.data import Ratings, Scale
from epicrec.data.ids import find
from epicrec.engine import Statistic, merge
from epicrec.errors import InputError

ROWS_AT_ONCE = 1 << 18
"""So many ratings, and the rest of their last user's, are packed at a time."""
RATINGS_AT_ONCE = 1 << 24
"""A statistic is given users with so many ratings at a time, and the rest of a batch."""
SLICE = 1 << 10
"""A sum travels in slices of so many numbers, as one machine sends ten thousand rows at once."""

_SLOTS = ["slot", "part"]

Batches = Iterable[pa.RecordBatch]


def packed_users(
    batches: Batches, item_ids: npt.NDArray[Any], scale: Scale | None
) -> Iterator[pa.RecordBatch]:
    """Pack rows `user, item` and, on a scale, `rating` into rows `user, items, values`.

    Each user's rows must be adjacent. Items become positions among `item_ids`, in order; items that
    are not listed and ratings off the scale are left out. A user of whom nothing is left stays, as
    in local ratings.
    """
    for rows in whole_users(batches):
        yield _packed(rows, item_ids, scale)


def whole_users(batches: Batches, user: str = "user") -> Iterator[pa.Table]:
    """Tables that hold each user's rows whole, from rows in which they are adjacent."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for name in batch.schema.names:
            if batch[name].null_count:
                raise InputError(f"a row has no {name}; drop the rows without one or fill them")
        held.append(batch)
        if sum(part.num_rows for part in held) >= ROWS_AT_ONCE:
            table = pa.Table.from_batches(held)
            last = pc.index(table[user], table[user][-1]).as_py()
            if last:
                yield table[:last]
            held = table[last:].to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _packed(rows: pa.Table, item_ids: npt.NDArray[Any], scale: Scale | None) -> pa.RecordBatch:
    users = rows["user"].combine_chunks()
    new = np.ones(len(users), np.bool_)
    new[1:] = pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False)
    owner = np.cumsum(new) - 1
    coded = rows["item"].combine_chunks().dictionary_encode()
    listed = find(item_ids, np.asarray(coded.dictionary.to_pylist()))
    items = listed[coded.indices.to_numpy()]
    keep = items >= 0
    values = np.ones(len(items), np.float32)
    if scale is not None:
        values = rows["rating"].to_numpy().astype(np.float32)
        if not np.isfinite(values).all():
            raise InputError("a rating is missing (NaN) or infinite; drop such rows or fill them")
        keep &= scale.holds(values)
    place = owner[keep] * len(item_ids) + items[keep]
    order = np.argsort(place, kind="stable")  # quick where items are in order already
    again = np.flatnonzero(np.diff(place[order]) == 0)
    if again.size:
        who, what = divmod(int(place[order][again[0]]), len(item_ids))
        raise InputError(
            f"user {users[int(np.flatnonzero(new)[who])]} has item {item_ids[what]} more than "
            "once; keep one rating for each user and item"
        )
    counts = np.bincount(owner[keep], minlength=int(new.sum()))
    columns = [users.filter(pa.array(new)), _bytes(items[keep][order].astype(np.int32), counts)]
    if scale is not None:
        columns.append(_bytes(values[keep][order], counts))
    return pa.RecordBatch.from_arrays(columns, ["user", "items", "values"][: len(columns)])


def _bytes(flat: npt.NDArray[Any], counts: Integers) -> pa.Array:
    """Numbers as one binary value a user, of as many numbers as `counts` says."""
    edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32) * flat.itemsize
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(flat))]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def parts_of(batches: Batches, n_items: int, scale: Scale | None) -> Iterator[Ratings]:
    """Users as a statistic is given them, so many at a time; item ids are positions."""
    item_ids = np.arange(n_items)
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes // (4 if scale is None else 8)
        if size >= RATINGS_AT_ONCE:
            yield ratings_of(pa.Table.from_batches(held), item_ids, scale)
            held, size = [], 0
    if held:
        yield ratings_of(pa.Table.from_batches(held), item_ids, scale)


def ratings_of(packed: pa.Table, item_ids: npt.NDArray[Any], scale: Scale | None) -> Ratings:
    """Packed users as ratings over these items; user ids are positions."""
    indptr, items = _flat(packed["items"], np.dtype(np.int32))
    values = np.ones(len(items), np.float32)
    if scale is not None:
        _, values = _flat(packed["values"], np.dtype(np.float32))
    users = np.arange(len(packed))
    return Ratings(
        users, item_ids, indptr, items, values, scale, items_given=True, scale_given=True
    )


def _flat(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> tuple[Integers, npt.NDArray[Any]]:
    """Where each user's numbers begin, and all of them: the inverse of `_bytes`."""
    whole = pa.concat_arrays([chunk.cast(pa.binary()) for chunk in column.chunks])
    _, edges, data = whole.buffers()
    at = np.frombuffer(edges, np.int32)[whole.offset : whole.offset + len(whole) + 1]
    flat = np.frombuffer(data or b"", np.uint8)[at[0] : at[-1]].view(dtype)
    return (at - at[0]).astype(np.int64) // dtype.itemsize, flat


def marks(users: pa.Array, counts: Integers, held: npt.NDArray[np.bool_]) -> pa.Table:
    """Which ratings are held out, as rows `user, held`, for users with `counts` ratings each."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    batches, first = [], 0
    while first < len(users):
        most = starts[first] + RATINGS_AT_ONCE
        last = max(int(np.searchsorted(starts, most, "right")) - 1, first + 1)
        own = held[starts[first] : starts[last]].view(np.uint8)
        columns = [users[first:last], _bytes(own, counts[first:last])]
        batches.append(pa.RecordBatch.from_arrays(columns, ["user", "held"]))
        first = last
    return pa.Table.from_batches(batches)


def marked(batches: Batches, held: bool) -> Iterator[pa.RecordBatch]:
    """Users with only their held-out ratings, or with only the others, as `held` says."""
    for batch in batches:
        packed = pa.Table.from_batches([batch])
        edges, own = _flat(packed["held"], np.dtype(np.uint8))
        keep = own == held
        counts = np.diff(np.concatenate([[0], np.cumsum(keep)])[edges])
        columns, names = [batch["user"]], batch.schema.names[1:-1]
        for name, kind in zip(names, (np.int32, np.float32), strict=False):
            columns.append(_bytes(_flat(packed[name], np.dtype(kind))[1][keep], counts))
        yield pa.RecordBatch.from_arrays(columns, ["user", *names])


def partial_sum(
    batches: Batches, statistic: Statistic, n_items: int, scale: Scale | None
) -> Iterator[pa.RecordBatch]:
    """What the users of one partition contribute, as rows `slot, part`."""
    total = None
    for part in parts_of(batches, n_items, scale):
        found = statistic(part)
        total = found if total is None else merge(total, found)
    if total is not None:
        yield from sliced(total)


def sliced(total: Integers) -> Iterator[pa.RecordBatch]:
    """A sum as rows `slot, part` of `SLICE` numbers each, some thousand rows at a time."""
    for first in range(0, len(total), SLICE << 10):
        numbers = total[first : first + (SLICE << 10)]
        slots = np.arange(first // SLICE, -(-(first + len(numbers)) // SLICE), dtype=np.int32)
        parts = [numbers[at : at + SLICE].tobytes() for at in range(0, len(numbers), SLICE)]
        yield _slots(slots, parts)


def merged(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows `slot, part` with the parts of each slot added up."""
    totals: dict[int, Integers] = {}
    for batch in batches:
        for slot, part in zip(batch["slot"].to_pylist(), batch["part"], strict=True):
            found = np.frombuffer(part.as_buffer(), np.int64)
            totals[slot] = merge(totals[slot], found) if slot in totals else found.copy()
    slots = np.array([*totals], np.int32)
    for some in np.array_split(slots, 1 + len(slots) // 1000):
        yield _slots(some, [totals[slot].tobytes() for slot in some.tolist()])


def _slots(slots: npt.NDArray[np.int32], parts: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(slots), pa.array(parts, pa.binary())], _SLOTS)
