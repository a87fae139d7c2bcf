"""A private fit's budget: what each measurement may spend, its noise, and a record of it all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isfinite, sqrt
from typing import Any, Literal, Protocol

from epicrec.arrays import Integers
from epicrec.data import Ratings
from epicrec.engine import Once, drawn
from epicrec.errors import InputError
from epicrec.models.private.statistics import MOST_USERS, Norm, Unit
from epicrec.privacy import (
    Guarantee,
    add_discrete_laplace,
    add_integer_gaussian,
    gaussian_guarantee,
    gaussian_mu,
    gaussian_sigma,
    laplace_scale,
)
from epicrec.seeds import derived

NoiseKind = Literal["gaussian", "laplace"]
Share = float | Fraction
"""A part of a budget: of μ² with Gaussian, of ε with Laplace noise."""

ASSUMES = (
    "the list of items, what the catalogue tells of them, and the rating scale are public",
    "everything else that is published is computed from this model",
    f"no more than {MOST_USERS:,} people take part, and at least one has a listed item",
)


class Measured(Protocol):
    """A statistic that can be measured: how far one unit moves it, and what it is in words."""

    @property
    def sensitivity(self) -> Fraction: ...

    @property
    def what(self) -> str: ...


def check_budget(epsilon: float | None, delta: float, unit: str, noise: str = "gaussian") -> None:
    """Refuse a budget that means nothing; an ε of None is none at all."""
    if epsilon is not None and not (epsilon > 0 and isfinite(epsilon)):
        raise InputError(f"epsilon must be above 0 and finite, or None, got {epsilon}")
    for name, value, choices in (
        ("unit", unit, ("rating", "user")),
        ("noise", noise, ("gaussian", "laplace")),
    ):
        if value not in choices:
            raise InputError(f"{name} is {' or '.join(map(repr, choices))}, not {value!r}")
    if noise == "gaussian" and not 0 < delta < 1:
        raise InputError(
            f"delta must lie between 0 and 1 for Gaussian noise, got {delta}; for a guarantee "
            "without delta use covariance-svd with noise='laplace'"
        )


@dataclass(frozen=True)
class Budget:
    """(ε, δ) for one unit, spent by shares; noise is drawn here and nowhere else."""

    epsilon: float
    delta: float
    unit: Unit
    noise: NoiseKind
    seed: int | None
    spent: dict[str, float] = field(default_factory=dict)
    """What was released so far, in words, with its share of the budget: public, as all releases."""
    whole: float = 1.0
    """The part that this is of a budget that was divided."""
    parts: list[Budget] = field(default_factory=list)
    """What this was divided into, where it was."""
    once: Once = drawn

    def part(self, share: float, noise: NoiseKind | None = None) -> Budget:
        """A part of ε, to be spent on this noise. Parts whose ε add up to this one's, of which at
        most one has the δ, are together (ε, δ)-private (plain composition)."""
        noise = noise or self.noise
        part = replace(
            self, epsilon=self.epsilon * share, whole=self.whole * share, noise=noise,
            delta=self.delta if noise == "gaussian" else 0.0, parts=[],
        )  # fmt: skip
        self.parts.append(part)
        return part

    @property
    def mu(self) -> float:
        """The μ of Gaussian noise whose size is that of the noise here."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def norm(self) -> Norm:
        return 2 if self.noise == "gaussian" else 1

    @staticmethod
    def bounded(ratings: Ratings) -> Ratings:
        """The users who take part: the first MOST_USERS of them, a public bound."""
        return ratings.first_users(MOST_USERS)

    def spread(self, statistic: Measured, share: float) -> float:
        """The standard deviation of the noise for this share, but for rounding."""
        if self.noise == "laplace":
            return sqrt(2) * float(statistic.sensitivity) / (self.epsilon * share)
        return float(statistic.sensitivity) / (self.mu * sqrt(share))

    def note(self, statistic: Measured, share: Share) -> None:
        """Enter what is released, and its share, in the record."""
        before = self.spent.get(statistic.what, 0.0)
        self.spent[statistic.what] = before + float(share) * self.whole

    def measure(
        self, statistic: Measured, share: Share, total: Integers, *, turn: int = 0
    ) -> tuple[Integers, float]:
        """The sum with noise for this share, added in place, and the noise's standard deviation.

        `turn` tells the measurements of one release apart where their noise comes from a seed.

        Gaussian: σ = Δ₂/(μ√share) makes this μ√share-GDP, and shares that add up to 1 compose to
        μ-GDP exactly. Laplace: scale Δ₁/(ε·share), and shares of ε add up.
        """
        self.note(statistic, share)
        seed = derived(self.seed, "measurement", turn)
        if self.noise == "laplace":
            scale = laplace_scale(statistic.sensitivity, self.epsilon * float(share) * (1 - 2**-50))
            noisy = self.once(lambda: add_discrete_laplace(total, scale, seed=seed))
            return noisy, sqrt(2) * float(scale)
        mu = self.mu * sqrt(share) * (1 - 2**-50)
        sigma = gaussian_sigma(statistic.sensitivity, mu)
        return self.once(lambda: add_integer_gaussian(total, sigma, seed=seed)), sigma

    def guarantee(self, *assumes: str) -> Guarantee:
        """What all of the budget promises, under these assumptions and the usual ones."""
        about: Any = {
            "unit": self.unit, "relation": "add or remove one", "assumes": (*ASSUMES, *assumes),
        }  # fmt: skip
        if self.parts or self.noise == "laplace":
            delta = self.delta if self.noise == "gaussian" else 0.0  # whichever plan was taken
            return Guarantee(epsilon=self.epsilon, delta=delta, **about).seeded(self.seed)
        return gaussian_guarantee(self.mu, self.delta, **about).seeded(self.seed)
