"""Directions of taste: what public features and released counts of items let one expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epicrec.arrays import Floats

RARE = 0.2
"""Items are weighted by count^-RARE, so that the best known do not rule."""
LEAN = 0.7
"""Directions of taste are led by the features of well-known items: of count^LEAN."""
RAREST = 2e-5
"""No item counts as rarer than this share of the most counted one."""
EMPHASIS = 0.3
"""Directions are measured in proportion to their singular value to this power: the first ones, of
which most is expected, with less noise."""
OWN, ONLY_OWN, FEW = 300, 600, 10
"""So many of the most counted items are features of their own beside the public ones, and so many
where there are fewer than FEW public ones."""
SMALLEST = 1e-4
"""Directions whose squared singular value is a smaller share of the first one's are left out."""


def popularity_weights(counts: Floats) -> tuple[Floats, Floats, Floats]:
    """The counts with none at 0, the weights of items, and the direction of popularity."""
    top = float(counts.max(initial=0.0))
    counts = np.maximum(counts, RAREST * top) if top > 0 else np.ones(len(counts))
    weights = (counts / counts.max()) ** -RARE
    popular = weights * counts
    return counts, weights, popular / np.linalg.norm(popular)


def with_own(public: Any, counts: Floats, *, own: bool) -> Any:
    """The public features of items and, with `own` or where there are few, some items themselves:
    those of the largest released counts."""
    from scipy.sparse import csr_array, hstack

    few = public.shape[1] < FEW
    if not own and not few:
        return public
    top = np.sort(np.argsort(-counts, kind="stable")[: ONLY_OWN if few else OWN])
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
    def of(cls, features: Any, counts: Floats, popular: Floats, *, most: int) -> Basis:
        """The leading left singular vectors of diag(count^LEAN)·Φ, at most so many."""
        scales = (counts / counts.max()) ** LEAN
        scaled = features.multiply(scales[:, None]).tocsr()
        values, vectors = np.linalg.eigh((scaled.T @ scaled).toarray())
        keep = np.flatnonzero(values > SMALLEST * values[-1])[::-1][:most]
        coefficients = vectors[:, keep] / np.sqrt(values[keep])
        along = coefficients.T @ (scaled.T @ popular)
        along /= max(float(np.linalg.norm(along)), 1e-12)
        apart = coefficients - np.outer(coefficients @ along, along)
        emphasis = (values[keep] / values[keep[0]]) ** (EMPHASIS / 2)
        return cls(features, scales, coefficients, emphasis, apart * emphasis)

    def evenly(self, values: Floats, vectors: Floats) -> tuple[Floats, Floats]:
        """Eigenpairs of a sum over tastes as they are without the emphasis, largest first."""
        longer = vectors / self.emphasis[:, None] * np.sqrt(values)
        vectors, roots, _ = np.linalg.svd(longer, full_matrices=False)
        return roots**2, vectors

    def times(self, columns: Floats) -> Floats:
        """Items × columns, from directions × columns."""
        return np.asarray(self.scales[:, None] * (self.features @ (self.coefficients @ columns)))

    def inner(self, items: Floats) -> Floats:
        """Directions × columns, from items × columns."""
        return np.asarray(self.coefficients.T @ (self.features.T @ (self.scales[:, None] * items)))
