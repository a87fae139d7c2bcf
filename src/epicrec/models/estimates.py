"""Item means, and the spread of ratings about them, from sums: with noise or without.

Everything here is post-processing of sums: where those were released, it costs no privacy. Ratings
are in stars from the middle of their scale, from -2 to 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, exp, pi, sqrt
from typing import Any

import numpy as np

from epicrec.arrays import Floats

WITHIN = 0.9
"""The variance of one rating about its item's mean, before anything is known of it."""
BETWEEN, ITEMS_IMAGINED = 0.1, 50.0
"""The variance of item means over that of ratings, before any ratings, and for how many well-known
items that counts. A posterior under a prior of τ² is better than none where items' true variance
is more than half of it, so that a small one is safe."""
FEATURE_SPREADS = (0.001, 0.003, 0.01, 0.03, 0.1)
"""Prior variances of a feature's effect on item means to choose from, by their evidence."""
COUNTS, ROUNDS = 40, 20
CLEAR = 4.0
"""A count stands for itself where it is so many times its noise."""
ITEMS_AT_ONCE = 1 << 15
CENTRE_ITEMS = 50.0
"""The mean of items counts as known from so many items before any ratings."""
PRIOR_MEAN, PRIOR_VARIANCE = 0.4, 0.25
"""The mean of all ratings before any are seen, in stars from the middle, and its variance."""


@dataclass(frozen=True)
class ItemSums:
    """Items' sums of ratings D, their counts N, and the noise on both.

    D ~ Normal(N·b, N·s²·`per_count` + `variance`) for an item of mean b whose ratings have the
    variance s². N carries noise of standard deviation `noise`: that of two Laplace draws added
    where it has `tails`, else Gaussian.
    """

    sums: Floats
    counts: Floats
    variance: Floats
    noise: Floats
    per_count: float = 1.0
    tails: bool = False

    def __add__(self, other: ItemSums) -> ItemSums:
        """Two measurements of the same sums as one, weighted by how little noise they have."""
        own = 1 / (1 + (self.noise / other.noise) ** 2)  # 0 where nothing is known here
        return ItemSums(
            own * self.sums + (1 - own) * other.sums,
            own * self.counts + (1 - own) * other.counts,
            own**2 * self.variance + (1 - own) ** 2 * other.variance,
            np.sqrt(1 - own) * other.noise,
            other.per_count,
            other.tails,
        )

    @property
    def exact(self) -> bool:
        return not self.noise.any()


@dataclass(frozen=True)
class ItemEstimates:
    """Item means as far as they are told, and what is left open.

    `means` are expected means, `doubt` how much of each is prior for want of ratings, from 0 to 1,
    `variance` what is left open; `usual` is the mean of what was expected before any ratings.
    """

    means: Floats
    doubt: Floats
    variance: Floats
    usual: float


@dataclass(frozen=True)
class _Beliefs:
    """P(n) of the counts, the items' prior means, and the variances within and between items."""

    counts: Floats
    shares: Floats
    prior: Floats
    within: float
    between: float

    def possible(self, found: ItemSums, part: slice) -> Floats:
        """The counts that each item may have: one that is clear of its noise stands for itself, as
        steps between counts are far apart where these are large."""
        seen, noise = found.counts[part], found.noise[part]
        n = np.tile(self.counts, (len(seen), 1))
        clear = np.flatnonzero(seen > CLEAR * noise)
        n[clear, np.abs(n[clear] - seen[clear, None]).argmin(axis=1)] = seen[clear]
        return n

    def about(self, found: ItemSums, part: slice) -> tuple[Floats, Floats, Floats, Floats]:
        """For each item of a part and each n: P(n), n, b less its prior, how much n would tell."""
        sums, noise = found.sums[part, None], found.noise[part, None]
        n = found.counts[part, None] if found.exact else self.possible(found, part)
        variance = n**2 * self.between + n * self.within * found.per_count
        variance = np.maximum(variance + found.variance[part, None], 1e-9)
        off = sums - n * self.prior[part, None]
        shift, clear = self.between * n / variance * off, n**2 * self.between / variance
        if found.exact:
            return np.ones_like(n), n, shift, clear
        apart = np.abs(found.counts[part, None] - n) / noise
        # the density of two Laplace draws added, whose scale is half their deviation
        log = np.log1p(2 * apart) - 2 * apart if found.tails else -0.5 * apart**2
        log += np.log(self.shares + 1e-300) - 0.5 * (off**2 / variance + np.log(variance))
        chance = np.exp(log - log.max(axis=1, keepdims=True))
        return chance / chance.sum(axis=1, keepdims=True), n, shift, clear


