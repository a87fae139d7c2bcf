"""Item shares: how often each item is in true histories, from what AlterEgos together hold.

Everything here is post-processing of what was released, with public knowledge only: it costs no
privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.groups import PublicSimilarity

OWN = 0.5
"""The share of what sets an item apart that public features say nothing about."""
LEAST_SHARE = 0.02
"""No item is taken to have less than this share of what a mean item has."""
_MOST_STEPS = 100  # of expectation maximisation
_ENOUGH = 4.0  # of log-likelihood: what chance may give
_PATIENCE = 10  # steps
_NOTHING = 0.04  # of log-likelihood: going on so for all steps left would not be a tenth of enough


def likely_shares(alteregos: AlterEgos, similarity: PublicSimilarity | None = None) -> Floats:
    """The shares of true items among all events, from what was released."""
    return np.asarray(each_likely_shares(alteregos, alteregos.released[None, :], similarity)[0])


def each_likely_shares(
    channel: AlterEgos, released: npt.NDArray[Any], similarity: PublicSimilarity | None = None
) -> Floats:
    """The same for several sums of what was released, one a row, at little more than the cost of
    one.

    From the best linear estimate (`_linear_shares`) expectation maximisation climbs toward what
    makes the released counts likely. All the way up it would fit the noise, so half of the events
    are held out, in turn, to see after how many steps these are likely enough; all events, which
    tell twice as much, get twice as many.
    """
    counts = np.asarray(released, np.int64)
    half = np.stack([np.random.default_rng(0).binomial(row, 0.5) for row in counts])
    steps = 2 * _enough_steps(channel, half, counts - half, similarity)
    out = np.full((len(counts), channel.n_items), 1 / channel.n_items)
    for step, (shares, _) in enumerate(_climb(channel, counts, similarity)):
        out[steps == step] = shares[steps == step]
        if step == steps.max():
            break
    out[~counts.any(axis=1)] = 1 / channel.n_items
    return out


def _enough_steps(
    channel: AlterEgos, half: Integers, rest: Integers, similarity: PublicSimilarity | None
) -> Integers:
    """For each row the first step after which the half that was not learned from is likely enough.
    The search ends where ten steps have gained next to nothing: then the noise is being fitted."""
    held = np.concatenate([rest, half])
    gains = np.full((_MOST_STEPS + 1, len(half)), -np.inf)
    climb = _climb(channel, np.concatenate([half, rest]), similarity)
    for step, (_, expected) in enumerate(islice(climb, len(gains))):
        each = (held * np.log(expected)).sum(axis=1)
        gains[step] = each[: len(half)] + each[len(half) :]
        before = gains[max(step - _PATIENCE, 0)]
        if step >= _PATIENCE and (gains[step] - before < _NOTHING).all():
            break
    return np.asarray(np.argmax(gains >= gains.max(axis=0) - _ENOUGH, axis=0))


def _climb(
    channel: AlterEgos, counts: npt.NDArray[Any], similarity: PublicSimilarity | None
) -> Iterator[tuple[Floats, Floats]]:
    """The linear estimate, then steps of expectation maximisation, each with the outputs that are
    expected of it; a row for each row of counts."""
    events = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    shares = _linear_shares(channel, counts, similarity)
    while True:
        expected = np.maximum(channel.spread(shares), 1e-300)
        yield shares, expected
        shares = shares * channel.gather(counts / expected) / events


def _linear_shares(
    channel: AlterEgos, counts: npt.NDArray[Any], similarity: PublicSimilarity | None
) -> Floats:
    """The best linear estimate for each row, with nothing below a fiftieth of the mean.

    An item's share is (1 + d)/N; before anything is seen d has mean 0 and covariance Σ, of trace N:
    half of it the public similarity and half each item's own. Outputs have mean and variance
    u = spread(1/N), over the number n of events. In units of their deviation, A = T/√(Nu), the
    estimate is d = ΣA (AᵀΣA + N/n)⁻¹ z, found by conjugate gradients.
    """
    n, events = channel.n_items, np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    even = channel.spread(np.full(n, 1 / n))
    scale = 1 / np.sqrt(n * np.maximum(even, 1e-300))
    seen = (counts / events - even) * n * scale

    def prior(deviations: Floats) -> Floats:
        if similarity is None or similarity.plain:
            return deviations
        known = similarity.covariance_times(deviations.T).T
        return np.asarray((1 - OWN) * known + OWN * deviations)

    def variance(w: Floats) -> Floats:
        signal = channel.spread(prior(channel.gather(w * scale))) * scale
        return np.asarray(signal + n / events * w)

    solved = _conjugate_gradients(variance, seen, rtol=1e-3, most=300)
    shares = np.maximum(1 + prior(channel.gather(solved * scale)), LEAST_SHARE)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _conjugate_gradients(
    times: Callable[[Floats], Floats], wanted: Floats, *, rtol: float, most: int
) -> Floats:
    """x with A x = b for each row b by itself; `times` takes all rows through A together."""
    found, rest, along = np.zeros_like(wanted), wanted.copy(), wanted.copy()
    size = (rest**2).sum(axis=1)
    enough = rtol**2 * size
    for _ in range(most):
        if (size <= enough).all():
            break
        turned = times(along)
        going = size > enough
        step = np.where(going, size / np.maximum((along * turned).sum(axis=1), 1e-300), 0.0)
        found += step[:, None] * along
        rest -= step[:, None] * turned
        before, size = size, np.where(going, (rest**2).sum(axis=1), size)
        along = rest + (size / np.maximum(before, 1e-300))[:, None] * along
    return found
