"""The channel: its ε against all triples, and frequencies that match, with mutants that do not."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from epicrec.perturb.d2p.channel import (
    Channel,
    channel_guarantee,
    epsilon_bound,
    selector_probability,
)
from epicrec.perturb.d2p.groups import Groups

SIX = Groups.of([[0, 1], [0, 1, 2], [2], [3, 4, 5], [3, 4], [0, 5]])


# ---- ε ----------------------------------------------------------------------------------------


def test_equation_12() -> None:
    assert epsilon_bound(1680, 0.7, 0.03, 1) == pytest.approx(6.68, abs=0.005)
    assert epsilon_bound(1680, 0.7, 0.03, 400) == pytest.approx(4.344, abs=0.001)
    assert epsilon_bound(1682, 0.7, 0.03, 400) == pytest.approx(4.35, abs=0.005)
    assert epsilon_bound(1680, 1.0, 0.0, 1) == 0
    assert epsilon_bound(1680, 0.5, 1.0, 10) == inf
    assert epsilon_bound(1680, 0.0, 0.0, 1679) == inf
    assert epsilon_bound(1680, 0.0, 0.0, 1680) == 0
    assert epsilon_bound(1680, 0.7, 0.03, 1680) > 3.9, "2.9 is out of reach at p* = 0.03"
    assert epsilon_bound(100, 0.8, 0.01, 66) == pytest.approx(0.97, abs=0.02)


@st.composite
def channels(draw: Any) -> Channel:
    n = draw(st.integers(2, 7))
    members = [sorted({s, *draw(st.sets(st.integers(0, n - 1)))}) for s in range(n)]
    p, p_star = draw(st.floats(0, 1)), draw(st.floats(0, 1))
    return Channel(Groups.of(members), p, p_star)


@given(channels())
@settings(max_examples=200, deadline=None)
def test_exact_epsilon_is_the_maximum_over_all_triples_and_below_12(channel: Channel) -> None:
    law = channel.matrix()
    np.testing.assert_allclose(law.sum(axis=1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = law[:, None, :] / law[None, :, :]  # s, s', t
    worst = np.log(np.nanmax(np.where(law[:, None, :] > 0, ratios, 0)))
    if np.isinf(worst) or channel.epsilon == inf:
        assert channel.epsilon == inf == channel.epsilon_bound
        return
    assert channel.epsilon == pytest.approx(worst, abs=1e-9)
    assert channel.epsilon <= channel.epsilon_bound + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 6.0])
@pytest.mark.parametrize("size", [1, 40, 500])
def test_selector_probability_solves_12(epsilon: float, size: int) -> None:
    p = selector_probability(1682, epsilon, 0.0001, size)
    assert p is not None
    assert epsilon_bound(1682, p, 0.0001, size) == pytest.approx(epsilon, abs=1e-6)
    assert epsilon_bound(1682, p, 0.0001, size) <= epsilon


def test_the_promise_is_the_exact_cost_beside_what_earlier_draws_cost() -> None:
    """The least group lies within all others, and hides better than (12) knows."""
    groups = Groups.of([[0, 1, 2], [0, 1, 2], [1, 2]])
    one, other = (Channel(groups, 0.5, star) for star in (0.1, 0.2))
    assert one.epsilon < other.epsilon < other.epsilon_bound
    assert channel_guarantee(one, other).epsilon == other.epsilon
    assert channel_guarantee(one, other, past=2.0).epsilon == 2 + other.epsilon


# ---- substitution probabilities ---------------------------------------------------------------


def fits(drawn: Any, expected: Any) -> float:
    """The p-value that these draws have these probabilities."""
    counts = np.bincount(drawn, minlength=len(expected))
    return float(chisquare(counts, expected * counts.sum()).pvalue)


def test_frequencies_match_the_formula_in_every_case() -> None:
    channel = Channel(SIX, 0.4, 0.2)
    for s in range(6):
        expected = np.array([channel.probability(s, t) for t in range(6)])
        np.testing.assert_allclose(expected, channel.matrix()[s])
        drawn = channel.draw(np.full(200_000, s), seed=s)
        assert fits(drawn, expected) > 1e-4
    one = channel.probability
    assert one(0, 0) == pytest.approx(0.2 + 0.8 * 0.6 / 2 + 0.8 * 0.4 / 6)  # s = t
    assert one(0, 1) == pytest.approx(0.8 * 0.6 / 2 + 0.8 * 0.4 / 6)  # in the group
    assert one(0, 5) == pytest.approx(0.8 * 0.4 / 6)  # outside


def test_mutants_of_the_draw_do_not_fit() -> None:
    """Two draws for group and everything (Algorithm 2 as printed), and a profiler 10 % off."""
    channel = Channel(SIX, 0.4, 0.2)
    expected = channel.matrix()[1]
    rng = np.random.default_rng(0)
    items = np.full(200_000, 1)
    twice = channel.draw(items, seed=1)
    neither = (rng.random(len(items)) < 0.4) & (rng.random(len(items)) >= 0.4)
    twice[neither] = 1
    assert fits(twice, expected) < 1e-9
    assert fits(Channel(SIX, 0.4, 0.22).draw(items, seed=1), expected) < 1e-9
    assert fits(Channel(SIX, 0.44, 0.2).draw(items, seed=1), expected) < 1e-9


def test_extremes_are_exact() -> None:
    items = np.arange(6).repeat(100)
    assert (Channel(SIX, 0.5, 1.0).draw(items) == items).all()
    inside = Channel(SIX, 0.0, 0.0).draw(items)
    assert all(t in SIX.members(int(s)) for s, t in zip(items, inside, strict=True))


def test_words_that_would_favour_some_are_refused() -> None:
    channel = Channel(Groups.of([[0, 1, 2]] * 3), 0.0, 0.0)
    top = np.uint64(2**64 - 1)
    words = np.array([[top] * 3, [top] * 3, [0, 1 << 32, top]], np.uint64)
    assert channel.substitute(np.array([0, 0, 0]), words).tolist() == [-1, 0, 2]
