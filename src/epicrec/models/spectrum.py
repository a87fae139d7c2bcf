"""Cleaning: from noisy sums to item offsets and factors, knowing how large the noise is.

Everything here is post-processing of released statistics (McSherry & Mironov 2009, section 4.6,
by empirical Bayes instead of fixed constants): it costs no privacy, and with noise 0 it is the
ordinary, non-private estimate. Ratings are in stars from the middle of the scale, from -2 to 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.models.estimates import Spread
from epicrec.progress import report

SAMPLING = 1.5
"""How far the sampling variance of a covariance exceeds that of independent ratings."""
UNEXPLAINED = 0.6
"""At least this share of a rating's variance is its own, whatever the factors say of themselves."""
HISTORY_SAMPLING = 0.36
"""As SAMPLING, for what was watched: much of its variance is popularity, which is no noise."""
LANCZOS_STEPS = 10
"""Steps of block Lanczos: eigenvalues above the noise are then exact to several digits."""
CORE = 6


@dataclass(frozen=True)
class Noise:
    """Independent noise on a symmetric matrix, with variance Σ_p p_i·p_j over some profiles p.

    Privacy noise is even: its profile is σ everywhere. The sampling noise of a sum over ratings
    has a profile that grows with the number of ratings behind an item.
    """

    profiles: tuple[Floats, ...]

    def resolvent(self, z: float) -> Floats | None:
        """The diagonal g of (z - noise)⁻¹; None where z lies inside the noise's spectrum.

        It solves 1/g_i = z - Σ_j var_ij·g_j, the Dyson equation of a symmetric matrix with
        independent entries (Ajanki, Erdős & Krüger 2017). That is one equation for each profile, in
        m = p·g: m = Σ_i p_i/(z - Σ_p p_i·m_p), whose right side rises with m ever faster, so that
        Newton's steps from 0 rise to its least solution, unless there is none.
        """
        profiles = np.array(self.profiles)
        found = np.zeros(len(profiles))
        for _ in range(100):
            below = z - found @ profiles
            if below.min() <= 0:
                return None
            g = 1 / below
            ahead = np.eye(len(profiles)) - (profiles * g**2) @ profiles.T
            if np.linalg.eigvalsh(ahead)[0] <= 0:
                return None
            step = np.linalg.solve(ahead, profiles @ g - found)
            found += step
            if np.abs(step).max() <= 1e-12 * found.max():
                return np.asarray(g, np.float64)
        return None

    def edge(self) -> float:
        """Where the eigenvalues of pure noise end: 2σ√n where it is even."""
        bound = sum(np.sqrt(p.max() * p.sum()) for p in self.profiles)
        low, high = 0.0, 2.0 * float(bound) + 1e-9
        for _ in range(14):
            middle = (low + high) / 2
            low, high = (low, middle) if self.resolvent(middle) is not None else (middle, high)
        return high


@dataclass(frozen=True)
class Spectrum:
    """The leading eigenpairs of a noisy symmetric matrix, largest first.

    `core` are the items whose part of the matrix they are taken from (all where None); to the other
    items they are extended by the rows these have with the core.
    """

    values: Floats
    vectors: Floats
    core: npt.NDArray[np.intp] | None = None

    def cleaned(self, noise: Noise, least: float = 0.0) -> tuple[Floats, Floats, Floats]:
        """Eigenvalues without noise, what to keep of them, and their vectors, above the edge.

        `least` is what a single user can make of an eigenvalue: none at or below it is a factor.

        A clean eigenpair (θ, u) appears at z with θ·D(z) = 1 for D(z) = Σ u_i² g_i(z), its vector
        at an angle with cos² = D²/|D'| (Benaych-Georges & Nadakuditi 2011, for uneven noise).
        Keeping θ·cos² of it has the least squared error. Under even noise θ = (z + √(z² - 4nσ²))/2
        and θ·cos² = √(z² - 4nσ²).
        """
        if self.core is not None:
            noise = Noise(tuple(profile[self.core] for profile in noise.profiles))
        inside = self.vectors if self.core is None else self.vectors[self.core]
        edge = max(noise.edge(), least)
        clean, kept, columns = [], [], []
        for at, z in enumerate(self.values):
            weight = inside[:, at] ** 2
            here = noise.resolvent(z) if z > 1.01 * edge else None
            there = noise.resolvent(z * 1.001) if here is not None else None
            if here is None or there is None:
                continue
            d = float(weight @ here)
            slope = (d - float(weight @ there)) / (0.001 * z)
            clean.append(1 / d)
            kept.append(min(d / slope, 1 / d))
            columns.append(at)
        return np.array(clean), np.array(kept), self.vectors[:, columns]


