"""The private covariance recommender: contract, kernel against an obvious twin, noise, refusals."""

import numpy as np
import pytest

from epicrec.data import Ratings, Scale, load_dataset, split_random
from epicrec.errors import InputError
from epicrec.models.private import pairs
from epicrec.models.private.budget import Budget
from epicrec.models.private.covariance import CovarianceKNN, CovarianceSVD
from epicrec.models.private.pairs import PairSums, dense, pair_sums
from epicrec.models.private.statistics import ItemEffects
from epicrec.privacy import gaussian_epsilon, gaussian_mu
from epicrec.testing.recommenders import RecommenderContract


class TestCovarianceSVD(RecommenderContract):
    model_type = CovarianceSVD
    settings = {"epsilon": 5.0, "seed": 0}


class TestCovarianceSVDByUser(RecommenderContract):
    model_type = CovarianceSVD
    settings = {"epsilon": 5.0, "unit": "user", "seed": 0}


class TestCovarianceSVDOfHistories(RecommenderContract):
    model_type = CovarianceSVD
    settings = {"epsilon": 5.0, "unit": "user", "task": "lists", "seed": 0}


class TestCovarianceKNN(RecommenderContract):
    model_type = CovarianceKNN
    settings = {"epsilon": 5.0, "seed": 0}


@pytest.fixture(scope="module")
def uneven() -> Ratings:
    """People with one to all of 600 items, three strips: what is summed one by one, and at once."""
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((60, 600)) < rng.random(60)[:, None] ** 3)
    return Ratings.from_columns(users, items, np.ones(len(users)))


@pytest.mark.parametrize(("places", "ratings"), [(1 << 26, 1 << 30), (90, 1 << 30), (1 << 26, 99)])
@pytest.mark.parametrize("data", ["viewers", "uneven"])
def test_kernel_against_an_obvious_twin(request, monkeypatch, data, places, ratings) -> None:
    monkeypatch.setattr(pairs, "_PLACES", places)
    monkeypatch.setattr(pairs, "_RATINGS", ratings)
    given: Ratings = request.getfixturevalue(data)
    rng = np.random.default_rng(0)
    values = rng.integers(-64, 65, len(given)).astype(np.int8)
    weights = rng.integers(0, 1 << 20, given.n_users)
    table = np.zeros((given.n_users, given.n_items), np.int64)
    table[given.users, given.items] = values
    whole = (table * weights[:, None]).T @ table
    n = given.n_items
    packed = pair_sums(given, values, weights)
    np.testing.assert_array_equal(packed, whole[np.tril_indices(n, -1)])
    matrix = dense(packed, n, np.full(n, 1.0))
    np.fill_diagonal(whole, 0)
    np.testing.assert_allclose(matrix, whole, rtol=1e-6)


@pytest.mark.parametrize("task", ["ratings", "lists"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 50.0])
def test_every_combination_runs_and_says_its_guarantee(
    viewers: Ratings, task, noise, unit, epsilon
) -> None:
    model = CovarianceSVD(epsilon=epsilon, delta=1e-6, unit=unit, noise=noise, task=task)
    guarantee = model.fit(viewers).guarantee
    assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert guarantee.epsilon <= epsilon * (1 + 1e-9)
    assert guarantee.delta == (1e-6 if noise == "gaussian" else 0)
    assert (guarantee.unit, guarantee.status) == (unit, "proved")
    assert guarantee.reproducible is False
    assert np.isfinite(model.recommend(viewers.user_ids[:3])["score"].to_numpy()).all()


