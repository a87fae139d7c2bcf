"""Audits of models that release noisy sums: the covariance recommender and DPALS.

A watched engine keeps every sum of a fit as it was released. One fit plays many rounds: the items
fall into groups, and each group's own coin decides whether its victim is there (or has one more
rating). The observer reads only the numbers about a group's own items, so the other coins change
nothing about them but what was released before. Moments of tastes are about all items at once: the
observer looks along each victim's own change of them, and these are as good as orthogonal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from epicrec.arrays import Bools, Floats, Integers
from epicrec.data import Ratings, Scale
from epicrec.engine import Statistic, local
from epicrec.evaluate.audits.game import Game, climb, fisher
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.pairs import PairSums
from epicrec.models.private.statistics import ForAndAgainst, ItemEffects
from epicrec.models.private.tastes import TasteProducts
from epicrec.privacy import Guarantee, gaussian_guarantee, gaussian_mu

STARS = Scale(1, 5, 1)
_LARGEST_CROWD = 1 << 11
_SEARCHED = 40
"""Groups in the small world in which neighbours are searched for."""
_HISTORY = 8
"""Items that each of a crowd of histories has."""

Victim = tuple[int, ...]
"""The victim's rating of each item of the group, or 0 for none."""


@dataclass
class Watch:
    """An engine that keeps each statistic with its sum.

    `Budget.measure` adds the noise in place, so after a fit these are the releases. A sum that was
    given no noise is seen exact.
    """

    seen: list[tuple[Statistic, Integers]] = field(default_factory=list)

    def __call__(self, statistic: Statistic, ratings: Ratings) -> Integers:
        total = local(statistic, ratings)
        self.seen.append((statistic, total))
        return total


