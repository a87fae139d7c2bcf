"""McSherry & Mironov's recommenders as published (KDD 2009, sections 4 and 5), for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats, Floats, Integers
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.base import Task
from epicrec.models.factors import AtHome, ReleasedFactors
from epicrec.models.private.budget import NoiseKind, check_budget
from epicrec.models.private.covariance import ByNeighbours
from epicrec.models.private.pairs import check_memory
from epicrec.models.private.statistics import Unit
from epicrec.models.spectrum import leading_eigenpairs
from epicrec.papers.mcsherry_mironov.measurements import (
    BETA_ITEM,
    BETA_USER,
    BITS,
    COVARIANCE,
    MOST_OFF,
    MOST_USERS,
    RESIDUALS,
    SHARES,
    TILE,
    WEIGHTS,
    Sensitivity,
    covariance_sums,
    effect_sums,
    noise_scales,
    residual_sums,
    sensitivities,
    theta_of,
    theta_worth,
    units_of,
    weight_sums,
)
from epicrec.privacy import (
    Guarantee,
    add_discrete_laplace,
    add_integer_gaussian,
    gaussian_guarantee,
)
from epicrec.seeds import derived

RIDGE = 3.0
"""The paper fits it to held-out ratings; here it is fixed, as chosen on the simulated films."""
RANK = 20
SHRINK_DIAGONAL, SHRINK_PAIRS = 10.0, 10.0
"""The paper has a constant for each and fits both to held-out ratings; here they are fixed, as
chosen on the simulated films, where that of the diagonal hardly matters."""
ASSUMES = ("the list of items and the rating scale are public",)

Half = npt.NDArray[np.float32]


class AtHomeAsPublished(AtHome):
    """A user's level is the mean of their residuals, with β_p more at 0 (section 4.3)."""

    def expected(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        residuals = np.asarray(histories.values - self.offsets[histories.items], np.float64)
        total = np.bincount(histories.users, residuals, histories.n_users)
        level = total / (histories.user_counts + BETA_USER)
        return level, residuals - level[histories.users]


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedCovarianceSVD(ReleasedFactors):
    """Item factors from the paper's eight noisy measurements, with its constants, its θ and ε.

    The noise is scaled by the sensitivities that the paper states. One of them is too small
    (Theorem 5 in L1), so the guarantee is computed from those that are proved in
    docs/covariance.md. Neighbours differ by one `unit` added or removed. Give `theta` or `epsilon`;
    without either there is no noise. `cleaned=False` leaves out section 4.6.
    """

    as_published = True
    status = "proved"
    units = ("rating", "user")

    epsilon: float | None = None
    delta: float = 1e-6
    unit: Unit = "rating"
    noise: NoiseKind = "gaussian"
    task: Task = "ratings"
    theta: float | None = None
    cleaned: bool = True
    seed: int | None = None

    @property
    def promises(self) -> bool:
        return super().promises or self.theta is not None

    @property
    def at_home(self) -> AtHome:
        return AtHomeAsPublished(self.offsets_, self.factors_, self.ridge_, self.doubt_)

    @staticmethod
    def theta_worth(epsilon: float, delta: float, n_items: int) -> float:
        """The θ whose Gaussian noise, for one rating, is worth (ε, δ) by exact composition."""
        return theta_worth(epsilon, delta, n_items)

    @staticmethod
    def largest_loss(
        with_it: Ratings, without: Ratings, means: npt.NDArray[Any], theta: float
    ) -> float:
        """The privacy loss of all measurements at the outcomes where all noise points away.

        It is Σ |Δ_j|/scale_j for Laplace noise at the rating level, where both neighbours saw the
        same released item `means`, in stars.
        """
        levels = np.rint(means * 2.0 ** BITS[1][0]).astype(np.int64)
        sums = [
            (
                *effect_sums(ratings, 1, "rating"),
                *residual_sums(ratings, levels, 1, "rating"),
                covariance_sums(ratings, levels, 0, 1, "rating"),
                weight_sums(ratings, 1, "rating"),
            )
            for ratings in (with_it, without)
        ]
        scales = noise_scales(len(means), 1, "rating", theta)
        moved = zip(*sums, scales, strict=True)
        return sum(float(np.abs(one - other).sum() / scale) for one, other, scale in moved)

    def _check(self) -> None:
        check_budget(self.epsilon, self.delta, self.unit, self.noise)
        if self.theta is not None and self.epsilon is not None:
            raise InputError("theta and epsilon say the same thing twice; give one of them")
        if self.theta is not None and not self.theta > 0:
            raise InputError(f"theta must be above 0, got {self.theta}")
        if self.task == "lists":
            raise InputError("the paper measures ratings, not histories; leave out as_published")

    def _fit(self, ratings: Ratings) -> None:
        self._check()
        self._learn(ratings)

    def _learn(self, ratings: Ratings) -> Half:
        """Measure and clean; the released weights of pairs come back."""
        if ratings.n_users > MOST_USERS:
            raise InputError(
                f"as_published takes at most {MOST_USERS:,} users; more could overflow"
            )
        norm = 2 if self.noise == "gaussian" else 1
        theta = self.theta
        if theta is None and self.epsilon is not None:
            theta = theta_of(self.epsilon, self.delta, norm)
        n, scale, unit = ratings.n_items, ratings.scale, self.unit
        assert scale is not None
        check_memory(n)
        ones = units_of(norm, unit)

        def released(values: Integers, which: int) -> Integers:
            """Values with noise for their share of θ, in place."""
            if theta is not None:
                seed = derived(self.seed, "measurement", which)
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
        factors = cleaned(cov, weights, item_counts, clean=self.cleaned)
        self.offsets_ = scale.low + (means - 1 + left) * scale.star
        self.factors_ = (factors * scale.star).astype(np.float32)
        self.ridge_ = RIDGE * scale.star**2
        self.doubt_ = np.ones(n)
        planned = sensitivities(n, norm, unit)
        self.guarantee_ = self._promise(theta, norm, planned).to_dict()
        return weights

    def _promise(
        self, theta: float | None, norm: int, planned: tuple[Sensitivity, ...]
    ) -> Guarantee:
        """What the noise is worth, by the sensitivities that are proved."""
        if theta is None:
            return Guarantee.none(unit=self.unit)
        losses = [m.proved / m.stated * theta * s for m, s in zip(planned, SHARES, strict=True)]
        about: Any = {"unit": self.unit, "relation": "add or remove one", "assumes": ASSUMES}
        if norm == 1:
            promise = Guarantee(epsilon=sum(losses) * (1 + 1e-12), **about)
        else:
            mu = sqrt(sum(loss**2 for loss in losses)) * (1 + 1e-12)
            promise = gaussian_guarantee(mu, self.delta, **about)
        return promise.seeded(self.seed)


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedCovarianceKNN(ByNeighbours, PublishedCovarianceSVD):
    """Neighbours by the same measurements (section 5.1, after Bell & Koren 2007).

    The `k` neighbours of item i are the user's rated items that most people rated together with i,
    by the released weights of pairs; `k` is 20.
    """

    default_k = 20
    k: int | None = None

    def _check(self) -> None:
        super()._check()
        self._check_k()

    def _fit(self, ratings: Ratings) -> None:
        self._check()
        self.weights_ = self._learn(ratings)


# ---- cleaning (section 4.6) ---------------------------------------------------------------------
# Both matrices come as the half up to their diagonals, row after row; so does what is shrunk.


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
