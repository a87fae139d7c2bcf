"""The channel of D2P: items replaced at random, with which probabilities, and what that costs.

Selector and profiler together replace item s by item t with probability

    Pr(SUB(s, t)) = p*·[s = t] + (1-p*)(1-p)/|G(s)|·[t ∈ G(s)] + p(1-p*)/N

(section 3.2.3). The draw takes one decision of each kind, from cryptographic random words and by
comparison of integers, so the probabilities are exactly these with p and p* on a grid of 2⁻⁶³.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf, log, log1p
from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.errors import InputError
from epicrec.perturb.d2p.groups import Groups
from epicrec.privacy import Guarantee
from epicrec.privacy.noise import root_key, word_stream

_ONE = 1 << 63
_EVENTS_AT_ONCE = 4096  # three words each: what the noise stream gives at once
_ROWS = 4  # vectors that go through the groups together
_ROUNDING = 1 + 1e-12  # more than what a few float operations can be off by

SAYS_HOW_MANY = "How many items a history has is sent as it is and is not protected."
PUBLIC_GROUPS = "The catalogue, its groups, p and p* were chosen without looking at any history."
CARRIED = (
    "Ratings travel with the substitutes as they are: only which item they belong to is hidden."
)


# ---- ε ----------------------------------------------------------------------------------------


def epsilon_bound(n_items: int, p: float, p_star: float, group_size: int) -> float:
    """Equation (12): ε = ln(1 + (p* + (1-p)(1-p*)/|G|) / (p(1-p*)/N)), |G| the least group size.

    Where the group is everything no item lies outside it, and ε = ln(1 + N p*/(1-p*)) for any p.

    >>> [round(epsilon_bound(1680, 0.7, 0.03, size), 2) for size in (1, 400)]
    [6.68, 4.34]
    >>> epsilon_bound(1680, 1.0, 0.0, 1), epsilon_bound(1680, 0.5, 1.0, 9)
    (0.0, inf)
    """
    if not (0 <= p <= 1 and 0 <= p_star <= 1):
        raise InputError(f"p and p* are probabilities between 0 and 1, got {p} and {p_star}")
    if not 1 <= group_size <= n_items:
        raise InputError(f"a group has between 1 and {n_items} items, not {group_size}")
    if p_star == 1:
        return inf if n_items > 1 else 0.0
    if group_size == n_items:
        return log1p(n_items * p_star / (1 - p_star))
    if p == 0:
        return inf
    inside = p_star + (1 - p) * (1 - p_star) / group_size
    return log1p(inside / (p * (1 - p_star) / n_items))


def selector_probability(
    n_items: int, epsilon: float, p_star: float, group_size: int
) -> float | None:
    """Equation (12) solved for p: the least p with ε, or None where p* alone costs more than ε."""
    if p_star >= 1:
        return None
    ratio, gain = p_star / (1 - p_star), np.expm1(epsilon) / n_items
    if group_size >= n_items:
        return 1.0 if epsilon_bound(n_items, 1.0, p_star, n_items) <= epsilon else None
    p = float((ratio + 1 / group_size) / (gain + 1 / group_size)) * (1 + 1e-12)
    return p if p <= 1 else None


# ---- the channel ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Channel:
    """The public odds of substitution: p, p* and the groups.

    Privacy (theorem and proof in docs/d2p.md). Neighbours: two histories that differ in which item
    is in one place ("change one"). Each item is replaced by itself, without regard to the
    others, so the probability of any set of substitutes changes by at most the factor
    max T(s, t)/T(s', t) over all s, s', t, and `epsilon` is its logarithm.
    """

    groups: Groups
    p: float
    p_star: float

    def __post_init__(self) -> None:
        for name, value in (("p", self.p), ("p*", self.p_star)):
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                raise InputError(f"{name} is a probability between 0 and 1, not {value!r}")

    @classmethod
    def identity(cls, n_items: int) -> Self:
        """The channel of what is sent as it is."""
        return cls(Groups(np.arange(n_items + 1), np.arange(n_items, dtype=np.int32)), 0.0, 1.0)

    @property
    def n_items(self) -> int:
        return len(self.groups)

    # ---- probabilities ------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[float, float, float]:
        """Probability to keep, to replace from the group, and to replace by a given one of all."""
        p, kept = round(self.p * _ONE) / _ONE, round(self.p_star * _ONE) / _ONE
        return kept, (1 - p) * (1 - kept), p * (1 - kept) / self.n_items

    def probability(self, s: int, t: int) -> float:
        """Pr(SUB(s, t))."""
        kept, grouped, anywhere = self._parts
        members = self.groups.members(s)
        inside = grouped / len(members) if t in members else 0.0
        return kept * (s == t) + inside + anywhere

    def matrix(self) -> Floats:
        """All probabilities as a full matrix, row s, column t."""
        out = np.full((self.n_items, self.n_items), self._parts[2])
        out += self.groups.matrix(self._chances).toarray()
        out[np.diag_indices(self.n_items)] += self._parts[0]
        return out

    @cached_property
    def _chances(self) -> Floats:
        """Of each item the chance of any one member of its group, but for what may be anything."""
        return np.asarray(self._parts[1] / self.groups.sizes)

    # ---- what it costs ------------------------------------------------------------------------

    @cached_property
    def epsilon_bound(self) -> float:
        """Equation (12) with the true minimum of the group sizes."""
        p, kept = round(self.p * _ONE) / _ONE, round(self.p_star * _ONE) / _ONE
        return epsilon_bound(self.n_items, p, kept, int(self.groups.sizes.min()))

    @cached_property
    def epsilon(self) -> float:
        """The exact maximum of ln T(s, t)/T(s', t) over all triples; never more than (12).

        For each t the largest and smallest entry of its column are found from the sizes of the
        groups that hold t, in one pass over the members of all groups.
        """
        n = self.n_items
        kept, _, anywhere = self._parts
        most, least, holders = np.zeros(n), np.full(n, np.inf), np.zeros(n, np.int64)
        _extremes(self.groups.indptr, self.groups.items, self._chances, most, least, holders)
        own = self._chances + kept
        largest = np.maximum(most, own) + anywhere
        smallest = np.minimum(np.where(holders == n - 1, least, 0.0), own) + anywhere
        if n == 1 or (largest == smallest).all():
            return 0.0
        if (smallest == 0).any():
            return inf
        return log(float((largest / smallest).max()) * _ROUNDING)

    # ---- drawing ------------------------------------------------------------------------------

    def draw(self, items: npt.NDArray[Any], *, seed: int | None = None) -> Integers:
        """A substitute for each item (positions), independently; private only without a seed."""
        items = np.asarray(items, np.int64)
        root = root_key(seed, "substitution")
        out = np.empty(len(items), np.int64)
        for chunk, start in enumerate(range(0, len(items), _EVENTS_AT_ONCE)):
            stream = word_stream(root, chunk)
            todo = np.arange(start, min(start + _EVENTS_AT_ONCE, len(items)))
            while len(todo):
                drawn = self.substitute(items[todo], stream(3 * len(todo)).reshape(3, -1))
                out[todo] = drawn
                todo = todo[drawn < 0]
        return out

    def substitute(self, items: Integers, words: npt.NDArray[np.uint64]) -> Integers:
        """The substitutes that three words for each item decide; -1 where they decide nothing.

        The first word is the profiler's (keep?), the second the selector's (any item or the
        group?), the third the place among the candidates, refused where it would favour some.
        """
        out = np.empty(len(items), np.int64)
        keep, anywhere = (np.uint64(round(share * _ONE)) for share in (self.p_star, self.p))
        _substitute(items, words, keep, anywhere, self.groups.indptr, self.groups.items, out)
        return out

    # ---- as a linear map ----------------------------------------------------------------------

    def spread(self, counts: Any) -> Floats:
        """x T: the expected counts after substitution; one history or one a row."""
        kept, _, anywhere = self._parts
        counts = np.asarray(counts, np.float64)
        total = anywhere * counts.sum(axis=-1, keepdims=True)
        return np.asarray(kept * counts + _added(self._holders, counts * self._chances) + total)

    def gather(self, weights: Any) -> Floats:
        """w Tᵀ: for each true item, the expected weight of its substitute; of sparse rows only what
        is in them is read."""
        kept, _, anywhere = self._parts
        if hasattr(weights, "tocsr"):
            out, own = np.zeros(weights.shape), weights.tocsr().astype(np.float64)
            of_rows, by = (own.indptr, own.indices, own.data), self._holders
            _gather(*of_rows, by.indptr, by.items, self._chances, kept, anywhere, out)
            return out
        weights = np.asarray(weights, np.float64)
        total = anywhere * weights.sum(axis=-1, keepdims=True)
        return np.asarray(kept * weights + _added(self.groups, weights) * self._chances + total)

    def spread_at(self, counts: npt.NDArray[Any], rows: Integers, columns: Integers) -> Floats:
        """`spread(counts)[rows, columns]`, by the groups that hold these columns alone."""
        kept, _, anywhere = self._parts
        out, by = np.empty(len(rows)), self._holders
        _spread_at(counts * self._chances, rows, columns, by.indptr, by.items, out)
        return np.asarray(out + kept * counts[rows, columns] + anywhere * counts.sum(axis=1)[rows])

    @cached_property
    def _holders(self) -> Groups:
        """Of each item the items whose group holds it."""
        counts = np.bincount(self.groups.items, minlength=self.n_items)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        items = np.empty(len(self.groups.items), np.int32)
        _turn(self.groups.indptr, self.groups.items, starts[:-1].copy(), items)
        return Groups(starts, items)


def channel_guarantee(
    *channels: Channel, carried: bool = False, past: float = 0.0, seed: int | None = None
) -> Guarantee:
    """What AlterEgos promise whose items each went through one of these channels.

    The exact ε of the most expensive one; `past` is what earlier draws of the same items have cost.
    """
    epsilon = past + max(channel.epsilon for channel in channels)
    if isinf(epsilon):
        return Guarantee.none(unit="item", relation="change one")
    return Guarantee(
        epsilon=epsilon,
        unit="item",
        relation="change one",
        status="claimed" if carried else "proved",
        assumes=(PUBLIC_GROUPS, SAYS_HOW_MANY, *((CARRIED,) if carried else ())),
    ).seeded(seed)


# ---- kernels ----------------------------------------------------------------------------------


def _added(groups: Groups, values: Floats) -> Floats:
    """For each item the sum over its group of what its members have; one vector or one a row.

    Four rows at a time: to find the members takes longer than to add what they have.
    """
    n = len(groups)
    rows = values.reshape(-1, n)
    out = np.empty(rows.shape)
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        held, sums = np.zeros((n, _ROWS)), np.empty((n, _ROWS))
        held[:, : len(some)] = some.T
        _add(groups.indptr, groups.items, held, sums)
        out[start : start + _ROWS] = sums[:, : len(some)].T
    return out.reshape(values.shape)


@numba.njit(nogil=True, cache=True)
def _add(indptr: Any, items: Any, values: Any, out: Any) -> None:
    for item in range(len(indptr) - 1):
        a = b = c = d = 0.0
        for place in range(indptr[item], indptr[item + 1]):
            member = items[place]
            a += values[member, 0]
            b += values[member, 1]
            c += values[member, 2]
            d += values[member, 3]
        out[item, 0], out[item, 1], out[item, 2], out[item, 3] = a, b, c, d


@numba.njit(nogil=True, cache=True)
def _turn(indptr: Any, items: Any, ends: Any, holders: Any) -> None:
    """Enter each item with each of its members; `ends` are where the next one goes."""
    for item in range(len(indptr) - 1):
        for place in range(indptr[item], indptr[item + 1]):
            member = items[place]
            holders[ends[member]] = item
            ends[member] += 1


@numba.njit(nogil=True, cache=True)
def _extremes(indptr: Any, items: Any, chances: Any, most: Any, least: Any, holders: Any) -> None:
    """Of each item the largest and the smallest chance that another item has of it by its group,
    and how many others have one."""
    for item in range(len(indptr) - 1):
        chance = chances[item]
        for place in range(indptr[item], indptr[item + 1]):
            member = items[place]
            if member != item:
                most[member] = max(most[member], chance)
                least[member] = min(least[member], chance)
                holders[member] += 1


@numba.njit(nogil=True, cache=True)
def _gather(
    indptr: Any, indices: Any, data: Any, starts: Any, holders: Any, chances: Any, kept: float,
    anywhere: float, out: Any,
) -> None:  # fmt: skip
    for row in range(len(indptr) - 1):
        total = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            item, weight = indices[at], data[at]
            total += weight
            for place in range(starts[item], starts[item + 1]):
                out[row, holders[place]] += weight
        for item in range(len(chances)):
            out[row, item] = out[row, item] * chances[item] + anywhere * total
        for at in range(indptr[row], indptr[row + 1]):
            out[row, indices[at]] += kept * data[at]


@numba.njit(nogil=True, cache=True)
def _spread_at(counts: Any, rows: Any, columns: Any, starts: Any, holders: Any, out: Any) -> None:
    for at in range(len(rows)):
        row, item = rows[at], columns[at]
        found = 0.0
        for place in range(starts[item], starts[item + 1]):
            found += counts[row, holders[place]]
        out[at] = found


@numba.njit(nogil=True, cache=True)
def _substitute(
    items: Any, words: Any, keep: Any, anywhere: Any, indptr: Any, members: Any, out: Any
) -> None:
    """Lemire's draw among `count`: the high half of word·count, of 32 bits of the third word."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    for at in range(len(items)):
        item = items[at]
        if words[0, at] >> np.uint64(1) < keep:
            out[at] = item
            continue
        all_items = words[1, at] >> np.uint64(1) < anywhere
        start = indptr[item]
        count = np.uint64(len(indptr) - 1 if all_items else indptr[item + 1] - start)
        product = (words[2, at] >> half) * count
        place = np.int64(product >> half)
        if product & low < count and product & low < (low + np.uint64(1)) % count:
            out[at] = -1
        elif all_items:
            out[at] = place
        else:
            out[at] = members[start + place]
