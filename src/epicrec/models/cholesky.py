"""Small positive definite systems, solved inside compiled kernels."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def solve(matrix: Any, right: Any, n: int) -> None:
    """The solution of the first n equations, in place of their right side, by Cholesky.

    Only the matrix on and below its diagonal is read; its factor takes its place.
    """
    for a in range(n):
        for b in range(a):
            total = matrix[a, b]
            for c in range(b):
                total -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = total / matrix[b, b]
        total = matrix[a, a]
        for c in range(a):
            total -= matrix[a, c] * matrix[a, c]
        matrix[a, a] = np.sqrt(total)
        total = right[a]
        for c in range(a):
            total -= matrix[a, c] * right[c]
        right[a] = total / matrix[a, a]
    for a in range(n - 1, -1, -1):
        total = right[a]
        for c in range(a + 1, n):
            total -= matrix[c, a] * right[c]
        right[a] = total / matrix[a, a]
