"""Ratings: who rated what, and how; immutable columns in compressed rows by user."""

from __future__ import annotations

import json
import mmap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec.arrays import Array, Bools, Integers
from epicrec.data.columns import (
    BadRow,
    check_names,
    check_on,
    check_rated,
    first_off,
    fitting,
    optional,
    rating_values,
    repeats,
    said_off,
    table_from_columns,
)
from epicrec.data.frames import table_from_frame
from epicrec.data.ids import encode, find
from epicrec.data.scale import Scale, as_scale
from epicrec.errors import EpicrecWarning, InputError


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as compressed sparse rows, one row a user, in order of item within the row.

    `items[indptr[u]:indptr[u + 1]]` are the items of the user `user_ids[u]` as positions in
    `item_ids`, and `values` their ratings. A `scale` of None means a history: what was seen, not
    how it was rated; its values are all 1. The vocabularies may name users and items without
    ratings, and a part made with `select` keeps them, so positions mean the same on both sides of a
    split. `items_given` and `scale_given` say whether the caller gave the list of items and the
    scale. What was read off the ratings instead reveals something about them and is not public.
    `timestamps` are in seconds, and `probe` marks what is held out, where the data have them.

    >>> ratings = Ratings.from_columns(["ann", "bob", "ann"], [10, 10, 30], [4, 2, 5])
    >>> len(ratings), ratings.user_ids.tolist(), ratings.item_ids.tolist()
    (3, ['ann', 'bob'], [10, 30])
    >>> ratings.values[ratings.row(0)].tolist()
    [4.0, 5.0]
    """

    user_ids: Array
    item_ids: Array
    indptr: Integers
    items: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    scale: Scale | None
    timestamps: Integers | None = None
    probe: Bools | None = None
    items_given: bool = False
    scale_given: bool = False

    def __post_init__(self) -> None:
        for column in self._columns().values():
            column.flags.writeable = False

    # ---- construction ------------------------------------------------------------------------

    @classmethod
    def from_columns(
        cls,
        user_id: Any,
        item_id: Any,
        rating: Any = None,
        timestamp: Any = None,
        *,
        scale: Scale | str | None = None,
    ) -> Self:
        """From plain sequences or arrays of equal length: `user_id`, `item_id` and, where known,
        `rating` and `timestamp`. Without a `scale`, the narrowest known one that holds them."""
        columns = {"user_id": user_id, "item_id": item_id, "rating": rating, "timestamp": timestamp}
        return cls.from_table(table_from_columns(columns), scale=scale)

    @classmethod
    def from_frame(cls, frame: Any, *, scale: Scale | str | None = None) -> Self:
        """From a `frame` of pandas, polars (also lazy), pyarrow, … with the columns `user_id,
        item_id` and, where known, `rating, timestamp, probe`; `scale` as in `from_columns`."""
        return cls.from_table(table_from_frame(frame), scale=scale)

    @classmethod
    def from_table(
        cls, table: pa.Table, *, scale: Scale | str | None = None, leave_out: bool = False
    ) -> Self:
        """From a pyarrow table, checked: see the errors for what is refused.

        With `leave_out`, ratings off the scale that is given are left out and not refused.
        """
        check_names(table.column_names)
        scale = as_scale(scale)
        if scale is not None:
            check_rated(table.column_names)
        if table.num_rows == 0:
            raise InputError("there are no ratings; give at least one row")
        values, found = rating_values(table), scale
        if scale is None and "rating" in table.column_names:
            found = fitting(values)[0]
        if scale is not None and not leave_out:
            check_on(scale, values)
        user_ids, users = encode(table, "user_id")
        item_ids, items = encode(table, "item_id")
        timestamps = optional(table, "timestamp", np.dtype(np.int64))
        probe = optional(table, "probe", np.dtype(np.bool_))
        order = _canonical_order(users, items)
        if order is not None:
            users, items, values = users[order], items[order], values[order]
            timestamps = None if timestamps is None else timestamps[order]
            probe = None if probe is None else probe[order]
        repeated = np.flatnonzero((items[1:] == items[:-1]) & (users[1:] == users[:-1]))
        if repeated.size:
            at = repeated[:1] + np.arange(2)
            first, second = at if order is None else order[at]
            raise BadRow(repeats(user_ids[users[at[0]]], item_ids[items[at[0]]]), second, first)
        indptr = np.searchsorted(users, np.arange(len(user_ids) + 1, dtype=np.int32))
        ratings = cls(
            user_ids, item_ids, indptr, items, values, found, timestamps, probe,
            scale_given=scale is not None and not leave_out,
        )  # fmt: skip
        return ratings.with_scale(scale) if scale is not None and leave_out else ratings

    @classmethod
    def of_one(cls, item_ids: Array, history: Array) -> Self:
        """One user's `history` over the `item_ids`, as positions among them in order."""
        return cls(
            np.zeros(1, np.int64), item_ids, np.array([0, len(history)], np.int64),
            history.astype(np.int32), np.ones(len(history), np.float32), None,
        )  # fmt: skip

    # ---- shape ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.items.size)

    def __repr__(self) -> str:
        what = "ratings" if self.scale else "history entries"
        scale = f", {self.scale}" if self.scale else ""
        return (
            f"Ratings({len(self):,} {what}, {self.n_users:,} users, {self.n_items:,} items{scale})"
        )

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def user_counts(self) -> Integers:
        return np.diff(self.indptr)

    @property
    def item_counts(self) -> Integers:
        return np.bincount(self.items, minlength=self.n_items)

    @property
    def users(self) -> npt.NDArray[np.int32]:
        """The user of every rating, as a position in `user_ids`."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_counts)

    def row(self, user: int) -> slice:
        """The slice that holds the ratings of the user at this position."""
        return slice(int(self.indptr[user]), int(self.indptr[user + 1]))

    def csr(self) -> Any:
        """A scipy user × item matrix over the same memory."""
        from scipy.sparse import csr_array

        return csr_array(
            (self.values, self.items, self.indptr), shape=(self.n_users, self.n_items), copy=False
        )

    # ---- parts ----------------------------------------------------------------------------

    def select(self, keep: Bools) -> Self:
        """The ratings where `keep` is true; vocabularies stay, so positions keep their meaning.

        A part is no longer divided by the probe of the whole.
        """
        return replace(self._kept(keep), probe=None)

    def _kept(self, keep: Bools) -> Self:
        kept_before = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
        return self._taken(keep, indptr=kept_before[self.indptr])

    def _taken(self, which: Array | slice, **changes: Any) -> Self:
        """These of all ratings, with other changes."""
        columns = (self.items, self.values, self.timestamps, self.probe)
        names = ("items", "values", "timestamps", "probe")
        taken = {
            name: None if column is None else column[which]
            for name, column in zip(names, columns, strict=True)
        }
        return replace(self, **taken | changes)

    def users_at(self, positions: Array) -> Self:
        """Only the users at these `positions`, in this order."""
        counts = self.user_counts[positions]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        starts = np.repeat(self.indptr[positions] - indptr[:-1], counts)
        which = starts + np.arange(indptr[-1])
        return self._taken(which, user_ids=self.user_ids[positions], indptr=indptr, probe=None)

    def between(self, first: int, last: int) -> Self:
        """The users from the position `first` to before `last`, over the same memory."""
        start, stop = int(self.indptr[first]), int(self.indptr[last])
        indptr = self.indptr[first : last + 1] - start
        return self._taken(slice(start, stop), user_ids=self.user_ids[first:last], indptr=indptr)

    def blocks(self, ratings: int) -> Iterator[Self]:
        """Consecutive users with at most so many ratings, or one user, over the same memory; what
        was read of mapped columns is given back after each."""
        first = 0
        while first < self.n_users:
            most = int(self.indptr[first]) + ratings
            last = max(int(np.searchsorted(self.indptr, most, "right")) - 1, first + 1)
            yield self.between(first, last)
            self.let_go()
            first = last

    def let_go(self) -> None:
        """Give back the memory that mapped columns were read into; later access reads again."""
        for column in self._columns().values():
            mapped = getattr(column, "_mmap", None)
            if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)

    @property
    def mapped(self) -> bool:
        """Whether the ratings are on the disk, and read where they are used."""
        return isinstance(self.items, np.memmap)

    def first_users(self, most: int) -> Self:
        """At `most` so many users, the first in the order of their ids."""
        return self if self.n_users <= most else self.between(0, most)

    def positions(self, user_ids: Sequence[Any] | Array) -> Integers:
        """The positions of these users in `user_ids`; -1 for unknown users."""
        return find(self.user_ids, user_ids)

    def with_items(self, item_ids: Array) -> Self:
        """The same histories over the `item_ids` that are given; others are left out."""
        if item_ids is self.item_ids or np.array_equal(item_ids, self.item_ids):
            return replace(self, item_ids=item_ids, items_given=True)
        position = find(item_ids, self.item_ids).astype(np.int32)
        known = self if (position >= 0).all() else self._kept(position[self.items] >= 0)
        items = position[known.items]
        order = _canonical_order(known.users, items)
        if order is not None:
            known = known._taken(order)
            items = items[order]
        return replace(known, item_ids=item_ids, items=items, items_given=True)

    def with_scale(self, scale: Scale) -> Self:
        """The same ratings on the scale that is given; values off it are left out."""
        if self.scale is None:
            raise InputError("a history has no ratings to be on a scale; leave the scale out")
        if self.scale_given:
            if self.scale != scale:
                raise InputError(
                    f"these ratings came with the scale {self.scale}, not {scale}; leave it out"
                )
            return self
        known = self
        if first_off(self.values, scale) is not None:
            known = self._kept(scale.holds(self.values))
            warnings.warn(said_off(len(self) - len(known), len(self), scale), EpicrecWarning, 3)
        return replace(known, scale=scale, scale_given=True)

    def as_history(self) -> Self:
        """The same without the ratings' values: what was seen, not how it was rated."""
        ones = np.broadcast_to(np.float32(1), len(self))
        return replace(self, values=ones if self.mapped else ones.copy(), scale=None)

    # ---- out ------------------------------------------------------------------------------

    def to_table(self) -> pa.Table:
        """The columns `user_id, item_id, rating, timestamp` with external ids."""
        table = {"user_id": self.user_ids[self.users], "item_id": self.item_ids[self.items]}
        if self.scale:
            table["rating"] = self.values
        if self.timestamps is not None:
            table["timestamp"] = self.timestamps
        if self.probe is not None:
            table["probe"] = self.probe
        return pa.table(table)

    def save(self, folder: str | Path) -> None:
        """Write each column as an `.npy` file into a `folder`, for `open` to map into memory."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, column in self._columns().items():
            np.save(folder / f"{name}.npy", column, allow_pickle=False)
        describe_columns(folder, [*self._columns()], self.scale, self.items_given, self.scale_given)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Map what `save` wrote into the `folder`; nothing is read until it is used."""
        folder = Path(folder)
        meta = json.loads((folder / "ratings.json").read_text())
        columns = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in meta["columns"]
        }
        given = {name: meta[name] for name in ("items_given", "scale_given")}
        return cls(scale=Scale(**meta["scale"]) if meta["scale"] else None, **columns, **given)

    def _columns(self) -> Mapping[str, Array]:
        named = {
            "user_ids": self.user_ids,
            "item_ids": self.item_ids,
            "indptr": self.indptr,
            "items": self.items,
            "values": self.values,
            "timestamps": self.timestamps,
            "probe": self.probe,
        }
        return {name: column for name, column in named.items() if column is not None}


def describe_columns(
    folder: Path, names: list[str], scale: Scale | None, items_given: bool, scale_given: bool
) -> None:
    """Write beside the columns in a folder what they are, for `Ratings.open`."""
    meta = {
        "scale": scale and asdict(scale),
        "columns": names,
        "items_given": items_given,
        "scale_given": scale_given,
    }
    (folder / "ratings.json").write_text(json.dumps(meta))


def _canonical_order(users: Array, items: Array) -> Integers | None:
    """The order by user, then item; None where the rows are in it already."""
    ahead = users[1:] > users[:-1]
    ahead |= (users[1:] == users[:-1]) & (items[1:] >= items[:-1])
    if ahead.all():
        return None
    return np.lexsort((items, users))
