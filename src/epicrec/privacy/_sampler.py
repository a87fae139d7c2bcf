"""Real noise to as many bits as its rounding needs: envelope, fast kernel, exact arithmetic.

A draw is a standard exponential or half-normal real E, multiplied by the scale and rounded, with
a random sign. E comes by rejection. Its density exp(-g(E)) lies below an envelope: steps of width
1/16 whose heights are *integers* H_b (in units where exp(0) is M), so choosing a step is integer
arithmetic and exact. A uniform place in the step is kept when a uniform u has u·H_b < M·exp(-g(E)).

Both uniforms are bit streams of which 64 bits are read first. The kernel works in float64 and
64-bit integers and answers only where its error bounds leave one possible answer; the rest
(about one draw in 10¹¹ while the scale is below a million) goes to `exact_attempt`, which settles
it with rational arithmetic and as many more bits as it takes. Nothing is approximated: beyond the
last step the tail goes on in steps of width 1 whose heights halve, which lies above exp(-g)
because g grows by at least 1 > ln 2 in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import exp, floor

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers

Words = npt.NDArray[np.uint64]

_STEPS = 16  # steps per unit of E
_TOTAL = 1 << 63  # the heights and the tail's weight add up to this; the 64th bit is the sign
_PLACE_BITS = 54  # E = (b·2⁵⁴ + place)·2⁻⁵⁸ in the kernel
_FRACTION_BITS = 58
# Float error of exp(-g)·M/H for g ≤ 25: five roundings of g and the library's exp, < 2⁻⁴⁵ in all.
_DOUBT = 2.0**-40


@dataclass(frozen=True, eq=False)
class Envelope:
    """The steps above the density exp(-g(E)), as an alias table over a power-of-two number of
    columns."""

    normal: bool  # g(E) = E²/2 and round to nearest; otherwise g(E) = E and round down
    reach: int  # the steps cover [0, reach); the tail lies beyond
    unit: int  # M
    heights: tuple[int, ...]  # H_b for every step, then the tail's weight
    column_bits: int
    cuts: Words
    aliases: Integers
    sure: Words  # an acceptance word below this is accepted wherever in the step E lies
    ratios: npt.NDArray[np.float64]  # M / H_b


@cache
def envelope(normal: bool) -> Envelope:
    """The envelope of the half-normal or the exponential density; built once, in milliseconds."""
    reach = 7 if normal else 24
    tops = [
        _exp_bounds(_energy(Fraction(b, _STEPS), normal), 40) for b in range(reach * _STEPS + 1)
    ]
    # Tail step i has width 1 and weight tail/2^(i+1): sixteen times its height.
    spread = sum(high for _, high in tops[:-1]) + 2 * _STEPS * tops[-1][1]
    unit = int((_TOTAL - 1000) / spread)  # 1000: room for rounding every height up
    heights = [floor(unit * high) + 1 for _, high in tops[:-1]]
    tail = 2 * _STEPS * (floor(unit * tops[-1][1]) + 1)
    heights[0] += _TOTAL - sum(heights) - tail  # a higher step is still above the density
    heights.append(tail)
    column_bits, cuts, aliases = _alias_table(heights)
    margin = 1 - Fraction(1, 1 << 40)
    sure = [
        floor(unit * low * margin / height * (1 << 64))
        for (low, _), height in zip(tops[1:], heights, strict=False)
    ]
    return Envelope(
        normal=normal,
        reach=reach,
        unit=unit,
        heights=tuple(heights),
        column_bits=column_bits,
        cuts=cuts,
        aliases=aliases,
        sure=np.array(sure, dtype=np.uint64),
        ratios=np.array([unit / height for height in heights[:-1]]),
    )


def _alias_table(weights: list[int]) -> tuple[int, Words, Integers]:
    """Vose's alias method in integers: `weights` add up to a power of two, so it is exact."""
    bits = (len(weights) - 1).bit_length()
    columns = 1 << bits
    capacity = _TOTAL >> bits
    rest = weights + [0] * (columns - len(weights))
    cuts, aliases = [capacity] * columns, list(range(columns))
    small = [c for c in range(columns) if rest[c] < capacity]
    large = [c for c in range(columns) if rest[c] >= capacity]
    while small:
        low, high = small.pop(), large[-1]
        cuts[low], aliases[low] = rest[low], high
        rest[high] -= capacity - rest[low]
        if rest[high] < capacity:
            small.append(large.pop())
    return bits, np.array(cuts, dtype=np.uint64), np.array(aliases, dtype=np.int64)


def _energy(place: Fraction, normal: bool) -> Fraction:
    return place * place / 2 if normal else place


