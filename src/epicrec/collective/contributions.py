"""Contributions: one step of the learner's plan, as it is published for a round and read back.

Devices compute with the published integers, never with a basis of their own: an eigenvector found
by another machine may point the other way. The model, which every device computes from the results,
needs the same basis as floats, which are published beside the integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Array, Integers
from epicrec.collective.messages import Field, Refusal, decode, encode
from epicrec.data import Ratings, find
from epicrec.models.private.basis import Basis
from epicrec.models.private.lists import PLAN_VERSION, Step, counts_statistic
from epicrec.models.private.statistics import ItemEffects
from epicrec.models.private.tastes import DIRECTION_BITS, WEIGHT_BITS, TasteProducts

Statistic = ItemEffects | TasteProducts

COUNTS, PRODUCTS = "counts", "products"
_MOST_ITEMS, _MOST_COLUMNS = 1 << 22, 1 << 12


def name_of(statistic: Statistic) -> str:
    return COUNTS if isinstance(statistic, ItemEffects) else PRODUCTS


def sensitivity_of(statistic: Statistic) -> int:
    return ceil(statistic.sensitivity)


def published(step: Step, item_ids: Array) -> bytes:
    """Everything that a device needs besides its history and the results: for which list of items,
    by which version of plans, what is summed, and the basis of tastes."""
    statistic, basis = step.statistic, step.basis
    items = encode(*(str(one) for one in item_ids))
    fields: list[Field] = [name_of(statistic), items, len(item_ids), PLAN_VERSION]
    if isinstance(statistic, TasteProducts):
        assert basis is not None
        features = statistic.features.tocsr()
        fields += [features.shape[1], _bytes(features.indptr), _bytes(features.indices)]
        fields += [_bytes(statistic.weights), _bytes(statistic.coefficients)]
        floats = (basis.scales, basis.emphasis, basis.coefficients)
        fields.append(b"".join(np.ascontiguousarray(part, "<f8").tobytes() for part in floats))
    return encode(*fields)


def step_of(encoded: bytes, item_ids: Array, share: Fraction) -> Step:
    """The step that was published; refused unless it is for these items and within bounds."""
    match decode(encoded):
        case [str() as name, bytes() as items, int() as n, *rest]:
            pass
        case _:
            raise Refusal("invalidMessage", "this is no statistic")
    if rest[:1] != [PLAN_VERSION]:
        raise Refusal(
            "outdatedConfig",
            "this round was planned by another version of epicrec than the one here; have the same "
            "everywhere, and start another task",
        )
    own = encode(*(str(one) for one in item_ids))
    if items != own or n != len(item_ids) or n > _MOST_ITEMS:
        raise Refusal("outdatedConfig", "this round is about another list of items")
    match (name, *rest[1:]):
        case ("counts",):
            return Step(counts_statistic("user", 2, n), share)
        case ("products", int() as width, bytes() as starts, bytes() as columns,
              bytes() as weights, bytes() as coefficients, bytes() as floats):  # fmt: skip
            features = _features(n, width, _whole(starts, n), _whole(columns, width))
            scales = _whole(weights, 1 << WEIGHT_BITS, (n,))
            grid = _whole(coefficients, 1 << DIRECTION_BITS, (width, -1))
            statistic = TasteProducts("user", scales, features, grid)
            return Step(statistic, share, _basis(statistic, floats))
    raise Refusal("invalidMessage", f"there is no statistic {name!r} of this form here")


def statistic_of(encoded: bytes, item_ids: Array) -> Statistic:
    """What a device computes in a round, as it was published."""
    return step_of(encoded, item_ids, Fraction(1)).statistic


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


def nobody(item_ids: Array) -> Ratings:
    """One empty history over these items."""
    return Ratings.of_one(item_ids, np.zeros(0, np.int32))


def one_history(item_ids: Array, items: Sequence[Any]) -> Ratings:
    """One person's history over these items; what is not among them is left out."""
    found = np.unique(find(item_ids, items)) if len(items) else np.zeros(0, np.int64)
    return Ratings.of_one(item_ids, found[found >= 0])


def _basis(statistic: TasteProducts, floats: bytes) -> Basis:
    """The directions of tastes as floats, of which the model is made."""
    n, (width, d) = len(statistic.weights), statistic.coefficients.shape
    found = np.frombuffer(floats, "<f8").astype(np.float64) if len(floats) % 8 == 0 else np.zeros(0)
    if len(found) != n + d + width * d or not np.isfinite(found).all():
        raise Refusal("invalidMessage", "a basis is not whole, or not finite")
    scales, emphasis, coefficients = np.split(found, [n, n + d])
    if emphasis.min() <= 0:
        raise Refusal("invalidMessage", "a basis has directions of no weight")
    apart = statistic.coefficients.astype(np.float64)
    return Basis(statistic.features, scales, coefficients.reshape(width, d), emphasis, apart)


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
