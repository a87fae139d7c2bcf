"""AlterEgos: the correction unbiased where it says so, else close, over several channels too."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.d2p import item_shares
from epicrec.perturb.d2p.alteregos import (
    AlterEgos,
    Posterior,
    unbiased,
    unbiased_cooccurrence,
)
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import Groups, PublicSimilarity, public_groups
from epicrec.perturb.d2p.item_shares import _linear_shares, each_likely_shares, likely_shares

SIX = Groups.of([[0, 1], [0, 1, 2], [2], [3, 4, 5], [3, 4], [0, 5]])
HISTORIES = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])


def drawn(channel: Channel, histories: Any, seed: int) -> Any:
    """The AlterEgos of these histories, a sparse row each."""
    users, items = np.nonzero(histories)
    counts = csr_array(
        (np.ones(len(items)), (users, channel.draw(items, seed=seed))), histories.shape
    )
    counts.sum_duplicates()
    return counts


def test_operators_are_the_matrix() -> None:
    channel = Channel(SIX, 0.4, 0.2)
    rows = np.random.default_rng(0).random((3, 6))
    np.testing.assert_allclose(channel.spread(rows), rows @ channel.matrix())
    np.testing.assert_allclose(channel.gather(rows), rows @ channel.matrix().T)
    shares = rows[0] / rows[0].sum()
    odds = Posterior(channel, shares)
    posterior = shares[:, None] * channel.matrix()
    posterior /= posterior.sum(axis=0)
    np.testing.assert_allclose(odds.guess(rows), rows @ posterior.T)
    np.testing.assert_allclose(odds.ask(rows), rows @ posterior)
    sparse = csr_array(np.where(rows > 0.5, rows, 0))
    np.testing.assert_allclose(channel.gather(sparse), channel.gather(sparse.toarray()))
    np.testing.assert_allclose(odds.guess(sparse), odds.guess(sparse.toarray()))
    at, column = np.array([0, 2, 1, 0]), np.array([5, 0, 2, 2])
    np.testing.assert_allclose(
        channel.spread_at(rows, at, column), channel.spread(rows)[at, column]
    )


def test_counts_and_cooccurrence_are_unbiased_and_raw_ones_are_not() -> None:
    channel = Channel(SIX, 0.4, 0.5)
    alteregos = drawn(channel, np.tile(HISTORIES, (20_000, 1)), 1)
    truth = HISTORIES.sum(axis=0) * 20_000
    counts = np.asarray(alteregos.sum(axis=0)).ravel()
    np.testing.assert_allclose(unbiased(channel, counts), truth, atol=1500)
    assert np.abs(counts - truth).max() > 3000, "without the correction they are off"
    together = HISTORIES.T @ HISTORIES * 20_000
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(
        unbiased_cooccurrence(channel, alteregos)[off], together[off], atol=3000
    )
    raw = np.asarray((alteregos.T @ alteregos).todense())
    assert np.abs(raw - together)[off].max() > 4000


def test_iterative_inverse_agrees_with_the_full_one(
    films: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Channel(public_groups(films, 0.5, 20), 0.5, 0.2)
    counts = np.random.default_rng(0).poisson(50, len(films))
    full = unbiased(channel, counts)
    monkeypatch.setattr("epicrec.perturb.d2p.alteregos._DENSE", 10)
    np.testing.assert_allclose(unbiased(channel, counts), full, rtol=1e-5, atol=1e-4)


def test_what_cannot_be_told_apart_is_not_inverted() -> None:
    channel = Channel(Groups.of([[0, 1], [0, 1], [2]]), 0.5, 0.0)
    with pytest.raises(InputError, match="told apart"):
        unbiased(channel, np.ones(3))
    held = AlterEgos.of(channel, np.array([[4.0, 4.0, 1.0]]), np.array([1]), np.arange(3))
    shares = likely_shares(held)
    assert shares[0] == pytest.approx(shares[1])


def test_first_shares_are_the_best_linear_estimate(films: Catalogue) -> None:
    """Conjugate gradients against the formula written out with full matrices."""
    n = len(films)
    channel = Channel(public_groups(films, 0.5, 30), 0.4, 0.1)
    counts = np.random.default_rng(0).poisson(3, (1, n))
    held = AlterEgos.of(channel, counts, np.array([1]), films.item_ids)
    similarity = PublicSimilarity(films)
    prior = 0.5 * similarity.covariance_times(np.eye(n)) + 0.5 * np.eye(n)
    odds, events = channel.matrix(), counts.sum()
    even = odds.mean(axis=0)
    signal = odds / np.sqrt(n * even)
    seen = (counts[0] / events - even) * np.sqrt(n / even)
    inner = signal.T @ prior @ signal + n / events * np.eye(n)
    wanted = np.maximum(1 + prior @ signal @ np.linalg.solve(inner, seen), 0.02)
    got = _linear_shares(held, counts, similarity)[0]
    np.testing.assert_allclose(got, wanted / wanted.sum(), rtol=0.02)


def test_covariance_is_the_centred_similarity(films: Catalogue) -> None:
    similarity = PublicSimilarity(films)
    full = similarity.rows(np.arange(len(films))).astype(np.float64)
    full -= full.mean(axis=0) + full.mean(axis=1)[:, None] - full.mean()
    full *= len(films) / np.trace(full)
    np.testing.assert_allclose(similarity.covariance_times(np.eye(len(films))), full, atol=5e-3)


def test_features_help_where_events_are_few(films: Catalogue) -> None:
    """With items of one category popular, what is known of some tells about the others."""
    column = np.asarray(films.matrix[:, [0]].todense()).ravel() > 0
    truth = np.where(column, 5.0, 1.0)
    truth /= truth.sum()
    channel = Channel(public_groups(films, 0.5, 30), 0.6, 0.0)
    rng = np.random.default_rng(0)
    items = rng.choice(len(films), 2000, p=truth)
    counts = np.bincount(channel.draw(items, seed=1), minlength=len(films))[None]
    held = AlterEgos.of(channel, counts, np.array([1]), films.item_ids)
    with_them, without = (
        np.corrcoef(likely_shares(held, similarity), truth)[0, 1]
        for similarity in (PublicSimilarity(films), None)
    )
    assert with_them > without + 0.05


@pytest.mark.parametrize(("skew", "steps"), [(1.2, True), (0.0, False)])
def test_steps_are_taken_where_the_data_calls_for_them(
    films: Catalogue, skew: float, steps: bool
) -> None:
    """With uneven shares climbing from the linear estimate pays; with even ones it does not."""
    n = len(films)
    truth = np.random.default_rng(3).permutation(np.arange(1.0, n + 1) ** -skew)
    truth /= truth.sum()
    channel = Channel(public_groups(films, 1.0, 30), 0.5, 0.0)
    items = np.random.default_rng(0).choice(n, 40_000, p=truth)
    counts = np.bincount(channel.draw(items, seed=1), minlength=n)
    held = AlterEgos.of(channel, counts[None], np.array([1]), films.item_ids)
    linear = np.abs(_linear_shares(held, counts[None], None)[0] - truth).sum()
    climbed = np.abs(likely_shares(held) - truth).sum()
    if steps:
        assert climbed < 0.9 * linear
    else:
        assert climbed == linear


def written_out(egos: AlterEgos, counts: Any, similarity: PublicSimilarity | None) -> Any:
    """`likely_shares` as its text has it: a vector at a time, and always a hundred steps."""

    def climb(counts: Any, steps: int) -> list[Any]:
        shares = [_linear_shares(egos, counts[None], similarity)[0]]
        for _ in range(steps):
            expected = egos.spread(shares[-1])
            shares.append(shares[-1] * egos.gather(counts / expected) / counts.sum())
        return shares

    half = np.random.default_rng(0).binomial(counts, 0.5)
    gain = np.zeros(101)
    for learned, held in ((half, counts - half), (counts - half, half)):
        gain += [held @ np.log(egos.spread(shares)) for shares in climb(learned, 100)]
    return climb(counts, 2 * int(np.argmax(gain >= gain.max() - 4)))[-1]


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.4])
def test_many_shares_at_once_are_those_of_each(
    films: Catalogue, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps each row asks for, and where the search for that ends early."""
    solve = item_shares._conjugate_gradients  # to the end: rounding decides where it stops short
    exactly = partial(solve, rtol=1e-6, most=300)
    monkeypatch.setattr(item_shares, "_conjugate_gradients", lambda *a, **_: exactly(*a))
    n = len(films)
    truth = np.random.default_rng(3).permutation(np.arange(1.0, n + 1) ** -skew)
    channel = Channel(public_groups(films, 1.0, 30), 0.5, 0.1)
    rng = np.random.default_rng(0)
    sums = [
        np.bincount(channel.draw(rng.choice(n, size, p=truth / truth.sum()), seed=1), minlength=n)
        for size in (300, 5_000, 100_000)
    ]
    held = AlterEgos.of(channel, csr_array(np.stack(sums)), np.arange(3), films.item_ids)
    similarity = PublicSimilarity(films)
    got = each_likely_shares(held, np.stack([*sums, 0 * sums[0]]), similarity)
    for shares, counts in zip(got, sums, strict=False):
        wanted = written_out(held, counts, similarity)
        np.testing.assert_allclose(shares, wanted, rtol=1e-4, atol=1e-4 / n)
    np.testing.assert_allclose(got[3], 1 / n)  # of nothing nothing is known


