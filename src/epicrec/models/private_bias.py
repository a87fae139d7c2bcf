"""The sound default for `avg`, `pcc`, `cos`: private item totals, and the rest solved at home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

from epicrec.arrays import Integers
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.engine import Engine, Once, drawn, where_they_are
from epicrec.models.estimates import SPREAD, expected_mean, item_estimates, mean_rating
from epicrec.models.factors import FactorModel, rating_state
from epicrec.models.features import assumption, item_features, public_columns, taste_columns
from epicrec.models.private.statistics import ForAndAgainst
from epicrec.privacy import Guarantee, add_discrete_laplace, laplace_scale
from epicrec.seeds import derived

PUBLIC = "The list of items, what the catalogue tells of them, and the rating scale are public."


@dataclass(kw_only=True, eq=False, repr=False)
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

    epsilon: float = 1.0
    features: Sequence[str] | None = None
    seed: int | None = None

    totals_: Integers = field(init=False)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon, unit="rating", relation="add or remove one",
            assumes=(PUBLIC, *assumption(self.columns_)),
        ).seeded(self.seed)  # fmt: skip

    @property
    def by_sums(self) -> bool:
        return True

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        assert ratings.scale is not None
        self.totals_ = released_totals(ratings, self.epsilon, self.seed, self.engine, self.once)
        self.released_ = {ForAndAgainst.what: 1.0}
        features = item_features(catalogue, ratings.item_ids, self.features)
        self.columns_, self.unused_ = public_columns(catalogue, self.features)
        self._hold(learned_from(self.totals_, features, ratings.scale, self.epsilon))


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
