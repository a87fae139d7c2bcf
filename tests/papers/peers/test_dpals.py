"""DPALS: the contract, one user's contribution searched for a longer one, and what it is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicrec.data import Ratings, load_dataset, split_per_user, split_random
from epicrec.engine import local
from epicrec.errors import InputError
from epicrec.evaluate import evaluate_rating, evaluate_topn
from epicrec.models.bias import Popularity
from epicrec.models.neighbours.users import Avg
from epicrec.papers.peers.dpals import (
    DPALS,
    ItemNormals,
    adaptive_levels,
    clipped_rows,
    solved_items,
    user_weights,
)
from epicrec.testing.guarantees import GuaranteeContract
from epicrec.testing.recommenders import RecommenderContract


class TestDPALS(RecommenderContract):
    model_type = DPALS
    settings = {"epsilon": 2.0, "seed": 1, "rounds": 2}


class TestDPALSImplicit(RecommenderContract):
    model_type = DPALS
    settings = {"epsilon": 2.0, "seed": 1, "task": "lists"}


class TestGuarantee(GuaranteeContract):
    @pytest.fixture
    def guaranteed(self, viewers: Ratings) -> DPALS:
        return DPALS(epsilon=0.7, task="ratings").fit(
            viewers, items=viewers.item_ids, scale=viewers.scale
        )


def test_what_is_promised(viewers: Ratings) -> None:
    model = DPALS(epsilon=0.7, task="ratings", delta=1e-5, seed=0).fit(viewers)
    promise = model.guarantee
    assert promise.epsilon == pytest.approx(0.7)
    assert (promise.delta, promise.unit, promise.status) == (1e-5, "user", "proved")
    assert sum(model.released_.values()) == pytest.approx(1)


@pytest.mark.parametrize("task", ["ratings", "lists"])
def test_nobody_changes_what_another_contributes(viewers: Ratings, task: Any) -> None:
    """Factors are floats: solved for together or alone, they must come to the same integers."""
    model, seen = DPALS(epsilon=5.0, task=task, seed=1), []

    def watched(statistic: Any, ratings: Ratings) -> Any:
        seen.append((statistic, ratings))
        return local(statistic, ratings)

    model.engine = watched
    model.fit(viewers)
    for statistic, ratings in seen:
        alone = [statistic(ratings.users_at(np.array([user]))) for user in range(ratings.n_users)]
        assert np.array_equal(local(statistic, ratings), sum(alone))


K = 3
numbers = st.floats(-1e9, 1e9, allow_nan=False) | st.sampled_from([np.nan, np.inf, 0.0])


@given(st.data())
@settings(max_examples=300)
def test_one_user_moves_the_sums_by_no_more_than_is_proved(data: st.DataObject) -> None:
    """Whatever the factors and residuals that someone's device comes to."""
    n = data.draw(st.integers(1, 6))
    together = data.draw(st.booleans())
    levels = np.array(data.draw(st.lists(st.integers(1, 1 << 14), min_size=n, max_size=n)))
    factors = np.array(data.draw(st.lists(numbers, min_size=K, max_size=K)))[None]
    finite = st.floats(-1e6, 1e6)
    residuals = np.array(data.draw(st.lists(finite, min_size=n, max_size=n)))
    own = Ratings.from_columns(np.zeros(n, int), np.arange(n), np.ones(n)).as_history()
    normals = ItemNormals(lambda _: (factors, residuals), levels, K, together)
    moved = [int(entry) for entry in normals(own)]
    assert sum(entry**2 for entry in moved) <= normals.sensitivity**2


@pytest.mark.parametrize("together", [False, True])
def test_the_bound_is_met(together: bool) -> None:
    """The search above would notice a bound that is a tenth smaller."""
    own = Ratings.from_columns([0], [0], [1.0]).as_history()
    normals = ItemNormals(
        lambda _: (np.array([[9.0, 0.0, 0.0]]), np.array([7.0])), np.array([5]), K, together
    )
    moved = sum(int(entry) ** 2 for entry in normals(own))
    assert moved > 0.99 * float(normals.sensitivity) ** 2


def test_sums_are_those_of_the_formulas() -> None:
    ratings = Ratings.from_columns([0, 0, 1, 1, 2], [0, 1, 1, 2, 2], np.ones(5)).as_history()
    factors = np.array([[0.5, -0.25, 0.125], [0.25, 0.5, 0.0], [0.0, 0.0, -0.75]])
    residuals = np.array([0.5, -0.25, 1.0, -1.0, 0.125])
    levels = np.array([300, 200, 100])
    normals = ItemNormals(lambda _: (factors, residuals), levels, K, True)
    matrices, right, alike = normals.equations(normals(ratings), 3)
    weights = user_weights(ratings, levels) / 4096
    for item in range(3):
        rows = np.flatnonzero(ratings.items == item)
        z, w, y = factors[ratings.users[rows]], weights[rows], residuals[rows]
        np.testing.assert_allclose(matrices[item], np.einsum("u,ua,ub->ab", w, z, z), atol=1e-9)
        np.testing.assert_allclose(right[item], np.einsum("u,u,ua->a", w, y, z), atol=1e-9)
    np.testing.assert_allclose(alike, factors.T @ factors, atol=1e-9)


def test_long_rows_are_brought_to_length_one() -> None:
    rows = clipped_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 10)
    np.testing.assert_array_equal(rows, [[614, 819], [307, 409]])


def test_rare_items_weigh_more() -> None:
    levels = adaptive_levels(np.array([1000.0, 10.0, -5.0]), np.full(3, 2.0))
    assert levels[0] < levels[1] < levels[2] == 1 << 14


def test_items_are_solved_for_where_noise_leaves_anything() -> None:
    matrix, right = np.diag([4.0, 0.01])[None], np.array([[8.0, 0.02]])
    np.testing.assert_allclose(solved_items(matrix, right, 0.0, 0.0, 1.0), [[2, 2]], rtol=1e-6)
    noisy = solved_items(matrix, right, 0.0, 1.0, 1.0)[0]
    assert noisy[0] > 1.8
    assert noisy[1] < 0.01


def test_settings_are_checked(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="at least 1"):
        DPALS(task="ratings", rounds=0, seed=0).fit(viewers)


def test_with_much_budget_it_learns() -> None:
    """Better than a user alone, and lists better than those that are the same for everyone."""
    films = load_dataset("films").ratings
    train, test = split_random(films, 0.2, seed=0)
    learned, _ = evaluate_rating(DPALS(epsilon=1e4, task="ratings", seed=0), train, test)
    alone, _ = evaluate_rating(Avg(), train, test)
    assert learned["rmse"] < alone["rmse"]
    train, test = split_per_user(films.as_history(), 0.2, seed=0)
    lists, _ = evaluate_topn(DPALS(epsilon=1e4, task="lists", seed=0), train, test)
    popular, _ = evaluate_topn(Popularity(), train, test)
    assert lists["ndcg"] > popular["ndcg"]
