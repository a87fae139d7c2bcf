"""Contributions: the statistic that devices compute in a round, as it is published and read back.

Devices compute with the published integers, never with a basis of their own: an eigenvector found
by another machine may point the other way. The model, which every device computes from the results,
needs the same basis as floats, which are published beside the integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Array, Integers
from epicrec.collective.messages import Field, Refusal, decode, encode
from epicrec.data import Ratings, find
from epicrec.models.private.basis import Basis
from epicrec.models.private.statistics import STEPS, ItemEffects
from epicrec.models.private.tastes import (
    DIRECTION_BITS,
    WEIGHT_BITS,
    ItemTastes,
    TasteProducts,
)

Statistic = ItemEffects | TasteProducts | ItemTastes

COUNTS, PRODUCTS, ITEMS = "counts", "products", "items"
_MOST_ITEMS, _MOST_COLUMNS = 1 << 22, 1 << 12


def name_of(statistic: Statistic) -> str:
    if isinstance(statistic, ItemEffects):
        return COUNTS
    return PRODUCTS if isinstance(statistic, TasteProducts) else ITEMS


def sensitivity_of(statistic: Statistic) -> int:
    return ceil(statistic.sensitivity)


def published(statistic: Statistic, item_ids: Array, basis: Basis | None = None) -> bytes:
    """Everything that a device needs besides its history, and for which list of items.

    Products of tastes are published with the `basis` that the model is made of.
    """
    items = encode(*(str(one) for one in item_ids))
    fields: list[Field] = [name_of(statistic), items, len(item_ids)]
    if isinstance(statistic, TasteProducts):
        features = statistic.features.tocsr()
        fields += [features.shape[1], _bytes(features.indptr), _bytes(features.indices)]
        fields += [_bytes(statistic.weights), _bytes(statistic.coefficients)]
        floats = () if basis is None else (basis.scales, basis.emphasis, basis.coefficients)
        fields.append(b"".join(np.ascontiguousarray(part, "<f8").tobytes() for part in floats))
    elif isinstance(statistic, ItemTastes):
        fields += [_bytes(statistic.weights), _bytes(statistic.directions)]
    return encode(*fields)


def statistic_of(encoded: bytes, item_ids: Array) -> Statistic:
    """The statistic that was published; refused unless it is for these items and within bounds."""
    match decode(encoded):
        case [str() as name, bytes() as items, int() as n, *rest]:
            own = encode(*(str(one) for one in item_ids))
            if items != own or n != len(item_ids) or n > _MOST_ITEMS:
                raise Refusal("outdatedConfig", "this round is about another list of items")
        case _:
            raise Refusal("invalidMessage", "this is no statistic")
    match (name, *rest):
        case ("counts",):
            return ItemEffects("user", 2, None, np.full(n, STEPS, np.int16))
        case ("products", int() as width, bytes() as starts, bytes() as columns,
              bytes() as weights, bytes() as coefficients, bytes()):  # fmt: skip
            features = _features(n, width, _whole(starts, n), _whole(columns, width))
            scales = _whole(weights, 1 << WEIGHT_BITS, (n,))
            grid = _whole(coefficients, 1 << DIRECTION_BITS, (width, -1))
            return TasteProducts("user", scales, features, grid)
        case ("items", bytes() as weights, bytes() as directions):
            scales = _whole(weights, 1 << WEIGHT_BITS, (n,))
            grid = _whole(directions, 1 << DIRECTION_BITS, (n, -1))
            return ItemTastes("user", scales, grid)
    raise Refusal("invalidMessage", f"there is no statistic {name!r} of this form here")


def items_of(encoded: bytes) -> npt.NDArray[np.str_]:
    """The list of items that a statistic was published for."""
    match decode(encoded):
        case [str(), bytes() as items, int(), *_]:
            found = decode(items)
        case _:
            raise Refusal("invalidMessage", "this is no statistic")
    if not found or len(set(found)) != len(found) or not all(isinstance(i, str) for i in found):
        raise Refusal("invalidMessage", "a list of items names each once")
    return np.array(found, np.str_)


def basis_of(encoded: bytes, item_ids: Array) -> Basis:
    """The directions that products of tastes were published with."""
    statistic = statistic_of(encoded, item_ids)
    floats = decode(encoded)[-1]
    if not isinstance(statistic, TasteProducts) or not isinstance(floats, bytes):
        raise Refusal("outdatedConfig", "there is no basis in what was published for this round")
    n, (width, d) = len(item_ids), statistic.coefficients.shape
    found = np.frombuffer(floats, "<f8").astype(np.float64) if len(floats) % 8 == 0 else np.zeros(0)
    if len(found) != n + d + width * d or not np.isfinite(found).all():
        raise Refusal("invalidMessage", "a basis is not whole, or not finite")
    scales, emphasis, coefficients = np.split(found, [n, n + d])
    if emphasis.min() <= 0:
        raise Refusal("invalidMessage", "a basis has directions of no weight")
    apart = statistic.coefficients.astype(np.float64)
    return Basis(statistic.features, scales, coefficients.reshape(width, d), emphasis, apart)


def nobody(item_ids: Array) -> Ratings:
    """One empty history over these items."""
    return Ratings(
        np.zeros(1, np.int64), item_ids, np.zeros(2, np.int64), np.zeros(0, np.int32),
        np.zeros(0, np.float32), None,
    )  # fmt: skip


def one_history(item_ids: Array, items: Sequence[Any]) -> Ratings:
    """One person's history over these items; what is not among them is left out."""
    found = np.unique(find(item_ids, items)) if len(items) else np.zeros(0, np.int64)
    found = found[found >= 0]
    return replace(
        nobody(item_ids), indptr=np.array([0, len(found)]), items=found.astype(np.int32),
        values=np.ones(len(found), np.float32),
    )  # fmt: skip


def _bytes(values: Array) -> bytes:
    return np.ascontiguousarray(values, "<i8").tobytes()


def _whole(content: bytes, most: int, shape: tuple[int, ...] = (-1,)) -> Integers:
    """Integers of at most this absolute value, which excludes a NaN cast to one."""
    try:
        found = np.frombuffer(content, "<i8").astype(np.int64).reshape(shape)
    except ValueError as error:
        raise Refusal("invalidMessage", "a basis has another shape than it says") from error
    if found.size and (found.max() > most or found.min() < -most) and shape != (-1,):
        raise Refusal("invalidMessage", "a basis has entries beyond its bounds")
    if found.ndim == 2 and not 0 < found.shape[1] <= _MOST_COLUMNS:
        raise Refusal("invalidMessage", "a basis has no direction, or too many")
    return found


def _features(n: int, width: int, starts: Integers, columns: Integers) -> Any:
    from scipy.sparse import csr_array

    sound = (
        0 < width <= _MOST_COLUMNS
        and len(starts) == n + 1
        and starts[0] == 0
        and starts[-1] == len(columns)
        and bool((np.diff(starts) >= 0).all())
        and (columns.size == 0 or (columns.min() >= 0 and columns.max() < width))
    )
    if not sound:
        raise Refusal("invalidMessage", "the features of a basis do not fit together")
    return csr_array((np.ones(len(columns)), columns, starts), shape=(n, width))
