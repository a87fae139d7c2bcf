"""McSherry & Mironov's eight measurements (KDD 2009, section 4), with their sensitivities.

They are: the sum and count of all ratings, and again of the residuals about item means
(θ₁ = 0.02 θ); item sums and counts (θ₂ = 0.19 θ); the covariance and weight matrices (θ₃ = 0.79 θ).
Each θ_i is divided equally. Every entry of both matrices has independent noise. The noise is scaled
by the sensitivities that the paper states; `sensitivities` also has those that are proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings
from epicrec.papers.mcsherry_mironov.cleaning import TILE
from epicrec.privacy import gaussian_mu

SHARES = (0.005, 0.005, 0.095, 0.095, 0.005, 0.005, 0.395, 0.395)
RESIDUALS, COVARIANCE, WEIGHTS = 4, 6, 7
"""Which of the measurements these are; a number of ratings follows the sum of residuals."""
BETA_ITEM, BETA_USER, CLAMP, MOST_OFF = 15.0, 20.0, 1.0, 4.0

BITS = {1: (8, 22), 2: (9, 16)}
"""By norm: the grid of ratings in stars, and of users' weights, both in bits after the point. Finer
grids would cost less rounding and not fit into 64 bits."""
MOST_USERS = 1 << 19
"""With more users the sums could overflow."""


@dataclass(frozen=True)
class Sensitivity:
    """A sensitivity as the paper states it, and the one proved for the integers measured."""

    stated: float
    proved: float


def sensitivities(n_items: int, norm: int, unit: str) -> tuple[Sensitivity, ...]:
    """All of them, in stars, for a scale from 1 to 5 (docs/covariance.md has the proofs).

    Residuals about item means lie in [-4, 4] and differ by up to α = 8, not 4 (Theorem 4). Rounding
    a user's centre moves all their ratings by a step, and rounding their weight moves all pairs.
    """
    count = Sensitivity(1.0, 1.0)
    one = (Sensitivity(5.0, 5.0), count)
    first = (*one, *one, Sensitivity(MOST_OFF, MOST_OFF), count)
    if unit == "user":
        return (*first, Sensitivity(CLAMP**2, CLAMP**2), count)
    step, weight = (2.0**-bits for bits in BITS[norm])
    if norm == 1:
        rounding = 2 * weight * n_items**2
        moved = 8 + CLAMP + n_items * step
        stated, plain = 2 * CLAMP * 4 + 3 * CLAMP**2, 3.0
    else:
        rounding = 2 * weight * n_items
        moved = sqrt(64 / (4 * BETA_USER) + CLAMP**2) + sqrt(n_items) * step
        stated, plain = (1 + 2 * sqrt(2)) * CLAMP**2, sqrt(2)
    proved = 2 * CLAMP * moved + CLAMP**2 + rounding * CLAMP**2
    return (*first, Sensitivity(stated, proved), Sensitivity(plain, plain + rounding))


def theta_of(epsilon: float, delta: float, norm: int) -> float:
    """θ from the paper's ε: ε = θ, or ε = θ·√(2 ln(2/δ_i)) with δ shared by the measurements."""
    return epsilon if norm == 1 else epsilon / sqrt(2 * log(2 * len(SHARES) / delta))


def theta_worth(epsilon: float, delta: float, n_items: int) -> float:
    """The θ whose Gaussian noise, for one rating, is worth (ε, δ) by exact composition: the paper's
    own ε counts the same noise as more."""
    planned = sensitivities(n_items, 2, "rating")
    parts = [m.proved / m.stated * s for m, s in zip(planned, SHARES, strict=True)]
    return gaussian_mu(epsilon, delta) / (sqrt(sum(part**2 for part in parts)) * (1 + 1e-11))


def noise_scales(n_items: int, norm: int, unit: str, theta: float) -> list[float]:
    """The noise of each, in the units they are summed in, by the paper's sensitivities."""
    planned = sensitivities(n_items, norm, unit)
    ones = units_of(norm, unit)
    return [m.stated * o / (theta * s) for m, o, s in zip(planned, ones, SHARES, strict=True)]


def units_of(norm: int, unit: str) -> tuple[float, ...]:
    """What one star, one rating or one product of stars is worth in each measurement."""
    grid, weight = (2.0**bits for bits in BITS[norm])
    count = weight if unit == "user" else 1.0
    return (*(grid * count, count) * 3, grid * grid * weight, weight)


