"""Columns: what a table of ratings holds, checked; whatever is wrong is named with its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.data.scale import KNOWN_SCALES, Scale
from epicrec.errors import InputError

Array = npt.NDArray[Any]


def table_from_columns(columns: Mapping[str, Any]) -> pa.Table:
    """From plain sequences or arrays; None stands for a column that is not there."""
    arrays = {name: _arrow(c) for name, c in columns.items() if c is not None}
    if len({len(a) for a in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(a):,}" for name, a in arrays.items())
        raise InputError(f"the columns differ in length ({lengths}); give each the same length")
    return pa.table(arrays)


def _arrow(column: Any) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    return pa.array(column, from_pandas=True)


def table_from_frame(frame: Any) -> pa.Table:
    """From any dataframe: pandas, polars, pyarrow, …"""
    if isinstance(frame, pa.Table):
        return frame
    import narwhals as nw

    try:
        native = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"cannot read ratings from a {type(frame).__name__}; pass a pandas, polars or "
            f"pyarrow table, or use Ratings.from_columns ({error})"
        ) from error
    return native.to_arrow()


def without_ratings(table: pa.Table) -> pa.Table:
    """What was seen, not how it was rated."""
    return table.drop_columns([name for name in table.column_names if name == "rating"])


def rating_values(
    table: pa.Table, scale: Scale | None
) -> tuple[npt.NDArray[np.float32], Scale | None]:
    """The ratings as float32, and their scale: the one given, or the first known one that fits.

    Values off a scale that was given are the caller's to refuse or to leave out.
    """
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
        scale = next((s for s in KNOWN_SCALES if first_off(values, s) is None), None)
    if scale is None:
        bad = first_off(values, KNOWN_SCALES[-1]) or 0
        raise InputError(
            f"row {bad + 1}: rating {values[bad]:g} fits no scale known here; "
            "pass the scale, such as Scale(0, 100, 1) or --scale 0:100:1"
        )
    return values, scale


def check_on(scale: Scale, values: npt.NDArray[np.float32]) -> None:
    """Refuse values that are off the scale, with the first of them."""
    bad = first_off(values, scale)
    if bad is not None:
        raise InputError(
            f"row {bad + 1}: rating {values[bad]:g} is off the scale {scale}; "
            "correct such rows or pass the true scale"
        )


def _first(values: Array, wrong: Callable[[Array], Array]) -> int | None:
    """Where the first wrong value stands; in blocks, so that 100 million need no second copy."""
    for start in range(0, len(values), 1 << 20):
        found = np.flatnonzero(wrong(values[start : start + (1 << 20)]))
        if found.size:
            return start + int(found[0])
    return None


def first_off(values: Array, scale: Scale) -> int | None:
    """Where the first value stands that is off the scale."""
    return _first(values, lambda part: ~scale.holds(part))


def optional(table: pa.Table, name: str, dtype: np.dtype[Any]) -> Array | None:
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
