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
from epicrec.models.covariance.basis import FEW, Basis, popularity_weights, with_own
from epicrec.models.covariance.budget import Budget
from epicrec.models.covariance.kernel import check_memory, dense, fits
from epicrec.models.covariance.statistics import STEPS, ItemEffects, PairSums
from epicrec.models.covariance.tastes import (
    DIRECTION_BITS,
    ITEM_BITS,
    TASTE_BITS,
    WEIGHT_BITS,
    ItemTastes,
    TasteProducts,
    in_integers,
)
from epicrec.models.factors import history_state
from epicrec.models.spectrum import (
    HISTORY_SAMPLING,
    Spectrum,
    denoised,
    history_factors,
    leading_eigenpairs,
)

Way = Literal["popularity", "tastes", "items", "pairs"]

FIRST_LOOK = 0.1
"""The share of the budget for a first look at the counts of items."""
SECOND_LOOK, LEAST_SECOND = 0.25, 0.1
KNOWN_FROM = 500.0
"""The share for a second look, where all the rest goes to tastes: it falls with people · μ from
here on, down to the least."""
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
UNEVEN = 1.35
"""How far the sum of users' numbers of items exceeds that of users with equal histories."""
SECOND_EIGENVALUE = 0.16
"""Of what is watched together, the second eigenvalue over the first, which is popularity."""


