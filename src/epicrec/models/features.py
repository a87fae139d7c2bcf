"""Public features of items: what a catalogue tells of them, as columns that a model can lean on."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.data import Catalogue
from epicrec.errors import InputError

BIN, DECADE = 5, 10
"""Years are told apart by five, and by ten within a category."""
FEW, SOME = 5, 10
"""A category's decade is a feature from so many items on, and a pair of categories from so many."""
TAIL = 0.01
"""The oldest and the newest hundredth of the years count as the next ones."""
MOST = 1000
"""So many columns at most, those of the most items: their products must fit in memory."""

TASTE_COLUMNS = 32
"""So many columns of taste at most: the directions in which items differ most."""

Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def item_features(catalogue: Catalogue | None, item_ids: npt.NDArray[Any]) -> Any:
    """A sparse items × features matrix of zeros and ones, from public facts alone.

    The columns: one for all items, each category, years in fives, a category's decade, two
    categories together. An item that the catalogue does not know has the first only, and so have
    all where there is no catalogue; an unknown year has no column.

    >>> films = Catalogue.from_columns([1, 2], ["Heat (1995)", "Up (2009)"], ["Crime", "Art|Crime"])
    >>> item_features(films, films.item_ids).toarray()
    array([[1., 0., 1., 1., 0.],
           [1., 1., 1., 0., 1.]])
    """
    from scipy.sparse import csr_array

    n = len(item_ids)
    parts: list[Columns] = [(np.arange(n), np.zeros(n, np.int64))]
    if catalogue is not None:
        at = catalogue.positions(item_ids)
        known = np.flatnonzero(at >= 0)
        items, categories = _categories(catalogue, known, at[known])
        years = np.zeros(n, np.int64)
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
    starts = np.cumsum([0] + [int(column.max(initial=-1)) + 1 for _, column in parts])
    rows = np.concatenate([row for row, _ in parts])
    columns = np.concatenate([start + c for start, (_, c) in zip(starts, parts, strict=False)])
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, starts[-1]))
    if starts[-1] <= MOST:
        return matrix
    common = np.argsort(-np.bincount(columns, minlength=starts[-1]), kind="stable")[:MOST]
    return matrix[:, np.sort(common)]


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
