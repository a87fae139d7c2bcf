"""Private histories: counts of items first, then as much of what people share as they pay for.

Everything after a measurement uses released and public numbers only (docs/histories.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np

from epicrec.arrays import Floats
from epicrec.data import Ratings
from epicrec.engine import Engine
from epicrec.models.factors import history_state
from epicrec.models.private.basis import FEW, Basis, popularity_weights, with_own
from epicrec.models.private.budget import Budget
from epicrec.models.private.measurements import UNEVEN
from epicrec.models.private.pairs import PairSums, check_memory, dense, fits
from epicrec.models.private.statistics import STEPS, ItemEffects
from epicrec.models.private.tastes import (
    DIRECTION_BITS,
    ITEM_BITS,
    TASTE_BITS,
    WEIGHT_BITS,
    ItemTastes,
    TasteProducts,
    in_integers,
)
from epicrec.models.spectrum import (
    HISTORY_SAMPLING,
    Spectrum,
    denoised,
    history_factors,
    leading_eigenpairs,
)

ListPlan = Literal["popularity", "tastes", "items", "pairs"]

FIRST_COUNTS = 0.1
"""The share of the budget for a first measurement of the counts of items."""
SECOND_COUNTS, LEAST_SECOND = 0.25, 0.1
KNOWN_FROM = 500.0
"""The share for a second measurement, where all the rest goes to tastes: it falls with people · μ
from here on, down to the least."""
START = 0.2
"""The share for tastes where the rest goes to items by taste."""
HALF = 0.5
"""Where tastes may have all of the rest they have this part of it first: if that shows nothing,
counts have the other."""
RARELY = 1.01
"""Once in a hundred times noise alone passes its edge, in d directions, by more than this share
over d^(2/3): half of where the law of the largest eigenvalue (Tracy & Widom 1996) has 99 %."""
LEAST_STRENGTH, LEAST_BARE, LEAST_CLEAR = 40.0, 200.0, 20.0
"""Tastes are measured where people · μ is at least the first, or the second where nothing public
tells which directions to look in, and still at least the third when counts that drown in their
noise reduce it."""
ITEMS_PAY = 60.0, 2000.0
"""Items by taste are measured where people · μ is so many times the root of how many items share
the counts; with still more people, tastes in more directions tell more."""
PAIRS_PAY = {"rating": 0.7, "user": 12.0}
"""Pairs of items are measured where their second eigenvalue, as the counts foretell it, is this
much times the edge of the noise; with Laplace noise, which is for pairs only, from the edge on."""
TASTES, START_TASTES, PER_TASTE, FEWEST = 600, 150, 5.0, 10
"""So many directions of taste at most, alone or as a start, and one for each 5 people · μ."""
SHOWN = sqrt(2)
"""Tastes are used where the largest eigenvalue of what chance would not show is so many times the
edge of noise alone."""
ITEM_TASTES, PER_ITEM_TASTE, MOST_ITEM_TASTES = 40, 5.0, 200
"""Items are measured in 40 directions; in more, up to 200, where their noise is small."""
MOST_ENTRIES = 1 << 24
"""But in no more than 40 where items × directions would exceed this."""
ROUNDING = 1e-9
"""What may seem left of a budget that is spent."""
DRAWN = 2048
"""So many people are drawn by popularity alone."""
SOFT = 0.3
"""A direction weighs k/(k + SOFT·k₁) in scores, k being its cleaned eigenvalue, k₁ the first."""
EVEN = 0.6
"""So much of the median eigenvalue is what tastes have in all directions alike: each person's own
items, which tell nothing of others."""
POPULAR = 0.6
"""The weight of popularity beside that of the first direction of taste, 1/(1 + SOFT)."""
SECOND_EIGENVALUE = 0.16
"""Of what is watched together, the second eigenvalue over the first, which is popularity."""


@dataclass(frozen=True)
class MeasuredCounts:
    """Noisy counts of items and number of people, with the noise's standard deviations.

    At the user level a person counts as one in all: each of c items as 1/√c.
    """

    counts: Floats
    spread: float
    people: float
    people_spread: float
    share: float

    def __add__(self, other: MeasuredCounts) -> MeasuredCounts:
        """Both measurements as one, weighted by their shares of the budget."""
        share = self.share + other.share
        own = self.share / share
        return MeasuredCounts(
            own * self.counts + (1 - own) * other.counts,
            self.spread * sqrt(own),
            own * self.people + (1 - own) * other.people,
            self.people_spread * sqrt(own),
            share,
        )

    @property
    def total(self) -> float:
        return max(float(self.counts.sum()), self.spread, 1.0)


@dataclass(frozen=True)
class Together:
    """How tastes go together, with noise: of this deviation on the diagonal, of 1/√2 beside it."""

    matrix: Floats
    sigma: float
    share: float

    def __add__(self, other: Together) -> Together:
        """Both measurements as one, weighted by their shares of the budget."""
        share = self.share + other.share
        own = self.share / share
        matrix = own * self.matrix + (1 - own) * other.matrix
        return Together(matrix, self.sigma * sqrt(own), share)

    def beyond(self, chance: Floats) -> float:
        """The largest eigenvalue of what chance would not show, over the edge of noise alone."""
        largest = np.linalg.eigvalsh(self.matrix - chance)[-1]
        return float(largest) / (self.sigma * sqrt(2 * len(chance)))


def release_histories(
    ratings: Ratings, features: Any, budget: Budget, k: int, engine: Engine
) -> dict[str, Any]:
    """Counts, then what they say will pay: tastes, items by taste, pairs, or counts again."""
    measured = measure_counts(ratings, budget, FIRST_COUNTS, engine)
    room = budget.pairs and fits(ratings.n_items)
    bare = budget.catalogued and features.shape[1] < FEW
    plan = choose_plan(budget, measured, room=room, bare=bare)
    note = ""
    if budget.pairs and not room and choose_plan(budget, measured, room=True, bare=bare) == "pairs":
        note = (
            f"the pairs of {ratings.n_items:,} items do not fit in memory, {plan} had their share"
        )
    if plan == "popularity":
        measured = only_counts(ratings, budget, engine, measured)
        note = note or (
            f"these lists are popularity: about {max(round(measured.people), 0):,} people and "
            f"epsilon = {budget.epsilon:g} do not pay for more"
        )
        return _popular(measured) | {"note_": note}
    if plan == "pairs":
        return _pairs(ratings, budget, k, engine, measured) | {"note_": note}
    if plan == "tastes":
        known = max(_strength(budget, measured) / KNOWN_FROM, 1.0)
        share = max(SECOND_COUNTS / known, LEAST_SECOND)
        measured += measure_counts(ratings, budget, share, engine, turn=1)
    state = _tastes(ratings, features, budget, engine, measured, by_item=plan == "items")
    if state is None:
        left = 1 - sum(budget.spent.values())
        if left > ROUNDING:
            measured += measure_counts(ratings, budget, left, engine, turn=3)
        note = "these lists are popularity: tastes show no more than chance and noise would"
        state = _popular(measured)
    return state | {"note_": note}


def _popular(measured: MeasuredCounts) -> dict[str, Any]:
    none = np.zeros((len(measured.counts), 0))
    return history_state(np.maximum(measured.counts, 0.0), none, none)


def measure_counts(
    ratings: Ratings, budget: Budget, share: float, engine: Engine, *, turn: int = 0
) -> MeasuredCounts:
    """How many people have each item, and how many there are."""
    n = ratings.n_items
    levels = np.full(n, STEPS, np.int16) if budget.unit == "user" else None
    statistic = ItemEffects(budget.unit, budget.norm, None, levels)
    raw, noise = budget.measure(statistic, share, engine(statistic, ratings), turn=turn)
    _, one, user, _ = statistic.per_unit
    return MeasuredCounts(raw[:n] / one, noise / one, float(raw[n] / user), noise / user, share)


def only_counts(
    ratings: Ratings, budget: Budget, engine: Engine, measured: MeasuredCounts
) -> MeasuredCounts:
    """A first measurement of counts, and another with all of the rest."""
    return measured + measure_counts(ratings, budget, 1 - measured.share, engine, turn=1)


def choose_plan(budget: Budget, measured: MeasuredCounts, *, room: bool, bare: bool) -> ListPlan:
    """What the rest of the budget is spent on; `room` is whether pairs of items fit in memory,
    `bare` whether nothing public tells items apart."""
    clear = _pairs_clear(budget, measured)
    if budget.noise == "laplace":
        return "pairs" if room and clear > 1 else "popularity"
    if room and clear > PAIRS_PAY[budget.unit]:
        return "pairs"
    strength = _strength(budget, measured)
    noise = len(measured.counts) * measured.spread**2
    known = float(measured.counts @ measured.counts) / noise - 1
    least = LEAST_BARE if bare else LEAST_STRENGTH
    if strength < least or strength * min(known, 1.0) < LEAST_CLEAR:
        return "popularity"
    return "items" if ITEMS_PAY[0] < _per_item(budget, measured) < ITEMS_PAY[1] else "tastes"


def _strength(budget: Budget, measured: MeasuredCounts) -> float:
    """People · μ: how a sum over people of length one compares with its noise."""
    people = max(measured.people - measured.people_spread, 0.0)
    return people * (budget.mu if budget.unit == "user" else budget.mu / sqrt(2))


def _per_item(budget: Budget, measured: MeasuredCounts) -> float:
    """The same over the root of how many items there would be with equal counts."""
    counts = denoised(measured.counts, measured.spread)
    equal = counts.sum() ** 2 / max(float(counts @ counts), 1e-9)
    return _strength(budget, measured) / sqrt(max(equal, 1.0))


def _pairs_clear(budget: Budget, measured: MeasuredCounts) -> float:
    """The second eigenvalue of pairs of items, as counts foretell it, over the noise's edge."""
    n, total = len(measured.counts), measured.total
    people = float(np.clip(measured.people, total / n, total))
    present = np.maximum(measured.counts, 0.0)
    pairs = PairSums(budget.unit, budget.norm, None, np.full(n, STEPS, np.int16))
    sigma = budget.spread(pairs, 1 - measured.share) / pairs.one
    each = total / people  # the mean of √c at the user level, of c at the rating level
    mass = UNEVEN * total * each if budget.unit == "user" else total * sqrt(each)
    square = max(0.0, float(present @ present) - n * measured.spread**2)
    clear = square / max(float(present.sum()), 1e-9) ** 2
    return SECOND_EIGENVALUE * mass * clear / (2 * sigma * sqrt(n))