def effect_sums(ratings: Ratings, norm: int, unit: str) -> tuple[Integers, ...]:
    """The first four: sum and number of all ratings, and of each item's."""
    steps, weights = _steps(ratings, norm), _weights(ratings, norm)
    each = np.ones(len(ratings), np.int64)
    if unit == "user":
        each = np.repeat(weights, ratings.user_counts)
    sums, counts = np.zeros(ratings.n_items, np.int64), np.zeros(ratings.n_items, np.int64)
    np.add.at(sums, ratings.items, steps * each)
    np.add.at(counts, ratings.items, each)
    return (*_overall(ratings, steps, norm, unit), sums, counts)


def residual_sums(
    ratings: Ratings, levels: Integers, norm: int, unit: str
) -> tuple[Integers, Integers]:
    """The next two, for 4.3: sum and number of what is left after released item means."""
    return _overall(ratings, _steps(ratings, norm) - levels[ratings.items], norm, unit)


def _overall(ratings: Ratings, values: Integers, norm: int, unit: str) -> tuple[Integers, Integers]:
    """Sum and number of values, or of every user's mean of them."""
    each = np.ones(len(ratings), np.int64)
    if unit == "user":
        lengths = np.maximum(ratings.user_counts, 1).astype(np.float64)
        each = np.repeat(_parts_of(2.0 ** BITS[norm][1], lengths), ratings.user_counts)
    return np.array([np.sum(values * each)]), np.array([np.sum(each)])


def covariance_sums(
    ratings: Ratings, levels: Integers, middle: int, norm: int, unit: str
) -> Integers:
    """Covariances of residuals about released item means, less each user's mean of them, for which
    β_p more stand at the released `middle`."""
    off = _steps(ratings, norm) - levels[ratings.items]
    values = _centred(ratings.indptr, off, middle, int(CLAMP * 2 ** BITS[norm][0]))
    return _pair_sums(ratings, values, norm, unit)


def weight_sums(ratings: Ratings, norm: int, unit: str) -> Integers:
    """How often, by users' weights, two items were rated by one user."""
    return _pair_sums(ratings, np.ones(len(ratings), np.int64), norm, unit)


def _pair_sums(ratings: Ratings, values: Integers, norm: int, unit: str) -> Integers:
    weights = _weights(ratings, norm)
    each = weights**2 >> BITS[norm][1] if unit == "user" else weights
    return np.asarray(_outer(ratings.indptr, ratings.items, values, each, ratings.n_items))


def _steps(ratings: Ratings, norm: int) -> Integers:
    """Ratings on the grid; the paper's go from 1 to 5."""
    assert ratings.scale is not None
    stars = (ratings.values - ratings.scale.low) / ratings.scale.star + 1
    return np.asarray(np.rint(stars * 2.0 ** BITS[norm][0]), np.int64)


def _weights(ratings: Ratings, norm: int) -> Integers:
    lengths = np.maximum(ratings.user_counts, 1).astype(np.float64)
    return _parts_of(2.0 ** BITS[norm][1], lengths if norm == 1 else np.sqrt(lengths))


def _parts_of(one: float, sizes: Floats) -> npt.NDArray[np.int64]:
    """one/size, rounded down."""
    return np.floor(one / sizes * (1 - 2**-50)).astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _centred(
    indptr: npt.NDArray[np.int64], residuals: npt.NDArray[np.int64], middle: int, bound: int
) -> npt.NDArray[np.int64]:
    """Each user's residuals less their mean, stabilised at `middle`, clamped (section 4.3)."""
    out = np.empty_like(residuals)
    for user in range(len(indptr) - 1):
        start, stop = indptr[user], indptr[user + 1]
        total = np.int64(BETA_USER) * middle
        for at in range(start, stop):
            total += residuals[at]
        mean = total // (stop - start + np.int64(BETA_USER))
        for at in range(start, stop):
            out[at] = min(max(residuals[at] - mean, -bound), bound)
    return out


@numba.njit(cache=True, nogil=True)
def _outer(
    indptr: npt.NDArray[np.int64],
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int64],
    n: int,
) -> npt.NDArray[np.int64]:
    """Σ_u w_u v_u v_uᵀ, whole."""
    out = np.zeros((n, n), np.int64)
    for user in range(len(indptr) - 1):
        for a in range(indptr[user], indptr[user + 1]):
            times = weights[user] * values[a]
            for b in range(indptr[user], a + 1):
                out[items[a], items[b]] += times * values[b]
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    out[j, i] = out[i, j]
    return out