def _exp_bounds(energy: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals on either side of exp(-energy).

    `Decimal.exp` is correctly rounded; the quotient before it is off by energy·10^(1-digits).
    """
    with localcontext(Context(prec=digits)):
        value = Fraction((Decimal(-energy.numerator) / Decimal(energy.denominator)).exp())
    slack = value * (energy + 1) / 10 ** (digits - 2)
    return value - slack, value + slack


def exact_attempt(
    envelope: Envelope, scale: Fraction, words: tuple[int, int, int], more: Callable[[], int]
) -> int | None:
    """One attempt at a draw from three 64-bit words, settled exactly; None where it is rejected.

    `more` gives further random words. The kernel is the fast twin of this function.
    """
    choice, place, chance = words
    negative, choice = choice & 1, choice >> 1
    capacity_bits = 63 - envelope.column_bits
    column, rest = choice >> capacity_bits, choice & ((1 << capacity_bits) - 1)
    step = column if rest < int(envelope.cuts[column]) else int(envelope.aliases[column])
    if step < len(envelope.ratios):
        start, width, height = (
            Fraction(step, _STEPS),
            Fraction(1, _STEPS),
            Fraction(envelope.heights[step]),
        )
    else:
        beyond = 0
        while more() & 1:
            beyond += 1
        start, width = Fraction(envelope.reach + beyond), Fraction(1)
        height = Fraction(envelope.heights[-1], _STEPS << (beyond + 1))

    bits = 64
    while True:
        low = start + width * Fraction(place, 1 << bits)
        high = start + width * Fraction(place + 1, 1 << bits)
        digits = bits // 3 + 10
        if (chance + 1) * height <= envelope.unit * _exp_bounds(
            _energy(high, envelope.normal), digits
        )[0] * (1 << bits):
            break
        if chance * height >= envelope.unit * _exp_bounds(_energy(low, envelope.normal), digits)[
            1
        ] * (1 << bits):
            return None
        place, chance, bits = place << 64 | more(), chance << 64 | more(), bits + 64

    half = Fraction(1, 2) if envelope.normal else Fraction(0)
    while (size := floor(scale * low + half)) != floor(scale * high + half):
        place, bits = place << 64 | more(), bits + 64
        low = start + width * Fraction(place, 1 << bits)
        high = start + width * Fraction(place + 1, 1 << bits)
    if size == 0 and negative and not envelope.normal:
        return None  # -0 and +0 are one outcome and would be counted twice
    return -size if negative else size


def fixed_point(scale: Fraction) -> tuple[int, int]:
    """Factor and shift with which the kernel turns the high word of factor·E into an integer.

    factor·2⁻(shift+6) is the scale rounded down to 64 bits (or to 2⁻⁶⁹ where it is tiny).
    """
    exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
    if scale < Fraction(2) ** exponent:
        exponent -= 1
    places = min(63 - exponent, 69)
    return floor(scale * (1 << places)), places - (64 - _FRACTION_BITS)


@numba.njit(cache=True)
def _high_word(a: np.uint64, b: np.uint64) -> np.uint64:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    return a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & mask)) >> half)


@numba.njit(cache=True, nogil=True)
def add_draws(
    out: Integers,
    start: int,
    words: Words,
    factors: Words,
    shifts: Words,
    normal: bool,
    column_bits: int,
    cuts: Words,
    aliases: Integers,
    sure: Words,
    ratios: npt.NDArray[np.float64],
) -> tuple[int, int, bool]:
    """Add one draw to each of out[start:]; stop at the end of `out` or `words`, or in doubt.

    Returns the next element, the words used, and whether the last three words left a doubt.
    `factors` and `shifts` have one element for all of `out`, or one for each.
    """
    one, three = np.uint64(1), np.uint64(3)
    capacity_bits = np.uint64(63 - column_bits)
    capacity_mask = (one << capacity_bits) - one
    place_bits, spare_bits = np.uint64(_PLACE_BITS), np.uint64(64 - _PLACE_BITS)
    each = factors.size > 1
    factor, shift = factors[0], shifts[0]
    i, used = start, 0
    while i < out.size and used + 3 <= words.size:
        choice, place, chance = words[used], words[used + 1], words[used + 2]
        used += 3
        negative = choice & one
        choice >>= one
        column = np.int64(choice >> capacity_bits)
        step = column if (choice & capacity_mask) < cuts[column] else aliases[column]
        if step >= sure.size:
            return i, used, True
        fixed = (np.uint64(step) << place_bits) | (place >> spare_bits)
        if chance >= sure[step]:
            real = np.float64(fixed) * 2.0**-_FRACTION_BITS
            bound = exp(-0.5 * real * real if normal else -real) * ratios[step]
            level = np.float64(chance) * 2.0**-64
            if level > bound + _DOUBT:
                continue
            if level > bound - _DOUBT:
                return i, used, True
        if each:
            factor, shift = factors[i], shifts[i]
        # scale·E lies in [high, high + 3)·2⁻ˢʰⁱᶠᵗ: the product's low word and both roundings.
        high = _high_word(factor, fixed)
        if normal:
            high += one << (shift - one)
        size = high >> shift
        if (high + three) >> shift != size:
            return i, used, True
        if negative:
            if size == 0 and not normal:
                continue
            out[i] -= np.int64(size)
        else:
            out[i] += np.int64(size)
        i += 1
    return i, used, False
