"""Item means from sums with noise or without, against what is simulated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from epicrec.data import Scale
from epicrec.models.estimates import ItemEstimates, ItemSums, item_estimates, mean_rating
from epicrec.models.features import item_features
from epicrec.models.private.statistics import ForAndAgainst


def simulated(noise: float, items: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    counts = np.floor(rng.pareto(0.8, items)).clip(0, 400)
    means = np.clip(rng.normal(0.3, 0.25, items), -1, 1)
    balance = np.clip(counts * means + rng.normal(0, np.sqrt(0.2 * counts)), -counts, counts)
    totals = np.stack([counts + balance, counts - balance]) / 2 + rng.laplace(0, noise, (2, items))
    return totals, counts, means


def estimated(totals: np.ndarray, noise: float) -> ItemEstimates:
    found = ForAndAgainst(Scale(0, 1, 1)).sums(totals, np.sqrt(2) * noise)
    alone = item_features(None, np.arange(totals.shape[1]))
    return item_estimates(found, alone, centre=mean_rating(found)[0], within=0.8)


@pytest.mark.parametrize("noise", [0.2, 1.0, 5.0, 20.0])
def test_estimates_never_lose_to_one_mean_for_all(noise: float) -> None:
    totals, counts, means = simulated(noise)
    b = estimated(totals, noise).means / 2

    def error(estimate: np.ndarray | float) -> float:
        return float((counts * (estimate - means) ** 2).sum() / counts.sum())

    assert error(b) <= 1.02 * error(np.average(means, weights=counts))
    naive = (totals[0] - totals[1]) / np.maximum(totals.sum(axis=0), 1)
    assert error(b) < error(np.clip(naive, -1, 1))
    if noise <= 1:
        assert error(b) < 0.3 * error(0.3)


def test_estimates_know_their_own_error() -> None:
    totals, counts, means = simulated(1.0)
    found = estimated(totals, 1.0)
    seen = counts > 0
    error = (found.means / 2 - means)[seen] ** 2
    assert error.mean() == pytest.approx(found.variance[seen].mean() / 4, rel=0.25)
    assert found.doubt.min() >= 0
    assert found.doubt.max() <= 1
    assert found.doubt[counts == 0].mean() > 0.9
    assert found.doubt[counts > 50].mean() < 0.1


def test_a_large_count_is_not_rounded() -> None:
    """Items with very many ratings have the means that their sums and counts say."""
    counts = np.geomspace(300, 200_000, 500)
    means = np.random.default_rng(3).normal(0.5, 0.4, len(counts))
    little = np.full(len(counts), 2.0)
    alone = csr_array(np.ones((len(counts), 1)))
    sums = ItemSums(counts * means, counts, little**2, little)
    found = item_estimates(sums, alone, centre=float(counts @ means / counts.sum()))
    np.testing.assert_allclose(found.means, means, atol=0.03)


def test_without_noise_estimates_are_shrunken_means() -> None:
    rng = np.random.default_rng(2)
    counts, still = rng.integers(0, 50, 400).astype(float), np.zeros(400)
    means = rng.normal(0.5, 0.4, 400)
    sums = counts * means + rng.normal(size=400) * np.sqrt(0.5 * counts)
    alone = item_features(None, np.arange(400))
    found = item_estimates(ItemSums(sums, counts, still, still), alone, centre=0.5, within=0.5)
    plain = sums / np.maximum(counts, 1)
    usual = found.means[counts == 0][0]
    np.testing.assert_allclose(found.means, (1 - found.doubt) * plain + found.doubt * usual)
    assert usual == pytest.approx(0.5, abs=0.1)


def test_features_tell_of_items_that_nobody_rated() -> None:
    """Half of the items are of a kind that is liked: the totals of some tell of all."""
    rng = np.random.default_rng(9)
    kind = np.arange(600) % 2
    counts = rng.integers(0, 8, 600).astype(float)
    sums = counts * (0.8 * kind - 0.4) + rng.normal(size=600) * np.sqrt(0.5 * counts)
    features = csr_array(np.column_stack([np.ones(600), kind]))
    noise = np.full(600, 1.0)
    found = item_estimates(ItemSums(sums, counts, noise, noise), features, centre=0.0)
    apart = found.means[(counts == 0) & (kind == 1)] - found.means[(counts == 0) & (kind == 0)][0]
    assert apart.min() > 0.5


def test_blocks_of_items_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    totals, _, _ = simulated(1.0, 500)
    whole = estimated(totals, 1.0)
    monkeypatch.setattr("epicrec.models.estimates.ITEMS_AT_ONCE", 64)
    np.testing.assert_allclose(estimated(totals, 1.0).means, whole.means, atol=1e-9)


def test_the_usual_item_counts_as_known_from_fifty_items() -> None:
    """Fifty well-known items with a mean of 1, where all ratings are expected at 0: half way."""
    items = 50
    counts, still = np.full(items, 1e9), np.zeros(items)
    alone = csr_array(np.ones((items, 1)))
    found = item_estimates(ItemSums(counts, counts, still, still), alone, centre=0.0)
    np.testing.assert_allclose(found.means, 1.0, rtol=1e-6)
    assert found.usual == pytest.approx(0.5, rel=1e-6)
