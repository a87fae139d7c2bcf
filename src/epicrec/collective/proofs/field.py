"""Arithmetic modulo q = 2⁶⁴ - 2³² + 1, on arrays of 64-bit words.

Every kernel takes and gives words below q. `roots` is a table of powers of a root of unity, which
`roots_of` makes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

Words = npt.NDArray[np.uint64]

Q = (1 << 64) - (1 << 32) + 1
GENERATOR = pow(7, (1 << 32) - 1, Q)
"""Of the roots of unity whose order is a power of two, at most 2³²."""

_Q = np.uint64(Q)
_EPSILON = np.uint64((1 << 32) - 1)
"""2⁶⁴ modulo q."""
_HALF = np.uint64(32)
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_COLUMNS = 64
"""How many columns are transformed at once: so many of 256 rows fit a processor's cache."""


@intrinsic
def _high(_typing: Any, _one: Any, _other: Any) -> Any:
    """The upper 64 bits of a product."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = arguments[0].type
        double = type(word)(128)
        wide = builder.mul(*(builder.zext(each, double) for each in arguments))
        return builder.trunc(builder.lshr(wide, double(64)), word)

    return types.uint64(types.uint64, types.uint64), generate


@numba.njit(nogil=True, cache=True, inline="always")
def add(a: Any, b: Any) -> Any:
    total = a + b
    if total < a or total >= _Q:
        total -= _Q
    return total


@numba.njit(nogil=True, cache=True, inline="always")
def subtract(a: Any, b: Any) -> Any:
    return a - b if a >= b else a - b + _Q


@numba.njit(nogil=True, cache=True, inline="always")
def multiply(a: Any, b: Any) -> Any:
    """a·b: with 2⁶⁴ ≡ 2³² - 1 and 2⁹⁶ ≡ -1, a product of 128 bits folds into a word."""
    low, high = a * b, _high(a, b)
    top = high >> _HALF
    found = low - top
    if low < top:
        found -= _EPSILON
    middle = (high & _EPSILON) * _EPSILON
    total = found + middle
    if total < found:
        total += _EPSILON
    return total - _Q if total >= _Q else total


@numba.njit(nogil=True, cache=True)
def power(base: Any, exponent: Any) -> Any:
    found, left = _ONE, np.uint64(exponent)
    while left > _ZERO:
        if left & _ONE:
            found = multiply(found, base)
        base = multiply(base, base)
        left >>= _ONE
    return found


@numba.njit(nogil=True, cache=True)
def inverse(value: Any) -> Any:
    """1/a, by Fermat."""
    return power(value, _Q - _TWO)


@numba.njit(nogil=True, cache=True)
def add_into(total: Words, other: Words) -> None:
    for i in range(total.size):
        total[i] = add(total[i], other[i])


@numba.njit(nogil=True, cache=True)
def difference(one: Words, other: Words) -> Words:
    found = np.empty_like(one)
    for i in range(one.size):
        found[i] = subtract(one[i], other[i])
    return found


@numba.njit(nogil=True, cache=True)
def powers(base: Any, count: int) -> Words:
    """1, b, b², …"""
    found = np.empty(count, np.uint64)
    one = _ONE
    for i in range(count):
        found[i] = one
        one = multiply(one, base)
    return found


@numba.njit(nogil=True, cache=True)
def evaluate(coefficients: Words, at: Any) -> Any:
    """A polynomial at a point."""
    found = _ZERO
    for i in range(coefficients.size - 1, -1, -1):
        found = add(multiply(found, at), coefficients[i])
    return found


@cache
def roots_of(size: int, *, inverse: bool = False) -> Words:
    """The powers of the root of unity of this order, or of its inverse."""
    root = pow(GENERATOR, (1 << 32) // size, Q)
    found: Words = powers(np.uint64(pow(root, -1, Q) if inverse else root), size)
    found.flags.writeable = False
    return found


@numba.njit(nogil=True, cache=True)
def transform(rows: Words, roots: Words) -> None:
    """The number-theoretic transform of each column, in place: coefficients to values.

    With the roots of the inverse, and divided by the number of rows, values to coefficients.
    """
    size, width = rows.shape
    other = 0
    for i in range(1, size):  # rows into the order of their reversed bits
        bit = size >> 1
        while other & bit:
            other ^= bit
            bit >>= 1
        other |= bit
        if i < other:
            for j in range(width):
                rows[i, j], rows[other, j] = rows[other, j], rows[i, j]
    half = 1
    while half < size:
        step = size // (2 * half)
        for start in range(0, size, 2 * half):
            for k in range(half):
                root = roots[k * step]
                low, high = start + k, start + k + half
                for j in range(width):
                    one, two = rows[low, j], multiply(rows[high, j], root)
                    rows[low, j], rows[high, j] = add(one, two), subtract(one, two)
        half *= 2


@numba.njit(nogil=True, cache=True)
def gadget(rows: Words, squares: bool, out: Words) -> None:
    """Add to `out`, for each row, the sum of its squares, or of the products of its pairs."""
    step = 1 if squares else 2
    for k in range(rows.shape[0]):
        total = out[k]
        for j in range(0, rows.shape[1], step):
            total = add(total, multiply(rows[k, j], rows[k, j + step - 1]))
        out[k] = total


@numba.njit(nogil=True, cache=True)
def gadget_polynomial(
    wires: Words, squares: bool, roots: Words, inverses: Words, double: Words, undouble: Words
) -> Words:
    """The coefficients of a gadget on its wires' polynomials, 2p - 1 of them.

    Row k of `wires` has the wires' values at the k-th of p roots of unity. The gadget's values are
    taken there, and at the p roots of order 2p between them.
    """
    size, width = wires.shape
    scale = inverse(np.uint64(size))
    here, between = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    for start in range(0, width, _COLUMNS):
        rows = wires[:, start : start + _COLUMNS].copy()
        gadget(rows, squares, here)
        transform(rows, inverses)
        for k in range(size):
            factor = multiply(scale, double[k])
            for j in range(rows.shape[1]):
                rows[k, j] = multiply(rows[k, j], factor)
        transform(rows, roots)
        gadget(rows, squares, between)
    values = np.empty((2 * size, 1), np.uint64)
    values[0::2, 0], values[1::2, 0] = here, between
    transform(values, undouble)
    scale = inverse(np.uint64(2 * size))
    found = np.empty(2 * size - 1, np.uint64)
    for k in range(2 * size - 1):
        found[k] = multiply(values[k, 0], scale)
    return found


@numba.njit(nogil=True, cache=True)
def values_at_roots(coefficients: Words, roots: Words) -> Words:
    """A polynomial of up to 2p - 1 coefficients at the p roots of unity."""
    size = roots.size
    rows = np.zeros((size, 1), np.uint64)
    for k in range(coefficients.size):
        rows[k % size, 0] = add(rows[k % size, 0], coefficients[k])
    transform(rows, roots)
    return rows[:, 0].copy()


@numba.njit(nogil=True, cache=True)
def wires_at(wires: Words, roots: Words, at: Any) -> Words:
    """Each wire's polynomial at a point that is none of the roots, by Lagrange's formula."""
    size, width = wires.shape
    scale = subtract(power(at, size), _ONE)
    scale = multiply(scale, inverse(np.uint64(size)))
    found = np.zeros(width, np.uint64)
    for k in range(size):
        weight = multiply(multiply(scale, roots[k]), inverse(subtract(at, roots[k])))
        for j in range(width):
            found[j] = add(found[j], multiply(weight, wires[k, j]))
    return found


@numba.njit(nogil=True, cache=True)
def signed_sums(vector: Words, signs: npt.NDArray[np.uint8], tests: int) -> Words:
    """Dot products with vectors of -1, 0 and 1, for each test a row of `signs`.

    Two bits of a byte are one sign: 0 is -1, 1 and 2 are 0, and 3 is 1. Sums of two entries are
    looked up by four bits; carries beyond 64 bits are counted, and folded once at the end.
    """
    columns = (vector.size + 3) // 4
    block = 64
    table = np.empty((block, 2, 16), np.uint64)
    low, carries = np.zeros(tests, np.uint64), np.zeros(tests, np.uint64)
    for start in range(0, columns, block):
        stop = min(start + block, columns)
        for at in range(start, stop):
            for half in range(2):
                i = 4 * at + 2 * half
                one = vector[i] if i < vector.size else _ZERO
                two = vector[i + 1] if i + 1 < vector.size else _ZERO
                for bits in range(16):
                    total = _ZERO
                    if bits & 3 == 3:
                        total = one
                    elif bits & 3 == 0:
                        total = subtract(_ZERO, one)
                    if bits >> 2 == 3:
                        total = add(total, two)
                    elif bits >> 2 == 0:
                        total = subtract(total, two)
                    table[at - start, half, bits] = total
        for test in range(tests):
            total, carry = low[test], carries[test]
            row = test * columns
            for at in range(start, stop):
                bits = signs[row + at]
                found = table[at - start, 0, bits & 15]
                total += found
                carry += np.uint64(total < found)
                found = table[at - start, 1, bits >> 4]
                total += found
                carry += np.uint64(total < found)
            low[test], carries[test] = total, carry
    for test in range(tests):
        rest = low[test] - _Q if low[test] >= _Q else low[test]
        low[test] = add(rest, multiply(carries[test], _EPSILON))
    return low
