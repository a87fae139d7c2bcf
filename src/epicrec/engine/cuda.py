"""Pairs of items on a graphics card, through CuPy: the sums of a processor, to the bit.

A card multiplies matrices of int8 and adds into int32 without rounding. The values are such a
matrix; values times a user's weight are several, one for each digit of eight bits. Users come in
blocks so small that no sum leaves int32, and items in strips, so that nothing above the diagonal
is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings
from epicrec.engine import Integers, RemoteRatings, Statistic
from epicrec.engine.local import local
from epicrec.errors import InputError
from epicrec.extras import needs
from epicrec.progress import report

USERS = 1 << 16
"""Users of a block: a product of a value and a digit is at most 2¹⁴, so their sum is below 2³¹."""
STRIP = 1 << 12
"""Items of a strip."""
ALIGNED = 32
"""Rows and columns come in multiples of this, as the card's integer products need it."""
_CUDA_R_32I = 10
"""CUDA's number for int32, which CuPy does not name."""

Matrix = Any
Product = Callable[[Matrix, Matrix], Matrix]
"""a bᵀ of two int8 matrices, as int32."""


@runtime_checkable
class OfPairs(Protocol):
    """A statistic that is Σ_u q_u v_u v_uᵀ below the diagonal, with something behind it."""

    def weighted(self, part: Ratings) -> tuple[npt.NDArray[np.int8], Integers, Integers]:
        """v of each rating, q of each user, and what stands behind the pairs."""
        ...


def cuda(statistic: Statistic, ratings: Ratings | RemoteRatings) -> Integers:
    """As `local`, with pairs of items on this machine's card; other sums are small and stay."""
    if isinstance(ratings, RemoteRatings):
        raise InputError("the card is on this machine and the ratings are in a cluster; use spark")
    check_cuda()
    if isinstance(statistic, OfPairs):
        import cupy

        return local(partial(pairs_on, cupy, _product, statistic), ratings)
    return local(statistic, ratings)


def check_cuda() -> None:
    """Refuse where there is no card, instead of going on without it."""
    needs("cuda", "cupy")
    import cupy

    try:
        there = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InputError(f"there is no graphics card for CUDA here ({error}); use local") from error
    if not there:
        raise InputError("there is no graphics card for CUDA here; use the local engine")


def pairs_on(xp: Any, product: Product, statistic: OfPairs, part: Ratings) -> Integers:
    """The statistic's sum by the arrays of `xp`: CuPy's on a card, or NumPy's."""
    values, weights, behind = statistic.weighted(part)
    side = _aligned(part.n_items)
    total = xp.zeros((side, side), np.int64)
    for first in range(0, part.n_users, USERS):
        last = min(first + USERS, part.n_users)
        span = slice(part.indptr[first], part.indptr[last])
        counts = np.diff(part.indptr[first : last + 1])
        users = np.repeat(np.arange(last - first, dtype=np.int32), counts)
        given = (part.items[span], users, values[span], weights[first:last])
        _add_block(xp, product, total, *(xp.asarray(array) for array in given))
        report("summing pairs of items", last, part.n_users)
    return _packed(total, part.n_items, behind)


def _add_block(
    xp: Any, product: Product, total: Matrix, items: Matrix, users: Matrix, values: Matrix,
    weights: Matrix,
) -> None:  # fmt: skip
    """Add what some users contribute, up to the end of the strip in which the diagonal is."""
    plain = xp.zeros((len(total), _aligned(len(weights))), np.int8)
    plain[items, users] = values
    left, shift = values * weights[users], 0
    while left.any():
        digit = left.astype(np.int8)  # the lowest eight bits, as -128 to 127
        digits = xp.zeros_like(plain)
        digits[items, users] = digit
        for top in range(0, len(total), STRIP):
            end = min(top + STRIP, len(total))
            found = product(plain[top:end], digits[:end])
            total[top:end, :end] += found.astype(np.int64) << shift
        left, shift = (left - digit) >> 8, shift + 8


def _aligned(rows: int) -> int:
    return -(-rows // ALIGNED) * ALIGNED


def _product(a: Matrix, b: Matrix) -> Matrix:
    """By the card's integer units. cuBLAS reads rows as columns, so it is given b aᵀ."""
    import cupy
    from cupy.cuda import cublas, device, runtime

    out = cupy.empty((len(a), len(b)), np.int32)
    one, zero = np.array(1, np.int32), np.array(0, np.int32)
    cublas.gemmEx(
        device.get_cublas_handle(), cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N,
        len(b), len(a), a.shape[1],
        one.ctypes.data, b.data.ptr, runtime.CUDA_R_8I, b.shape[1],
        a.data.ptr, runtime.CUDA_R_8I, a.shape[1],
        zero.ctypes.data, out.data.ptr, _CUDA_R_32I, len(b),
        cublas.CUBLAS_COMPUTE_32I, cublas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip
    return out


def _packed(total: Matrix, n: int, behind: Integers) -> Integers:
    """What is below the diagonal, row after row, and what stands behind it."""
    pairs = n * (n - 1) // 2
    out = np.empty(pairs + len(behind), np.int64)
    out[pairs:] = behind
    for first in range(0, n, STRIP):
        strip = total[first : min(first + STRIP, n)]
        rows = strip.get() if hasattr(strip, "get") else strip
        for row in range(first, first + len(rows)):
            out[row * (row - 1) // 2 :][:row] = rows[row - first, :row]
    return out