def test_fresh_noise_differs_and_a_seed_repeats_it(viewers: Ratings) -> None:
    fresh = [CovarianceSVD(task="ratings", epsilon=1).fit(viewers).offsets_ for _ in range(2)]
    assert not np.array_equal(*fresh)
    seeded = [CovarianceSVD(task="ratings", epsilon=1, seed=3).fit(viewers) for _ in range(2)]
    assert np.array_equal(seeded[0].offsets_, seeded[1].offsets_)
    assert "not private" in str(seeded[0].guarantee)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_shares_add_up_to_the_budget_and_noise_has_its_size(noise: str) -> None:
    budget = Budget(1.0, 1e-6, "user", noise, 1)
    statistic = ItemEffects("user", budget.norm, Scale(1, 5, 1))
    measured, spread = budget.measure(statistic, 0.3, np.zeros(40_000, np.int64))
    assert measured.std() == pytest.approx(spread, rel=0.03)
    assert measured.std() != pytest.approx(1.3 * spread, rel=0.03)
    if noise == "gaussian":
        mu = float(statistic.sensitivity) / spread / np.sqrt(0.3)
        assert gaussian_epsilon(mu, 1e-6) == pytest.approx(1.0, rel=1e-9)
        assert mu <= gaussian_mu(1.0, 1e-6)
    else:
        assert float(statistic.sensitivity) / (spread / np.sqrt(2)) <= 0.3


def test_much_budget_is_nearly_no_noise(viewers: Ratings) -> None:
    train, test = split_random(viewers, 0.1, seed=1)

    def error(model) -> float:
        scores = model.fit(train).predict(test, histories=train)["score"].to_numpy()
        return float(np.sqrt(np.mean((scores - test.values) ** 2)))

    free, rich = (
        error(CovarianceSVD(task="ratings")),
        error(CovarianceSVD(task="ratings", epsilon=1000, seed=0)),
    )
    poor = error(CovarianceSVD(task="ratings", epsilon=0.01, seed=0))
    assert rich < free + 0.03
    assert rich < poor
    # with no budget to speak of, it is the user's own mean and little else
    assert poor < test.values.std()


def test_the_file_holds_only_what_was_released(viewers: Ratings, tmp_path) -> None:
    model = CovarianceSVD(task="ratings", epsilon=1).fit(viewers)
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        assert set(file.files) == {
                "item_ids_", "offsets_", "factors_", "doubt_", "variance_", "meta"
            }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": 1, "delta": 0}, "laplace"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": 1, "unit": "item"}, "unit"),
        ({"epsilon": 1, "noise": "uniform"}, "noise"),
        ({"factors": 0}, "factors"),
        ({"epsilon": 1, "factors": -1}, "factors"),
    ],
)
def test_refuses_with_a_reason(viewers: Ratings, settings, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        CovarianceSVD(**settings).fit(viewers)


def test_neighbours_refuse_histories(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="covariance-svd"):
        CovarianceKNN(epsilon=1, task="lists").fit(viewers)


def test_too_many_items_are_refused_before_anything_is_summed() -> None:
    needed = pairs.memory_needed(1_000_000)
    assert needed > 7e12
    with pytest.raises(InputError, match=r"GiB.*fewer items"):
        pairs.check_memory(1_000_000)


def test_neighbours_agree_with_factors_when_all_are_used(viewers: Ratings) -> None:
    knn = CovarianceKNN(k=10_000, epsilon=20, seed=0).fit(viewers)
    svd = CovarianceSVD(task="ratings", epsilon=20, seed=0).fit(viewers)
    one, two = (m.predict(viewers)["score"].to_numpy() for m in (knn, svd))
    np.testing.assert_allclose(one, two, atol=1e-4)


def test_no_entry_of_a_residual_leaves_the_clamp(viewers: Ratings) -> None:
    statistic = PairSums("rating", 2, viewers.scale, np.full(viewers.n_items, -128, np.int16))
    assert np.abs(statistic.residuals(viewers)).max() == 64


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("unit", "epsilon", "delta", "bar"),
    [
        ("rating", 10, 1e-6, 0.89),
        ("rating", 1, 1e-6, 0.925),
        ("rating", 0.1, 1e-6, 1.0),
        ("user", 5, 1e-5, 0.937),
        ("user", 1, 1e-5, 0.97),
    ],
)
def test_bars_on_movielens(real_data, unit, epsilon, delta, bar) -> None:
    train, test = split_random(load_dataset(real_data / "ml-1m").ratings, 0.1, seed=0)
    model = CovarianceSVD(task="ratings", epsilon=epsilon, delta=delta, unit=unit, seed=0).fit(
        train
    )
    scores = model.predict(test, histories=train)["score"].to_numpy()
    assert np.sqrt(np.mean((scores - test.values) ** 2)) <= bar
