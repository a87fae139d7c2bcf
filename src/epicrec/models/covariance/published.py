"""The covariance recommender as its paper has it: McSherry & Mironov (KDD 2009), sections 4 and 5.

Kept for comparison: the paper's six measurements (global sum and count, θ₁ = 0.02 θ; item sums and
counts, θ₂ = 0.19 θ; covariance and weight matrices, θ₃ = 0.79 θ, each θ_i halved between its two),
its constants, and independent noise on every entry of both matrices. Its noise is scaled by the
sensitivities the paper states; the guarantee is computed from those that hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.covariance.kernel import check_memory
from epicrec.models.spectrum import Floats, leading_eigenpairs
from epicrec.privacy import (
    Guarantee,
    add_discrete_laplace,
    add_integer_gaussian,
    gaussian_guarantee,
)
from epicrec.seeds import derived

SHARES = (0.01, 0.01, 0.095, 0.095, 0.395, 0.395)
BETA_ITEM, BETA_USER, CLAMP, RANK = 15.0, 20.0, 1.0, 20
SHRINK, RIDGE = 10.0, 3.0
"""The paper fits these two to held-out ratings; here they are fixed."""
BITS = {1: (8, 22), 2: (9, 16)}
"""By norm: the grid of ratings in stars, and of users' weights, both in bits after the point. Finer
grids would cost less rounding and not fit into 64 bits."""
MOST_USERS = 1 << 19
TILE = 64
"""Matrices are turned over in tiles that fit the cache."""
ASSUMES = ("the list of items and the rating scale are public",)


Half = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Measurement:
    """A sensitivity as the paper states it, and the one proved for the integers measured."""

    stated: float
    proved: float


def measurements(n_items: int, norm: int, unit: str) -> tuple[Measurement, ...]:
    """The six, in stars, for a scale from 1 to 5 (docs/covariance.md has the proofs).

    Residuals about item means lie in [-4, 4] and differ by up to α = 8, not 4 (Theorem 4). Rounding
    a user's centre moves all their ratings by a step, and rounding their weight moves all pairs.
    """
    one = (Measurement(5.0, 5.0), Measurement(1.0, 1.0))
    if unit == "user":
        return (*one, *one, Measurement(CLAMP**2, CLAMP**2), Measurement(1.0, 1.0))
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
    return (*one, *one, Measurement(stated, proved), Measurement(plain, plain + rounding))


def theta_of(epsilon: float, delta: float, norm: int) -> float:
    """θ from the paper's ε: ε = θ, or ε = θ·√(2 ln(2/δ_i)) with δ shared by six measurements."""
    return epsilon if norm == 1 else epsilon / sqrt(2 * log(2 * len(SHARES) / delta))


def fit_published(model: Any, ratings: Ratings) -> tuple[dict[str, Any], Guarantee]:
    """The state of a factor model by the paper's recipe, and the guarantee that its noise has."""
    norm = 2 if model.noise == "gaussian" else 1
    theta = model.theta
    if theta is None and model.epsilon is not None:
        theta = theta_of(model.epsilon, model.delta, norm)
    if theta is not None and not theta > 0:
        raise InputError(f"theta must be above 0, got {theta}")
    if ratings.n_users > MOST_USERS:
        raise InputError(f"as_published takes at most {MOST_USERS:,} users; more could overflow")
    n, scale = ratings.n_items, ratings.scale
    assert scale is not None
    check_memory(n, 0)
    planned = measurements(n, norm, model.unit)

    def released(values: npt.NDArray[np.int64], which: int, one: float) -> npt.NDArray[np.int64]:
        """Values in units of `one`, with noise for their share of θ, in place."""
        if theta is not None:
            seed = derived(model.seed, "measurement", which)
            size = planned[which].stated * one / (theta * SHARES[which])
            add = add_integer_gaussian if norm == 2 else add_discrete_laplace
            add(values, size, seed=seed)
        return values

    def noisy(values: npt.NDArray[np.int64], which: int, one: float) -> Floats:
        return released(values, which, one) / one

    star = scale.star
    bits, weight_bits = BITS[norm]
    grid, weight_one = 2.0**bits, 2.0**weight_bits
    # the paper's ratings go from 1 to 5
    steps = np.rint(((ratings.values - scale.low) / star + 1) * grid).astype(np.int64)
    lengths = np.maximum(ratings.user_counts, 1).astype(np.float64)
    weights = _parts_of(weight_one, lengths if norm == 1 else np.sqrt(lengths))
    each, all_of_one = np.ones(len(ratings), np.int64), np.ones(len(ratings), np.int64)
    if model.unit == "user":
        each = np.repeat(weights, ratings.user_counts)
        all_of_one = np.repeat(_parts_of(weight_one, lengths), ratings.user_counts)
    count_one = weight_one if model.unit == "user" else 1.0
    total = noisy(np.array([np.sum(steps * all_of_one)]), 0, grid * count_one)[0]
    number = noisy(np.array([np.sum(all_of_one)]), 1, count_one)[0]
    centre = float(np.clip(total / max(number, 1.0), 1, 5))
    sums, counts = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(sums, ratings.items, steps * each)
    np.add.at(counts, ratings.items, each)
    item_sums, item_counts = noisy(sums, 2, grid * count_one), noisy(counts, 3, count_one)
    held = np.maximum(item_counts, 0) + BETA_ITEM
    means = np.clip((item_sums + BETA_ITEM * centre) / held, 1, 5)
    levels = np.rint(means * grid).astype(np.int64)

    pair_weights = weights**2 >> weight_bits if model.unit == "user" else weights
    residuals = _centred(ratings.indptr, steps - levels[ratings.items], int(CLAMP * grid))
    ones = np.ones(len(ratings), np.int64)

    def half(values: npt.NDArray[np.int64], which: int, one: float) -> Half:
        whole = _outer(ratings.indptr, ratings.items, values, pair_weights, n)
        return np.asarray(_half(released(whole, which, one), one), np.float32)

    cov = half(residuals, 4, grid * grid * weight_one)
    factors = _cleaned(cov, half(ones, 5, weight_one), item_counts)
    columns = np.column_stack([np.full(n, sqrt(RIDGE / BETA_USER)), factors]) * star
    state = {
        "offsets_": scale.low + (means - 1) * star,
        "factors_": columns.astype(np.float32),
        "ridge_": RIDGE * star**2,
    }
    return state, _guarantee(model, theta, norm, planned)


