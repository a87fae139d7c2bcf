"""Ratings: who rated what, and how; immutable columns in compressed rows by user."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.errors import InputError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Scale:
    """The public scale of the ratings: from `low` to `high` in steps of `step`."""

    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.step > 0):
            raise InputError(
                f"a rating scale needs low < high and step > 0, got {self}; try Scale(1, 5, 1)"
            )

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} in steps of {self.step:g}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`low:high` or `low:high:step`, as on the command line."""
        try:
            low, high, *step = (float(part) for part in text.split(":"))
            return cls(low, high, *(step or [1.0]))
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"cannot read {text!r} as a scale; write low:high:step, such as 1:5:1"
            ) from None

    def holds(self, values: Array) -> npt.NDArray[np.bool_]:
        """Which values lie on the scale (to within the precision of float32)."""
        steps = (values.astype(np.float64) - self.low) / self.step
        on_grid = np.abs(steps - np.rint(steps)) < 1e-3
        return on_grid & (values >= self.low - 1e-6) & (values <= self.high + 1e-6)


STARS = Scale(1, 5, 1)
HALF_STARS = Scale(0.5, 5, 0.5)
KNOWN_SCALES = (STARS, HALF_STARS, Scale(1, 10, 1), Scale(-10, 10, 0.01))


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as compressed sparse rows, one row a user, in order of item within the row.

    `items[indptr[u]:indptr[u + 1]]` are the items of the user `user_ids[u]` as positions in
    `item_ids`, and `values` their ratings. A `scale` of None means a history: what was seen, not
    how it was rated; its values are all 1. The vocabularies may name users and items without
    ratings, and a part made with `select` keeps them, so positions mean the same on both sides of a
    split.

    >>> ratings = Ratings.from_columns(["ann", "bob", "ann"], [10, 10, 30], [4, 2, 5])
    >>> len(ratings), ratings.user_ids.tolist(), ratings.item_ids.tolist()
    (3, ['ann', 'bob'], [10, 30])
    >>> ratings.values[ratings.row(0)].tolist()
    [4.0, 5.0]
    """

    user_ids: Array
    item_ids: Array
    indptr: npt.NDArray[np.int64]
    items: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    scale: Scale | None
    timestamps: npt.NDArray[np.int64] | None = None
    probe: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for column in self._columns().values():
            column.flags.writeable = False

    # ---- made from ------------------------------------------------------------------------

    @classmethod
    def from_columns(
        cls,
        user_id: Any,
        item_id: Any,
        rating: Any = None,
        timestamp: Any = None,
        *,
        scale: Scale | None = None,
    ) -> Self:
        """From plain sequences or arrays of equal length."""
        columns = {"user_id": user_id, "item_id": item_id, "rating": rating, "timestamp": timestamp}
        arrays = {name: _arrow(c) for name, c in columns.items() if c is not None}
        if len({len(a) for a in arrays.values()}) > 1:
            lengths = ", ".join(f"{name} {len(a):,}" for name, a in arrays.items())
            raise InputError(f"the columns differ in length ({lengths}); give each the same length")
        return cls.from_table(pa.table(arrays), scale=scale)

    @classmethod
    def from_frame(cls, frame: Any, *, scale: Scale | None = None) -> Self:
        """From any dataframe (pandas, polars, pyarrow, …) with the columns `user_id, item_id`
        and, where known, `rating, timestamp, probe`."""
        if isinstance(frame, pa.Table):
            return cls.from_table(frame, scale=scale)
        import narwhals as nw

        try:
            native = nw.from_native(frame, eager_only=True)
        except TypeError as error:
            raise InputError(
                f"cannot read ratings from a {type(frame).__name__}; pass a pandas, polars or "
                f"pyarrow table, or use Ratings.from_columns ({error})"
            ) from error
        return cls.from_table(native.to_arrow(), scale=scale)

    @classmethod
    def from_table(cls, table: pa.Table, *, scale: Scale | None = None) -> Self:
        """From a pyarrow table, checked: see the errors for what is refused."""
        for name in ("user_id", "item_id"):
            if name not in table.column_names:
                raise InputError(
                    f"there is no column {name!r}; found {', '.join(table.column_names)}. "
                    "Rename the columns to user_id, item_id, rating, timestamp"
                )
        if table.num_rows == 0:
            raise InputError("there are no ratings; give at least one row")
        values, scale = _checked_values(table, scale)
        user_ids, users = _encode(table, "user_id")
        item_ids, items = _encode(table, "item_id")
        timestamps = _optional(table, "timestamp", np.dtype(np.int64))
        probe = _optional(table, "probe", np.dtype(np.bool_))
        order = _canonical_order(users, items)
        if order is not None:
            users, items, values = users[order], items[order], values[order]
            timestamps = None if timestamps is None else timestamps[order]
            probe = None if probe is None else probe[order]
        repeated = np.flatnonzero((items[1:] == items[:-1]) & (users[1:] == users[:-1]))
        if repeated.size:
            at = repeated[:1] + np.arange(2)
            first, second = (at if order is None else order[at]) + 1
            raise InputError(
                f"row {second} repeats row {first}: user {user_ids[users[at[0]]]!s} and item "
                f"{item_ids[items[at[0]]]!s} appear {repeated.size + 1:,} times or more in all; "
                "keep one rating for each user and item"
            )
        indptr = np.searchsorted(users, np.arange(len(user_ids) + 1, dtype=np.int32))
        return cls(user_ids, item_ids, indptr, items, values, scale, timestamps, probe)

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
    def user_counts(self) -> npt.NDArray[np.int64]:
        return np.diff(self.indptr)

    @property
    def item_counts(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.items, minlength=self.n_items)

    @property
    def users(self) -> npt.NDArray[np.int32]:
        """The user of every rating, as a position in `user_ids`."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_counts)

    def row(self, user: int) -> slice:
        """Where the ratings of the user at this position stand."""
        return slice(int(self.indptr[user]), int(self.indptr[user + 1]))

    def csr(self) -> Any:
        """A scipy user × item matrix over the same memory."""
        from scipy.sparse import csr_array

        return csr_array(
            (self.values, self.items, self.indptr), shape=(self.n_users, self.n_items), copy=False
        )

    # ---- parts ----------------------------------------------------------------------------

    def select(self, keep: npt.NDArray[np.bool_]) -> Self:
        """The ratings where `keep` is true; vocabularies stay, so positions keep their meaning."""
        indptr = np.zeros_like(self.indptr)
        kept_before = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
        indptr[:] = kept_before[self.indptr]
        return replace(
            self,
            indptr=indptr,
            items=self.items[keep],
            values=self.values[keep],
            timestamps=None if self.timestamps is None else self.timestamps[keep],
            probe=None,
        )

    def users_at(self, positions: Array) -> Self:
        """Only these users, in this order."""
        counts = self.user_counts[positions]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        starts = np.repeat(self.indptr[positions] - indptr[:-1], counts)
        take = starts + np.arange(indptr[-1])
        return replace(
            self,
            user_ids=self.user_ids[positions],
            indptr=indptr,
            items=self.items[take],
            values=self.values[take],
            timestamps=None if self.timestamps is None else self.timestamps[take],
            probe=None,
        )

    def positions(self, user_ids: Sequence[Any] | Array) -> npt.NDArray[np.int64]:
        """Where these users stand in `user_ids`; -1 for the unknown."""
        return find(self.user_ids, user_ids)

    def with_items(self, item_ids: Array) -> Self:
        """The same histories over another item vocabulary; items outside it are dropped."""
        if item_ids is self.item_ids or np.array_equal(item_ids, self.item_ids):
            return replace(self, item_ids=item_ids)
        position = find(item_ids, self.item_ids).astype(np.int32)
        known = self if (position >= 0).all() else self.select(position[self.items] >= 0)
        items = position[known.items]
        order = _canonical_order(known.users, items)
        if order is not None:
            known = known._reordered(order)
            items = items[order]
        return replace(known, item_ids=item_ids, items=items)

    def _reordered(self, order: Array) -> Self:
        return replace(
            self,
            items=self.items[order],
            values=self.values[order],
            timestamps=None if self.timestamps is None else self.timestamps[order],
            probe=None if self.probe is None else self.probe[order],
        )

    def as_history(self) -> Self:
        """The same without the ratings' values: what was seen, not how it was rated."""
        return replace(self, values=np.ones(len(self), np.float32), scale=None)

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
        """Write each column as an `.npy` file, for `open` to map into memory."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, column in self._columns().items():
            np.save(folder / f"{name}.npy", column, allow_pickle=False)
        (folder / "ratings.json").write_text(
            json.dumps({"scale": self.scale and asdict(self.scale), "columns": [*self._columns()]})
        )

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Map what `save` wrote; nothing is read until it is used."""
        folder = Path(folder)
        meta = json.loads((folder / "ratings.json").read_text())
        columns = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in meta["columns"]
        }
        return cls(scale=Scale(**meta["scale"]) if meta["scale"] else None, **columns)

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


