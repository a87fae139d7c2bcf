"""The noise a caller gets: its distribution, its randomness, its limits."""

from __future__ import annotations

import multiprocessing
import secrets
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from epicrec.errors import InputError
from epicrec.privacy import (
    add_discrete_laplace,
    add_integer_gaussian,
    audit_epsilon,
    discrete_laplace,
    integer_gaussian,
    noise,
)

DRAWS = 400_000


def laplace_cdf(k, scale):
    """P(X ≤ k) of discrete Laplace noise: P(X > k) = q^(k+1)/(1+q) for k ≥ 0, q = e^(-1/s)."""
    q = np.exp(-1 / scale)
    return np.where(k >= 0, 1 - q ** (k + 1.0) / (1 + q), q ** (-k * 1.0) / (1 + q))


def gaussian_cdf(k, sigma):
    return stats.norm.cdf((k + 0.5) / sigma)


NOISES = {"laplace": (discrete_laplace, laplace_cdf), "gaussian": (integer_gaussian, gaussian_cdf)}


def chi_square(sample, cdf, scale):
    """p-value over cells of at least 25 expected draws."""
    width = max(1, int(scale / 4))
    edges = np.arange(-40 * width - 1, 40 * width, width)
    below = cdf(edges, scale)
    chance = np.diff(np.concatenate([[0], below, [1]]))
    counts = np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1)
    keep = chance * sample.size >= 25
    chance = np.append(chance[keep], chance[~keep].sum())
    counts = np.append(counts[keep], counts[~keep].sum())
    if chance[-1] * sample.size < 5:
        assert counts[-1] <= 30
        chance, counts = chance[:-1], counts[:-1]
    return stats.chisquare(counts, chance / chance.sum() * counts.sum()).pvalue


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.3, 50.0, 1e6, 2.0**40])
@pytest.mark.parametrize("name", NOISES)
def test_follows_its_distribution_and_the_test_sees_a_tenth_more_or_less(name, scale):
    draw, cdf = NOISES[name]
    assert chi_square(draw(DRAWS, scale, seed=5), cdf, scale) > 1e-3
    for wrong in (scale * 0.9, scale * 1.1):
        assert chi_square(draw(DRAWS, wrong, seed=5), cdf, scale) < 1e-9


@pytest.mark.parametrize(("name", "exact"), [("laplace", stats.laplace), ("gaussian", stats.norm)])
def test_large_scales_pass_kolmogorov_and_the_test_sees_a_tenth_more_or_less(name, exact):
    draw, _ = NOISES[name]
    for scale in (1e5, 2.0**43):
        assert stats.kstest(draw(DRAWS, scale, seed=6) / scale, exact.cdf).pvalue > 1e-3
        for wrong in (scale * 0.9, scale * 1.1):
            assert stats.kstest(draw(DRAWS, wrong, seed=6) / scale, exact.cdf).pvalue < 1e-9


@pytest.mark.parametrize("name", NOISES)
def test_moderate_scale_large_sample(name):
    draw, cdf = NOISES[name]
    assert chi_square(draw(10_000_000, 2.5, seed=8), cdf, 2.5) > 1e-3