def item_estimates(
    found: ItemSums, features: Any, *, centre: float, within: float = WITHIN
) -> ItemEstimates:
    """Posterior means of items, under a prior by their public features that the sums tell.

    An item's mean is b ~ Normal(x·β, τ²) with its features x, of which the first is 1. Its true
    count n is one of some 40 with shares π. EM finds π and τ², a ridge regression of the means,
    weighted by what is known of each, finds β, and each answer is averaged over the counts the item
    may have, so that noise alone is never taken for an opinion.
    """
    items = len(found.sums)
    largest = max(float(found.counts.max()), 4.0 * found.per_count)
    counts = np.geomspace(found.per_count, largest, COUNTS)
    counts = np.concatenate([[0.0], counts if found.per_count != 1 else np.unique(np.rint(counts))])
    shares = (1 + counts / found.per_count) ** -2.0  # most have few, until the sums say otherwise
    beliefs = _Beliefs(
        counts, shares / shares.sum(), np.full(items, centre), within, BETWEEN * within
    )
    parts = [slice(at, at + ITEMS_AT_ONCE) for at in range(0, items, ITEMS_AT_ONCE)]
    weight, level = np.empty(items), np.empty(items)
    spread: float | None = None
    for turn in range(ROUNDS):
        kept, known, square = np.zeros(len(counts)), 0.0, 0.0
        for part in parts:
            chance, n, shift, clear = beliefs.about(found, part)
            kept += 0 if found.exact else chance.sum(axis=0)
            told = chance * clear / beliefs.between
            weight[part] = told.sum(axis=1)
            level[part] = (told / np.maximum(n, 1e-9)).sum(axis=1) * found.sums[part]
            known += float((chance * clear).sum())
            square += float((chance * clear * (shift**2 + beliefs.between * (1 - clear))).sum())
        if turn % 5 == 0:
            spread = None  # choose it anew
        prior, spread = _regression(features, weight, level, centre, beliefs.between, spread)
        between = (square + ITEMS_IMAGINED * BETWEEN * within) / (known + ITEMS_IMAGINED)
        beliefs = _Beliefs(
            counts, beliefs.shares if found.exact else kept / items, prior, within, between
        )
    means, doubt, variance, expected = (np.empty(items) for _ in range(4))
    for part in parts:
        chance, n, shift, clear = beliefs.about(found, part)
        off = (chance * shift).sum(axis=1)
        means[part] = beliefs.prior[part] + off
        expected[part] = (chance * n).sum(axis=1)
        doubt[part] = (chance * (1 - clear)).sum(axis=1)
        left = beliefs.between * doubt[part] + (chance * shift**2).sum(axis=1) - off**2
        variance[part] = np.maximum(left, 0)
    # all together they are what the sum of all ratings says, which has the least noise
    above = 0.0 if found.exact else centre - float(expected @ means) / max(expected.sum(), 1e-9)
    means = np.clip(means + above, -2, 2)
    return ItemEstimates(means, doubt, variance, float(beliefs.prior.mean()) + above)


def _regression(
    features: Any, weight: Floats, level: Floats, centre: float, between: float,
    spread: float | None,
) -> tuple[Floats, float]:  # fmt: skip
    """x·β for every item, by the prior variance of features that the evidence speaks for.

    `level` is weight times mean. The first feature, which all items have, counts as known from
    CENTRE_ITEMS before any ratings; the others are expected to have no effect. Where no `spread` is
    given it is the mean of those to choose from, in their logarithms, by the evidence for each.
    """
    from scipy.linalg import cho_factor, cho_solve

    matrix = np.asarray((features.T @ (features * weight[:, None])).toarray(), np.float64)
    right = np.asarray(features.T @ (level - weight * centre), np.float64)

    def solved(spread: float) -> tuple[Floats, float]:
        """The effects, and the logarithm of the evidence."""
        penalty = np.full(features.shape[1], 1 / spread)
        penalty[0] = CENTRE_ITEMS / between
        factor = cho_factor(matrix + np.diag(penalty))
        effects = cho_solve(factor, right)
        evidence = 0.5 * float(right @ effects) - float(np.log(np.diag(factor[0])).sum())
        return effects, evidence + 0.5 * float(np.log(penalty).sum())

    if spread is None:
        evidence = np.array([solved(tried)[1] for tried in FEATURE_SPREADS])
        chance = np.exp(evidence - evidence.max())
        spread = float(np.exp(chance @ np.log(FEATURE_SPREADS) / chance.sum()))
    return np.clip(centre + features @ solved(spread)[0], -2, 2), spread


def mean_rating(found: ItemSums) -> tuple[float, float]:
    """The mean of all ratings, in stars from the middle, and the variance that the noise on their
    sum and on their number gives it."""
    unsure = float(np.sum(found.noise**2))
    total = max(float(found.counts.sum()), sqrt(unsure), 1.0)
    mean = float(np.clip(found.sums.sum() / total, -2, 2))
    return mean, (float(found.variance.sum()) + mean**2 * unsure) / total**2


def expected_mean(mean: float, variance: float) -> tuple[float, float]:
    """A measured mean rating, and how unsure it is: where noise hides it, it is the one that most
    data sets have."""
    own = PRIOR_VARIANCE / (PRIOR_VARIANCE + variance)
    return own * mean + (1 - own) * PRIOR_MEAN, own * variance


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


SPREAD = Spread(0.9, own_mean=0.2, taste=0.05)
"""Of ratings about their items' means, in stars: as in most data sets. A little taste by public
features helps where there is any, and costs little where there is none."""


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