def _tastes(
    ratings: Ratings,
    features: Any,
    budget: Budget,
    engine: Engine,
    measured: MeasuredCounts,
    *,
    by_item: bool,
) -> dict[str, Any] | None:
    """Directions of taste in public features and, where they pay, which items go with them; nothing
    where no direction stands out of noise and of what popularity alone would show."""
    counts, weights, popular = popularity_weights(denoised(measured.counts, measured.spread))
    features = with_own(features, counts, own=not by_item)
    share = START if by_item else 1 - measured.share
    wanted = _strength(budget, measured) * sqrt(share) / PER_TASTE
    wide = ITEM_TASTES
    if by_item:
        room = min(MOST_ITEM_TASTES, MOST_ENTRIES // len(counts))
        wide = max(wide, min(room, int(_per_item(budget, measured) / PER_ITEM_TASTE)))
    most = max(START_TASTES, wide) if by_item else TASTES
    most = int(np.clip(wanted, FEWEST, most))
    basis = budget.settled(lambda: Basis.of(features, counts, popular, most=most))
    products = TasteProducts(
        budget.unit,
        in_integers(weights * basis.scales, WEIGHT_BITS),
        basis.features,
        in_integers(basis.apart, DIRECTION_BITS),
    )
    found = _shown(ratings, budget, engine, measured, counts, products, by_item=by_item)
    if found is None:
        return None
    values, vectors = np.linalg.eigh(found.matrix)
    values = values - EVEN * max(float(np.median(values)), 0.0)
    noise = 2 * len(values) * found.sigma**2
    kept = np.sqrt(np.maximum(np.maximum(values, 0) ** 2 - noise, 0))
    kept, vectors = basis.evenly(kept, vectors)
    if not by_item:
        return _state(measured, weights, popular, basis.times(vectors), kept)
    directions = basis.times(vectors[:, :wide]) * np.sqrt(_soft(kept[:wide]))
    directions -= np.outer(popular, popular @ directions)
    items = ItemTastes(
        budget.unit, in_integers(weights, WEIGHT_BITS), in_integers(directions, DIRECTION_BITS)
    )
    del directions
    rest = 1 - measured.share - share
    flat, sigma = budget.measure(items, rest, engine(items, ratings), turn=3)
    told = _trusted(items.matrix(flat), basis, counts, sigma / (1 << ITEM_BITS + TASTE_BITS))
    told -= np.outer(popular, popular @ told)
    directions, kept, _ = np.linalg.svd(told, full_matrices=False)
    return _state(measured, weights, popular, directions, kept)


def _shown(
    ratings: Ratings, budget: Budget, engine: Engine, measured: MeasuredCounts, counts: Floats,
    products: TasteProducts, *, by_item: bool,
) -> Together | None:  # fmt: skip
    """How tastes go together, if they show more than chance and noise would.

    Where they are to have all of the rest, half of it is measured first, and less is asked of
    that; both measurements together are as one with both shares.
    """
    chance = products.matrix(products(by_popularity(measured, counts, budget.unit)))
    chance *= measured.people / DRAWN

    def measure(share: float, turn: int) -> Together:
        packed, noise = budget.measure(products, share, engine(products, ratings), turn=turn)
        return Together(products.matrix(packed), noise / (5 << 2 * TASTE_BITS), share)

    if by_item:
        found = measure(START, turn=2)
    else:
        rest = 1 - measured.share
        found = measure(HALF * rest, turn=2)
        if found.beyond(chance) < 1 + RARELY * len(chance) ** (-2 / 3):
            return None
        found += measure(rest - HALF * rest, turn=3)
    return found if found.beyond(chance) >= SHOWN else None


def by_popularity(measured: MeasuredCounts, counts: Floats, unit: str) -> Ratings:
    """Histories as they would be if everybody had drawn items by popularity alone, from released
    numbers and by draws that are the same for everyone. People with few items, and rare ones, make
    a direction of taste of their own, which tells nothing of what anyone likes."""
    rng, n = np.random.default_rng(0), len(counts)
    each = max(measured.total / max(measured.people, 1.0), 1.0)  # at the user level the mean of √c
    lengths = rng.geometric(1 / (each**2 if unit == "user" else each), DRAWN)
    users = np.repeat(np.arange(DRAWN), np.minimum(lengths, n))
    up_to = np.cumsum(counts)
    items = np.searchsorted(up_to[:-1], rng.random(len(users)) * up_to[-1])
    both = np.unique(users * n + items)
    return Ratings.from_columns(both // n, both % n).with_items(np.arange(n))


def _trusted(found: Floats, basis: Basis, counts: Floats, sigma: float) -> Floats:
    """What features explain as it is, and the rest as far as counts and noise let one trust it."""
    inside = basis.times(basis.inner(found))
    trust = (counts / counts.max())[:, None] ** 2
    found -= inside
    signal = np.maximum((found**2).sum(axis=0) - len(found) * sigma**2, 0) / trust.sum()
    found *= signal * trust / (signal * trust + sigma**2)
    found += inside
    return found


def _soft(kept: Floats) -> Floats:
    return np.asarray(kept / np.maximum(kept + SOFT * kept.max(initial=0.0), 1e-12))


def _state(
    measured: MeasuredCounts, weights: Floats, popular: Floats, directions: Floats, kept: Floats
) -> dict[str, Any]:
    """Scores D⁻¹ (POPULAR·q qᵀ + V s Vᵀ) D h, with D the weights and s soft."""
    soft = _soft(kept)
    use = soft > 0
    columns = np.column_stack([popular * sqrt(POPULAR), directions[:, use] * np.sqrt(soft[use])])
    scales = weights[:, None]
    return history_state(np.maximum(measured.counts, 0.0), columns / scales, columns * scales)


def _pairs(
    ratings: Ratings, budget: Budget, k: int, engine: Engine, measured: MeasuredCounts
) -> dict[str, Any]:
    """The leading eigenvectors of what is watched together."""
    n = ratings.n_items
    check_memory(n)
    present = np.maximum(measured.counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)
    people = float(np.clip(measured.people, measured.total / n, measured.total))
    pairs = PairSums(budget.unit, budget.norm, None, np.full(n, STEPS, np.int16))
    packed, noise = budget.measure(pairs, 1 - measured.share, engine(pairs, ratings), turn=2)
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    del packed
    spectrum = Spectrum(*leading_eigenpairs(matrix, k))
    del matrix
    units = people if budget.unit == "user" else measured.total
    sampled = np.sqrt(HISTORY_SAMPLING * units) * share
    found = history_factors(spectrum, np.ones(n), noise / pairs.one, sampled)
    return history_state(present, *found)
