"""Ids: from the external ids of users and items to positions in a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.arrays import Array, Integers
from epicrec.data.columns import ids_of


def find(vocabulary: Array, ids: Sequence[Any] | Array, *, ordered: bool | None = None) -> Integers:
    """The position of each id in the vocabulary, -1 where it is absent.

    Finding out whether the vocabulary is `ordered` reads all of it, unless the caller knows.
    """
    wanted = np.asarray(ids)
    if len(vocabulary) == 0 or wanted.size == 0:
        return np.full(wanted.shape, -1, np.int64)
    if (wanted.dtype.kind in "US") != (vocabulary.dtype.kind in "US"):
        wanted = wanted.astype(str) if vocabulary.dtype.kind in "US" else _numbers(wanted)
    ordered = is_ordered(vocabulary) if ordered is None else ordered
    order = None if ordered else np.argsort(vocabulary, kind="stable")
    at = np.searchsorted(vocabulary, wanted, sorter=order)
    at[at == len(vocabulary)] = 0
    at = at if order is None else order[at]
    return np.where(vocabulary[at] == wanted, at, -1)


def is_ordered(ids: Array) -> bool:
    return bool((ids[1:] >= ids[:-1]).all())


def _numbers(ids: Array) -> Array:
    """Ids typed on a command line are text; a vocabulary of numbers wants them as numbers."""
    return np.array(
        [int(i) if str(i).lstrip("-").isdigit() else np.iinfo(np.int64).min for i in ids]
    )


def encode(table: pa.Table, name: str) -> tuple[Array, npt.NDArray[np.int32]]:
    """The sorted distinct ids of a column and each row's position among them."""
    column = ids_of(table, name)
    if pa.types.is_integer(column.type):
        low, high = (int(v) for v in pc.min_max(column).as_py().values())
        if high - low < 4 * len(column) + 1_000_000:
            return _encode_dense(column, low, high)
    encoded = pc.dictionary_encode(column).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    ids = np.asarray(encoded.dictionary.to_pylist())
    order = np.argsort(ids, kind="stable")
    position = np.empty(len(ids), np.int32)
    position[order] = np.arange(len(ids), dtype=np.int32)
    return ids[order], position[encoded.indices.to_numpy()]


def _encode_dense(column: Any, low: int, high: int) -> tuple[Array, npt.NDArray[np.int32]]:
    """`encode` for whole numbers in a narrow range, by table, a chunk at a time."""
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
