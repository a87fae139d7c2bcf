"""McSherry & Mironov's cleaning of a released covariance (section 4.6), and its two halves.

Both matrices come as the half up to their diagonals, row after row; so does what is shrunk.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.models.spectrum import leading_eigenpairs

RANK = 20
SHRINK_DIAGONAL, SHRINK_PAIRS = 10.0, 10.0
"""The paper has a constant for each and fits both to held-out ratings; here they are fixed, as
chosen on the simulated films, where that of the diagonal hardly matters."""
TILE = 64
"""Matrices are turned over in tiles that fit the cache."""
Half = npt.NDArray[np.float32]


def cleaned(cov: Half, weight: Half, counts: Floats, *, clean: bool) -> Floats:
    """Shrink to the average, scale by the counts, rank k, scale back; as factors. Where it is not
    to be clean: averages as they are, of at least one rating, at rank k."""
    n = len(counts)
    diagonal = np.arange(n, dtype=np.int64) * (np.arange(n) + 3) // 2
    shrinks, least = ((SHRINK_DIAGONAL, SHRINK_PAIRS), 0.0) if clean else ((0.0, 0.0), 1.0)
    root = np.sqrt(np.maximum(counts, 1.0)) if clean else np.ones(n)
    own = [part[diagonal].astype(np.float64) for part in (cov, weight)]
    off = [
        (part.sum(dtype=np.float64) - mine.sum()) / max(len(cov) - n, 1)
        for part, mine in zip((cov, weight), own, strict=True)
    ]
    add, more = shrinks[1] * off[0], shrinks[1] * max(off[1], 1e-9)
    matrix = _scaled(cov, weight, add, more, least, root.astype(np.float32))
    add, more = shrinks[0] * own[0].mean(), shrinks[0] * max(own[1].mean(), 1e-9)
    np.fill_diagonal(matrix, (own[0] + add) / (np.maximum(own[1], least) + more) * root**2)
    values, vectors = leading_eigenpairs(matrix, RANK)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)) / root[:, None])


@numba.njit(cache=True, nogil=True)
def _scaled(
    cov: Half, weight: Half, add: float, more: float, least: float, root: Half
) -> npt.NDArray[np.float32]:
    """The whole matrix, shrunk and scaled, but for its diagonal."""
    n = len(root)
    out = np.zeros((n, n), np.float32)
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    at = i * (i + 1) // 2 + j
                    held = max(weight[at], np.float32(least)) + more
                    value = (cov[at] + add) / held * root[i] * root[j]
                    out[i, j] = value
                    out[j, i] = value
    return out


@numba.njit(cache=True, nogil=True)
def half(values: npt.NDArray[np.int64], one: float) -> Half:
    """The mean of a matrix and its transpose, up to the diagonal, row after row."""
    n = len(values)
    out = np.empty(n * (n + 1) // 2, np.float32)
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i + 1)):
                    out[i * (i + 1) // 2 + j] = (values[i, j] + values[j, i]) / (2 * one)
    return out
