"""The sound default: the contract, its sensitivity searched, its estimates, what it is worth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicrec.data import Ratings, Scale, split_random
from epicrec.errors import InputError
from epicrec.evaluate import evaluate_rating
from epicrec.models import make_model
from epicrec.models.bias import Bias
from epicrec.models.features import item_features
from epicrec.models.neighbours.users import Avg
from epicrec.models.private.statistics import ForAndAgainst
from epicrec.models.private_bias import PrivateBias, learned_from, released_totals
from epicrec.testing.guarantees import GuaranteeContract
from epicrec.testing.recommenders import RecommenderContract


class TestPrivateBias(RecommenderContract):
    model_type = PrivateBias
    settings = {"epsilon": 1.0, "seed": 1}


class TestGuarantee(GuaranteeContract):
    @pytest.fixture
    def guaranteed(self, viewers: Ratings) -> PrivateBias:
        return PrivateBias(epsilon=0.7).fit(viewers)


def test_what_is_promised(viewers: Ratings) -> None:
    guarantee = PrivateBias(epsilon=0.7).fit(viewers).guarantee
    assert (guarantee.epsilon, guarantee.delta) == (0.7, 0.0)
    assert (guarantee.unit, guarantee.relation) == ("rating", "add or remove one")
    assert guarantee.status == "proved"


@pytest.mark.parametrize("method", ["avg", "pcc", "cos"])
def test_is_what_epsilon_chooses(method: str) -> None:
    assert isinstance(make_model(method, epsilon=1.0), PrivateBias)


cells = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 3)), st.integers(0, 9), min_size=2, max_size=20
)


@given(cells, st.data())
@settings(deadline=None)
def test_one_rating_changes_the_totals_by_its_span(cells: dict, data: st.DataObject) -> None:
    """Neighbours by adding or removing one: the L1 distance is Δ exactly, never more."""
    scale = Scale(0.5, 5, 0.5)

    def totals(chosen: dict) -> np.ndarray:
        (users, items), codes = zip(*chosen, strict=True), [*chosen.values()]
        ratings = Ratings.from_columns(
            users, items, [0.5 + 0.5 * code for code in codes], scale=scale
        )
        return ForAndAgainst(scale)(ratings.with_items(np.arange(4)))

    gone = data.draw(st.sampled_from(sorted(cells)))
    fewer = {cell: code for cell, code in cells.items() if cell != gone}
    assert np.abs(totals(cells) - totals(fewer)).sum() == 9


@pytest.mark.parametrize("wrong", [1.0, 1.3, 0.7])
def test_noise_has_the_scale_of_the_proof(wrong: float) -> None:
    one = Ratings.from_columns([1], ["a"], [4.0]).with_items(
        np.array([f"i{k}" for k in range(40_000)])
    )
    noise = released_totals(one, 0.5 * wrong, 3)
    found = np.abs(noise).mean() / (4 / 0.5)  # the mean of |Laplace| is its scale Δ/ε
    assert (abs(found - 1) < 0.02) == (wrong == 1.0)


def test_only_released_totals_are_learned_from(viewers: Ratings) -> None:
    """The state is a function of the noisy totals: nothing else of the ratings goes in."""
    model = PrivateBias(epsilon=1.0).fit(viewers)
    features = item_features(None, viewers.item_ids)
    again = learned_from(model.totals_, features, viewers.scale, 1.0)
    for name, value in again.items():
        np.testing.assert_array_equal(getattr(model, name), value)
    learned = {name for name in vars(model) if name.endswith("_")}
    public = {"item_ids_", "scale_", "histories_", "released_", "note_", "columns_", "unused_"}
    assert learned == {"totals_", *again, *public}


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf")])
def test_a_bad_epsilon_is_refused(epsilon: float, viewers: Ratings) -> None:
    with pytest.raises(InputError):
        PrivateBias(epsilon=epsilon).fit(viewers)


# ---- at home --------------------------------------------------------------------------------


def test_a_user_who_likes_everything_is_predicted_higher(viewers: Ratings) -> None:
    model = PrivateBias(epsilon=5.0, seed=1).fit(viewers)
    items = viewers.item_ids[:30]
    users = np.repeat(["fan", "critic"], 30)
    history = pa.table(
        {"user_id": users, "item_id": np.tile(items, 2), "rating": np.repeat([5.0, 2.0], 30)}
    )
    asked = pa.table({"user_id": ["fan", "critic"], "item_id": viewers.item_ids[[40, 40]]})
    fan, critic = model.predict(asked, histories=history)["score"].to_pylist()
    assert fan > 4.2
    assert critic < 2.8


def test_without_information_it_is_the_users_mean(viewers: Ratings) -> None:
    model = PrivateBias(epsilon=1e-6, seed=1).fit(viewers)
    scores = model._scores(viewers)
    means = Avg().fit(viewers)._scores(viewers)
    many = viewers.user_counts >= 20
    assert np.abs(scores - means)[many].max() < 0.25


def test_close_to_the_bias_model_and_better_with_more_budget(viewers: Ratings) -> None:
    train, test = split_random(viewers, 0.2, seed=1)

    def error(model: object) -> float:
        return evaluate_rating(model, train, test)[0]["rmse"]  # type: ignore[arg-type]

    strict, loose = (error(PrivateBias(epsilon=e, seed=2)) for e in (0.1, 5.0))
    assert loose < 1.01 * error(Bias())
    assert loose < strict < 1.02 * error(Avg())
