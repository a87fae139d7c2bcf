"""Randomised response: "have you seen it?", answered at random for every work of a public list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property, lru_cache
from math import inf, isfinite
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Bools, Floats
from epicrec.data import Catalogue
from epicrec.data.works import Works, catalogue_works
from epicrec.errors import InputError
from epicrec.perturb.contract import (
    Odds,
    Perturber,
    Release,
    check_catalogue,
    item_ids_of,
    odds_of,
)
from epicrec.perturb.levels import ALL, NO, PERTURBED, Level, Levels, parse_levels
from epicrec.privacy import Guarantee
from epicrec.privacy.guarantee import Status
from epicrec.privacy.noise import root_key, word_stream

PUBLIC = "The list of works and the levels were chosen without looking at the history."
OPEN = "Works whose categories are all 'all release' are answered exactly and are not protected."

_WORD = 1 << 64
_MOST = 40.0
"""Above this ε the least probability of a lie, 2⁻⁶⁴, would be more than ε needs."""


@lru_cache(maxsize=64)
def lies_of(epsilon: float) -> int:
    """The least k for which (2⁶⁴ - k)/k ≤ e^ε: a lie has the probability k/2⁶⁴.

    Decimals give e^ε with 60 digits, rounded to nearest. One unit in the last place is taken off
    before the division and the result is rounded up, so the odds never exceed e^ε.

    >>> k = lies_of(1.0)
    >>> k, (2**64 - k) / k
    (4961093570831980854, 2.718281828459045)
    """
    if not isinstance(epsilon, int | float) or not isfinite(epsilon) or not 0 < epsilon <= _MOST:
        raise InputError(f"epsilon must be above 0 and at most {_MOST:g}, not {epsilon!r}")
    exact = Context(prec=60)
    at_most = exact.next_minus(exact.exp(Decimal(epsilon)))
    up = Context(prec=60, rounding=ROUND_CEILING)
    share = up.divide(Decimal(_WORD), Context(prec=70).add(at_most, 1))
    lies = int(share.to_integral_value(rounding=ROUND_CEILING))
    if 2 * lies >= _WORD:
        raise InputError(f"at epsilon = {epsilon:g} answers tell nothing; choose a larger one")
    return lies


@dataclass(frozen=True, eq=False)
class Answering:
    """How the answers over a list of works come about: all that their receiver must know."""

    works: Works
    epsilon: float
    open: tuple[str, ...] = ()
    """The categories that the person has opened, in order."""

    @classmethod
    def of(cls, settings: Mapping[str, Any], catalogue: Catalogue) -> Answering:
        """From the settings of a release; those that it cannot have are an InputError."""
        works, opened = catalogue_works(catalogue), settings.get("open")
        if settings.get("works") != works.version:
            raise InputError("these answers are for a list of works that is not known here")
        known = isinstance(opened, list | tuple) and set(opened) <= set(catalogue.categories)
        if not known or list(opened or ()) != sorted(set(opened or ())):
            raise InputError("the open categories are not an ordered list of known ones")
        found = cls(works, settings.get("epsilon", inf), tuple(opened or ()))
        lies_of(found.epsilon)
        return found

    @property
    def settings(self) -> dict[str, Any]:
        """What a release says: the list by version and hash, ε, and the open categories."""
        return {
            "works": self.works.version,
            "catalogue": self.works.catalogue.version,
            "epsilon": self.epsilon,
            "open": list(self.open),
        }

    @property
    def size(self) -> int:
        """The bytes of one person's answers."""
        return -(-len(self.works) // 8)

    @cached_property
    def exact(self) -> Bools:
        """The works that are answered exactly: those whose categories are all open."""
        categories = self.works.catalogue.categories
        matrix = self.works.catalogue.matrix
        opened = np.isin(categories, self.open)
        some = self.works.having(np.asarray(matrix.sum(axis=1)).ravel() > 0)
        return some & ~self.works.having(matrix @ (~opened).astype(np.int64) > 0)

    def answer(self, seen: Bools, seed: int | None = None) -> bytes:
        """Each answer is a lie with probability k/2⁶⁴, by itself; exact ones are true.

        All works are treated alike, whatever was seen: one word of the cryptographic generator
        each, compared and added without a condition.
        """
        words = word_stream(root_key(seed, "answers"), 0)(len(self.works))
        lie = words < np.uint64(lies_of(self.epsilon))
        return np.packbits(seen ^ (lie & ~self.exact)).tobytes()

    def read(self, answers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The bits of packed answers, one person a row."""
        return np.unpackbits(answers, axis=1, count=len(self.works))

    @cached_property
    def lie(self) -> Floats:
        """The probability of a lie for each work."""
        return np.where(self.exact, 0.0, lies_of(self.epsilon) / _WORD)

    @cached_property
    def variance(self) -> Floats:
        """Of (bit - lie)/(1 - 2·lie), whose mean is whether the work was seen."""
        return np.asarray(self.lie * (1 - self.lie) / (1 - 2 * self.lie) ** 2)


@dataclass(frozen=True, eq=False)
class RandomisedResponse(Perturber):
    """Answer for every work of the list, truthfully with probability e^ε/(1 + e^ε) (Warner 1965).

    Relation: two histories that differ in one work, added or removed. *Proof of ε.* Given a
    history, answers are independent, and that of work i depends on i alone. The histories differ
    in one work, so the probability of the whole release changes by the factor of one answer. That
    is between k/(2⁶⁴ - k) and (2⁶⁴ - k)/k, and (2⁶⁴ - k)/k ≤ e^ε by the choice of k (`lies_of`). ∎

    Levels: works of a category with "no release" are answered like the others, as never watched;
    no release tells that they are withheld. Works whose categories are all "all release" are
    answered exactly; which these are depends on the open categories alone, which the settings list.
    Works without categories are answered with noise. The stricter level wins.

    Each further release about the same work costs ε again. Over time a work counts in one release,
    and every release answers for the whole list.

    >>> from epicrec.data.simulate import embedded_items
    >>> films = Catalogue.from_table(embedded_items())
    >>> release = RandomisedResponse(films, epsilon=1.0).release(films.item_ids[:30])
    >>> len(release.answers), release.guarantee.epsilon, release.settings["open"]
    (67, 1.0, [])
    """

    status: ClassVar[Status] = "proved"
    units = ("item",)

    catalogue: Catalogue
    epsilon: float = field(default=1.0, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def release(
        self, history: Any, levels: Levels = PERTURBED, *, seed: int | None = None
    ) -> Release:
        """As every perturber's; items outside the catalogue are not released."""
        started = perf_counter()
        how, chosen = self._answering(levels)
        at = self.catalogue.positions(item_ids_of(history))
        seen = how.works.having(np.isin(np.arange(len(self.catalogue)), at))
        seen &= ~withheld_works(how.works, chosen)
        seed = self.seed if seed is None else seed
        return Release(
            method=self.method,
            items=(),
            answers=how.answer(seen, seed),
            guarantee=self._guarantee(how).seeded(seed),
            settings=how.settings,
            kept={"levels": chosen, "clear": int(how.exact.sum())},
            seconds=perf_counter() - started,
        )

    def guarantee(self, levels: Levels = PERTURBED) -> Guarantee:
        """What one release at these levels promises."""
        return self._guarantee(self._answering(levels)[0]).seeded(self.seed)

    def budget(self, levels: Levels = PERTURBED) -> float:
        return self.guarantee(levels).epsilon

    def treatment(self, item_ids: Any, levels: Levels = PERTURBED) -> list[Level]:
        """What happens to the work of each item; outside the catalogue, nothing is released."""
        how, chosen = self._answering(levels)
        at = self.catalogue.positions(item_ids_of(item_ids))
        work = how.works.of_item[at]
        never = (at < 0) | withheld_works(how.works, chosen)[work]
        return [
            NO if no else ALL if clear else PERTURBED
            for no, clear in zip(never, how.exact[work], strict=True)
        ]

    @classmethod
    def odds(cls, release: Release, item_id: Any, catalogue: Catalogue) -> Odds:
        """ε for a work that is answered with noise; a withheld one is told nothing of."""
        at = int(catalogue.positions([item_id])[0])
        if at < 0:
            return odds_of(0.0)
        how = Answering.of(release.settings, catalogue)
        work = int(how.works.of_item[at])
        if withheld_works(how.works, release.kept.get("levels", {}))[work]:
            return odds_of(0.0)
        return odds_of(inf if how.exact[work] else how.epsilon)

    def _answering(self, levels: Levels) -> tuple[Answering, dict[str, Level]]:
        check_catalogue(self.catalogue)
        chosen = parse_levels(levels, self.catalogue.categories)
        opened = tuple(name for name, level in chosen.items() if level == ALL)
        lies_of(self.epsilon)
        return _cached_answering(self.catalogue, float(self.epsilon), opened), chosen

    @staticmethod
    def _guarantee(how: Answering) -> Guarantee:
        """That of the noised works; none where there are none."""
        if how.exact.all():
            return Guarantee.none(unit="item")
        return Guarantee(
            epsilon=how.epsilon,
            unit="item",
            relation="add or remove one",
            assumes=(PUBLIC, OPEN) if how.exact.any() else (PUBLIC,),
        )


def answers_about(release: Release, catalogue: Catalogue) -> Bools:
    """What a release answers about each item of the catalogue it was drawn by."""
    how = Answering.of(release.settings, catalogue)
    packed = np.frombuffer(release.answers or b"", np.uint8)
    return np.asarray(how.read(packed[None])[0][how.works.of_item], np.bool_)


@lru_cache(maxsize=8)
def _cached_answering(catalogue: Catalogue, epsilon: float, opened: tuple[str, ...]) -> Answering:
    return Answering(catalogue_works(catalogue), epsilon, opened)


def withheld_works(works: Works, levels: Mapping[str, Level]) -> Bools:
    """The works with a category that has "no release"."""
    withheld = [name for name, level in levels.items() if level == NO]
    chosen = np.isin(works.catalogue.categories, withheld).astype(np.int64)
    return works.having(works.catalogue.matrix @ chosen > 0)
