from dataclasses import replace

import numpy as np
import pytest

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.perturb import Prior
from epicrec.perturb.epicrec.prior import RowPrior, posterior

ROWS = RowPrior(
    matrix=np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 1]]),
    shares=np.array([0.6, 0.3, 0.1]),
    size=50.0,
    spread=0.8,
    taste=0.05,
)


def simulated(rng):
    """A size and totals drawn as the prior says."""
    n = max(1, round(50 * np.exp(0.8 * rng.normal())))
    mix = rng.dirichlet(ROWS.shares * (1 / 0.05 - 1))
    return rng.multinomial(n, mix) @ ROWS.matrix


@pytest.mark.parametrize("scale", [3.0, 15.0, 60.0])
def test_the_estimate_is_nearer_than_the_noisy_totals_where_noise_matters(scale):
    rng = np.random.default_rng(0)
    z = np.full(3, scale)
    raw, ours = [], []
    for _ in range(300):
        true = simulated(rng)
        noisy = np.rint(true + rng.laplace(scale=z))
        estimate, _ = posterior(ROWS, noisy, z)
        raw.append(np.abs(noisy.clip(min=0) - true).mean())
        ours.append(np.abs(estimate - true).mean())
    assert np.mean(ours) < {3.0: 1.05, 15.0: 0.8, 60.0: 0.5}[scale] * np.mean(raw)


def test_without_noise_the_totals_stand_and_in_pure_noise_the_prior_does():
    true = np.array([30.0, 20.0, 5.0])
    np.testing.assert_allclose(posterior(ROWS, true, np.full(3, 1e-3))[0], true, atol=0.05)
    lost, size = posterior(ROWS, true, np.full(3, 1e6))
    np.testing.assert_allclose(lost, size * ROWS.mean, rtol=0.02)


def test_totals_move_together_through_the_size():
    """A large total in one category is evidence for a long history, and so for the others."""
    z = np.array([1.0, 1.0, 1e4])
    few = posterior(ROWS, np.array([6.0, 4.0, 0.0]), z)[0][2]
    many = posterior(ROWS, np.array([180.0, 120.0, 0.0]), z)[0][2]
    assert many > 10 * few


def test_a_history_of_one_item_has_no_taste():
    """Taste spreads what several items have in common; one item has its categories, or not."""
    noisy, z = np.array([2.0, 0.0, 1.0]), np.full(3, 1.0)
    one = [posterior(replace(ROWS, size=1.0, spread=1e-9, taste=t), noisy, z)[0] for t in (0, 0.9)]
    np.testing.assert_allclose(*one, rtol=1e-6)
    two = [posterior(replace(ROWS, size=9.0, spread=1e-9, taste=t), noisy, z)[0] for t in (0, 0.9)]
    assert np.abs(two[0] - two[1]).max() > 0.01


def test_prior_from_popularity_or_from_nothing():
    plain = Catalogue.from_columns([1, 2, 3], ["a", "b", "c"], ["X", "X|Y", "Y"])
    np.testing.assert_allclose(Prior.from_catalogue(plain).weights, [1 / 3] * 3)
    known = Catalogue.from_columns([1, 2, 3], list("abc"), ["X", "X", "Y"], popularity=[8, 2, 0])
    weights = Prior.from_catalogue(known, size=20).weights
    assert weights[0] > weights[1] > weights[2] > 0, "even the unpopular stay possible"
    nobody = Catalogue.from_columns([1, 2], ["a", "b"], ["X", "Y"], popularity=[0, 0])
    np.testing.assert_allclose(Prior.from_catalogue(nobody).weights, [0.5, 0.5])


def test_prior_from_public_histories(films: Catalogue, viewers: Ratings):
    prior = Prior.from_histories(films, viewers)
    counts = viewers.user_counts
    assert counts.min() < prior.size < counts.max()
    assert prior.weights.argmax() == viewers.item_counts.argmax()
    assert 0 < prior.taste < 0.5


def test_bad_priors_are_refused(films: Catalogue):
    for wrong in ({"size": 0}, {"spread": -1}, {"taste": 2}):
        with pytest.raises(InputError):
            Prior.from_catalogue(films, **wrong)
    with pytest.raises(InputError):
        Prior(np.array([1.0, np.nan]))
