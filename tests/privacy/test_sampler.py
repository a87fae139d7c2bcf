"""The fast kernel against the exact arithmetic, and the paths that chance would never take."""

from __future__ import annotations

from fractions import Fraction
from math import exp, floor

import numpy as np
import pytest
from scipy import stats

from epicrec.privacy import _sampler as sampler

SCALES = [
    Fraction(1, 1000),
    Fraction(1, 3),
    Fraction(1),
    Fraction(7, 3),
    1000 * Fraction(0.1),
    Fraction(2**44),
]
ALL_ONES = 2**64 - 1


def kernel(steps, scale, triples):
    """What the kernel makes of each triple of words: a draw, None (rejected) or 'doubt'."""
    factor, shift = sampler.fixed_point(scale)
    results = []
    for triple in triples:
        out = np.zeros(1, dtype=np.int64)
        done, used, doubt = sampler.add_draws(
            out,
            0,
            np.array(triple, dtype=np.uint64),
            np.array([factor], dtype=np.uint64),
            np.array([shift], dtype=np.uint64),
            steps.normal,
            steps.column_bits,
            steps.cuts,
            steps.aliases,
            steps.sure,
            steps.ratios,
        )
        assert used == 3
        results.append("doubt" if doubt else int(out[0]) if done else None)
    return results


def no_more():
    raise AssertionError("the first 64 bits decide")


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_kernel_equals_exact_arithmetic(normal, scale):
    steps = sampler.envelope(normal)
    rng = np.random.default_rng(1)
    triples = rng.integers(0, 2**64 - 1, (400, 3), dtype=np.uint64, endpoint=True).tolist()
    corners = [0, 1, 2**54, 2**63, 2**64 - 2**10, ALL_ONES]
    triples += [[t[0], corners[i % 6], t[2]] for i, t in enumerate(triples[:60])]
    triples += [[t[0], t[1], corners[i % 6]] for i, t in enumerate(triples[:60])]
    fast = kernel(steps, scale, triples)
    assert fast.count("doubt") < 60
    for words, drawn in zip(triples, fast, strict=True):
        if drawn != "doubt":
            more = no_more if scale < 1e9 else lambda: 12345
            assert sampler.exact_attempt(steps, scale, tuple(words), more) == drawn


@pytest.mark.parametrize("normal", [False, True])
def test_heights_lie_above_the_density_and_add_up(normal):
    steps = sampler.envelope(normal)
    assert sum(steps.heights) == 2**63
    for step, height in enumerate(steps.heights[:-1]):
        place = step / 16
        assert height >= steps.unit * exp(-(place * place / 2 if normal else place)) * (1 - 1e-15)
    for beyond in range(30):  # the tail's steps
        place = steps.reach + beyond
        top = steps.unit * exp(-(place * place / 2 if normal else place))
        assert steps.heights[-1] / 16 / 2 ** (beyond + 1) >= top * (1 - 1e-15)


@pytest.mark.parametrize("normal", [False, True])
def test_alias_table_gives_every_step_its_height(normal):
    steps = sampler.envelope(normal)
    capacity = 2**63 >> steps.column_bits
    weights = [0] * len(steps.cuts)
    for column, cut in enumerate(steps.cuts.tolist()):
        weights[column] += cut
        weights[steps.aliases[column]] += capacity - cut
    assert tuple(weights[: len(steps.heights)]) == steps.heights
    assert not any(weights[len(steps.heights) :])


def choose(steps, step, negative=0):
    """A first word that selects `step`."""
    capacity_bits = 63 - steps.column_bits
    assert steps.cuts[step] > 0
    return (step << capacity_bits) << 1 | negative


@pytest.mark.parametrize("normal", [False, True])
def test_tie_in_the_acceptance_is_settled_by_further_bits(normal):
    steps = sampler.envelope(normal)
    step, place = 10, 2**63
    energy = Fraction(21, 32)
    _, high = sampler._exp_bounds(energy * energy / 2 if normal else energy, 60)
    tie = floor(steps.unit * high / steps.heights[step] * 2**64)
    words = (choose(steps, step), place, tie)
    assert kernel(steps, Fraction(100), [words]) == ["doubt"]
    asked = []

    def more(bits):
        def give():
            asked.append(bits)
            return bits

        return give

    # The place's new bits are the same words; only the chance's lie on either side of the tie.
    assert sampler.exact_attempt(steps, Fraction(100), words, more(0)) == 66 - (not normal)
    assert sampler.exact_attempt(steps, Fraction(100), words, more(ALL_ONES)) is None
    assert len(asked) == 4


def test_tie_in_the_rounding_is_settled_by_further_bits():
    steps = sampler.envelope(True)
    words = (choose(steps, 7), ALL_ONES, 0)  # E just below ½, scale 1
    assert kernel(steps, Fraction(1), [words]) == ["doubt"]
    asked = []

    def more():
        asked.append(1)
        return 0

    assert sampler.exact_attempt(steps, Fraction(1), words, more) == 0
    assert asked


@pytest.mark.parametrize("normal", [False, True])
def test_tail_has_the_right_distribution_and_weight(normal):
    steps = sampler.envelope(normal)
    tail = len(steps.ratios)
    rng = np.random.default_rng(3)

    def word():
        return int(rng.integers(0, ALL_ONES, dtype=np.uint64, endpoint=True))

    scale = Fraction(10**6)
    assert kernel(steps, scale, [(choose(steps, tail), 0, 0)]) == ["doubt"]
    attempts = 3000
    drawn = [
        sampler.exact_attempt(steps, scale, (choose(steps, tail), word(), word()), word)
        for _ in range(attempts)
    ]
    places = np.array([k for k in drawn if k is not None]) / 1e6
    assert places.min() >= steps.reach
    if normal:
        upper, mass = (
            stats.norm.sf(places) / stats.norm.sf(7),
            stats.norm.sf(7) * (2 * np.pi) ** 0.5,
        )
    else:
        upper, mass = np.exp(24 - places), np.exp(-24)
    assert stats.kstest(upper, "uniform").pvalue > 1e-3
    expected = 16 * steps.unit * mass / steps.heights[-1]
    assert stats.binomtest(places.size, attempts, expected).pvalue > 1e-3


def test_exp_bounds_enclose():
    for energy in (Fraction(0), Fraction(1, 3), Fraction(49, 2), Fraction(500)):
        low, high = sampler._exp_bounds(energy, 30)
        tight_low, tight_high = sampler._exp_bounds(energy, 60)
        assert low <= tight_low <= tight_high <= high
