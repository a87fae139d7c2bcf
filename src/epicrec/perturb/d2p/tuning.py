"""The channel that D2P's options mean; what is not given is chosen for the best utility at ε."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.d2p.channel import Channel, selector_probability
from epicrec.perturb.d2p.groups import (
    PublicSimilarity,
    hiding_lambda,
    public_groups,
    with_outsiders,
)
from epicrec.perturb.d2p.item_shares import OWN

DEFAULT_EPSILON = 3.0
_SAMPLE = 400  # items of the catalogue on which expected utility is reckoned
_REPORTS = 50.0  # events a catalogue item gets from all people together


def make_channel(
    catalogue: Catalogue,
    *,
    epsilon: float | None = None,
    p: float | None = None,
    p_star: float | None = None,
    lam: float | None = None,
    hide: str | None = None,
    floor: int | None = None,
) -> tuple[Channel, dict[str, Any]]:
    """The channel that these options mean for a catalogue, and the settings in full.

    Without p, p solves equation (12) for ε (3 unless given) and what else is missing is chosen on
    the catalogue. With p, p* defaults to 0, λ to 1 and the floor to a twentieth of the catalogue.
    An ε that they exceed is an error.
    """
    check_budget(epsilon, lam)
    if hide is not None:
        lam = max(lam or 0.0, hiding_lambda(catalogue, hide))
    if p is None:
        budget = DEFAULT_EPSILON if epsilon is None else epsilon
        chosen = choose(catalogue, budget, p_star=p_star, lam=lam, floor=floor)
        p, p_star, lam, floor = chosen.p, chosen.p_star, chosen.lam, chosen.floor
    else:
        n = len(catalogue)
        p_star, lam = 0.0 if p_star is None else p_star, 1.0 if lam is None else lam
        floor = whole_floor(max(1, n // 20) if floor is None else floor, n)
    groups = public_groups(catalogue, lam, floor)
    settings: dict[str, Any] = {"p": p, "p_star": p_star, "lam": lam, "floor": floor}
    settings["neighbours"] = 0  # joining groups is the paper's; here λ and the floor do that
    if hide is not None:
        groups, settings["hide"] = with_outsiders(groups, catalogue, hide), hide
    channel = Channel(groups, p, p_star)
    check_cost(channel.epsilon, epsilon, settings)
    return channel, settings


@dataclass(frozen=True)
class ChannelSettings:
    """p, p*, λ and the floor on group sizes, with the utility expected of them."""

    p: float
    p_star: float
    lam: float
    floor: int
    utility: float


@lru_cache(maxsize=16)
def choose(
    catalogue: Catalogue,
    epsilon: float,
    *,
    p_star: float | None = None,
    lam: float | None = None,
    floor: int | None = None,
) -> ChannelSettings:
    """The inverse problem: of all (p, p*, λ, floor) that cost ε, those of the best expected
    utility.

    For each candidate p solves equation (12) with equality, so all of ε is used. What is given
    stays as given. Only the catalogue is read; see `expected_utility`. p* is 0 unless given:
    a group holds its own item, so a smaller group does what p* does, at less cost. With groups of
    g items the least noise is at g ≈ N/(e^ε - 1), which the candidates surround.
    """
    check_epsilon(epsilon)
    n = len(catalogue)
    star = 0.0 if p_star is None else p_star
    best_size = n / float(np.expm1(min(epsilon, 500.0)))
    sizes = (
        sorted({int(np.clip(round(f * best_size), 1, n)) for f in (0.35, 0.6, 1.0, 1.7)})
        if floor is None
        else [whole_floor(floor, n)]
    )
    plain = PublicSimilarity(catalogue).plain
    radii = (lam,) if lam is not None else (1.0,) if plain else (0.25, 0.5, 1.0)
    found = []
    for size in sizes:
        p = selector_probability(n, epsilon, star, size)
        if p is not None:
            found += [
                ChannelSettings(
                    p, star, radius, size, expected_utility(catalogue, p, star, radius, size)
                )
                for radius in radii
            ]
    if not found:
        raise InputError(
            f"p* = {star:g} alone costs more than ε = {epsilon:g} among {n:,} items; choose "
            "a smaller p* or a larger ε"
        )
    return max(found, key=lambda settings: settings.utility)


def expected_utility(
    catalogue: Catalogue, p: float, p_star: float, lam: float, floor: int
) -> float:
    """The share of what sets items apart that a server is expected to recover; from public data.

    The items' shares are taken as in `likely_shares`, with m = 50 events an item: the estimate then
    explains tr(ΣA (AᵀΣA + I/m)⁻¹ AᵀΣ)/tr Σ. Large catalogues are reckoned on 400 items spread
    evenly over them, with groups of the same share.
    """
    n = len(catalogue)
    sample = catalogue if n <= _SAMPLE else _spread_part(catalogue, _SAMPLE)
    size = max(1, round(floor * len(sample) / n))
    odds = Channel(public_groups(sample, lam, size), p, p_star).matrix()
    covariance = _public_covariance(sample)
    signal = odds / np.sqrt(len(sample) * odds.mean(axis=0))
    cross = covariance @ signal
    seen = signal.T @ cross
    seen[np.diag_indices(len(sample))] += 1 / _REPORTS
    explained = np.einsum("ij,ji->", cross, solve(seen, cross.T, assume_a="pos"))
    return float(explained / np.trace(covariance))


@lru_cache(maxsize=4)
def _public_covariance(catalogue: Catalogue) -> npt.NDArray[np.float64]:
    n = len(catalogue)
    similarity = PublicSimilarity(catalogue)
    if similarity.plain:
        return np.eye(n)
    return np.asarray((1 - OWN) * similarity.covariance_times(np.eye(n)) + OWN * np.eye(n))


@lru_cache(maxsize=4)
def _spread_part(catalogue: Catalogue, size: int) -> Catalogue:
    """So many items of a catalogue, at even distances."""
    items = np.linspace(0, len(catalogue) - 1, size).astype(int)
    rows = catalogue.matrix[items]
    return replace(
        catalogue,
        item_ids=catalogue.item_ids[items],
        titles=catalogue.titles[items],
        years=catalogue.years[items],
        indptr=rows.indptr.astype(np.int64),
        indices=rows.indices.astype(np.int32),
        popularity=None if catalogue.popularity is None else catalogue.popularity[items],
        extra=None,
    )


# ---- checks ---------------------------------------------------------------------------------


def check_budget(epsilon: float | None, lam: float | None) -> None:
    """Refuse an ε or a λ that cannot be one."""
    if epsilon is not None:
        check_epsilon(epsilon)
    if lam is not None and not lam >= 0:
        raise InputError(f"λ is a distance and at least 0, not {lam}")


def check_cost(cost: float, epsilon: float | None, settings: dict[str, Any]) -> None:
    """Refuse settings that cost more than the ε that was asked for."""
    if epsilon is not None and cost > epsilon * (1 + 1e-9):
        raise InputError(
            f"p = {settings['p']:g}, p* = {settings['p_star']:g} and λ = {settings['lam']:g} cost "
            f"ε = {cost:.4g}, more than {epsilon:g}; leave p out to have it chosen, or raise ε"
        )


def check_epsilon(epsilon: float) -> None:
    if isinstance(epsilon, bool) or not isfinite(epsilon) or not epsilon > 0:
        raise InputError(f"epsilon must be a number above 0, not {epsilon!r}")


def whole_floor(floor: int, n: int) -> int:
    if isinstance(floor, bool) or int(floor) != floor or floor < 1:
        raise InputError(f"the floor on group sizes is a whole number from 1 on, not {floor!r}")
    return int(min(floor, n))
