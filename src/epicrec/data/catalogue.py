"""Catalogue: the public list of items, with titles, years and categories."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec.arrays import Array, Floats, Integers
from epicrec.data.columns import ids_of
from epicrec.data.frames import table_from_frame
from epicrec.data.ids import find, is_ordered
from epicrec.errors import InputError

NO_CATEGORY = frozenset({"", "(no genres listed)", "unknown"})
_YEAR_IN_TITLE = re.compile(r"\((\d{4})\)\s*$")


@dataclass(frozen=True, eq=False)
class CategoryRows:
    """The distinct category rows of a catalogue: items in the same categories share one.

    Thousands of items fall into a few hundred rows, so an optimisation over items becomes one over
    rows.
    `matrix[r, j]` is 1 where row r has category j, `row_of_item[i]` the row of item i, `sizes[r]`
    how many items share row r.
    """

    matrix: npt.NDArray[np.uint8]
    row_of_item: npt.NDArray[np.int32]
    sizes: Integers


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items in order of their ids: `item_ids`, `titles`, `years` (0 where unknown), categories, and
    `popularity`, which is public knowledge or None. `extra` has the source's other columns.

    `indices[indptr[i]:indptr[i + 1]]` are the categories of item i as positions in `categories`.

    >>> films = Catalogue.from_columns([1, 2], ["Heat (1995)", "Up (2009)"], ["Crime", "Art|Crime"])
    >>> films.categories, films.years.tolist(), films.categories_of(1)
    (('Art', 'Crime'), [1995, 2009], ('Art', 'Crime'))
    """

    item_ids: Array
    titles: npt.NDArray[np.object_]
    years: npt.NDArray[np.int32]
    categories: tuple[str, ...]
    indptr: Integers
    indices: npt.NDArray[np.int32]
    popularity: Floats | None = None
    extra: pa.Table | None = None
    """The source's other columns, year and popularity among them, as they came."""

    @classmethod
    def from_columns(cls, item_id: Any, title: Any, genres: Any, **columns: Any) -> Self:
        """From plain sequences: `item_id`, `title`, `genres` and further columns by name."""
        return cls.from_table(
            pa.table({"item_id": item_id, "title": title, "genres": genres, **columns})
        )

    @classmethod
    def from_frame(cls, frame: Any) -> Self:
        """From a `frame` of pandas, polars, pyarrow, … with the column `item_id`; the others are
        those of `from_table`, as far as they are known."""
        table = table_from_frame(frame, "the catalogue")
        if "item_id" in table.column_names:
            ids = [str(i) for i in table["item_id"].to_pylist()]
            for name, column in (("title", pa.array(ids)), ("genres", pa.nulls(len(ids)))):
                if name not in table.column_names:
                    table = table.append_column(name, column)
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From a `table` with `item_id, title, genres` (lists, or text with '|' between them) and,
        where known, `year` and `popularity`; other columns are kept as they are in `extra`."""
        for name in ("item_id", "title", "genres"):
            if name not in table.column_names:
                raise InputError(
                    f"the catalogue has no column {name!r}; found {', '.join(table.column_names)}. "
                    "Rename the columns to item_id, title, genres (the last may be empty), with "
                    "commas between them, or list item_id alone"
                )
        if table.num_rows == 0:
            raise InputError("the catalogue is empty; give at least one item")
        try:
            ids = np.asarray(ids_of(table, "item_id").to_pylist())
        except InputError as error:
            raise InputError(f"the catalogue: {error}") from error
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        repeated = np.flatnonzero(ids[1:] == ids[:-1])
        if repeated.size:
            raise InputError(
                f"the catalogue's rows {order[repeated[0]] + 1} and {order[repeated[0] + 1] + 1} "
                f"have the same item_id {ids[repeated[0]]}; keep one"
            )
        table = table.take(pa.array(order))
        titles = np.array([str(t or "") for t in table["title"].to_pylist()], dtype=object)
        names = labels_of(table, "genres")
        categories = tuple(sorted(set().union(*names)))
        position = {name: j for j, name in enumerate(categories)}
        indptr = np.concatenate([[0], np.cumsum([len(n) for n in names])]).astype(np.int64)
        indices = np.array([position[g] for n in names for g in sorted(n)], dtype=np.int32)
        return cls(
            item_ids=ids,
            titles=titles,
            years=_years(table, titles),
            categories=categories,
            indptr=indptr,
            indices=indices,
            popularity=(
                np.nan_to_num(numbers_of(table, "popularity"))
                if "popularity" in table.column_names
                else None
            ),
            extra=table.drop_columns(["item_id", "title", "genres"]),
        )

    def __len__(self) -> int:
        return len(self.item_ids)

    def __repr__(self) -> str:
        return f"Catalogue({len(self):,} items, {len(self.categories)} categories)"

    def to_table(self) -> pa.Table:
        """The columns it was made from."""
        genres = ["|".join(self.categories_of(i)) for i in range(len(self))]
        table = pa.table({"item_id": self.item_ids, "title": list(self.titles), "genres": genres})
        for name, column in zip(*_columns(self.extra), strict=True):
            table = table.append_column(name, column)
        return table

    def positions(self, item_ids: Any) -> Integers:
        """The positions of `item_ids` in the catalogue; -1 for unknown items."""
        return find(self.item_ids, item_ids, ordered=self._is_ordered)

    def categories_of(self, item: int) -> tuple[str, ...]:
        """The category names of the item at this position."""
        span = slice(int(self.indptr[item]), int(self.indptr[item + 1]))
        return tuple(self.categories[j] for j in self.indices[span])

    def title_of(self, item_id: Any) -> str:
        """The title of `item_id`, or the id itself where the catalogue does not know it."""
        at = int(self.positions([item_id])[0])
        return str(self.titles[at]) if at >= 0 else str(item_id)

    @property
    def matrix(self) -> Any:
        """A scipy item × category matrix of zeros and ones."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.indices), np.uint8)
        return csr_array((ones, self.indices, self.indptr), (len(self), len(self.categories)))

    @cached_property
    def _is_ordered(self) -> bool:
        return is_ordered(self.item_ids)

    @cached_property
    def version(self) -> str:
        """A hash of items, years, categories and popularity: equal for equal catalogues."""
        found = hashlib.sha256("\n".join([*map(str, self.item_ids), "", *self.categories]).encode())
        for column in (self.years, self.indptr, self.indices, self.popularity):
            found.update(b"" if column is None else np.ascontiguousarray(column).tobytes())
        return found.hexdigest()[:16]

    @cached_property
    def rows(self) -> CategoryRows:
        """Items grouped by identical categories."""
        seen: dict[bytes, int] = {}
        row_of_item = np.empty(len(self), np.int32)
        members: list[npt.NDArray[np.int32]] = []
        for i in range(len(self)):
            own = self.indices[self.indptr[i] : self.indptr[i + 1]]
            row = seen.setdefault(own.tobytes(), len(members))
            if row == len(members):
                members.append(own)
            row_of_item[i] = row
        matrix = np.zeros((len(members), len(self.categories)), np.uint8)
        for row, own in enumerate(members):
            matrix[row, own] = 1
        return CategoryRows(matrix, row_of_item, np.bincount(row_of_item, minlength=len(members)))


