"""The one learner of lists: from noisy counts and noisy moments of tastes to item factors.

A trusted server, two servers that add up shares and devices that answer at random all end in the
same numbers: how often each item was seen, how many people there are, and the second moments of
their tastes in a public basis, each with noise of known covariance. Everything here is computed
from those, so it costs no privacy (docs/histories.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any

import numpy as np

from epicrec.arrays import Floats
from epicrec.data import Ratings
from epicrec.models.factors import history_state
from epicrec.models.private.basis import Basis, popularity_weights
from epicrec.models.private.statistics import Unit
from epicrec.models.spectrum import denoised

SOFT = 0.3
"""A direction weighs k/(k + SOFT·k₁ + own) in scores: k is its cleaned eigenvalue, k₁ the first,
and `own` what people's own items make of one."""
HALF = 0.5
"""The weight of popularity is this, and the share of a history's length that it explains."""
OWN_LENGTH = 16.0
"""With histories of so many items, half of their moments are their own items, which tell nothing of
others."""
_DRAWN, _DRAWN_ITEMS = 2048, 1 << 22
_NOISES = 20
ROUNDING = 1e-9
"""Where noise is this much smaller than the largest, it is rounding."""


@dataclass(frozen=True, eq=False)
class MeasuredCounts:
    """Noisy counts of items and number of people, with the noise's standard deviations.

    At the user level a person counts as one in all: each of c items as 1/√c.
    """

    unit: Unit
    counts: Floats
    spread: float
    people: float
    people_spread: float
    share: float
    fame: Floats | None = None
    """What is publicly known of how popular items are, in any unit."""

    def __add__(self, other: MeasuredCounts) -> MeasuredCounts:
        """Both measurements as one, weighted by their shares of the budget."""
        share = self.share + other.share
        own = float(self.share / share)
        return MeasuredCounts(
            self.unit,
            own * self.counts + (1 - own) * other.counts,
            self.spread * sqrt(own),
            own * self.people + (1 - own) * other.people,
            self.people_spread * sqrt(own),
            share,
            self.fame,
        )

    @property
    def total(self) -> float:
        return max(float(self.counts.sum()), self.spread, 1.0)

    @property
    def length(self) -> float:
        """How many items a history has, in the mean; at the user level the counts tell √c."""
        each = self.total / max(self.people, 1.0)
        return max(each, 1.0) ** (2 if self.unit == "user" else 1)

    @property
    def clear(self) -> float:
        """How far the counts stand out of their noise: its variance is 1. Fame is clear."""
        noise = len(self.counts) * self.spread**2
        found = max(float(self.counts @ self.counts) / max(noise, 1e-300) - 1, 0.0)
        return found if self.fame is None else max(found, 1.0)

    @cached_property
    def cleaned(self) -> Floats:
        """The counts as they are expected to be without the noise."""
        if self.fame is None:
            return denoised(self.counts, self.spread)
        return with_fame(self.counts, self.spread, self.fame)

    @property
    def ranking(self) -> Floats:
        """What lists by popularity are ordered by."""
        return self.counts if self.fame is None else self.cleaned


def with_fame(counts: Floats, spread: float, fame: Floats) -> Floats:
    """Posterior means of counts around what public fame lets one expect.

    The expected counts are fame^b, scaled to the sum of the counts, with the b that fits best. True
    counts differ from them by a share that has the same variance for all items: what the counts
    show beyond their noise, by two standard deviations.
    """
    n, total = len(counts), max(float(counts.sum()), spread, 1e-9)
    shapes = [np.maximum(fame / fame.max(), 1e-6) ** b for b in (0.5, 1.0, 1.5, 2.0)]
    each = [total * shape / shape.sum() for shape in shapes]
    expected = min(each, key=lambda one: float(((counts - one) ** 2).sum()))
    beyond = float(((counts - expected) ** 2).sum()) - (n + 2 * sqrt(2 * n)) * spread**2
    variance = max(beyond, 0.0) / float(expected @ expected) * expected**2
    sure = variance / np.maximum(variance + spread**2, 1e-300)
    return np.asarray(np.maximum(expected + sure * (counts - expected), 0.0))


