"""Dataframes of any library in, and results of the same kind out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from epicrec.arrays import Array
from epicrec.errors import InputError


class Kind(NamedTuple):
    """A dataframe library, as narwhals calls it, and whether its frame is lazy."""

    backend: str
    lazy: bool = False


def kind_of(given: Any) -> Kind | None:
    """What a frame or a series is of; None for Arrow and for whatever is neither."""
    found = _wrapped(given)
    if found is None or found.implementation.is_pyarrow():
        return None
    import narwhals as nw

    return Kind(found.implementation.value, isinstance(found, nw.LazyFrame))


def as_kind(table: pa.Table, kind: Kind | None) -> Any:
    """A table as a frame of this kind; Arrow where there is none."""
    if kind is None:
        return table
    import narwhals as nw

    backend: Any = kind.backend
    frame = nw.from_arrow(table, backend=backend)
    return (frame.lazy() if kind.lazy else frame).to_native()


def table_from_frame(frame: Any, what: str = "ratings") -> pa.Table:
    """From any dataframe: pandas, polars (also lazy), pyarrow, …"""
    if isinstance(frame, pa.Table):
        return frame
    import narwhals as nw

    found = _wrapped(frame)
    if isinstance(found, nw.LazyFrame):
        found = found.collect()
    if not isinstance(found, nw.DataFrame):
        raise InputError(
            f"cannot read {what} from a {type(frame).__name__}; give a dataframe of pandas, polars "
            "or pyarrow"
        )
    try:
        table = found.to_arrow()
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise InputError(_bad_column(found, what) or f"cannot read {what}: {error}") from error
    return table.drop_columns([n for n in table.column_names if n.startswith("__index_level_")])


def ids_given(given: Any) -> Array | None:
    """Ids as an array: one, a list, an array or a series; None where it is none of these."""
    if isinstance(given, str | bytes) or np.isscalar(given):
        return np.asarray([given])
    if isinstance(given, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray):
        ids = np.asarray(given)
    else:
        import narwhals as nw

        series = _wrapped(given)
        if not isinstance(series, nw.Series):
            return None
        ids = np.asarray(series.to_list())
    if ids.dtype == object and ids.size and all(isinstance(i, str) for i in ids.ravel()):
        ids = ids.astype(str)
    return ids


def explained(name: str, values: Any) -> str:
    """What is wrong with a column that Arrow has no type for, and what to do."""
    kinds = sorted({type(value).__name__ for value in values if value is not None})
    if kinds == ["int"]:
        return f"the column {name} has whole numbers beyond 64 bits; give them as text"
    return f"the column {name} mixes {' and '.join(kinds)}; give all rows one type, such as text"


def _wrapped(given: Any) -> Any:
    """As narwhals has it; None where it is no frame and no series."""
    import narwhals as nw

    found = nw.from_native(given, allow_series=True, pass_through=True)
    return found if isinstance(found, nw.DataFrame | nw.LazyFrame | nw.Series) else None


def _bad_column(frame: Any, what: str) -> str | None:
    for name in frame.columns:
        values = frame[name].to_list()
        try:
            pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError):
            return f"cannot read {what}: {explained(name, values)}"
    return None
