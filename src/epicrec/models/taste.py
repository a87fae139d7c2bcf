"""Taste: what a person's ratings of some items say of others by what is publicly known of both.

The columns are public and the rest is solved from the person's own ratings, at home, so that taste
costs no privacy at all. How much of it there is in a data set is a single number.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, exp, pi, sqrt
from typing import Any

import numpy as np

from epicrec.arrays import Floats

COLUMNS = 32
"""So many columns at most: the directions in which items differ most."""


def taste_columns(features: Any) -> Floats:
    """Items × directions, so that items are 1 long in the mean, and 0 where nothing is known.

    `features` is the matrix of `item_features`, whose first column all items have.
    """
    known = np.flatnonzero(np.diff(features.indptr) > 1)
    if len(known) < 2:
        return np.zeros((features.shape[0], 0))
    rows = features[known][:, 1:]
    mean = np.asarray(rows.mean(axis=0)).ravel()
    square = (rows.T @ rows).toarray() - len(known) * np.outer(mean, mean)
    values, vectors = np.linalg.eigh(square)
    vectors = vectors[:, ::-1][:, : min(COLUMNS, int(np.sum(values > 1e-6 * values[-1])))]
    own = rows @ vectors - mean @ vectors
    out = np.zeros((features.shape[0], own.shape[1]))
    out[known] = own / sqrt(max(float(np.mean(np.sum(own**2, axis=1))), 1e-12))
    return out


@dataclass(frozen=True)
class Spread:
    """Of a rating about its item's mean: the variance in all, and the parts of it that are the
    user's own mean and the user's taste, as shares. `unsure` is the variance of what all items'
    means may be off by together, which the user's mean makes up for."""

    total: float
    own_mean: float = 0.2
    taste: float = 0.0
    unsure: float = 0.0

    @property
    def noise(self) -> float:
        """What is neither: the ridge of those who are solved for."""
        return self.total * (1 - self.own_mean - self.taste)

    def columns(self, tastes: Floats) -> Floats:
        """Items' factors for the user's mean and taste, each of variance 1."""
        mean = np.full((len(tastes), 1), sqrt(self.total * self.own_mean + self.unsure))
        if not self.taste:
            return mean
        return np.hstack([mean, tastes * sqrt(self.total * self.taste)])


def unclamped(square: float) -> tuple[float, float]:
    """The variance of a normal number whose square after clamping to ±1 has this mean, and the
    part of a covariance that is left by clamping: the squared chance that it stays inside.

    >>> variance, left = unclamped(0.57)
    >>> round(variance, 2), round(left, 2)
    (1.32, 0.38)
    """
    low, high = 0.01, 4.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _clamped(middle) < square else (low, middle)
    return low**2, erf(1 / low / sqrt(2)) ** 2


def _clamped(deviation: float) -> float:
    """E[min(z², 1)] of z ~ Normal(0, deviation²)."""
    edge = 1 / deviation
    inside = erf(edge / sqrt(2))
    density = exp(-(edge**2) / 2) / sqrt(2 * pi)
    return deviation**2 * (inside - 2 * edge * density) + 1 - inside