def find(vocabulary: Array, ids: Sequence[Any] | Array) -> npt.NDArray[np.int64]:
    """The position of each id in the vocabulary, -1 where it is absent."""
    wanted = np.asarray(ids)
    if len(vocabulary) == 0 or wanted.size == 0:
        return np.full(wanted.shape, -1, np.int64)
    if (wanted.dtype.kind in "US") != (vocabulary.dtype.kind in "US"):
        wanted = wanted.astype(str) if vocabulary.dtype.kind in "US" else _numbers(wanted)
    ordered = bool((vocabulary[1:] >= vocabulary[:-1]).all())
    order = None if ordered else np.argsort(vocabulary, kind="stable")
    at = np.searchsorted(vocabulary, wanted, sorter=order)
    at[at == len(vocabulary)] = 0
    at = at if order is None else order[at]
    return np.where(vocabulary[at] == wanted, at, -1)


def _numbers(ids: Array) -> Array:
    """Ids typed on a command line are text; a vocabulary of numbers wants them as numbers."""
    return np.array(
        [int(i) if str(i).lstrip("-").isdigit() else np.iinfo(np.int64).min for i in ids]
    )


def _arrow(column: Any) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    return pa.array(column, from_pandas=True)


def _checked_values(
    table: pa.Table, scale: Scale | None
) -> tuple[npt.NDArray[np.float32], Scale | None]:
    """The ratings as float32, and their scale: the one given, or the first known one that fits."""
    if "rating" not in table.column_names:
        if scale is not None:
            raise InputError(
                f"there is no column 'rating'; found {', '.join(table.column_names)}. "
                "Add it, or give no scale to read a history"
            )
        return np.ones(table.num_rows, np.float32), None
    column = table["rating"]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        try:
            column = pc.cast(column, pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"the column rating is not numeric: {error}. Give numbers") from error
    values = np.empty(len(column), np.float32)
    start = 0
    for chunk in column.chunks:
        values[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        start += len(chunk)
    for wrong, name in ((np.isnan, "missing (NaN)"), (np.isinf, "infinite")):
        bad = _first(values, wrong)
        if bad is not None:
            raise InputError(f"row {bad + 1}: the rating is {name}; drop such rows or fill them")
    if scale is None:
        scale = next((s for s in KNOWN_SCALES if _first_off(values, s) is None), None)
    if scale is None:
        bad = _first_off(values, KNOWN_SCALES[-1]) or 0
        raise InputError(
            f"row {bad + 1}: rating {values[bad]:g} fits no scale known here; "
            "pass the scale, such as Scale(0, 100, 1) or --scale 0:100:1"
        )
    bad = _first_off(values, scale)
    if bad is not None:
        raise InputError(
            f"row {bad + 1}: rating {values[bad]:g} is off the scale {scale}; "
            "correct such rows or pass the true scale"
        )
    return values, scale


def _first(values: Array, wrong: Callable[[Array], Array]) -> int | None:
    """Where the first wrong value stands; in blocks, so that 100 million need no second copy."""
    for start in range(0, len(values), 1 << 20):
        found = np.flatnonzero(wrong(values[start : start + (1 << 20)]))
        if found.size:
            return start + int(found[0])
    return None


def _first_off(values: Array, scale: Scale) -> int | None:
    return _first(values, lambda part: ~scale.holds(part))


def _encode(table: pa.Table, name: str) -> tuple[Array, npt.NDArray[np.int32]]:
    """The sorted distinct ids of a column and each row's position among them."""
    column = table[name]
    if pa.types.is_floating(column.type):
        whole = column.to_numpy()
        bad = np.flatnonzero(~np.isfinite(whole) | (whole != np.floor(whole)))
        if bad.size:
            raise InputError(
                f"row {bad[0] + 1}: {name} is {whole[bad[0]]}; ids are whole numbers or text"
            )
        column = pa.chunked_array([whole.astype(np.int64)])
    if column.null_count:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise InputError(f"row {row + 1}: {name} is missing; drop the row or fill it")
    if pa.types.is_integer(column.type):
        low, high = (int(v) for v in pc.min_max(column).as_py().values())
        if high - low < 4 * len(column) + 1_000_000:
            return _encode_dense(column, low, high)
    elif not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = pc.cast(column, pa.string())
    encoded = pc.dictionary_encode(column).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    ids = np.asarray(encoded.dictionary.to_pylist())
    order = np.argsort(ids, kind="stable")
    position = np.empty(len(ids), np.int32)
    position[order] = np.arange(len(ids), dtype=np.int32)
    return ids[order], position[encoded.indices.to_numpy()]


def _encode_dense(column: Any, low: int, high: int) -> tuple[Array, npt.NDArray[np.int32]]:
    """`_encode` for whole numbers in a narrow range, by table, a chunk at a time."""
    present = np.zeros(high - low + 1, np.bool_)
    for chunk in column.chunks:
        present[chunk.to_numpy().astype(np.int64) - low] = True
    position = (np.cumsum(present) - 1).astype(np.int32)
    codes = np.empty(len(column), np.int32)
    start = 0
    for chunk in column.chunks:
        codes[start : start + len(chunk)] = position[chunk.to_numpy().astype(np.int64) - low]
        start += len(chunk)
    return np.flatnonzero(present) + low, codes


def _optional(table: pa.Table, name: str, dtype: np.dtype[Any]) -> Array | None:
    if name not in table.column_names:
        return None
    column = table[name]
    if column.null_count:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise InputError(f"row {row + 1}: {name} is missing; fill it or drop the column")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
    try:
        return np.asarray(column.to_numpy()).astype(dtype, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the column {name} is not numeric: {error}. Give whole numbers"
        ) from error


def _canonical_order(users: Array, items: Array) -> npt.NDArray[np.int64] | None:
    """The order by user, then item; None where the rows stand in it already."""
    ahead = users[1:] > users[:-1]
    ahead |= (users[1:] == users[:-1]) & (items[1:] >= items[:-1])
    if ahead.all():
        return None
    return np.lexsort((items, users))