# ---- several channels ---------------------------------------------------------------------------


def two_channels() -> tuple[AlterEgos, AlterEgos, AlterEgos]:
    """Items 0 … 4 under one channel, all six under another, and both together."""
    first = Channel(Groups.of([[0, 1], [1, 2], [2], [3, 4], [0, 4]]), 0.3, 0.5)
    second = Channel(SIX, 0.4, 0.4)
    ids = np.array(list("abcdef"))
    early = drawn(first, np.tile(HISTORIES[:, :5], (8000, 1)), 1)
    late = drawn(second, np.tile(HISTORIES, (8000, 1)), 2)
    one = AlterEgos.of(first, early, np.arange(24_000), ids[:5])
    other = AlterEgos.of(second, late, np.arange(4_000, 28_000), ids)
    return one, other, AlterEgos.joined([one, other])


def test_channels_are_joined_by_ids() -> None:
    one, other, both = two_channels()
    assert both.item_ids.tolist() == list("abcdef")
    assert len(both.user_ids) == 28_000
    assert both.counts.shape == (28_000, 11)
    assert both.counts.sum() == one.counts.sum() + other.counts.sum()
    assert both.by_item().shape == (28_000, 6)
    assert both.epsilon == max(one.epsilon, other.epsilon)


def test_joined_operators_are_transposes() -> None:
    _, _, both = two_channels()
    rng = np.random.default_rng(0)
    x, w = rng.random(6), rng.random(11)
    assert both.spread(x) @ w == pytest.approx(x @ both.gather(w))
    rows = np.vstack([x, 2 * x[::-1]])
    outputs = csr_array(np.where(np.arange(len(w)) % 3 == 0, w, 0.0)[None, :])
    np.testing.assert_allclose(both.gather(outputs), both.gather(outputs.toarray()))
    at, column = np.array([0, 1, 1]), np.array([0, len(w) - 1, 3])
    np.testing.assert_allclose(both.spread_at(rows, at, column), both.spread(rows)[at, column])


def test_each_channel_is_undone_by_itself() -> None:
    """Guesses with both channels known are nearer the truth than with one taken for both."""
    _, other, both = two_channels()
    truth = HISTORIES.sum(axis=0) * [2.0, 2.0, 2.0, 2.0, 2.0, 1.0]
    truth /= truth.sum()
    right = likely_shares(both)
    wrong = likely_shares(
        AlterEgos.of(other.channels[0], both.by_item(), both.user_ids, both.item_ids)
    )
    assert np.abs(right - truth).max() < 0.6 * np.abs(wrong - truth).max()
    assert Posterior(both, right).guess(both.counts[:5].toarray()).shape == (5, 6)
    np.testing.assert_allclose(
        Posterior(both, right).guess(both.counts[:50].toarray()).sum(axis=1),
        np.asarray(both.counts[:50].sum(axis=1)).ravel(),
    )


def test_arrays_bring_them_back() -> None:
    _, _, both = two_channels()
    again = AlterEgos.from_arrays(both.to_arrays(), both.item_ids)
    x = np.random.default_rng(0).random(6)
    np.testing.assert_allclose(again.spread(x), both.spread(x))
    assert (again.counts != both.counts).nnz == 0
