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
    """Items in order of their ids; unknown years are 0; `popularity` is public knowledge or None.

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
        return cls.from_table(
            pa.table({"item_id": item_id, "title": title, "genres": genres, **columns})
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From the columns `item_id, title, genres` ('|' between genres) and, where known, `year`
        and `popularity`; other columns are kept as they are in `extra`."""
        for name in ("item_id", "title", "genres"):
            if name not in table.column_names:
                raise InputError(
                    f"the catalogue has no column {name!r}; found {', '.join(table.column_names)}. "
                    "Rename the columns to item_id, title, genres (the last may be empty), with "
                    "commas between them, or list item_id alone"
                )
        if table.num_rows == 0:
            raise InputError("the catalogue is empty; give at least one item")
        ids = np.asarray(table["item_id"].to_pylist())
        if ids.dtype == object or ids.dtype.kind == "f":
            missing = (
                table["item_id"].to_pylist().index(None) + 1 if table["item_id"].null_count else 1
            )
            raise InputError(
                f"the catalogue's row {missing} has no usable item_id; give whole numbers or text"
            )
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        repeated = np.flatnonzero(ids[1:] == ids[:-1])
        if repeated.size:
            raise InputError(
                f"the catalogue's rows {order[repeated[0]] + 1} and {order[repeated[0] + 1] + 1} "
                f"have the same item_id {ids[repeated[0]]}; keep one"
            )
        table = table.take(pa.array(order))
        titles = np.array([t or "" for t in table["title"].to_pylist()], dtype=object)
        names = [_genres(text) for text in table["genres"].to_pylist()]
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
                np.nan_to_num(np.asarray(table["popularity"].to_numpy(), dtype=np.float64))
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
        """The positions of these items in the catalogue; -1 for unknown items."""
        return find(self.item_ids, item_ids, ordered=self._is_ordered)

    def categories_of(self, item: int) -> tuple[str, ...]:
        """The category names of the item at this position."""
        span = slice(int(self.indptr[item]), int(self.indptr[item + 1]))
        return tuple(self.categories[j] for j in self.indices[span])

    def title_of(self, item_id: Any) -> str:
        """The title, or the id itself where the catalogue does not know it."""
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


def _genres(text: str | None) -> set[str]:
    return {g.strip() for g in (text or "").split("|")} - NO_CATEGORY


def _years(table: pa.Table, titles: npt.NDArray[np.object_]) -> npt.NDArray[np.int32]:
    """From the column `year`, else from a year in brackets at the end of the title, else 0."""
    if "year" in table.column_names:
        return np.array([int(y or 0) for y in table["year"].to_pylist()], dtype=np.int32)
    found = (_YEAR_IN_TITLE.search(title) for title in titles)
    return np.array([int(m.group(1)) if m else 0 for m in found], dtype=np.int32)