@dataclass(frozen=True)
class Worlds:
    """Groups of items with a victim each, and a crowd that rates everything alike."""

    without: Victim
    with_it: Victim
    groups: int
    crowd: int
    crowd_rating: int

    @property
    def items(self) -> int:
        return len(self.without) * self.groups

    def ratings(self, bits: Bools) -> Ratings:
        """All ratings, where each group's bit decides about its victim."""
        each = np.where(bits[:, None], np.array([self.with_it]), np.array([self.without])).ravel()
        items = np.flatnonzero(each)
        rest = self.rest.ravel()
        users = np.repeat(np.arange(self.crowd), self.rest.shape[1]) + self.groups
        return Ratings.from_columns(
            np.concatenate([items // len(self.without), users]),
            np.concatenate([items, rest]),
            np.concatenate([each[items], np.full(len(rest), self.crowd_rating)]).astype(float),
            scale=STARS,
        ).with_items(np.arange(self.items))

    @property
    def rest(self) -> Integers:
        """The items of each of the crowd."""
        return np.tile(np.arange(self.items), (self.crowd, 1))

    @property
    def others(self) -> str:
        """The crowd in words."""
        return f"{self.crowd} others rate all {self.crowd_rating}"

    @cached_property
    def ends(self) -> tuple[Ratings, Ratings]:
        """The ratings with no bit set, and with all of them."""
        first, second = (self.ratings(np.full(self.groups, bit)) for bit in (False, True))
        return first, second

    def changes(self, statistic: Statistic) -> Floats:
        """How far each group's victim moves all numbers of a statistic: a row for each group."""
        found = np.zeros(1)
        for end, sign in zip(self.ends, (-1.0, 1.0), strict=True):
            there = int(np.sum(end.user_ids < self.groups))  # all of the victims, or none
            if there:
                each = [statistic(end.between(at, at + 1)) for at in range(there)]
                found = found + sign * np.array(each)
        return found

    def positions(self, statistic: Any) -> Iterator[Any]:
        """Where a statistic has its numbers about each group's own items: one row of positions a
        group, kind by kind."""
        size, n = len(self.without), self.items
        own = np.arange(n).reshape(self.groups, size)
        if isinstance(statistic, ItemEffects | ForAndAgainst):
            yield own
            if statistic.scale is not None:
                yield own + n
        elif isinstance(statistic, PairSums):
            row, column = np.tril_indices(size, -1)
            low, high = own[:, column], own[:, row]
            yield high * (high - 1) // 2 + low
        elif (width := getattr(statistic, "width", 0)) > 0:  # so many numbers an item, in a row
            yield (own[:, :, None] * width + np.arange(width)).reshape(self.groups, -1)


@dataclass(frozen=True)
class Histories(Worlds):
    """Groups of items with a victim each, and a crowd with tastes: for even items or for odd."""

    @property
    def rest(self) -> Integers:
        each = np.arange(self.crowd)[:, None] + 2 * np.arange(_HISTORY)
        return np.asarray(each % self.items)

    @property
    def others(self) -> str:
        return f"{self.crowd} others have {_HISTORY} even or odd items"


def covariance_games(model: CovarianceSVD) -> list[Game]:
    """Item effects alone, and also the covariance, or the tastes of lists, in a crowd large enough
    to measure it."""
    alone = _neighbours(model, Worlds((0, 0), (0, 0), 2000, 1, 3))
    # a user's loss is spread over several numbers, whose Laplace noise rarely points one way
    rounds = 1_000_000 if model.unit == "user" and model.noise == "laplace" else 100_000
    games = [
        _game(model, alone, rounds, partial(_likelihoods, model)),
        _game(model, alone, 16_000, _fisher),
    ]
    if model.task == "lists":
        return [*games, *tastes_games(model)]
    crowded = Worlds((0,) * 4, (0,) * 4, 40, 32, 1)
    while crowded.crowd < _LARGEST_CROWD:
        seen = [statistic for statistic, _ in _watched(model, crowded)]
        crowded = replace(crowded, crowd=2 * crowded.crowd)  # measured at every fit, not just here
        if any(isinstance(statistic, PairSums) for statistic in seen):
            worlds = _neighbours(model, crowded)
            return [*games, _game(model, worlds, 800, partial(_likelihoods, model))]
    return games


def tastes_games(model: CovarianceSVD) -> list[Game]:
    """Lists where tastes have most of the budget: a crowd so large that they are measured twice,
    and in as many directions as there are items. Without Gaussian noise there is no game.

    Neighbours differ by one user, or by one item of a user's history. The observer sees every sum
    as released, counts and moments of tastes, and knows all of the crowd.
    """
    nobody = (0,) * (1 if model.unit == "user" else 4)
    crowded = Histories(nobody, nobody, 40 // len(nobody), 32, 1)
    while crowded.crowd < 4 * _LARGEST_CROWD:
        last, _ = _watched(model, crowded)[-1]
        crowded = replace(crowded, crowd=2 * crowded.crowd)  # measured at every fit, not just here
        if isinstance(last, TasteProducts) and last.coefficients.shape[1] == crowded.items:
            worlds = _neighbours(model, crowded)
            return [_game(model, worlds, 40_000, partial(_with_tastes, model))]
    return []


def dpals_games(model: Any) -> list[Game]:
    """Item effects, and the sums from which items are solved again in each round."""
    alone = _neighbours(model, Worlds((0, 0), (0, 0), 1000, 1, 3))
    return [_game(model, alone, 40_000, partial(_likelihoods, model))]


def _watched(
    model: CovarianceSVD, worlds: Worlds, bits: Bools | None = None
) -> list[tuple[Statistic, Integers]]:
    watch = Watch()
    model.engine = watch
    model.fit(worlds.ratings(np.zeros(worlds.groups, bool) if bits is None else bits))
    return watch.seen


def _game(
    model: CovarianceSVD, worlds: Worlds, rounds: int, scored: Callable[[Worlds, Any], Floats]
) -> Game:
    def play(bits: Bools) -> Floats:
        coins = np.zeros(worlds.groups, bool)
        coins[: len(bits)] = bits
        released = _watched(model, worlds, coins)
        return scored(worlds, released)[: len(bits)]

    claim = _claim(model)
    removed = "is there or not" if claim.unit == "user" else "has this history or the other"
    return Game(
        claim=claim,
        neighbours=f"a user {removed}: {_said(worlds.with_it)} or {_said(worlds.without)}; "
        f"{worlds.others}",
        play=play,
        rounds=rounds,
        at_once=worlds.groups,
    )


def _fisher(worlds: Worlds, released: Any) -> Floats:
    """Scores by Fisher's direction, which sees noise that several numbers have in common."""
    moved, off = zip(*_moved(worlds, released), strict=True)
    return fisher(np.concatenate(off, axis=1), np.concatenate(moved, axis=1).mean(axis=0))


def _likelihoods(model: CovarianceSVD, worlds: Worlds, released: Any) -> Floats:
    """For each group the log-likelihood ratio of its released numbers with and without the victim:
    the best test, by Neyman and Pearson. The scale of the noise is estimated from the numbers.

    With Laplace noise alone, as a share of the largest possible ratio: then "all noise points away"
    is one event in every fit, though the estimated scales differ.
    """
    found, most = np.zeros(worlds.groups), np.zeros(worlds.groups)
    gaussian_only = _claim(model).mu is not None
    all_laplace = all(_has_laplace(statistic) for statistic, _ in released)
    for statistic, total in released:
        laplace = _has_laplace(statistic)
        if laplace and gaussian_only:
            continue
        kinds = [*_moved(worlds, [(statistic, total)])]
        if not kinds:  # it has no numbers about one group alone
            continue
        moved, off = (np.concatenate(numbers, axis=1) for numbers in zip(*kinds, strict=True))
        if laplace:
            scale = np.abs(off).mean() + 1e-9
            nearer = np.abs(off + moved / 2) - np.abs(off - moved / 2)
            found += (nearer / scale).sum(axis=1)
            most += (np.abs(moved) / scale).sum(axis=1)
        else:
            found += (moved * off).sum(axis=1) / (np.mean(off**2) + 1e-9)
    return found / np.where(most > 0, most, 1.0) if all_laplace else found


def _with_tastes(model: CovarianceSVD, worlds: Worlds, released: Any) -> Floats:
    """The same, with the log-likelihood ratios of the moments of tastes."""
    found = _likelihoods(model, worlds, released)
    for moved, off in _moved_tastes(worlds, released):
        found += moved @ off / np.mean(off**2)
    return found


def _has_laplace(statistic: Any) -> bool:
    """Totals for and against items always have Laplace noise, moments of tastes never; other
    statistics have a norm."""
    return getattr(statistic, "norm", 2 if isinstance(statistic, TasteProducts) else 1) == 1


def _claim(model: CovarianceSVD) -> Guarantee:
    """What the last fit promises, for the kinds of noise that it used.

    Laplace noise alone needs no δ. Where both kinds were used there is no μ for the whole budget,
    but the part with Gaussian noise may spend no more than (ε, δ) with Gaussian noise alone.
    """
    promise = model.guarantee
    if promise.mu is not None or not promise.delta:
        return promise
    assert isinstance(model.engine, Watch)
    if all(_has_laplace(statistic) for statistic, _ in model.engine.seen):
        return replace(promise, delta=0.0)
    return gaussian_guarantee(
        gaussian_mu(promise.epsilon, promise.delta), promise.delta, unit=promise.unit,
        relation=promise.relation, assumes=promise.assumes,
    )  # fmt: skip


def _moved(worlds: Worlds, released: Any) -> Iterator[tuple[Floats, Floats]]:
    """For each kind of number how far the victim moves it, and how far the released number is from
    the middle between the two worlds; a row for each group."""
    for statistic, total in released:
        low, high = (statistic(end).astype(np.float64) for end in worlds.ends)
        for at in worlds.positions(statistic):
            yield high[at] - low[at], total[at] - (low[at] + high[at]) / 2


def _moved_tastes(worlds: Worlds, released: Any) -> Iterator[tuple[Floats, Floats]]:
    """For moments of tastes how far each group's victim moves them all, a row for each group, and
    how far the released ones are from the middle between no and all victims."""
    exact: dict[TasteProducts, tuple[Floats, Integers]] = {}  # the same one is measured twice
    for statistic, total in released:
        if isinstance(statistic, TasteProducts):
            if statistic not in exact:
                exact[statistic] = worlds.changes(statistic), statistic(worlds.ends[1])
            moved, all_there = exact[statistic]
            yield moved, total - all_there + moved.sum(axis=0) / 2


def _neighbours(model: CovarianceSVD, empty: Worlds) -> Worlds:
    """The worlds whose victim moves the released numbers furthest relative to their noise, found
    by climbing: in L2, or in L1 where all noise is Laplace noise."""
    size = len(empty.without)
    small = replace(empty, groups=min(empty.groups, _SEARCHED))
    released = _watched(model, small)
    noise = [np.sqrt(np.mean(off**2)) + 1e-9 for _, off in _all_moved(small, released)]
    power = 1 if all(_has_laplace(statistic) for statistic, _ in released) else 2

    def worlds_of(victim: Victim) -> Worlds:
        *said, left_out = victim
        without = [0] * size
        if model.guarantee.unit == "rating":
            without = [0 if at == left_out else value for at, value in enumerate(said)]
        return replace(small, with_it=tuple(said), without=tuple(without))

    def score(victim: Victim) -> float:
        worlds = replace(worlds_of(victim), crowd=1)  # the crowd is the same in both worlds
        moved = [change for change, _ in _all_moved(worlds, released)]
        parts = zip(moved, noise, strict=True)
        return sum(float(np.sum(np.abs(m / s) ** power)) for m, s in parts)

    values = 2 if model.task == "lists" else 6
    found = worlds_of(climb(score, [values] * size + [size]))
    return replace(found, groups=empty.groups)


def _all_moved(worlds: Worlds, released: Any) -> Iterator[tuple[Floats, Floats]]:
    yield from _moved(worlds, released)
    yield from _moved_tastes(worlds, released)


def _said(victim: Victim) -> str:
    return " ".join(str(value) if value else "-" for value in victim)


# ---- as published ---------------------------------------------------------------------------

_MOST_RATED = 180


def published_covariance_games(model: Any, epsilon: float) -> list[Game]:
    """The paper's recipe with Laplace noise, at one rating.

    A user rates low what was released as liked and high what was released as disliked, and then one
    more of the latter: their mean moves by 8/(n + 20), not 4/(n + 20), and with it every residual.
    The loss is spread over thousands of entries, each tiny beside its noise. No number of rounds
    shows it, but the exact sums and the distribution of the noise do (`largest_loss`).
    """

    def victim(low: int, high: int, *, one_more: bool) -> Ratings:
        n = low + high + one_more
        values = np.where(np.arange(n) < low, 1.0, 5.0)
        own = Ratings.from_columns(np.zeros(n, int), np.arange(n), values, scale=STARS)
        return own.with_items(np.arange(low + high + 1))

    def loss(low: int, high: int) -> float:
        means = np.where(np.arange(low + high + 1) < low, 5, 1)  # of the items, as released
        with_it, without = (victim(low, high, one_more=more) for more in (True, False))
        return float(model.largest_loss(with_it, without, means, epsilon))

    found = climb(lambda sizes: loss(sizes[0] + 1, sizes[1] + 1), [_MOST_RATED, _MOST_RATED // 4])
    low, high = found[0] + 1, found[1] + 1

    def play(bits: Bools) -> Floats:  # in a small world: nothing is visible in the large one
        fits = (model.fit(victim(3, 1, one_more=bit)) for bit in bits.tolist())
        return np.array([fit.offsets_[-1] for fit in fits])

    play(np.array([False]))
    return [
        Game(
            claim=replace(model.guarantee, epsilon=epsilon, status="claimed"),
            neighbours=f"a user rates {low} liked items 1 and {high} disliked ones 5, or one more",
            play=play,
            rounds=400,
            at_once=20,
            analytic=loss(low, high),
        )
    ]
