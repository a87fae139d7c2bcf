"""Directions of taste: what public features and released counts of items let one expect of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from epicrec.arrays import Floats

RARE = 0.2
"""Items are weighted by count^-RARE, so that the best known do not rule."""
LEAN = 0.7
"""Directions of taste are led by the features of well-known items: of count^LEAN."""
EMPHASIS = 0.3
"""Directions are measured in proportion to their singular value to this power: the first ones, of
which most is expected, with less noise."""
DIRECTIONS = 600
"""At most so many directions; so many of the most counted items are features of their own."""
_RAREST = 1e-3
"""No item counts as rarer than this share of the most counted one: none is divided by 0."""
_SMALLEST = 1e-4
"""Squared singular values below this share of the first are rounding."""


def popularity_weights(counts: Floats) -> tuple[Floats, Floats, Floats]:
    """The counts with none at 0, the weights of items, and the direction of popularity."""
    top = float(counts.max(initial=0.0))
    counts = np.maximum(counts, _RAREST * top) if top > 0 else np.ones(len(counts))
    weights = (counts / counts.max()) ** -RARE
    popular = weights * counts
    return counts, weights, popular / np.linalg.norm(popular)


def with_own(public: Any, counts: Floats) -> Any:
    """The public features of items, and the items of the largest released counts themselves."""
    from scipy.sparse import csr_array, hstack

    top = np.sort(np.argsort(-counts, kind="stable")[:DIRECTIONS])
    ones = (np.ones(len(top)), (top, np.arange(len(top))))
    return csr_array(hstack([public, csr_array(ones, shape=(len(counts), len(top)))]))


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal directions among items, kept as coefficients of features: diag(scales)·Φ·C."""

    features: Any
    scales: Floats
    coefficients: Floats
    emphasis: Floats
    apart: Floats
    """The coefficients without the direction of popularity, with the emphasis."""

    @classmethod
    def of(cls, features: Any, counts: Floats, popular: Floats) -> Self:
        """The leading left singular vectors of diag(count^LEAN)·Φ."""
        scales = (counts / counts.max()) ** LEAN
        scaled = features.multiply(scales[:, None]).tocsr()
        values, vectors = np.linalg.eigh((scaled.T @ scaled).toarray())
        keep = np.flatnonzero(values > _SMALLEST * values[-1])[::-1][:DIRECTIONS]
        coefficients = vectors[:, keep] / np.sqrt(values[keep])
        emphasis = (values[keep] / values[keep[0]]) ** (EMPHASIS / 2)
        whole = cls(features, scales, coefficients, emphasis, coefficients)
        return whole.first(len(keep), popular)

    def first(self, d: int, popular: Floats) -> Self:
        """The first d directions, measured apart from that of popularity."""
        emphasis, coefficients = self.emphasis[:d], self.coefficients[:, :d]
        along = coefficients.T @ (self.features.T @ (self.scales * popular))
        along /= max(float(np.linalg.norm(along)), 1e-12)
        apart = (coefficients - np.outer(coefficients @ along, along)) * emphasis
        return replace(self, coefficients=coefficients, emphasis=emphasis, apart=apart)

    def evenly(self, columns: Floats) -> Floats:
        """Columns in the coordinates that were measured, without the emphasis."""
        return np.asarray(columns / self.emphasis[:, None])

    def times(self, columns: Floats) -> Floats:
        """Items × columns, from directions × columns."""
        return np.asarray(self.scales[:, None] * (self.features @ (self.coefficients @ columns)))
