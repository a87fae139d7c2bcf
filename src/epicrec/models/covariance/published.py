"""The covariance recommender as its paper has it: McSherry & Mironov (KDD 2009), sections 4 and 5.

Kept for comparison: the paper's eight measurements (sum and count of all ratings, and again of what
is left of them after item means, θ₁ = 0.02 θ; item sums and counts, θ₂ = 0.19 θ; covariance and
weight matrices, θ₃ = 0.79 θ; each θ_i in equal parts), its constants, and independent noise on
every entry of both matrices. Its noise is scaled by the sensitivities the paper states; the
guarantee is computed from those that hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.covariance.cleaning import TILE, Half, cleaned, half
from epicrec.models.covariance.kernel import check_memory
from epicrec.privacy import (
    Guarantee,
    add_discrete_laplace,
    add_integer_gaussian,
    gaussian_guarantee,
    gaussian_mu,
)
from epicrec.seeds import derived

SHARES = (0.005, 0.005, 0.095, 0.095, 0.005, 0.005, 0.395, 0.395)
RESIDUALS, COVARIANCE, WEIGHTS = 4, 6, 7
"""Which of the measurements these are; a number of ratings follows the sum of residuals."""
BETA_ITEM, BETA_USER, CLAMP, MOST_OFF = 15.0, 20.0, 1.0, 4.0
RIDGE = 3.0
"""The paper fits it to held-out ratings; here it is fixed, as chosen on the simulated films."""

BITS = {1: (8, 22), 2: (9, 16)}
"""By norm: the grid of ratings in stars, and of users' weights, both in bits after the point. Finer
grids would cost less rounding and not fit into 64 bits."""
MOST_USERS = 1 << 19
ASSUMES = ("the list of items and the rating scale are public",)


@dataclass(frozen=True)
class Measurement:
    """A sensitivity as the paper states it, and the one proved for the integers measured."""

    stated: float
    proved: float


def measurements(n_items: int, norm: int, unit: str) -> tuple[Measurement, ...]:
    """All of them, in stars, for a scale from 1 to 5 (docs/covariance.md has the proofs).

    Residuals about item means lie in [-4, 4] and differ by up to α = 8, not 4 (Theorem 4). Rounding
    a user's centre moves all their ratings by a step, and rounding their weight moves all pairs.
    """
    count = Measurement(1.0, 1.0)
    one = (Measurement(5.0, 5.0), count)
    first = (*one, *one, Measurement(MOST_OFF, MOST_OFF), count)
    if unit == "user":
        return (*first, Measurement(CLAMP**2, CLAMP**2), count)
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
    return (*first, Measurement(stated, proved), Measurement(plain, plain + rounding))


def theta_of(epsilon: float, delta: float, norm: int) -> float:
    """θ from the paper's ε: ε = θ, or ε = θ·√(2 ln(2/δ_i)) with δ shared by the measurements."""
    return epsilon if norm == 1 else epsilon / sqrt(2 * log(2 * len(SHARES) / delta))


def theta_worth(epsilon: float, delta: float, n_items: int) -> float:
    """The θ whose Gaussian noise, for one rating, is worth (ε, δ) by exact composition: the paper's
    own ε counts the same noise as more."""
    planned = measurements(n_items, 2, "rating")
    parts = [m.proved / m.stated * s for m, s in zip(planned, SHARES, strict=True)]
    return gaussian_mu(epsilon, delta) / (sqrt(sum(part**2 for part in parts)) * (1 + 1e-11))


def noise_scales(n_items: int, norm: int, unit: str, theta: float) -> list[float]:
    """The noise of each, in the units they are summed in, by the paper's sensitivities."""
    planned = measurements(n_items, norm, unit)
    ones = _ones(norm, unit)
    return [m.stated * o / (theta * s) for m, o, s in zip(planned, ones, SHARES, strict=True)]


def _ones(norm: int, unit: str) -> tuple[float, ...]:
    """What one star, one rating, or a product of stars is in each measurement."""
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


def largest_loss(first: Ratings, second: Ratings, means: Integers, theta: float) -> float:
    """The ε that Laplace noise, for one rating, leaves between two inputs: Σ |Δ_j|/scale_j.

    It is reached at the outcomes where all noise points away. `means` are the released item means,
    in stars.
    """
    levels = means << BITS[1][0]
    sums = [
        (
            *effect_sums(one, 1, "rating"),
            *residual_sums(one, levels, 1, "rating"),
            covariance_sums(one, levels, 0, 1, "rating"),
            weight_sums(one, 1, "rating"),
        )
        for one in (first, second)
    ]
    scales = noise_scales(len(means), 1, "rating", theta)
    moved = zip(*sums, scales, strict=True)
    return sum(float(np.abs(a - b).sum() / scale) for a, b, scale in moved)


def _steps(ratings: Ratings, norm: int) -> Integers:
    """Ratings on the grid; the paper's go from 1 to 5."""
    assert ratings.scale is not None
    stars = (ratings.values - ratings.scale.low) / ratings.scale.star + 1
    return np.asarray(np.rint(stars * 2.0 ** BITS[norm][0]), np.int64)


def _weights(ratings: Ratings, norm: int) -> Integers:
    lengths = np.maximum(ratings.user_counts, 1).astype(np.float64)
    return _parts_of(2.0 ** BITS[norm][1], lengths if norm == 1 else np.sqrt(lengths))


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
    n, scale, unit = ratings.n_items, ratings.scale, model.unit
    assert scale is not None
    check_memory(n)
    ones = _ones(norm, unit)

    def released(values: Integers, which: int) -> Integers:
        """Values with noise for their share of θ, in place."""
        if theta is not None:
            seed = derived(model.seed, "measurement", which)
            add = add_integer_gaussian if norm == 2 else add_discrete_laplace
            add(values, noise_scales(n, norm, unit, theta)[which], seed=seed)
        return values

    def stars(sums: tuple[Integers, ...], first: int) -> list[Floats]:
        return [released(values, at) / ones[at] for at, values in enumerate(sums, first)]

    def pairs(sums: Integers, which: int) -> Half:  # one whole matrix at a time
        return np.asarray(half(released(sums, which), ones[which]), np.float32)

    grid = 2.0 ** BITS[norm][0]
    total, number, item_sums, item_counts = stars(effect_sums(ratings, norm, unit), 0)
    centre = float(np.clip(total[0] / max(number[0], 1.0), 1, 5))
    held = np.maximum(item_counts, 0) + BETA_ITEM
    means = np.clip((item_sums + BETA_ITEM * centre) / held, 1, 5)
    levels = np.rint(means * grid).astype(np.int64)
    total, number = stars(residual_sums(ratings, levels, norm, unit), RESIDUALS)
    left = float(np.clip(total[0] / max(number[0], 1.0), -MOST_OFF, MOST_OFF))
    middle = round(left * grid)
    cov = pairs(covariance_sums(ratings, levels, middle, norm, unit), COVARIANCE)
    weights = pairs(weight_sums(ratings, norm, unit), WEIGHTS)
    factors = cleaned(cov, weights, item_counts, clean=model.cleaned)
    state = {
        "offsets_": scale.low + (means - 1 + left) * scale.star,
        "factors_": (factors * scale.star).astype(np.float32),
        "ridge_": RIDGE * scale.star**2,
        "doubt_": np.ones(n),
        "centring_": BETA_USER,
    }
    if model.by_weights:
        state["weights_"] = weights
    return state, _guarantee(model, theta, norm, measurements(n, norm, unit))


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