def with_text_ids(catalogue: Catalogue) -> Catalogue:
    """The same catalogue with ids as text, as they are on the wire."""
    if catalogue.item_ids.dtype.kind == "U":
        return catalogue
    table = catalogue.to_table()
    ids = pa.array([str(i) for i in table["item_id"].to_pylist()])
    return Catalogue.from_table(table.set_column(0, "item_id", ids))


def _columns(table: pa.Table | None) -> tuple[list[str], list[Any]]:
    return ([], []) if table is None else (table.column_names, table.columns)


def labels_of(table: pa.Table, name: str) -> list[set[str]]:
    """The labels of each row: a list of them, or a text with '|' between them."""
    kind = table[name].type
    if pa.types.is_null(kind):
        return [set() for _ in range(table.num_rows)]
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
        raise InputError(
            f"the catalogue's column {name!r} has the type {kind}; give lists of text, or text "
            "with '|' between the parts"
        )
    rows = table[name].to_pylist()
    split = (row.split("|") if isinstance(row, str) else row or () for row in rows)
    return [{part.strip() for part in row if part is not None} - NO_CATEGORY for row in split]


def numbers_of(table: pa.Table, name: str) -> Floats:
    """A column of numbers; NaN where there is none."""
    found = np.full(table.num_rows, np.nan)
    for row, value in enumerate(table[name].to_pylist()):
        try:
            found[row] = np.nan if value is None or value == "" else float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"the catalogue has the {name} {value!r} for item {table['item_id'][row]}; give "
                "numbers, and leave unknown ones empty"
            ) from None
    return found


def _years(table: pa.Table, titles: npt.NDArray[np.object_]) -> npt.NDArray[np.int32]:
    """From the column `year`, else from a year in brackets at the end of the title, else 0."""
    if "year" in table.column_names:
        return np.nan_to_num(numbers_of(table, "year")).astype(np.int32)
    found = (_YEAR_IN_TITLE.search(title) for title in titles)
    return np.array([int(m.group(1)) if m else 0 for m in found], dtype=np.int32)
