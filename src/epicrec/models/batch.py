"""Tables: lists and scores for very many people, written as they are made, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from epicrec.data import Ratings
from epicrec.data.columns import ids_of
from epicrec.data.formats import Source
from epicrec.errors import InputError
from epicrec.files import check_output, write_whole
from epicrec.models.base import Recommender

_ROWS = 1 << 17  # of a row group


def check_table(path: Path) -> Path:
    """The path, where a table can be written to it now: to be asked before the work."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"cannot tell what {path} is to be; name a .parquet or a .csv file")
    return check_output(path)


def write_lists(
    path: Path, model: Recommender, histories: Ratings, *, n: int = 10, items: Any = None
) -> int:
    """The `n` best items of everybody as `user_id, item_id, score, rank`, and how many rows."""
    return _write(path, model.lists(histories, n=n, items=items))


def write_scores(
    path: Path, model: Recommender, pairs: Source, histories: Ratings
) -> tuple[int, int]:
    """`user_id, item_id, score` of each pair, in their order; how many there are, and how many
    have no score because the model does not know their item."""
    unknown = 0

    def scored(blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        nonlocal unknown
        unknown = row = 0
        for block in blocks:
            for name in ("user_id", "item_id"):
                ids_of(block, name, row)
            row += len(block)
            at = histories.positions(np.unique(np.asarray(block["user_id"].to_pylist())))
            own = histories.users_at(at[at >= 0])
            table = model.predict(block.select(["user_id", "item_id"]), histories=own)
            histories.let_go()
            unknown += int(pc.sum(pc.is_nan(table["score"])).as_py() or 0)
            yield table

    return pairs.through(lambda blocks: _write(path, scored(blocks))), unknown


def _write(path: Path, tables: Iterable[pa.Table]) -> int:
    """The tables one below the other, in a file that appears whole or not at all."""
    rows = 0

    def write(file: BinaryIO) -> None:
        nonlocal rows
        tables_ = iter(tables)
        first = next(tables_, None)
        if first is None:
            raise InputError("there are no rows; give at least one")
        schema = first.schema
        with (
            pa_parquet.ParquetWriter(file, schema, compression="zstd")
            if path.suffix == ".parquet"
            else pa_csv.CSVWriter(file, schema)
        ) as writer:
            for table in chain([first], tables_):
                writer.write_table(table.cast(schema), _ROWS)
                rows += len(table)

    write_whole(path, write)
    return rows