@dataclass(frozen=True)
class Reach:
    """How the users who rated two items weigh in a sum over both: W = reach·reachᵀ.

    This is the weight matrix under independence, from counts alone; measuring it would cost half
    of the budget. `sampled` is the profile of the sum's sampling variance, `ratings` the counts.
    """

    reach: Floats
    sampled: Floats
    ratings: Floats
    least: float = 0.0
    """The largest eigenvalue that a single user can make."""

    def noise(self, sigma: float) -> Noise:
        """The noise on the sum: privacy noise of this standard deviation, and sampling."""
        return Noise((np.full(len(self.reach), sigma), self.sampled))


def rating_factors(spectrum: Spectrum, sigma: float, items: Reach, variance: float) -> Floats:
    """Item factors F with residuals ~ F·p + noise for p ~ Normal(0, I).

    A covariance sum over users is W∘(F Fᵀ) with W = a aᵀ, so its eigenvectors are G = a∘F. Item i
    tells F_i with a variance of s²/N_i from sampling and σ²/(λ·a_i²) from noise, against a prior of
    φ² = λ/Σa²: F = G·a / (a² + a²·s²/(N·φ²) + σ²/(λ·φ²)).
    """
    values, kept, vectors = spectrum.cleaned(items.noise(sigma), items.least)
    square = items.reach**2
    prior = values / max(float(square.sum()), 1e-9)
    unexplained = max(variance - float(prior.sum()), UNEXPLAINED * variance)
    sampling = square / np.maximum(items.ratings, 1e-9)
    scale = square[:, None] + sampling[:, None] * (unexplained / prior)
    scale += sigma**2 / (values * prior)
    return np.asarray(
        vectors * np.sqrt(kept) * items.reach[:, None] / np.maximum(scale, 1e-12), np.float64
    )


def ridge_of(spread: Spread, factors: Floats, items: Reach, variance: float) -> float:
    """The variance of a rating's noise: what the user's mean, taste and factors do not explain.

    Factors are those of residuals clamped to one star, whose variance is `variance`.
    """
    share = items.ratings / max(float(items.ratings.sum()), 1e-9)
    explained = float(np.sum(share[:, None] * factors**2)) * spread.total / variance
    return max(spread.noise - explained, UNEXPLAINED * spread.total)


def denoised(counts: Floats, spread: float) -> Floats:
    """Posterior means of counts with Gaussian noise, under the prior that fits all of them best.

    The prior is the maximum-likelihood one (Kiefer & Wolfowitz 1956), by EM over steps of a quarter
    of the noise up to 10 times it; counts above 8 times the noise stay as they are.
    """
    if not spread:
        return np.maximum(counts, 0.0)
    at, atoms = np.linspace(-6, 10, 161), np.linspace(0, 10, 41)
    steps = np.clip(counts / spread, at[0], at[-1])
    seen = np.bincount(np.rint((steps - at[0]) * 10).astype(np.int64), minlength=len(at))
    likelihood = np.exp(-0.5 * (at[:, None] - atoms) ** 2)
    prior = np.full(len(atoms), 1 / len(atoms))
    for _ in range(100):
        chance = likelihood * prior
        chance /= chance.sum(axis=1, keepdims=True)
        prior = seen @ chance / len(counts)
    expected = np.interp(steps, at, chance @ atoms)
    return np.asarray(spread * np.where(steps > 8, counts / spread, expected))


def history_scales(counts: Floats) -> Floats:
    """count^-¼: items so scaled have eigenvectors that popular items lead, but do not rule."""
    return np.asarray((counts + 10) ** -0.25)


