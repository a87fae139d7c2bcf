"""Popularity from releases: each item's share of all viewing, whatever mechanisms people chose.

Every source is believed as far as it is known: events by the channel they went through (their joint
likelihood), public popularity as far as held-out events agree with it, totals of categories by the
noise on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.data import Catalogue
from epicrec.perturb.contract import Totals
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.groups import PublicSimilarity
from epicrec.perturb.d2p.item_shares import each_likely_shares
from epicrec.perturb.epicrec.prior import default_prior

_KNOWN = 100.0
"""Events that public knowledge alone is worth, beside totals of categories."""
_STEPS = 50


def corrected_shares(
    events: AlterEgos | None, totals: Sequence[Totals], catalogue: Catalogue
) -> tuple[Floats, Floats]:
    """The shares of the catalogue's items among all that people have, from all they released; and
    what events alone say of them (`likely_shares`).

    `totals` are those of people who noised the same categories, one mapping for each such group.
    """
    public = default_prior(catalogue).weights
    shares, by_events, worth = public, public, _KNOWN
    if events is not None and events.released.any():
        shares, by_events, worth = _from_events(events, catalogue, public)
    uncertain = _category_variance(catalogue, shares) / worth
    for told in totals:
        shares, uncertain = tilted(shares, uncertain, catalogue, told)
    return shares, by_events


def _from_events(
    events: AlterEgos, catalogue: Catalogue, public: Floats
) -> tuple[Floats, Floats, float]:
    """Shares by the events, with public popularity mixed in as far as held-out events ask for it;
    without it; and how many events, seen as they are, would tell as much of the categories."""
    counts = events.released.astype(np.int64)
    half = np.random.default_rng(0).binomial(counts, 0.5)
    sums = np.stack([counts, half, counts - half])
    by_events, *parts = each_likely_shares(events, sums, PublicSimilarity(catalogue))
    shares = by_events
    if catalogue.popularity is not None:
        weight = _weight_of(
            [(events.spread(a), events.spread(public), held)
             for a, held in zip(parts, (counts - half, half), strict=True)]
        )  # fmt: skip
        shares = (1 - weight) * shares + weight * public
        parts = [(1 - weight) * part + weight * public for part in parts]
    apart = (catalogue.matrix.astype(np.float64).T @ (parts[0] - parts[1])) ** 2 / 4
    usual = _category_variance(catalogue, shares)
    known = usual > 0
    error = float((apart[known] / usual[known]).mean()) if known.any() else 0.0
    return shares, by_events, 1 / max(error, 1 / max(float(counts.sum()), 1.0))


def _weight_of(parts: list[tuple[Floats, Floats, npt.NDArray[Any]]]) -> float:
    """The weight of the second of two guesses that makes held-out counts likeliest, by expectation
    maximisation: the likelihood has one peak."""
    weight = 0.5
    for _ in range(_STEPS):
        of_second = [
            held @ (weight * b / np.maximum((1 - weight) * a + weight * b, 1e-300))
            for a, b, held in parts
        ]
        weight = float(sum(of_second) / max(sum(held.sum() for *_, held in parts), 1))
    return weight


def tilted(
    shares: Floats, uncertain: Floats, catalogue: Catalogue, totals: Totals
) -> tuple[Floats, Floats]:
    """Shares moved to the categories' totals, as far as these are the better known.

    The mean number m_j of category j in an item has the variance `uncertain` by the shares, and by
    totals A of variance V over n items V/n² and sampling; n is what makes the totals fit the shares
    best. The two are averaged by their precisions. Of all shares with these means the nearest are
    π·e^(Cθ) (Kullback & Leibler), found by Newton's steps.
    """
    place = {name: at for at, name in enumerate(catalogue.categories)}
    at = np.array([place[name] for name in totals if name in place], np.int64)
    seen, variance = (
        np.array([totals[catalogue.categories[j]][k] for j in at.tolist()]) for k in (0, 1)
    )
    matrix = catalogue.matrix.astype(np.float64)[:, at].toarray()
    mean = matrix.T @ shares
    weights = mean / np.maximum(variance, 1e-9)
    size = float(weights @ seen) / max(float(weights @ mean), 1e-12)
    if size < 1:
        return shares, uncertain
    heard = variance / size**2 + mean * (1 - mean).clip(0) / size + 1e-12
    own = np.maximum(uncertain[at], 1e-15)
    target = (mean / own + seen / size / heard) / (1 / own + 1 / heard)
    uncertain = uncertain.copy()
    uncertain[at] = 1 / (1 / own + 1 / heard)
    return _with_means(shares, matrix, target.clip(min=1e-9)), uncertain


def _with_means(shares: Floats, matrix: Floats, target: Floats) -> Floats:
    """The shares nearest to these under which the columns have these means."""
    theta, now = np.zeros(len(target)), shares
    for _ in range(_STEPS):
        mean = matrix.T @ now
        spread = (matrix.T * now) @ matrix - np.outer(mean, mean)
        spread[np.diag_indices(len(mean))] += 1e-9
        step = np.linalg.solve(spread, target - mean)
        theta += step / max(1.0, float(np.abs(step).max()))
        power = matrix @ theta
        now = shares * np.exp(power - power.max())
        now /= now.sum()
        if np.abs(step).max(initial=0) < 1e-9:
            break
    return np.asarray(now, np.float64)


def _category_variance(catalogue: Catalogue, shares: Floats) -> Floats:
    """Of one event, whether it is of each category."""
    mean = np.asarray(catalogue.matrix.astype(np.float64).T @ shares)
    return np.asarray(mean * (1 - mean).clip(0))
