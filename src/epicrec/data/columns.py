"""Columns: those of a table of ratings, checked; errors name the row that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.arrays import Array
from epicrec.data.frames import explained
from epicrec.data.scale import KNOWN_SCALES, Scale
from epicrec.errors import InputError

NAMES = ("user_id", "item_id", "rating", "timestamp", "probe")
"""The columns that a table of ratings may have."""


class BadRow(InputError):
    """A row that cannot be used, or one that repeats another, counted from 0."""

    def __init__(self, what: str, *rows: int) -> None:
        self.what, self.rows = what, rows
        super().__init__(self.said(lambda row: f"row {row + 1}"))

    def said(self, place: Callable[[int], str]) -> str:
        """The message, with rows named by a caller who knows which files they are from."""
        return f"{' repeats '.join(map(place, self.rows))}: {self.what}"


def table_from_columns(columns: Mapping[str, Any]) -> pa.Table:
    """From plain sequences or arrays; None is a column that is absent."""
    arrays = {name: _arrow(name, c) for name, c in columns.items() if c is not None}
    if len({len(a) for a in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(a):,}" for name, a in arrays.items())
        raise InputError(f"the columns differ in length ({lengths}); give each the same length")
    return pa.table(arrays)


def _arrow(name: str, column: Any) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise InputError(explained(name, column)) from error


def without_ratings(table: pa.Table) -> pa.Table:
    """The table without its column `rating`: what was seen, not how it was rated."""
    return table.drop_columns([name for name in table.column_names if name == "rating"])


def check_names(names: list[str], needed: Sequence[str] = ("user_id", "item_id")) -> None:
    """Refuse a table without the columns that are needed."""
    for name in needed:
        if name not in names:
            raise InputError(
                f"there is no column {name!r}; found {', '.join(names) or 'none'}. Rename the "
                "columns to user_id, item_id, rating, timestamp, or convert a file once: epicrec "
                "data convert FILE FOLDER --columns user=…,item=…,rating=…,time=… --sep ';'"
            )


def check_rated(names: list[str]) -> None:
    """Refuse a table without ratings where a scale says that there are some."""
    if "rating" not in names:
        raise InputError(
            f"there is no column 'rating'; found {', '.join(names)}. "
            "Add it, or give no scale to read a history"
        )


def rating_values(table: pa.Table, first: int = 0) -> npt.NDArray[np.float32]:
    """The ratings as float32, those of a history all 1. `first` is the number of the first row."""
    if "rating" not in table.column_names:
        return np.ones(table.num_rows, np.float32)
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
            raise BadRow(f"the rating is {name}; drop such rows or fill them", first + bad)
    return values


def fitting(
    values: npt.NDArray[np.float32], scales: Sequence[Scale] = KNOWN_SCALES, first: int = 0
) -> tuple[Scale, ...]:
    """The scales that all values lie on; the last one contains all the others."""
    bad = first_off(values, scales[-1])
    if bad is not None:
        raise BadRow(
            f"rating {values[bad]:g} fits no scale known here; "
            "pass the scale, such as Scale(0, 100, 1) or --scale 0:100:1",
            first + bad,
        )
    return (*(s for s in scales[:-1] if first_off(values, s) is None), scales[-1])


def check_on(scale: Scale, values: npt.NDArray[np.float32]) -> None:
    """Refuse values that are off the scale, with the first of them."""
    bad = first_off(values, scale)
    if bad is not None:
        raise BadRow(
            f"rating {values[bad]:g} is off the scale {scale}; "
            "correct such rows or pass the true scale",
            bad,
        )


def said_off(off: int, of: int, scale: Scale) -> str:
    """How many ratings are left out because they are off the scale."""
    return f"{off:,} of {of:,} ratings are off the scale {scale.text} and left out"


def repeats(user_id: Any, item_id: Any) -> str:
    """What is wrong with a row that repeats another."""
    return f"user {user_id!s} and item {item_id!s} again; keep one rating for each user and item"


def ids_of(table: pa.Table, name: str, first: int = 0) -> pa.ChunkedArray:
    """A column of ids, as whole numbers or text, none of them missing."""
    column = table[name]
    if column.null_count:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise BadRow(f"{name} is missing; drop the row or fill it", first + row)
    if pa.types.is_floating(column.type):
        whole = column.to_numpy()
        bad = np.flatnonzero(~np.isfinite(whole) | (whole != np.floor(whole)))
        if bad.size:
            raise BadRow(
                f"{name} is {whole[bad[0]]}; ids are whole numbers or text", first + int(bad[0])
            )
        return pa.chunked_array([whole.astype(np.int64)])
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not any(fits(column.type) for fits in kinds):
        raise InputError(
            f"the column {name} has the type {column.type}; ids are whole numbers or text, so "
            "convert it first, for example to text"
        )
    return column


def _first(values: Array, wrong: Callable[[Array], Array]) -> int | None:
    """The position of the first wrong value; in blocks, so that 100 million need no second copy."""
    for start in range(0, len(values), 1 << 20):
        found = np.flatnonzero(wrong(values[start : start + (1 << 20)]))
        if found.size:
            return start + int(found[0])
    return None


def first_off(values: Array, scale: Scale) -> int | None:
    """The position of the first value that is off the scale."""
    return _first(values, lambda part: ~scale.holds(part))


def optional(table: pa.Table, name: str, dtype: np.dtype[Any], first: int = 0) -> Array | None:
    """A column that may be absent, but has no gaps where it is present."""
    if name not in table.column_names:
        return None
    column = table[name]
    if column.null_count:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise BadRow(f"{name} is missing; fill it or drop the column", first + row)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
    try:
        return np.asarray(column.to_numpy()).astype(dtype, copy=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the column {name} is not numeric: {error}. Give whole numbers"
        ) from error
