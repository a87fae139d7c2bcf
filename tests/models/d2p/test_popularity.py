"""Popularity from all that was released: each source counts as far as it is known."""

from __future__ import annotations

import numpy as np
import pytest

from epicrec.data import Catalogue
from epicrec.models.d2p.popularity import corrected_shares, tilted
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import PublicSimilarity, public_groups
from epicrec.perturb.d2p.item_shares import likely_shares


def means(films: Catalogue, shares: np.ndarray) -> np.ndarray:
    """How many of each category an item drawn by the shares has."""
    return np.asarray(films.matrix.astype(np.float64).T @ shares)


@pytest.mark.parametrize(("deviation", "moved"), [(1.0, 0.99), (1e7, 0.01)])
def test_totals_count_by_their_precision(films: Catalogue, deviation: float, moved: float) -> None:
    """Exact ones are taken as they are, very noisy ones change next to nothing."""
    even = np.full(len(films), 1 / len(films))
    wanted = even * np.where(films.matrix.toarray()[:, 0] > 0, 3.0, 1.0)
    wanted /= wanted.sum()
    events = 100_000
    totals = {
        name: (events * mean, deviation**2)
        for name, mean in zip(films.categories, means(films, wanted), strict=True)
    }
    known = means(films, even) * (1 - means(films, even)).clip(0) / 1000
    got, left = tilted(even, known, films, totals)
    way = means(films, wanted) - means(films, even)
    part = float((means(films, got) - means(films, even)) @ way / (way @ way))
    assert part == pytest.approx(moved, abs=0.05)
    assert got.sum() == pytest.approx(1)
    assert (left <= known).all()


def test_events_and_totals_are_nearer_together_than_either_alone(films: Catalogue) -> None:
    """Few events by D2P, precise totals of categories: a population that chose both."""
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.full(len(films), 0.5))
    truth *= np.where(films.matrix.toarray()[:, 3] > 0, 4.0, 1.0)
    truth /= truth.sum()
    channel = Channel(public_groups(films, 0.5, 30), 0.5, 0.0)
    items = rng.choice(len(films), 20_000, p=truth)
    counts = np.bincount(channel.draw(items, seed=1), minlength=len(films))
    held = AlterEgos.of(channel, counts[None], np.array([1]), films.item_ids)
    totals = {
        name: (50_000 * mean, 100.0)
        for name, mean in zip(films.categories, means(films, truth), strict=True)
    }
    both, by_events = corrected_shares(held, [totals], films)
    by_totals, _ = corrected_shares(None, [totals], films)

    def off(shares: np.ndarray) -> float:
        return float(np.abs(shares - truth).sum())

    def category_off(shares: np.ndarray) -> float:
        return float(np.abs(means(films, shares) - means(films, truth)).max())

    assert off(both) < off(by_totals), "events tell items apart"
    assert category_off(both) < 0.5 * category_off(by_events), "totals tell of categories"
    np.testing.assert_allclose(by_events, likely_shares(held, PublicSimilarity(films)), atol=1e-5)
