"""The sound default for `avg`, `pcc`, `cos`: private item totals, and the rest solved at home."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings
from epicrec.models.base import Floats, Positions, Recommender
from epicrec.perturb.dpi.codes import codes_of, span
from epicrec.privacy import Guarantee, add_discrete_laplace, laplace_scale

Integers = npt.NDArray[np.int64]

PUBLIC = "The list of items and the rating scale are public."

_WITHIN = 0.2  # variance of an item's ratings, with the scale's half-width as the unit of length
_RESIDUAL, _BETWEEN_USERS = 0.18, 0.05  # the same for ratings at home, and for users' means
_ITEM_MEAN, _BETWEEN_ITEMS = 0.2, 0.05  # items' means and their variance, before any ratings
_ITEMS_IMAGINED = 50.0  # and how many well-known items these two count for
_ITEMS_TO_CHANGE = 3.0  # how many rated items it takes to move where a user's items usually lie
_ITEMS_AT_ONCE = 1 << 15


class PrivateBias(Recommender):
    """`r̂_ui = b_i + b_u`: what others think of an item, privately; a user's own level, at home.

    **Released**: for each item two integer totals, `A_i = Σ_u c_ui` and `B_i = Σ_u (Δ - c_ui)` over
    the codes c = (r - low)/step in 0 … Δ, each plus discrete Laplace noise of scale Δ/ε.
    Neighbouring inputs differ in one rating (added or removed): A_i and B_i of one item then change
    by c and Δ - c, together by exactly Δ, and no other total changes. So the L1 sensitivity is Δ
    and the release is ε-differentially private for one "rating", value and existence. The count
    (A + B)/Δ and the balance A - B each carry the noise of two draws; measured by themselves with
    half of ε each, they would carry twice that variance.

    **Learned from the release alone**: `ItemEstimates`, under a prior fitted to those totals.
    **At home**: an item that little is known about is expected where this user's items usually lie,
    and b_u is the user's mean above the items', weighted by how sure each is. That part is computed
    from the history in the call and is not kept.
    """

    status = "proved"
    units = ("rating",)

    def __init__(self, *, epsilon: float = 1.0, seed: int | None = None) -> None:
        self.epsilon = epsilon
        self.seed = seed

    totals_: Integers
    mean_: float
    told_: Floats
    doubt_: Floats
    variance_: Floats

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon, unit="rating", relation="add or remove one", assumes=(PUBLIC,)
        ).seeded(self.seed)

    def _fit(self, ratings: Ratings) -> None:
        assert ratings.scale is not None
        top = span(ratings.scale)
        self.totals_ = released_totals(ratings, self.epsilon, self.seed)
        found = item_estimates(self.totals_ / top, 1 / self.epsilon)
        self.mean_, self.told_ = found.mean, found.told
        self.doubt_, self.variance_ = found.doubt, found.variance

    def _scores(self, histories: Ratings) -> Floats:
        usual, level = self._at_home(histories)
        return self._rated(level[:, None] + self.told_ + np.outer(usual, self.doubt_))

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> Floats:
        usual, level = self._at_home(histories)
        return self._rated(level[rows] + self.told_[items] + usual[rows] * self.doubt_[items])

    def _at_home(self, histories: Ratings) -> tuple[Floats, Floats]:
        """Where each user's items usually lie, and b_u, the user's level above them."""
        assert self.scale_ is not None
        items, users, n = histories.items, histories.users, histories.n_users
        told, doubt = self.told_[items], self.doubt_[items]
        lie = np.bincount(users, told + doubt * self.mean_, n) + _ITEMS_TO_CHANGE * self.mean_
        usual = lie / (histories.user_counts + _ITEMS_TO_CHANGE)
        half = 2 * self.scale_.star
        own = (histories.values - self.scale_.low) / half - 1 - told - doubt * usual[users]
        sure = 1 / (_RESIDUAL + self.variance_[items])
        weight = np.bincount(users, sure, n) + 1 / _BETWEEN_USERS
        return usual, np.asarray(np.bincount(users, sure * own, n) / weight)

    def _rated(self, score: Floats) -> Floats:
        assert self.scale_ is not None
        return self.scale_.low + 2 * self.scale_.star * (1 + score)


@dataclass(frozen=True)
class ItemEstimates:
    """What noisy totals say about items' means, in -1 … 1: `b_i = told_i + doubt_i · mean`.

    `mean` is the mean of item means; `doubt` how much of b_i is that mean for want of ratings, from
    0 to 1, and `told` the part that the item's own ratings make; `variance` is what is left open.
    """

    mean: float
    told: Floats
    doubt: Floats
    variance: Floats


def item_totals(ratings: Ratings) -> Integers:
    """Σ c and Σ (Δ - c) for each item, as integers: one rating adds exactly Δ in all."""
    assert ratings.scale is not None
    top, codes = span(ratings.scale), codes_of(ratings.values, ratings.scale)
    totals = np.zeros((2, ratings.n_items), np.int64)
    np.add.at(totals[0], ratings.items, codes)
    np.add.at(totals[1], ratings.items, top - codes)
    return totals


def released_totals(ratings: Ratings, epsilon: float, seed: int | None) -> Integers:
    """`item_totals` plus discrete Laplace noise of scale Δ/ε: all that is learned from others."""
    assert ratings.scale is not None
    totals = item_totals(ratings)
    return add_discrete_laplace(totals, laplace_scale(span(ratings.scale), epsilon), seed=seed)


def item_estimates(totals: Floats, noise: float, *, rounds: int = 40) -> ItemEstimates:
    """Items' means from noisy totals A and B, in ratings, with Laplace noise of scale `noise`.

    An item with n ratings and the mean b ~ N(m, τ²) has A + B = n + noise and
    A - B ~ N(n b, n s² + v), where v = 4 noise² is the variance of two draws. n is not known: it is
    one of some 40 counts with shares π. EM finds π, m and τ², and each item's answer is averaged
    over the counts it may have, so noise alone is never taken for an opinion.
    """
    count, balance = totals[0] + totals[1], totals[0] - totals[1]
    counts = np.unique(np.rint(np.geomspace(1, max(float(count.max()), 4.0), 40)))
    counts = np.concatenate([[0.0], counts])
    shares = (1 + counts) ** -2.0  # most items have few ratings, until the totals say otherwise
    shares /= shares.sum()
    mean, between = _ITEM_MEAN, _BETWEEN_ITEMS
    blocks = [slice(at, at + _ITEMS_AT_ONCE) for at in range(0, len(count), _ITEMS_AT_ONCE)]

    def posterior(block: slice) -> tuple[Floats, Floats, Floats]:
        """P(n) for each item; for each n, b - m as expected, and how much n ratings would tell."""
        variance = counts**2 * between + counts * _WITHIN + 4 * noise**2
        off = balance[block, None] - counts * mean
        steps = np.abs(count[block, None] - counts) / noise
        log = np.log(shares + 1e-300) + np.log1p(steps) - steps  # two Laplace draws added
        log -= 0.5 * (off**2 / variance + np.log(variance))
        chance = np.exp(log - log.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        return chance, between * counts / variance * off, counts**2 * between / variance

    for _ in range(rounds):
        kept, sums = np.zeros(len(counts)), np.zeros(3)
        for block in blocks:
            chance, off, clear = posterior(block)
            kept += chance.sum(axis=0)
            known = chance * clear
            level = known * balance[block, None] / np.maximum(counts, 1)
            square = known * (off**2 + between * (1 - clear))
            sums += known.sum(), level.sum(), square.sum()
        shares = kept / len(count)
        sums += _ITEMS_IMAGINED * np.array([1, _ITEM_MEAN, _BETWEEN_ITEMS])
        mean, between = float(np.clip(sums[1] / sums[0], -1, 1)), sums[2] / sums[0]
    told, doubt, variance = (np.empty(len(count)) for _ in range(3))
    for block in blocks:
        chance, off, clear = posterior(block)
        shift = (chance * off).sum(axis=1)
        doubt[block] = (chance * (1 - clear)).sum(axis=1)
        told[block] = np.clip(mean + shift, -1, 1) - doubt[block] * mean
        left = between * doubt[block] + (chance * off**2).sum(axis=1) - shift**2
        variance[block] = np.maximum(left, 0)
    return ItemEstimates(mean, told, doubt, variance)
