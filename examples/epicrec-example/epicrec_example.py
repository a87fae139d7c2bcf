"""A recommender and a perturber that epicrec finds through the entry points in pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, exp
from random import Random, SystemRandom
from time import perf_counter
from typing import Any

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.models.base import Recommender, Task
from epicrec.perturb.contract import Perturber, Release, item_ids_of, refuse_levels
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.privacy import Guarantee


class Kindred(Recommender):
    """Items by how many of the people who share `shared` items with you have them.

    `score_i = #{u : |u ∩ h| ≥ shared, i ∈ u} + n_i / (n + 1)` for a history h and n people, n_i of
    whom have i: popularity only decides between items that your kindred have equally often.
    Nothing is promised to the people it learns from.
    """

    task: Task = "lists"
    needs_known_users = True
    popularity_: AnyFloats

    def __init__(self, *, shared: int = 2) -> None:
        self.shared = shared

    def _fit(self, ratings: Ratings) -> None:
        if self.shared < 1:
            raise InputError(
                f"shared must be 1 or more, got {self.shared}; give 1, or leave it out"
            )
        self.popularity_ = ratings.item_counts / (ratings.n_users + 1)

    def _scores(self, histories: Ratings) -> AnyFloats:
        assert self.histories_ is not None
        people = self.histories_.csr()
        kindred = (histories.csr() @ people.T >= self.shared).astype(float)
        return (kindred @ people).toarray() + self.popularity_


@dataclass(frozen=True)
class Coins(Perturber):
    """A coin for every title of the catalogue: randomised response (Warner 1965).

    Each item is sent with probability p if it is in the history and with q < p if it is not, each
    by a coin of its own. Relation: one item added to a history or removed from it. This changes
    one coin alone, so the probability of a release changes by a factor of p/q if the item is sent
    and of (1 - p)/(1 - q) if it is not. p and q are whole numbers of 2⁻⁶⁰ with p/q ≤ e^ε and
    (1 - q)/(1 - p) ≤ e^ε, and a coin is a whole number below 2⁶⁰, so nothing is rounded: pure ε for
    one "item" (add or remove one), proved.

    `fakes` is how many items an empty history yields on average. More of them let more true ones
    through, since p ≤ e^ε q.
    """

    status = "proved"
    units = ("item",)

    catalogue: Catalogue
    epsilon: float = field(default=1.0, kw_only=True)
    fakes: float = field(default=20.0, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def release(
        self, history: Any, levels: Levels = PERTURBED, *, seed: int | None = None
    ) -> Release:
        started = perf_counter()
        refuse_levels("coins", levels)
        seed = self.seed if seed is None else seed
        known = {*self.catalogue.positions(item_ids_of(history)).tolist()}
        kept, faked = chances(self.epsilon, self.fakes, len(self.catalogue))
        coin = SystemRandom() if seed is None else Random(seed)
        sent = [
            item
            for at, item in enumerate(self.catalogue.item_ids.tolist())
            if coin.getrandbits(BITS) < (kept if at in known else faked)
        ]
        return Release(
            method=self.method,
            items=tuple(sent),
            guarantee=self.guarantee.seeded(seed),
            settings={
                "epsilon": self.epsilon,
                "p": kept / ONE,
                "q": faked / ONE,
                "catalogue": self.catalogue.version,
            },
            seconds=perf_counter() - started,
        )

    def budget(self, levels: Levels = PERTURBED) -> float:
        refuse_levels("coins", levels)
        return self.guarantee.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """What one release promises."""
        return Guarantee(
            epsilon=self.epsilon,
            unit="item",
            relation="add or remove one",
            assumes=("The catalogue and the chances of the coins are public.",),
        ).seeded(self.seed)


BITS = 60
ONE = 1 << BITS


def chances(epsilon: float, fakes: float, items: int) -> tuple[int, int]:
    """p and q in parts of 2⁻⁶⁰: the greatest p that ε allows, with q = fakes/items, at most ½.

    e^ε is taken a little from below, more than `exp` can be off by, so that the bounds are exact.
    """
    if not 0 < epsilon < 700 or not fakes > 0:
        raise InputError(f"epsilon and fakes must be above 0, not {epsilon} and {fakes}")
    most = Fraction(exp(epsilon)) * (1 - Fraction(1, 1 << 40))
    q = max(1, int(min(Fraction(fakes) / max(items, 1), Fraction(1, 2)) * ONE))
    return max(q, min(int(most * q), ONE - ceil((ONE - q) / most))), q