def _guarantee(model: Any, theta: float | None, norm: int, planned: tuple[Any, ...]) -> Guarantee:
    if theta is None:
        return Guarantee.none(unit=model.unit)
    losses = [m.proved / m.stated * theta * s for m, s in zip(planned, SHARES, strict=True)]
    if norm == 1:
        promise = Guarantee(
            epsilon=sum(losses) * (1 + 1e-12),
            unit=model.unit,
            relation="add or remove one",
            assumes=ASSUMES,
        )
    else:
        promise = gaussian_guarantee(
            sqrt(sum(loss**2 for loss in losses)) * (1 + 1e-12),
            model.delta,
            unit=model.unit,
            relation="add or remove one",
            assumes=ASSUMES,
        )
    return promise.seeded(model.seed)


def _parts_of(one: float, sizes: Floats) -> npt.NDArray[np.int64]:
    """one/size, rounded down."""
    return np.floor(one / sizes * (1 - 2**-50)).astype(np.int64)


def _cleaned(cov: Half, weight: Half, counts: Floats) -> Floats:
    """Section 4.6: shrink to the average, scale by the counts, rank k, scale back; as factors.

    Both matrices come as the half up to their diagonals, row after row; so does what is shrunk.
    """
    n = len(counts)
    diagonal = np.arange(n, dtype=np.int64) * (np.arange(n) + 3) // 2
    root = np.sqrt(np.maximum(counts, 1.0))
    own = _shrunk(cov[diagonal], weight[diagonal])
    off = [
        part.sum(dtype=np.float64) - part[diagonal].sum(dtype=np.float64) for part in (cov, weight)
    ]
    means = [total / max(len(cov) - n, 1) for total in off]
    matrix = _scaled(cov, weight, means[0], max(means[1], 1e-9), root.astype(np.float32))
    np.fill_diagonal(matrix, own * root**2)
    values, vectors = leading_eigenpairs(matrix, RANK)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)) / root[:, None])


def _shrunk(cov: Half, weight: Half) -> Floats:
    mean_cov, mean_weight = cov.mean(dtype=np.float64), max(weight.mean(dtype=np.float64), 1e-9)
    held = np.maximum(weight, 0) + SHRINK * mean_weight
    return np.asarray((cov + SHRINK * mean_cov) / held, np.float64)


@numba.njit(cache=True, nogil=True)
def _scaled(
    cov: Half, weight: Half, mean_cov: float, mean_weight: float, root: Half
) -> npt.NDArray[np.float32]:
    """The whole matrix, shrunk and scaled, but for its diagonal."""
    n = len(root)
    out = np.zeros((n, n), np.float32)
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    at = i * (i + 1) // 2 + j
                    held = max(weight[at], np.float32(0)) + SHRINK * mean_weight
                    value = (cov[at] + SHRINK * mean_cov) / held * root[i] * root[j]
                    out[i, j] = value
                    out[j, i] = value
    return out


@numba.njit(cache=True, nogil=True)
def _half(values: npt.NDArray[np.int64], one: float) -> Half:
    """The mean of a matrix and its transpose, up to the diagonal, row after row."""
    n = len(values)
    out = np.empty(n * (n + 1) // 2, np.float32)
    for top in range(0, n, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i + 1)):
                    out[i * (i + 1) // 2 + j] = (values[i, j] + values[j, i]) / (2 * one)
    return out


@numba.njit(cache=True, nogil=True)
def _centred(
    indptr: npt.NDArray[np.int64], residuals: npt.NDArray[np.int64], bound: int
) -> npt.NDArray[np.int64]:
    """Each user's residuals less their stabilised mean, clamped (section 4.3)."""
    out = np.empty_like(residuals)
    for user in range(len(indptr) - 1):
        start, stop = indptr[user], indptr[user + 1]
        total = 0
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
