"""Factor models: the contract, the checkerboard, the user's solution against an obvious twin."""

import numpy as np
import pytest

from epicrec.data import Ratings, load_dataset, split_per_user, split_random
from epicrec.errors import InputError
from epicrec.models.factors import solve_users
from epicrec.models.spectrum import Noise, Spectrum, leading_eigenpairs
from epicrec.models.svd import SVD
from epicrec.testing.recommenders import RecommenderContract


class TestSVD(RecommenderContract):
    model_type = SVD
    settings = {"factors": 8, "task": "ratings"}


class TestSVDOfHistories(RecommenderContract):
    model_type = SVD
    settings = {"factors": 8, "task": "lists"}


def test_users_are_solved_as_ridge_regression_says(viewers: Ratings) -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(viewers.n_items, 5)).astype(np.float32)
    residuals = rng.normal(size=len(viewers))
    solved = solve_users(viewers, residuals, factors, 0.7)
    for user in (0, 7, viewers.n_users - 1):
        row = viewers.row(user)
        f = factors[viewers.items[row]].astype(np.float64)
        expected = np.linalg.solve(f.T @ f + 0.7 * np.eye(5), f.T @ residuals[row])
        np.testing.assert_allclose(solved[user], expected, rtol=1e-6)


def test_finds_the_checkerboard(checkerboard: Ratings) -> None:
    model = SVD(task="ratings").fit(checkerboard)
    size = checkerboard.n_items
    scores = np.asarray(model._scores(checkerboard))
    assert np.all(scores[np.arange(size), np.arange(size)] > 3.5)


def test_five_users_and_four_items_are_enough() -> None:
    ratings = Ratings.from_columns([1, 1, 2, 3, 4, 5, 5], list("abacdbd"), [5, 4, 3, 2, 1, 5, 4])
    for task in ("ratings", "lists"):
        lists = SVD(task=task).fit(ratings).recommend([1], n=4)
        assert set(lists["item_id"].to_pylist()) == {"c", "d"}


def test_factors_must_be_positive(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="factors"):
        SVD(factors=0, task="ratings").fit(viewers)


def test_leading_eigenpairs_are_those_of_lapack() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(400, 6)) * [9, 7, 5, 4, 3, 2]
    matrix = matrix @ matrix.T + 0.1 * rng.normal(size=(400, 400))
    matrix = (matrix + matrix.T) / 2
    values, vectors = leading_eigenpairs(matrix, 6)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1][:6], rtol=1e-6)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-3 * values[0])


def test_the_resolvent_solves_its_equation_outside_the_noise_alone() -> None:
    profiles = np.full(300, 0.1), np.random.default_rng(4).gamma(0.7, size=300)
    noise = Noise(profiles)
    edge = noise.edge()
    assert noise.resolvent(0.999 * edge) is None
    for z in (1.001 * edge, 3 * edge):
        g = noise.resolvent(z)
        assert g is not None
        np.testing.assert_allclose(1 / g, z - sum(p * (p @ g) for p in profiles), rtol=1e-9)
        assert (np.asarray(noise.resolvent(1.01 * z)) < g).all()  # there is one more, which rises


@pytest.mark.parametrize("uneven", [False, True])
def test_the_noise_edge_is_where_noise_ends(uneven: bool) -> None:
    rng = np.random.default_rng(2)
    n = 800
    profile = rng.gamma(0.7, size=n) if uneven else np.ones(n)
    sd = np.sqrt(np.outer(profile, profile))
    noise = np.tril(rng.normal(size=(n, n)) * sd, -1)
    noise += noise.T
    assert Noise((profile,)).edge() == pytest.approx(np.linalg.eigvalsh(noise)[-1], rel=0.08)


def test_cleaning_recovers_a_spike_from_noise() -> None:
    rng = np.random.default_rng(3)
    n, sigma, theta = 1000, 1.0, 60.0
    u = rng.normal(size=n)
    u /= np.linalg.norm(u)
    noise = np.tril(rng.normal(size=(n, n)) * sigma, -1)
    noisy = theta * np.outer(u, u) + noise + noise.T
    spectrum = Spectrum(*leading_eigenpairs(noisy, 5))
    values, kept, vectors = spectrum.cleaned(Noise((np.full(n, sigma),)))
    assert len(values) == 1  # the other four are noise
    assert values[0] == pytest.approx(theta, rel=0.05)
    cosine = float(vectors[:, 0] @ u) ** 2
    assert kept[0] == pytest.approx(theta * cosine, rel=0.08)
    assert spectrum.values[0] > theta * 1.15  # uncleaned, it is too large


@pytest.mark.realdata
def test_bars_on_movielens(real_data) -> None:
    for name, fraction, seed, bar in (("ml-100k", 0.2, 42, 0.93), ("ml-1m", 0.1, 0, 0.855)):
        train, test = split_random(load_dataset(real_data / name).ratings, fraction, seed=seed)
        scores = SVD(task="ratings").fit(train).predict(test, histories=train)["score"].to_numpy()
        assert np.sqrt(np.mean((scores - test.values) ** 2)) <= bar


@pytest.mark.realdata
def test_ranks_movielens(real_data) -> None:
    train, test = split_per_user(load_dataset(real_data / "ml-100k").ratings, 0.2, seed=0)
    lists = SVD(task="lists").fit(train).recommend(train, n=10)
    held = set(zip(test.user_ids[test.users], test.item_ids[test.items], strict=True))
    pairs = zip(lists["user_id"].to_pylist(), lists["item_id"].to_pylist(), strict=True)
    hits = np.mean([pair in held for pair in pairs])
    assert hits > 0.3  # popularity alone has 0.19