@pytest.mark.parametrize("name", NOISES)
def test_tiny_and_mixed_scales(name):
    draw, cdf = NOISES[name]
    assert not draw(1000, 1e-30, seed=1).any()
    scales = [0.4, 3.3, Fraction(7, 3), 1000] * (DRAWS // 4)
    mixed = draw(DRAWS, scales, seed=2).reshape(-1, 4)
    for column, scale in zip(mixed.T, scales[:4], strict=True):
        assert chi_square(column, cdf, float(scale)) > 1e-3
    assert np.array_equal(draw(8, [2.5] * 8, seed=3), draw(8, 2.5, seed=3))
    assert np.array_equal(draw(8, np.full(8, 2.5), seed=3), draw((2, 4), 2.5, seed=3).reshape(-1))


def test_neighbouring_draws_are_independent():
    x = integer_gaussian(DRAWS, 10.0, seed=9)
    for lag in (1, 2, noise._CHUNK):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / np.sqrt(x.size - lag)


@pytest.mark.parametrize("name", NOISES)
def test_agrees_with_opendp(name):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    draw, _ = NOISES[name]
    zeros = [0] * 40_000
    vector = dp.vector_domain(dp.atom_domain(T=int))
    if name == "laplace":
        scale, theirs = 3.0, dp.m.make_laplace(vector, dp.l1_distance(T=int), scale=3.0)(zeros)
    else:  # a discrete Gaussian: at σ = 50 its variance differs from the rounded one's by 1/12
        scale, theirs = 50.0, dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=50.0)(zeros)
    edges = np.arange(-4 * scale, 4 * scale + 1, max(1, scale // 4))
    tables = [
        np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1)
        for x in (theirs, draw(1_000_000, scale), draw(1_000_000, scale * 1.1))
    ]
    # theirs has no seed: a p-value below 1e-10 comes that often
    assert stats.chi2_contingency(np.array(tables)[[0, 1]]).pvalue > 1e-10
    assert stats.chi2_contingency(np.array(tables)[[0, 2]]).pvalue < 1e-20


def low_bits(outputs):
    """Whether an output has digits finer than 2⁻⁵⁴, which no float near 1 has."""
    scaled = np.asarray(outputs, dtype=float) * 2.0**54
    return (scaled != np.floor(scaled)).astype(float)


def test_low_bits_tell_nothing():
    rng = np.random.default_rng(4)
    floats = audit_epsilon(
        low_bits(0 + rng.laplace(size=DRAWS)), low_bits(1 + rng.laplace(size=DRAWS))
    )
    assert not floats.holds(1.0)  # ε = 1 was promised; float noise gives itself away
    assert floats.lower_bound > 5
    a, b = 0 + discrete_laplace(DRAWS, 1, seed=1), 1 + discrete_laplace(DRAWS, 1, seed=2)
    assert not low_bits(a).any()
    assert not low_bits(b).any()
    for output in (np.abs, lambda x: x & 1, lambda x: x % 7, lambda x: x):
        assert audit_epsilon(output(a), output(b)).holds(1.0)
    assert set(range(-8, 9)) <= set(a.tolist()) & set(b.tolist())  # every integer, from both


@pytest.mark.parametrize("draw", [discrete_laplace, integer_gaussian])
def test_seed_fixes_the_noise_whatever_the_threads(draw, monkeypatch):
    size = 3 * noise._CHUNK + 5
    first = draw(size, 1000.5, seed=11)
    for threads in (1, 5):
        monkeypatch.setattr("epicrec.machine.processors", lambda threads=threads: threads)
        assert np.array_equal(draw(size, 1000.5, seed=11), first)
    assert not np.array_equal(draw(size, 1000.5, seed=12), first)
    assert np.array_equal(draw(noise._CHUNK, 1000.5, seed=11), first[: noise._CHUNK])


def test_seeds_differ_between_distributions_and_stay_the_same_across_versions():
    laplace, gaussian = discrete_laplace(6, 100, seed=0), integer_gaussian(6, 100, seed=0)
    assert not np.array_equal(np.sign(laplace), np.sign(gaussian))
    assert laplace.tolist() == LAPLACE_SEED_0
    assert gaussian.tolist() == GAUSSIAN_SEED_0


LAPLACE_SEED_0 = [0, -43, -39, 67, 274, 121]
GAUSSIAN_SEED_0 = [-182, 188, -186, 96, 15, 31]


def test_without_seed_never_the_same(monkeypatch):
    monkeypatch.setattr(noise, "secrets", secrets)
    np.random.seed(0)
    first = discrete_laplace(50, 1e9)
    np.random.seed(0)
    assert not np.array_equal(first, discrete_laplace(50, 1e9))


def _draw_in_child(queue):
    queue.put(integer_gaussian(20, 1e9).tolist())


def test_forked_children_differ(monkeypatch):
    monkeypatch.setattr(noise, "secrets", secrets)  # the operating system's, and not the tests' own
    integer_gaussian(20, 1e9)  # the parent has drawn before
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_draw_in_child, args=(queue,)) for _ in range(3)]
    for child in children:
        child.start()
    drawn = [queue.get(timeout=600) for _ in children] + [integer_gaussian(20, 1e9).tolist()]
    for child in children:
        child.join()
    assert len({tuple(row) for row in drawn}) == 4