@dataclass(frozen=True)
class Look:
    """Noisy counts of items and number of people, with the noise's standard deviations.

    At the user level a person counts as one in all: each of c items as 1/√c.
    """

    counts: Floats
    spread: float
    people: float
    people_spread: float
    share: float

    def __add__(self, other: Look) -> Look:
        """Both looks as one, weighted by their shares of the budget."""
        share = self.share + other.share
        own = self.share / share
        return Look(
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
    look = release_counts(ratings, budget, FIRST_LOOK, engine)
    room = budget.pairs and fits(ratings.n_items)
    bare = budget.catalogued and features.shape[1] < FEW
    way = choose_way(budget, look, room=room, bare=bare)
    note = ""
    if budget.pairs and not room and choose_way(budget, look, room=True, bare=bare) == "pairs":
        note = f"the pairs of {ratings.n_items:,} items do not fit in memory, {way} had their share"
    if way == "popularity":
        look = only_counts(ratings, budget, engine, look)
        note = note or (
            f"these lists are popularity: about {max(round(look.people), 0):,} people and "
            f"epsilon = {budget.epsilon:g} do not pay for more"
        )
        return _popular(look) | {"note_": note}
    if way == "pairs":
        return _pairs(ratings, budget, k, engine, look) | {"note_": note}
    if way == "tastes":
        known = max(_strength(budget, look) / KNOWN_FROM, 1.0)
        share = max(SECOND_LOOK / known, LEAST_SECOND)
        look += release_counts(ratings, budget, share, engine, turn=1)
    state = _tastes(ratings, features, budget, engine, look, by_item=way == "items")
    if state is None:
        left = 1 - sum(budget.spent.values())
        if left > ROUNDING:
            look += release_counts(ratings, budget, left, engine, turn=3)
        note = "these lists are popularity: tastes show no more than chance and noise would"
        state = _popular(look)
    return state | {"note_": note}


def _popular(look: Look) -> dict[str, Any]:
    none = np.zeros((len(look.counts), 0))
    return history_state(np.maximum(look.counts, 0.0), none, none)


def release_counts(
    ratings: Ratings, budget: Budget, share: float, engine: Engine, *, turn: int = 0
) -> Look:
    """How many people have each item, and how many there are."""
    n = ratings.n_items
    levels = np.full(n, STEPS, np.int16) if budget.unit == "user" else None
    statistic = ItemEffects(budget.unit, budget.norm, None, levels)
    raw, noise = budget.measure(statistic, share, engine(statistic, ratings), turn=turn)
    _, one, user, _ = statistic.per_unit
    return Look(raw[:n] / one, noise / one, float(raw[n] / user), noise / user, share)


def only_counts(ratings: Ratings, budget: Budget, engine: Engine, look: Look) -> Look:
    """A first look at counts, and another with all of the rest."""
    return look + release_counts(ratings, budget, 1 - look.share, engine, turn=1)


def choose_way(budget: Budget, look: Look, *, room: bool, bare: bool) -> Way:
    """What the rest of the budget is spent on; `room` is whether pairs of items fit in memory,
    `bare` whether nothing public tells items apart."""
    clear = _pairs_clear(budget, look)
    if budget.noise == "laplace":
        return "pairs" if room and clear > 1 else "popularity"
    if room and clear > PAIRS_PAY[budget.unit]:
        return "pairs"
    strength = _strength(budget, look)
    noise = len(look.counts) * look.spread**2
    known = float(look.counts @ look.counts) / noise - 1
    least = LEAST_BARE if bare else LEAST_STRENGTH
    if strength < least or strength * min(known, 1.0) < LEAST_CLEAR:
        return "popularity"
    return "items" if ITEMS_PAY[0] < _per_item(budget, look) < ITEMS_PAY[1] else "tastes"


def _strength(budget: Budget, look: Look) -> float:
    """People · μ: how a sum over people of length one compares with its noise."""
    people = max(look.people - look.people_spread, 0.0)
    return people * (budget.mu if budget.unit == "user" else budget.mu / sqrt(2))


def _per_item(budget: Budget, look: Look) -> float:
    """The same over the root of how many items there would be with equal counts."""
    counts = denoised(look.counts, look.spread)
    equal = counts.sum() ** 2 / max(float(counts @ counts), 1e-9)
    return _strength(budget, look) / sqrt(max(equal, 1.0))


def _pairs_clear(budget: Budget, look: Look) -> float:
    """The second eigenvalue of pairs of items, as counts foretell it, over the noise's edge."""
    n, total = len(look.counts), look.total
    people = float(np.clip(look.people, total / n, total))
    present = np.maximum(look.counts, 0.0)
    pairs = PairSums(budget.unit, budget.norm, None, np.full(n, STEPS, np.int16))
    sigma = budget.spread(pairs, 1 - look.share) / pairs.one
    each = total / people  # the mean of √c at the user level, of c at the rating level
    mass = UNEVEN * total * each if budget.unit == "user" else total * sqrt(each)
    square = max(0.0, float(present @ present) - n * look.spread**2)
    clear = square / max(float(present.sum()), 1e-9) ** 2
    return SECOND_EIGENVALUE * mass * clear / (2 * sigma * sqrt(n))


def _tastes(
    ratings: Ratings, features: Any, budget: Budget, engine: Engine, look: Look, *, by_item: bool
) -> dict[str, Any] | None:
    """Directions of taste in public features and, where they pay, which items go with them; nothing
    where no direction stands out of noise and of what popularity alone would show."""
    counts, weights, popular = popularity_weights(denoised(look.counts, look.spread))
    features = with_own(features, counts, own=not by_item)
    share = START if by_item else 1 - look.share
    wanted = _strength(budget, look) * sqrt(share) / PER_TASTE
    wide = ITEM_TASTES
    if by_item:
        room = min(MOST_ITEM_TASTES, MOST_ENTRIES // len(counts))
        wide = max(wide, min(room, int(_per_item(budget, look) / PER_ITEM_TASTE)))
    most = max(START_TASTES, wide) if by_item else TASTES
    most = int(np.clip(wanted, FEWEST, most))
    basis = budget.settled(lambda: Basis.of(features, counts, popular, most=most))
    products = TasteProducts(
        budget.unit,
        in_integers(weights * basis.scales, WEIGHT_BITS),
        basis.features,
        in_integers(basis.apart, DIRECTION_BITS),
    )
    found = _shown(ratings, budget, engine, look, counts, products, by_item=by_item)
    if found is None:
        return None
    values, vectors = np.linalg.eigh(found.matrix)
    values = values - EVEN * max(float(np.median(values)), 0.0)
    noise = 2 * len(values) * found.sigma**2
    kept = np.sqrt(np.maximum(np.maximum(values, 0) ** 2 - noise, 0))
    kept, vectors = basis.evenly(kept, vectors)
    if not by_item:
        return _state(look, weights, popular, basis.times(vectors), kept)
    directions = basis.times(vectors[:, :wide]) * np.sqrt(_soft(kept[:wide]))
    directions -= np.outer(popular, popular @ directions)
    items = ItemTastes(
        budget.unit, in_integers(weights, WEIGHT_BITS), in_integers(directions, DIRECTION_BITS)
    )
    del directions
    rest = 1 - look.share - share
    flat, sigma = budget.measure(items, rest, engine(items, ratings), turn=3)
    told = _trusted(items.matrix(flat), basis, counts, sigma / (1 << ITEM_BITS + TASTE_BITS))
    told -= np.outer(popular, popular @ told)
    directions, kept, _ = np.linalg.svd(told, full_matrices=False)
    return _state(look, weights, popular, directions, kept)


def _shown(
    ratings: Ratings, budget: Budget, engine: Engine, look: Look, counts: Floats,
    products: TasteProducts, *, by_item: bool,
) -> Together | None:  # fmt: skip
    """How tastes go together, if they show more than chance and noise would.

    Where they are to have all of the rest, half of it is a first look, at which less is asked for;
    both looks together are as one with both shares.
    """
    chance = products.matrix(products(by_popularity(look, counts, budget.unit)))
    chance *= look.people / DRAWN

    def measured(share: float, turn: int) -> Together:
        packed, noise = budget.measure(products, share, engine(products, ratings), turn=turn)
        return Together(products.matrix(packed), noise / (5 << 2 * TASTE_BITS), share)

    if by_item:
        found = measured(START, turn=2)
    else:
        rest = 1 - look.share
        found = measured(HALF * rest, turn=2)
        if found.beyond(chance) < 1 + RARELY * len(chance) ** (-2 / 3):
            return None
        found += measured(rest - HALF * rest, turn=3)
    return found if found.beyond(chance) >= SHOWN else None


def by_popularity(look: Look, counts: Floats, unit: str) -> Ratings:
    """Histories as they would be if everybody had drawn items by popularity alone, from released
    numbers and by draws that are the same for everyone. People with few items, and rare ones, make
    a direction of taste of their own, which tells nothing of what anyone likes."""
    rng, n = np.random.default_rng(0), len(counts)
    each = max(look.total / max(look.people, 1.0), 1.0)  # at the user level the mean of √c
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
    look: Look, weights: Floats, popular: Floats, directions: Floats, kept: Floats
) -> dict[str, Any]:
    """Scores D⁻¹ (POPULAR·q qᵀ + V s Vᵀ) D h, with D the weights and s soft."""
    soft = _soft(kept)
    use = soft > 0
    columns = np.column_stack([popular * sqrt(POPULAR), directions[:, use] * np.sqrt(soft[use])])
    scales = weights[:, None]
    return history_state(np.maximum(look.counts, 0.0), columns / scales, columns * scales)


def _pairs(ratings: Ratings, budget: Budget, k: int, engine: Engine, look: Look) -> dict[str, Any]:
    """The leading eigenvectors of what is watched together."""
    n = ratings.n_items
    check_memory(n)
    present = np.maximum(look.counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)
    people = float(np.clip(look.people, look.total / n, look.total))
    pairs = PairSums(budget.unit, budget.norm, None, np.full(n, STEPS, np.int16))
    packed, noise = budget.measure(pairs, 1 - look.share, engine(pairs, ratings), turn=2)
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    del packed
    spectrum = Spectrum(*leading_eigenpairs(matrix, k))
    del matrix
    units = people if budget.unit == "user" else look.total
    sampled = np.sqrt(HISTORY_SAMPLING * units) * share
    found = history_factors(spectrum, np.ones(n), noise / pairs.one, sampled)
    return history_state(present, *found)