def history_factors(
    spectrum: Spectrum, scales: Floats, sigma: float, sampled: Floats
) -> tuple[Floats, Floats]:
    """Factors and projections that rank: scores are factors · (sum of a history's projections).

    The spectrum is that of D C D with C = Σ_u q_u e_u e_uᵀ, D the `scales`, and noise of the even
    profile `sigma` and of `sampled`. With its eigenpairs above the noise (θ, V) the scores of a
    history h are D⁻¹ V s Vᵀ D h, with s = cos²·θ/(θ + edge) where there is only sampling noise.
    With privacy noise few directions are left, and s = 1: to damp all but the first, which is
    popularity, would rank everybody alike.
    """
    noise = Noise((np.full(len(scales), sigma), sampled))
    values, kept, vectors = spectrum.cleaned(noise)
    if not sigma:
        vectors = vectors * np.sqrt(kept / (values + noise.edge()))
    return vectors / scales[:, None], vectors * scales[:, None]


def clearer_spectrum(
    matrix: npt.NDArray[np.float32], items: Reach, sigma: float, k: int
) -> Spectrum:
    """The leading eigenpairs of all items or of a popular core, whichever shows more factors.

    A factor's eigenvalue grows with Σ reach² over the items, and the edge of even noise with √n, so
    with much noise the unpopular items add more of it than of signal. The core is CORE times as
    many items as make the first eigenvalue stand highest above the edge.
    """
    whole = Spectrum(*leading_eigenpairs(matrix, k))
    order = np.argsort(-items.reach, kind="stable")
    above = np.cumsum(items.reach[order] ** 2) / np.sqrt(np.arange(1, len(order) + 1))
    core = np.sort(order[: CORE * (int(np.argmax(above)) + 1)])
    if len(core) == len(order):
        return whole
    values, inside = leading_eigenpairs(matrix[np.ix_(core, core)], k)
    inside, values = inside[:, values > 0], values[values > 0]
    vectors = np.zeros((len(order), len(values)), np.float32)
    vectors[core] = inside
    part = Spectrum(values, (matrix @ vectors).astype(np.float64) / values, core)
    noise = items.noise(sigma)
    return max(whole, part, key=lambda spectrum: len(spectrum.cleaned(noise, items.least)[0]))


def without_known(matrix: npt.NDArray[np.float32], known: Floats) -> None:
    """Take B Bᵀ of what is `known` already off a matrix without a diagonal, in place."""
    columns = known.astype(np.float32)
    for start in range(0, len(matrix), 1024):
        matrix[start : start + 1024] -= columns[start : start + 1024] @ columns.T
    np.fill_diagonal(matrix, 0)


def unresolved(columns: Floats, weights: Floats, edge: float) -> Floats:
    """Of what is expected of a matrix, B Bᵀ with B the columns times the items' weights, the part
    that noise hides: directions in which it stands above the noise's edge are left to the matrix
    itself, which knows them better.

    They are those of B's singular values θ^½, and have edge/θ of their length where θ is above it.
    """
    known = columns * weights[:, None]
    values, turn = np.linalg.eigh(known.T @ known)
    return np.asarray((columns @ turn) * np.minimum(1.0, edge / np.maximum(values, 1e-12)))


def leading_eigenpairs(matrix: Any, k: int) -> tuple[Floats, Floats]:
    """The k largest eigenvalues and their vectors of a symmetric matrix or linear operator.

    Block Lanczos with a fixed number of steps: eigenvalues that stand out of the noise are exact to
    many digits after a dozen, and waiting for those inside it to converge would take for ever.
    """
    n = matrix.shape[0]
    k = min(k, n)
    width = max(16, k // 3)
    if n <= 12 * width:
        values, vectors = np.linalg.eigh(matrix @ np.eye(n, dtype=matrix.dtype))
    else:
        start = np.random.default_rng(0).standard_normal((n, width))
        basis = np.linalg.qr(start.astype(matrix.dtype))[0]
        image = matrix @ basis
        for step in range(LANCZOS_STEPS):
            block = image[:, -width:]
            for _ in range(2):  # once is not enough in floating point
                block = block - basis @ (basis.T @ block)
            block = np.linalg.qr(block)[0]
            basis = np.hstack([basis, block])
            image = np.hstack([image, matrix @ block])
            report("finding eigenvectors", step + 1, LANCZOS_STEPS)
        small = (basis.T @ image).astype(np.float64)
        values, rotation = np.linalg.eigh((small + small.T) / 2)
        vectors = basis @ rotation[:, -k:]
    order = np.argsort(-values)[:k]
    columns = order - (len(values) - vectors.shape[1])
    return values[order].astype(np.float64), vectors[:, columns].astype(np.float64)