@dataclass(frozen=True, eq=False)
class TasteMoments:
    """Σ_u z_u z_uᵀ over people's tastes z, with noise N^½ G N^½.

    G is symmetric, with independent standard normal entries (of variance 2 on the diagonal); N is
    the known covariance of the noise. Where N has no rank, nothing was measured.

    Where noise is not on the sum but on the z of each of `people`, G is (W - E[W])/√people for a
    Wishart matrix W, whose eigenvalues end higher.
    """

    matrix: Floats
    noise: Floats
    share: float
    people: float = inf

    def __add__(self, other: TasteMoments) -> TasteMoments:
        """Both measurements as one, weighted by their shares of the budget."""
        share = self.share + other.share
        own = float(self.share / share)
        matrix = own * self.matrix + (1 - own) * other.matrix
        return TasteMoments(matrix, self.noise * sqrt(own), share)

    @cached_property
    def _axes(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh(self.noise)
        measured = values > ROUNDING * values[-1]
        return np.sqrt(values[measured]), vectors[:, measured]

    def whitened(self, matrix: Floats) -> Floats:
        """A matrix in the coordinates in which the noise is even."""
        roots, vectors = self._axes
        half = (vectors / roots) @ vectors.T
        return np.asarray(half @ matrix @ half)

    def coloured(self, columns: Floats) -> Floats:
        """Columns of those coordinates in the usual ones."""
        roots, vectors = self._axes
        return np.asarray((vectors * roots) @ (vectors.T @ columns))

    def cleaned(self, values: Floats) -> Floats:
        """Eigenvalues v of those coordinates, shrunk to the least squared error.

        A true one t shows at v = t + d/t + d/√people, with a vector whose squared cosine to the
        true one is (1 - d/t²)/(1 + d/(t √people)): the spiked model with noise on the sum
        (Benaych-Georges & Nadakuditi 2011), and with noise on each person (Paul 2007).
        """
        shown = np.maximum(values - self.above, 0.0)
        kept = np.sqrt(np.maximum(shown**2 - 4 * len(values), 0.0))
        return np.asarray(kept / (1 + self.above / np.maximum((shown + kept) / 2, 1e-300)))

    @property
    def above(self) -> float:
        """How much higher eigenvalues are than with noise on the sum: d/√people."""
        return len(self._axes[0]) / sqrt(self.people)


Tastes = Callable[[Ratings], Floats]
"""The moments of some histories, as they would be measured, without noise."""


def learn(
    counts: MeasuredCounts, moments: TasteMoments, basis: Basis, tastes: Tastes
) -> dict[str, Any] | None:
    """The state of a model, or None where tastes show no more than popularity and noise would.

    With q the direction of popularity, D the weights of items, and O the moments that people would
    have if all drew by popularity alone, of which a share f is people's own items: the eigenvalues
    of the moments less f·O, in coordinates in which the noise is even, are cleaned to k; scores of
    a history h are D⁻¹ (p·q qᵀ + V s Vᵀ) D h with s = k/(k + SOFT·k₁ + f·o₁), where o₁ is the
    largest eigenvalue of O.
    """
    people = max(counts.people, 1.0)
    drawn = by_popularity(counts)
    chance = tastes(drawn) * (people / drawn.n_users)
    if not is_shown(moments, chance, people, drawn.n_users):
        return None
    own = 1 / (1 + counts.length / OWN_LENGTH)
    values, vectors = np.linalg.eigh(moments.whitened(moments.matrix - own * chance))
    columns = basis.evenly(moments.coloured(vectors * np.sqrt(moments.cleaned(values))))
    directions, roots, _ = np.linalg.svd(columns, full_matrices=False)
    kept = roots**2
    even = chance / np.outer(basis.emphasis, basis.emphasis)
    soft = kept / (kept + SOFT * kept[0] + own * float(np.linalg.eigvalsh(even)[-1]) + 1e-12)
    use = soft > 1e-9
    _, weights, popular = popularity_weights(counts.cleaned)
    columns = np.column_stack(
        [
            popular * sqrt(HALF + explained(drawn, popular, weights)),
            basis.times(directions[:, use] * np.sqrt(soft[use])),
        ]
    )
    scales = weights[:, None]
    return history_state(np.maximum(counts.ranking, 0.0), columns / scales, columns * scales)


def is_shown(moments: TasteMoments, chance: Floats, people: float, drawn: int) -> bool:
    """Whether an eigenvalue is larger than noise makes one in any of 20 draws.

    People with few items, and rare items, make directions of their own even where everybody draws
    by popularity: their moments are taken off. What is left of those is noise as well, of sampling
    so many people, with the covariance of `chance` over the root of their number, and of the people
    `drawn` for it.
    """
    top = float(np.linalg.eigvalsh(moments.whitened(moments.matrix - chance))[-1])
    sampled = np.maximum(np.linalg.eigvalsh(moments.whitened(chance)), 0.0)
    edge = noise_edge(sampled * sqrt(1 / people + 1 / drawn))
    return top > edge + moments.above


def noise_edge(sampled: Floats) -> float:
    """The largest eigenvalue of 20 draws of G + S^½ G' S^½, with S diagonal."""
    from scipy.linalg import eigh

    rng, d = np.random.default_rng(0), len(sampled)
    deviations = np.sqrt((1 + np.outer(sampled, sampled)) / 2)
    largest = 0.0
    for _ in range(_NOISES):
        drawn = rng.standard_normal((d, d))
        drawn = (drawn + drawn.T) * deviations
        values = eigh(drawn, eigvals_only=True, subset_by_index=[d - 1, d - 1], check_finite=False)
        largest = max(largest, float(values[0]))
    return largest


def by_popularity(counts: MeasuredCounts) -> Ratings:
    """Histories as they would be if everybody had drawn items by popularity alone, from released
    numbers and by draws that are the same for everyone."""
    rng, n = np.random.default_rng(0), len(counts.counts)
    people = int(np.clip(_DRAWN_ITEMS / min(counts.length, n), 1, _DRAWN))
    lengths = np.minimum(rng.geometric(1 / counts.length, people), n)
    users = np.repeat(np.arange(people), lengths)
    up_to = np.cumsum(popularity_weights(counts.cleaned)[0])
    items = np.searchsorted(up_to[:-1], rng.random(len(users)) * up_to[-1])
    both = np.unique(users * n + items)
    return Ratings.from_columns(both // n, both % n).with_items(np.arange(n))


def explained(histories: Ratings, popular: Floats, weights: Floats) -> float:
    """The share of the squared length of histories that is along the direction of popularity."""
    matrix = histories.csr()
    along = np.asarray(matrix @ (popular * weights))
    return float((along**2).sum() / max(float((matrix @ weights**2).sum()), 1e-300))
