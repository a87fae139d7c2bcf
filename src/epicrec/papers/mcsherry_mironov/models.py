"""McSherry & Mironov's recommenders as published (KDD 2009, sections 4 and 5), for comparison."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats, Floats, Integers
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.base import Feedback
from epicrec.models.factors import AtHome, ReleasedFactors
from epicrec.models.private.budget import NoiseKind, check_budget
from epicrec.models.private.covariance import ByNeighbours
from epicrec.models.private.pairs import check_memory
from epicrec.models.private.statistics import Unit
from epicrec.papers.mcsherry_mironov.cleaning import Half, cleaned, half
from epicrec.papers.mcsherry_mironov.measurements import (
    BETA_ITEM,
    BETA_USER,
    BITS,
    COVARIANCE,
    MOST_OFF,
    MOST_USERS,
    RESIDUALS,
    SHARES,
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
ASSUMES = ("the list of items and the rating scale are public",)


class AtHomeAsPublished(AtHome):
    """A user's level is the mean of their residuals, with β_p more at 0 (section 4.3)."""

    def expected(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        residuals = np.asarray(histories.values - self.offsets[histories.items], np.float64)
        total = np.bincount(histories.users, residuals, histories.n_users)
        level = total / (histories.user_counts + BETA_USER)
        return level, residuals - level[histories.users]


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

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 1e-6,
        unit: Unit = "rating",
        noise: NoiseKind = "gaussian",
        feedback: Feedback = "explicit",
        theta: float | None = None,
        cleaned: bool = True,
        seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit: Unit = unit
        self.noise: NoiseKind = noise
        self.feedback: Feedback = feedback
        self.theta = theta
        self.cleaned = cleaned
        self.seed = seed

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
        if self.feedback == "implicit":
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
        if norm == 1:
            promise = Guarantee(
                epsilon=sum(losses) * (1 + 1e-12),
                unit=self.unit,
                relation="add or remove one",
                assumes=ASSUMES,
            )
        else:
            promise = gaussian_guarantee(
                sqrt(sum(loss**2 for loss in losses)) * (1 + 1e-12),
                self.delta,
                unit=self.unit,
                relation="add or remove one",
                assumes=ASSUMES,
            )
        return promise.seeded(self.seed)


class PublishedCovarianceKNN(ByNeighbours, PublishedCovarianceSVD):
    """Neighbours by the same measurements (section 5.1, after Bell & Koren 2007).

    The `k` neighbours of item i are the user's rated items that most people rated together with i,
    by the released weights of pairs; `k` is 20.
    """

    usual_k = 20

    def __init__(
        self,
        *,
        k: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        unit: Unit = "rating",
        noise: NoiseKind = "gaussian",
        feedback: Feedback = "explicit",
        theta: float | None = None,
        cleaned: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            noise=noise,
            feedback=feedback,
            theta=theta,
            cleaned=cleaned,
            seed=seed,
        )
        self.k = k

    def _check(self) -> None:
        super()._check()
        self._check_k()

    def _fit(self, ratings: Ratings) -> None:
        self._check()
        self.weights_ = self._learn(ratings)
