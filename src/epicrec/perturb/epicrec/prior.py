"""Prior: what is publicly known about histories, and the estimate of true totals it allows.

The noise scales are public, so the noisy totals can be read in the light of public knowledge
before they are turned into items. This is post-processing: it sees the noisy totals and public data
and costs no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from epicrec.arrays import Floats
from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.perturb.epicrec.sanitise import dense

_STEPS = np.linspace(-3.5, 4.0, 31)  # sizes considered, in standard deviations of log size
_FLOOR = 0.01  # every item keeps this part of the average weight: nothing is impossible
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Prior:
    """Public knowledge of histories over one catalogue. Build it from public data only.

    `weights` is one positive number an item, its share of all viewing; `size` the typical
    (median) number of items in a history; `spread` the standard deviation of its logarithm; `taste`
    how far people differ in what they choose, from 0 (all draw alike) to 1 (each has one taste).
    """

    weights: Floats
    size: float = 70.0
    spread: float = 1.0
    taste: float = 0.04

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError(
                "a prior's weights are finite numbers of at least 0, one for each item"
            )
        if not (self.size > 0 and self.spread > 0 and 0 <= self.taste <= 1):
            raise InputError(
                f"a prior needs size > 0, spread > 0 and taste between 0 and 1, got size "
                f"{self.size}, spread {self.spread}, taste {self.taste}"
            )
        total = weights.sum()
        mean = 1 / len(weights)
        shares = weights / total if total > 0 else np.full(len(weights), mean)
        object.__setattr__(self, "weights", (shares + _FLOOR * mean) / (1 + _FLOOR))

    @classmethod
    def from_catalogue(cls, catalogue: Catalogue, **knowledge: float) -> Self:
        """From the catalogue's popularity, or alike for all items where it has none.

        `knowledge` is any of `size`, `spread`, `taste` that is publicly known.
        """
        popularity = catalogue.popularity
        weights = np.ones(len(catalogue)) if popularity is None else popularity.clip(min=0)
        return cls(weights, **knowledge)

    @classmethod
    def from_histories(cls, catalogue: Catalogue, histories: Ratings) -> Self:
        """From histories that are public (never from those that are to be protected)."""
        known = histories.with_items(catalogue.item_ids)
        counts = known.user_counts
        sizes = counts[counts > 0].astype(np.float64)
        if sizes.size == 0:
            raise InputError(
                "none of these histories has an item of the catalogue; nothing is known"
            )
        weights = known.item_counts.astype(np.float64)
        logs = np.log(sizes)
        return cls(
            weights,
            size=float(np.exp(logs.mean())),
            spread=float(max(logs.std(), 0.05)),
            taste=_taste(catalogue, known, weights),
        )


_DEFAULTS: WeakKeyDictionary[Catalogue, Prior] = WeakKeyDictionary()


def default_prior(catalogue: Catalogue) -> Prior:
    """What is known when nobody says more: the catalogue's popularity and ordinary habits."""
    if catalogue not in _DEFAULTS:
        _DEFAULTS[catalogue] = Prior.from_catalogue(catalogue)
    return _DEFAULTS[catalogue]


def _taste(catalogue: Catalogue, known: Ratings, weights: Floats) -> float:
    """ρ such that category totals of a history of n items vary n(1 + (n-1)ρ) as much as of one."""
    shares, trace = _category_moments(catalogue, weights / weights.sum())
    per_user = (known.csr() != 0).astype(np.float64) @ catalogue.matrix.astype(np.float64)
    sizes = known.user_counts.astype(np.float64)
    totals = np.asarray(per_user.todense())
    excess = ((totals - sizes[:, None] * shares) ** 2).sum(axis=1)
    several = sizes > 1
    if not several.any() or trace <= 0:
        return 0.04
    ratio = (excess[several] / (sizes[several] * trace) - 1).sum() / (sizes[several] - 1).sum()
    return float(np.clip(ratio, 0.005, 1))


def _category_moments(catalogue: Catalogue, item_shares: Floats) -> tuple[Floats, float]:
    shares: Any = catalogue.matrix.astype(np.float64).T @ item_shares
    return np.asarray(shares), float(shares.sum() - (shares**2).sum())


@dataclass(frozen=True, eq=False)
class RowPrior:
    """The prior over the category rows that one release can use.

    `matrix` is rows × categories, `shares` each row's part of the items that enter the noisy
    totals (they add up to 1), and `size` how many of those a typical history has.
    """

    matrix: Any
    shares: Floats
    size: float
    spread: float
    taste: float

    @property
    def mean(self) -> Floats:
        """The expected number of each category in one item."""
        return np.asarray(self.matrix.T @ self.shares)

    @property
    def covariance(self) -> Floats:
        mean = self.mean
        second = dense((self.matrix.T * self.shares) @ self.matrix)
        return np.asarray(second - np.outer(mean, mean))


def posterior(prior: RowPrior, noisy: Floats, scales: Floats) -> tuple[Floats, float]:
    """The expected true totals and the expected number of items, given the noisy totals.

    Model: the size n is log-normal; given n the totals are about normal with mean n·m and
    covariance n(1 + (n-1)·taste)·Σ, where m and Σ belong to one item drawn by public popularity. So
    all totals move together through n. Laplace noise of scale z is normal noise whose variance is
    exponential with mean 2z²; its variance is fitted from the residual (variational rounds),
    which lets one far outlying total be distrusted without distrusting the rest. The sum over n
    is taken on a grid.
    """
    sizes = prior.size * np.exp(prior.spread * _STEPS)
    growth = sizes * (1 + np.maximum(sizes - 1, 0) * prior.taste)
    mean, covariance = prior.mean, prior.covariance
    variance = 2 * scales**2
    for _ in range(_ROUNDS):
        root = np.sqrt(variance)
        values, vectors = np.linalg.eigh(covariance / np.outer(root, root))
        signal = growth[:, None] * values.clip(min=0)
        centre = sizes[:, None] * (vectors.T @ (mean / root))
        distance = vectors.T @ (noisy / root) - centre
        likelihood = -0.5 * (distance**2 / (1 + signal) + np.log1p(signal)).sum(axis=1)
        weights = np.exp(likelihood - 0.5 * _STEPS**2 - (likelihood - 0.5 * _STEPS**2).max())
        weights /= weights.sum()
        kept = signal / (1 + signal)
        given_size = centre + kept * distance
        whitened = weights @ given_size
        totals = root * (vectors @ whitened)
        back = vectors * root[:, None]
        within = (back**2) @ (weights @ kept)
        between = weights @ (((given_size - whitened) @ back.T) ** 2)
        variance = scales * np.sqrt((noisy - totals) ** 2 + within + between)
    return totals, float(weights @ sizes)
