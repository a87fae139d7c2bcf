"""Small positive definite systems, solved inside compiled kernels.

Numbers are copied one by one: to compile the assignment of an array takes seconds.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def solve(matrix: Any, right: Any, n: int) -> None:
    """The solution of the first n equations, in place of their right side, by Cholesky.

    Only the matrix on and right of its diagonal is read; its factor takes its place. Each finished
    row is taken off all that are left, along rows, so that processors do several columns at once.
    """
    for a in range(n):
        root = np.sqrt(matrix[a, a])
        matrix[a, a] = root
        right[a] /= root
        for b in range(a + 1, n):
            matrix[a, b] /= root
        for b in range(a + 1, n):
            times = matrix[a, b]
            for c in range(b, n):
                matrix[b, c] -= times * matrix[a, c]
            right[b] -= times * right[a]
    for a in range(n - 1, -1, -1):
        total = right[a]
        for c in range(a + 1, n):
            total -= matrix[a, c] * right[c]
        right[a] = total / matrix[a, a]


@numba.njit(cache=True, nogil=True)
def inverse_root(matrix: Any, root: Any) -> None:
    """An upper triangular R with R Rᵀ the inverse of the matrix, whose factor takes its place.

    Only the matrix on and below its diagonal is read.
    """
    n = len(matrix)
    column, inverse = np.empty(n), np.zeros((n, n))
    for c in range(n):
        corner = np.sqrt(matrix[c, c])
        for a in range(c, n):
            matrix[a, c] = column[a] = matrix[a, c] / corner
        for a in range(c + 1, n):
            for b in range(c + 1, a + 1):
                matrix[a, b] -= column[a] * column[b]
    for a in range(n):
        for b in range(a):
            for c in range(b + 1):
                inverse[a, c] -= matrix[a, b] * inverse[b, c]
        for c in range(a):
            inverse[a, c] /= matrix[a, a]
        inverse[a, a] = 1 / matrix[a, a]
    for a in range(n):
        for b in range(n):
            root[a, b] = inverse[b, a]