def test_chacha20_is_the_cipher(monkeypatch):
    words = noise.word_stream(b"root", 0)(4)
    monkeypatch.setattr(
        noise.hashlib, "sha256", lambda _: type("H", (), {"digest": lambda _: bytes(32)})()
    )
    zero_key = noise.word_stream(b"root", 0)(4)
    # RFC 8439, A.1, test vector 1: key 0, nonce 0, counter 0
    assert (
        zero_key.tobytes().hex()
        == "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    )
    assert not np.array_equal(words, zero_key)


@pytest.mark.parametrize("add", [add_discrete_laplace, add_integer_gaussian])
def test_adds_in_place(add):
    array = np.arange(1000, dtype=np.int64).reshape(10, 100)
    noisy = add(array, 5, seed=1)
    assert noisy is array
    drawn = discrete_laplace if add is add_discrete_laplace else integer_gaussian
    assert np.array_equal(array, np.arange(1000).reshape(10, 100) + drawn((10, 100), 5, seed=1))


def test_nothing_to_draw():
    assert discrete_laplace(0, 1).shape == (0,)
    assert discrete_laplace((0, 3), []).shape == (0, 3)


@pytest.mark.parametrize("draw", [discrete_laplace, integer_gaussian])
@pytest.mark.parametrize(
    "scale", [0, -1, float("nan"), float("inf"), 2**44 + 1, "3", True, None, 1j]
)
def test_refuses_unusable_scales(draw, scale):
    with pytest.raises(InputError, match=r"scale|sigma"):
        draw(3, scale)
    with pytest.raises(InputError, match=r"scale|sigma"):
        draw(2, [2.0, scale])


def test_refuses_other_misuse():
    with pytest.raises(InputError, match="2 values of scale for 3 draws"):
        discrete_laplace(3, [1, 2])
    for seed in (-1, 1.5, True, "a"):
        with pytest.raises(InputError, match="seed must be a non-negative integer"):
            discrete_laplace(3, 1, seed=seed)
    with pytest.raises(InputError, match=r"Grid\.toward_zero"):
        add_integer_gaussian(np.zeros(3), 1)
    with pytest.raises(InputError, match="contiguous"):
        add_integer_gaussian(np.zeros((4, 4), dtype=np.int64).T[:2], 1)
    with pytest.raises(InputError, match="overflow"):
        add_integer_gaussian(np.array([2**62 + 1]), 1)


@settings(deadline=None)  # the first draw compiles
@given(st.fractions(min_value=Fraction(1, 10**9), max_value=2**44))
def test_any_rational_scale_is_accepted(scale):
    factor, shift = noise.fixed_point(scale)
    assert 0 <= factor < 2**64
    assert 13 <= shift <= 63
    assert Fraction(factor, 2 ** (shift + 6)) <= scale < Fraction(factor + 1, 2 ** (shift + 6))
    assert discrete_laplace(4, scale).dtype == np.int64


def test_importing_the_package_stays_light():
    heavy = "{'numba', 'dp_accounting', 'randomgen', 'scipy'}"
    script = f"import sys, epicrec.privacy as p; p.Guarantee; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("draw", [discrete_laplace, integer_gaussian])
@pytest.mark.parametrize("scale", [7.3, [0.4, 90.0] * 300])
def test_draws_settled_exactly_are_those_of_the_kernel(monkeypatch, draw, scale) -> None:
    """As if the kernel were in doubt about every one."""
    quick = draw(600, scale, seed=8)

    def doubtful(out, done, words, *_envelope):
        enough = done < out.size and len(words) >= 3
        return done, 3 if enough else len(words), enough

    monkeypatch.setattr(noise, "add_draws", doubtful)
    np.testing.assert_array_equal(draw(600, scale, seed=8), quick)
