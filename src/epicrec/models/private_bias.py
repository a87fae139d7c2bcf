"""The sound default for `avg`, `pcc`, `cos`: private item totals, and the rest solved at home."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.engine import Engine, Once, drawn, summed, where_they_are
from epicrec.models.estimates import ItemSums, item_estimates
from epicrec.models.factors import FactorModel, rating_state
from epicrec.models.features import item_features
from epicrec.models.saving import Arrays
from epicrec.models.taste import Spread, taste_columns
from epicrec.perturb.dpi.rating_codes import codes_of, span
from epicrec.privacy import Guarantee, add_discrete_laplace, laplace_scale
from epicrec.seeds import derived

_AT_ONCE = 1 << 16  # ratings whose codes are in the cache when they are added

PUBLIC = "The list of items, what the catalogue tells of them, and the rating scale are public."
SPREAD = Spread(0.9, own_mean=0.2, taste=0.05)
"""Of ratings about their items' means, in stars: as in most data sets. A little taste by public
features helps where there is any, and costs little where there is none."""
USUAL_MEAN, USUAL_SPREAD = 0.4, 0.25
"""The mean of all ratings before any are seen, in stars from the middle, and its variance."""


@dataclass(frozen=True)
class ForAndAgainst:
    """Σ c and Σ (Δ - c) of each item over the codes c = (r - low)/step in 0 … Δ.

    One rating adds c to one total and Δ - c to the other, which is Δ in all, in L1, and at most Δ
    in L2.
    """

    scale: Scale
    what = "totals for and against items"

    @property
    def span(self) -> int:
        return span(self.scale)

    @property
    def sensitivity(self) -> Fraction:
        """Over adding or removing one rating."""
        return Fraction(self.span)

    def __call__(self, part: Ratings) -> Integers:
        """All totals for, then all totals against."""
        return summed(self._of, part)

    def _of(self, part: Ratings) -> Integers:
        totals = np.zeros((2, part.n_items), np.int64)
        for start in range(0, len(part), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            _add(part.items[some], codes_of(part.values[some], self.scale), self.span, totals)
        return totals.reshape(-1)

    def sums(self, raw: npt.NDArray[Any], noise: float) -> ItemSums:
        """Sums in stars and counts, from totals with noise of this standard deviation."""
        totals, spread = raw.reshape(2, -1) / self.span, noise / self.span
        each = np.ones(totals.shape[1])
        return ItemSums(
            2 * (totals[0] - totals[1]),
            totals[0] + totals[1],
            8 * spread**2 * each,
            sqrt(2) * spread * each,
            tails=True,
        )


@numba.njit(cache=True, nogil=True)
def _add(items: npt.NDArray[np.int32], codes: Integers, span: int, totals: Integers) -> None:
    for at in range(len(items)):
        totals[0, items[at]] += codes[at]
        totals[1, items[at]] += span - codes[at]


class PrivateBias(FactorModel):
    """`r̂_ui = b_i + b_u`: what others think of an item, privately; a user's own level, at home.

    **Released**: for each item two integer totals, `A_i = Σ_u c_ui` and `B_i = Σ_u (Δ - c_ui)` over
    the codes c = (r - low)/step in 0 … Δ, each plus discrete Laplace noise of scale Δ/ε.
    Neighbouring inputs differ in one rating (added or removed): A_i and B_i of one item then change
    by c and Δ - c, together by exactly Δ, and no other total changes. So the L1 sensitivity is Δ
    and the release is ε-differentially private for one "rating", value and existence. The count
    (A + B)/Δ and the balance A - B each carry the noise of two draws; measured by themselves with
    half of ε each, they would carry twice that variance.

    **Learned from the release alone**: `item_estimates`, under a prior fitted to those totals and
    to public features. **At home**: an item that little is known about is expected where this
    user's items usually lie, and b_u, with some taste by public features, is what the user's
    ratings lie above the items' means, weighted by how sure each is (`AtHome`).
    """

    status = "proved"
    units = ("rating",)

    def __init__(self, *, epsilon: float = 1.0, seed: int | None = None) -> None:
        self.epsilon = epsilon
        self.seed = seed

    totals_: Integers

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon, unit="rating", relation="add or remove one", assumes=(PUBLIC,)
        ).seeded(self.seed)

    @property
    def by_sums(self) -> bool:
        return True

    def _fit(self, ratings: Ratings) -> None:
        self._fit_with(ratings, None)

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        assert ratings.scale is not None
        self.totals_ = released_totals(ratings, self.epsilon, self.seed, self.engine, self.once)
        self.released_ = {ForAndAgainst.what: 1.0}
        features = item_features(catalogue, ratings.item_ids)
        vars(self).update(learned_from(self.totals_, features, ratings.scale, self.epsilon))

    def _restore(self, meta: dict[str, Any], arrays: Arrays) -> Self:
        """Version 0.1.0 kept what is told of items in half-widths of the scale."""
        super()._restore(meta, arrays)
        if "told_" in arrays:
            assert self.scale_ is not None
            half, own = 2 * self.scale_.star, vars(self)
            told, usual, doubt = own.pop("told_"), own.pop("mean_"), own.pop("doubt_")
            self.offsets_ = self.scale_.low + half * (1 + told + doubt * usual)
            self.usual_, self.doubt_ = self.scale_.low + half * (1 + usual), doubt
            self.factors_ = np.full((len(told), 1), half * sqrt(0.05))
            self.ridge_, self.variance_ = 0.18 * half**2, own["variance_"] * half**2
        return self


def released_totals(
    ratings: Ratings,
    epsilon: float,
    seed: int | None,
    engine: Engine = where_they_are,
    once: Once = drawn,
) -> Integers:
    """Both totals of each item plus discrete Laplace noise of scale Δ/ε: all that is learned from
    others.

    A seed begins the stream of `covariance-svd` where that measures the same, so that experiments
    compare the methods rather than their luck.
    """
    assert ratings.scale is not None
    statistic = ForAndAgainst(ratings.scale)
    scale = laplace_scale(statistic.sensitivity, epsilon)
    totals, own = engine(statistic, ratings).reshape(2, -1), derived(seed, "measurement", 1)
    return once(lambda: add_discrete_laplace(totals, scale, seed=own))


def learned_from(totals: Integers, features: Any, scale: Scale, epsilon: float) -> dict[str, Any]:
    """The state of a model, from released totals and public features only."""
    statistic = ForAndAgainst(scale)
    found = statistic.sums(totals, sqrt(2) * statistic.span / epsilon)
    centre, unsure = expected_mean(*mean_rating(found))
    estimates = item_estimates(found, features, centre=centre, within=SPREAD.total)
    tastes = taste_columns(features)
    taste = SPREAD.taste if tastes.shape[1] else 0.0
    spread = replace(SPREAD, taste=taste, unsure=unsure)
    return rating_state(estimates, spread.columns(tastes), spread.noise, scale)


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
    own = USUAL_SPREAD / (USUAL_SPREAD + variance)
    return own * mean + (1 - own) * USUAL_MEAN, own * variance
