"""Public features of items: columns of a catalogue, by name, as zeros and ones to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.data import Catalogue
from epicrec.data.catalogue import labels_of, numbers_of
from epicrec.errors import InputError

BIN, DECADE = 5, 10
"""Years are told apart by five, and by ten within a category."""
FEW, SOME = 5, 10
"""A category's decade is a feature from so many items on, and a pair of categories from so many."""
TAIL = 0.01
"""The oldest and the newest hundredth of the years count as the next ones."""
MOST = 1000
"""So many columns at most, those of the most items: their products must fit in memory."""

USUAL = ("genres", "year")
"""The columns that are taken where none are named."""
ALIKE = 2
"""A label is a feature from so many items on: what one item has tells nothing of others."""
BINS = 10
"""Numbers are told apart by tenths of the items."""
PROJECTED = 16
"""Vectors are projected on so many directions at most: those in which items differ most."""

TASTE_COLUMNS = 32
"""So many columns of taste at most: the directions in which items differ most."""

Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def item_features(
    catalogue: Catalogue | None, item_ids: npt.NDArray[Any], named: Sequence[str] | None = None
) -> Any:
    """A sparse items × features matrix of zeros and ones, from public facts alone.

    One column is for all items. `genres` give each category and two categories together, `year`
    gives years in fives, and both a category's decade. Any other column of the catalogue that is
    `named` gives its labels (lists of text, or text with '|' between), its numbers in tenths of the
    items, or, of vectors, what their leading principal components have in tenths of the items. An
    item that the catalogue does not know has the first column only, and so have all where there is
    no catalogue; what is unknown of an item has no column.

    >>> films = Catalogue.from_columns([1, 2], ["Heat (1995)", "Up (2009)"], ["Crime", "Art|Crime"])
    >>> item_features(films, films.item_ids).toarray()
    array([[1., 0., 1., 1., 0.],
           [1., 1., 1., 0., 1.]])
    """
    from scipy.sparse import csr_array

    names = _checked(catalogue, named)
    n = len(item_ids)
    parts: list[Columns] = [(np.arange(n), np.zeros(n, np.int64))]
    if catalogue is not None:
        at = catalogue.positions(item_ids)
        known = np.flatnonzero(at >= 0)
        items, categories = _categories(catalogue, known, at[known])
        if "genres" not in names:
            items, categories = items[:0], categories[:0]
        years = np.zeros(n, np.int64)
        if "year" in names:
            years[known] = _without_tails(catalogue.years[at[known]])
        dated, within = np.flatnonzero(years), years[items] > 0
        size = len(catalogue.categories)
        pairs, first, second = _pairs(items, categories)
        parts += [
            _numbered(items, categories, 1),
            _numbered(dated, years[dated] // BIN, 1),
            _numbered(items[within], (years[items] // DECADE * size + categories)[within], FEW),
            _numbered(pairs, first * size + second, SOME),
        ]
        parts += [_column(catalogue, name, known, at[known]) for name in names if name not in USUAL]
    starts = np.cumsum([0] + [int(column.max(initial=-1)) + 1 for _, column in parts])
    rows = np.concatenate([row for row, _ in parts])
    columns = np.concatenate([start + c for start, (_, c) in zip(starts, parts, strict=False)])
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, starts[-1]))
    if starts[-1] <= MOST:
        return matrix
    common = np.argsort(-np.bincount(columns, minlength=starts[-1]), kind="stable")[:MOST]
    return matrix[:, np.sort(common)]


def public_columns(
    catalogue: Catalogue | None, named: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The columns of a catalogue that features were made of, and those that were left."""
    if catalogue is None:
        return [], []
    names, extra = _checked(catalogue, named), _extra(catalogue)
    dated = "year" if "year" in extra else "title"  # where the year stands in brackets
    used = [dated if name == "year" else name for name in names]
    return used, [name for name in extra if name not in used]


def assumption(columns: Sequence[str]) -> tuple[str, ...]:
    """What a guarantee assumes of the columns that features were made of."""
    if not columns:
        return ()
    listed = ", ".join(map(repr, columns))
    return (f"the catalogue's columns {listed} are public, and not computed from these people",)


def _extra(catalogue: Catalogue) -> list[str]:
    return [] if catalogue.extra is None else catalogue.extra.column_names


def _checked(catalogue: Catalogue | None, named: Sequence[str] | None) -> Sequence[str]:
    """The names of columns, all of which the catalogue has."""
    if named is None:
        return USUAL
    if isinstance(named, str):
        raise InputError(f"features are a list of columns, such as [{named!r}]")
    has = [*USUAL, *(name for name in _extra(catalogue) if name not in USUAL)] if catalogue else []
    for name in named:
        if name not in has:
            raise InputError(
                f"there is no column {name!r} to make features of; "
                + (f"the catalogue has {', '.join(has)}" if has else "give a catalogue that has it")
            )
    return named


def _column(
    catalogue: Catalogue, name: str, known: npt.NDArray[np.int64], at: npt.NDArray[np.int64]
) -> Columns:
    """The features of one more column: of labels, of numbers or of vectors."""
    import pyarrow as pa

    assert catalogue.extra is not None
    table = catalogue.extra.select([name]).append_column("item_id", pa.array(catalogue.item_ids))
    kind = table[name].type
    inner = kind.value_type if hasattr(kind, "value_type") else kind
    if pa.types.is_boolean(kind):
        rows, keys = _labels(labels_of(table.set_column(0, name, table[name].cast("string")), name))
    elif not _is_numeric(inner):
        rows, keys = _labels(labels_of(table, name))
    elif _is_numeric(kind):
        rows, keys = _binned(numbers_of(table, name)[:, None])
    else:
        rows, keys = _binned(_projected(table[name].to_pylist(), name))
    position = np.full(len(catalogue), -1, np.int64)
    position[at] = known
    here = position[rows] >= 0
    found = _numbered(position[rows[here]], keys[here], ALIKE)
    if len(np.unique(found[1])) < 2 and len(found[0]) in (0, len(known)):
        raise InputError(
            f"the catalogue's column {name!r} tells no items from others, so it is no feature; "
            "leave it out"
        )
    return found


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_one(kind) for is_one in tests)


def _labels(rows: list[set[str]]) -> Columns:
    found = sorted((label, row) for row, own in enumerate(rows) for label in own)
    _, keys = np.unique([label for label, _ in found], return_inverse=True)
    return np.array([row for _, row in found], np.int64), np.asarray(keys, np.int64)


def _binned(values: Floats) -> Columns:
    """Each column of numbers in parts of equally many items; what is NaN is in none."""
    rows, keys = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for at, column in enumerate(values.T):
        there = np.flatnonzero(np.isfinite(column))
        if not len(there):
            continue
        edges = np.unique(np.quantile(column[there], np.arange(1, BINS) / BINS))
        rows.append(there)
        keys.append(at * BINS + np.searchsorted(edges, column[there], side="right"))
    return np.concatenate(rows), np.concatenate(keys)


def _projected(vectors: list[Any], name: str) -> Floats:
    """Vectors of one size on their leading principal components; NaN where there is no vector."""
    there = [row for row, vector in enumerate(vectors) if vector is not None]
    if len({len(vectors[row]) for row in there}) != 1:
        raise InputError(f"the vectors of the column {name!r} differ in size; give all the same")
    rows = np.array([vectors[row] for row in there], np.float64)
    if not np.isfinite(rows).all():
        raise InputError(f"the vectors of the column {name!r} must be finite numbers")
    rows -= rows.mean(axis=0)
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    kept = directions[:PROJECTED][values[:PROJECTED] > 1e-6 * max(float(values[0]), 1e-300)]
    out = np.full((len(vectors), len(kept)), np.nan)
    out[there] = rows @ kept.T
    return out


def fame_of(catalogue: Catalogue | None, column: str, item_ids: npt.NDArray[Any]) -> Floats:
    """A column of a catalogue as public popularity: more is more popular, unknown is least."""
    extra = None if catalogue is None else catalogue.extra
    if catalogue is None or extra is None or column not in extra.column_names:
        there = "none" if extra is None else ", ".join(extra.column_names) or "none"
        raise InputError(
            f"the catalogue has no column {column!r} for fame; its further columns are: {there}"
        )
    try:
        values = np.asarray(extra[column].to_numpy(), np.float64)
    except (TypeError, ValueError):
        values = np.full(1, -1.0)
    values = np.where(np.isnan(values), 0.0, values)
    if not np.isfinite(values).all() or values.min(initial=0.0) < 0:
        raise InputError(f"fame must be numbers of at least 0; {column!r} has others")
    at = catalogue.positions(item_ids)
    found = np.zeros(len(item_ids))
    found[at >= 0] = values[at[at >= 0]]
    if not found.any():
        raise InputError(f"fame must not be 0 or unknown for all items, as {column!r} is")
    return found


def taste_columns(features: Any) -> Floats:
    """Taste by public features: items × directions, of length 1 in the mean, and 0 where nothing is
    known of an item.

    What a person's ratings of some items say of others is then solved from the person's own
    ratings, at home, so that taste costs no privacy.

    `features` is the matrix of `item_features`, whose first column all items have.
    """
    known = np.flatnonzero(np.diff(features.indptr) > 1)
    if len(known) < 2:
        return np.zeros((features.shape[0], 0))
    rows = features[known][:, 1:]
    mean = np.asarray(rows.mean(axis=0)).ravel()
    square = (rows.T @ rows).toarray() - len(known) * np.outer(mean, mean)
    values, vectors = np.linalg.eigh(square)
    vectors = vectors[:, ::-1][:, : min(TASTE_COLUMNS, int(np.sum(values > 1e-6 * values[-1])))]
    own = rows @ vectors - mean @ vectors
    out = np.zeros((features.shape[0], own.shape[1]))
    out[known] = own / sqrt(max(float(np.mean(np.sum(own**2, axis=1))), 1e-12))
    return out


def _categories(
    catalogue: Catalogue, known: npt.NDArray[np.int64], at: npt.NDArray[np.int64]
) -> Columns:
    """The items that are known, by position among those asked for, and their categories."""
    counts = np.diff(catalogue.indptr)[at]
    starts = np.repeat(catalogue.indptr[at] - np.cumsum(counts) + counts, counts)
    categories = catalogue.indices[starts + np.arange(len(starts))].astype(np.int64)
    return np.repeat(known, counts), categories


def _pairs(
    items: npt.NDArray[np.int64], categories: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Every two categories of an item: the item, the one and the other."""
    found = [np.zeros((3, 0), np.int64)]
    for apart in range(1, int(np.bincount(items).max(initial=0))):
        same = items[apart:] == items[:-apart]
        both = items[apart:], categories[:-apart], categories[apart:]
        found.append(np.stack([column[same] for column in both]))
    first, second, third = np.concatenate(found, axis=1)
    return first, second, third


def _numbered(rows: npt.NDArray[np.int64], keys: npt.NDArray[np.int64], least: int) -> Columns:
    """The keys that at least so many rows have, numbered from 0."""
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    number = np.cumsum(counts >= least) - 1
    keep = (counts >= least)[which]
    return rows[keep], number[which[keep]]


def _without_tails(years: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The years with the oldest and the newest few moved inwards; unknown years stay 0."""
    known = years[years > 0]
    if known.size == 0:
        return np.zeros_like(years)
    low, high = np.quantile(known, [TAIL, 1 - TAIL], method="nearest")
    return np.where(years > 0, np.clip(years, low, high), 0)
