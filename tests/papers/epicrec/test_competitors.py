"""EpicRec's competitors: what their noise costs, and what grouping does."""

from itertools import product

import numpy as np
import pytest

from epicrec.data import load_dataset
from epicrec.papers.epicrec import competitors as gs
from epicrec.papers.epicrec.competitors import global_scales, gs_totals
from epicrec.papers.epicrec.experiments import FIGURE_4
from epicrec.perturb.epicrec.calibrate import category_scales, maximal_rows, optimal_shares


@pytest.fixture
def drawn(monkeypatch) -> list[tuple[int, float, int | None]]:
    """How many draws of which scale and seed were made; the draws stay what they are."""
    calls, draw = [], gs.discrete_laplace

    def noticed(count, scale, *, seed=None):
        calls.append((count, scale, seed))
        return draw(count, scale, seed=seed)

    monkeypatch.setattr(gs, "discrete_laplace", noticed)
    return calls


@pytest.mark.parametrize(("epsilon", "most"), list(product([0.1, 1.0, 30.0], [1, 3, 6])))
def test_both_parts_cost_the_budget_together(drawn, epsilon: float, most: int):
    """An item moves the sample by 1 and all group sums together by its categories."""
    rng = np.random.default_rng(0)
    member = (rng.random((200, 6)) < 0.3).astype(np.uint8)
    gs_totals(member, epsilon, most, rng, 4)
    (counts, sample, first), (groups, sums, second) = drawn
    assert 1 / sample + most / sums == pytest.approx(epsilon)
    assert 1 / sample > epsilon / 10
    assert counts == 6
    assert 1 <= groups <= 6
    assert first != second, "noise is never used twice"


def test_a_seed_repeats_both_parts_and_without_one_noise_is_fresh():
    member = (np.random.default_rng(0).random((50, 5)) < 0.4).astype(np.uint8)

    def totals(seed: int | None) -> list[float]:
        return gs_totals(member, 0.5, 3, np.random.default_rng(1), seed).tolist()

    assert totals(4) == totals(4) != totals(5)
    assert len({tuple(totals(None)) for _ in range(5)}) > 1, "two alike are one in 20,000"


def test_nothing_of_the_history_shows_without_passing_the_noise(monkeypatch):
    """The noise drowned out by numbers of our own, and nothing else is left to see."""
    monkeypatch.setattr(
        gs,
        "discrete_laplace",
        lambda count, _scale, *, seed: 10**9 * np.arange(count, 0, -1) * (2 if seed == 1 else 1),
    )
    one = gs_totals(np.ones((50, 4), np.uint8), 1.0, 4, np.random.default_rng(1), 1)
    other = gs_totals(np.zeros((0, 4), np.uint8), 1.0, 4, np.random.default_rng(1), 1)
    np.testing.assert_allclose(one, other, atol=51)
    assert (one > 10**8).all()


@pytest.mark.parametrize("scale", [0.1, 3.0, 20.0, 1000.0])
def test_the_width_is_the_one_with_the_least_error(scale: float):
    guess = np.array([50.0, 48, 47, 20, 19, 3, 2, 1, 0, 0])

    def error(width: int) -> float:
        groups = [guess[at : at + width] for at in range(0, len(guess), width)]
        return sum(abs(group - group.mean()).sum() for group in groups) / len(guess) + scale / width

    best = min(range(1, len(guess) + 1), key=error)
    assert gs._best_width(guess, scale) == best


def test_similar_totals_share_a_group():
    """Groups follow the totals, the largest together, wherever they stand."""
    sizes = [40, 2000, 41, 2001, 39, 1999]
    rows = [np.eye(6, dtype=np.uint8)[[j]].repeat(size, axis=0) for j, size in enumerate(sizes)]
    found = gs_totals(np.concatenate(rows), 1.0, 100, np.random.default_rng(2), 3)
    assert len(np.unique(found)) == 2
    assert found[0] == found[2] == found[4]
    assert found[1] == found[3] == found[5] > found[0]


def test_with_little_noise_nothing_is_smoothed():
    rng = np.random.default_rng(0)
    member = (rng.random((200, 5)) < [0.9, 0.7, 0.5, 0.3, 0.1]).astype(np.uint8)
    found = gs_totals(member, 400.0, 5, rng, 1)
    np.testing.assert_allclose(found, member.sum(axis=0), atol=1)


def test_with_much_noise_everything_is_one_group():
    rng = np.random.default_rng(0)
    member = (rng.random((200, 5)) < 0.3).astype(np.uint8)
    found = [gs_totals(member, 0.01, 5, rng, seed) for seed in range(40)]
    assert np.mean([len(np.unique(f)) for f in found]) < 3
    spread = np.abs(np.array(found) - member.sum(axis=0)).mean()
    assert spread < 0.8 * 5 / 0.01, "smoothing lowers the noise below that of global sensitivity"


def test_an_empty_history():
    found = gs_totals(np.zeros((0, 4), np.uint8), 1.0, 3, np.random.default_rng(0), 2)
    assert found.shape == (4,)


def test_a_lone_large_total_is_not_smoothed_away():
    """Two small ones would do as a group, but groups begin with the largest."""
    member = np.eye(3, dtype=np.uint8)[[0] * 1000 + [1] * 2 + [2]]
    for seed in range(20):
        assert gs_totals(member, 1.0, 3, np.random.default_rng(seed), 2 * seed)[0] > 900


# ---- global sensitivity ------------------------------------------------------------------------


def test_global_scales_of_figure_4():
    rows = maximal_rows(np.array(FIGURE_4, np.uint8))
    np.testing.assert_array_equal(global_scales(rows, 1.0), [3, 3, 3, 3, 3])
    assert (global_scales(np.ones((1, 3), np.uint8), np.nextafter(1.0, 0)) > 3).all()


@pytest.mark.realdata
def test_movielens_global_scale(real_data):
    matrix = load_dataset(real_data / "ml-1m").catalogue.rows.matrix
    assert global_scales(maximal_rows(matrix), 1.0).mean() == 6


def test_never_more_noise_than_global_sensitivity():
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix = np.vstack([rng.integers(0, 2, (30, 8), dtype=np.uint8), np.eye(8, dtype=np.uint8)])
        rows = maximal_rows(matrix)
        assert (
            category_scales(rows, optimal_shares(rows), 1.0).sum()
            <= global_scales(rows, 1.0).sum() + 1e-4
        )
