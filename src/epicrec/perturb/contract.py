"""Release: what leaves the device, what it costs, and what an observer can learn from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, inf
from typing import Any

import numpy as np

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.levels import Level, treatments
from epicrec.privacy import Guarantee

CLEAR = "Items whose categories are all 'all release' are sent as they are and are not protected."
PUBLIC_PRIOR = "The catalogue, the prior and the levels were chosen without looking at the history."


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release. Only `items` are sent; the rest is the device's record of how they came about.

    `aggregates` are the noisy category totals the items were made from, `scales` the noise on each
    (exact as they stand: multiples of 2⁻²⁰), `levels` what the person chose. `clear` counts the
    items sent as they are.
    """

    method: str
    items: tuple[Any, ...]
    guarantee: Guarantee
    levels: Mapping[str, Level]
    aggregates: Mapping[str, int] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    clear: int = 0
    as_published: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "method": self.method,
            "items": list(self.items),
            "guarantee": self.guarantee.to_dict(),
            "levels": dict(self.levels),
            "aggregates": dict(self.aggregates),
            "scales": dict(self.scales),
            "clear": self.clear,
            "as_published": self.as_published,
            "seconds": self.seconds,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Release:
        """Read what `to_dict` wrote."""
        try:
            plain = dict(values)
            plain["items"] = tuple(plain["items"])
            plain["guarantee"] = Guarantee.from_dict(plain["guarantee"])
            return cls(**plain)
        except (KeyError, TypeError) as error:
            raise InputError(f"not a release: {error}; fields are those of to_dict") from error

    @classmethod
    def from_json(cls, text: str) -> Release:
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"not a release: {error}; expected what to_json wrote") from error


def nothing_left() -> Guarantee:
    """The guarantee of a release that does not depend on the history at all."""
    return Guarantee(
        epsilon=0.0,
        unit="item",
        relation="add or remove one",
        assumes=("Nothing that depends on the history left the device.",),
    )


@dataclass(frozen=True)
class Odds:
    """What an observer of the release learns about one item, whatever else they know.

    Of worlds where it was watched, an observer who guesses from the release says "watched" in at
    most the part `if_watched`, if they say it in no more than the part `if_not` of the others.
    And whoever thought both equally likely is afterwards sure to at most `if_watched`.
    """

    epsilon: float
    if_watched: float
    if_not: float

    def __str__(self) -> str:
        if self.epsilon == inf:
            return "It is sent as it is: whoever sees the release knows you watched it."
        return (
            f"If you watched it, whoever guesses from the release says so in at most "
            f"{100 * self.if_watched:.0f} of 100 worlds; if not, in {100 * self.if_not:.0f}."
        )


def odds_of(epsilon: float) -> Odds:
    """The odds at a cost of ε: e^ε/(1 + e^ε) against 1/(1 + e^ε).

    >>> odds = odds_of(1.0)
    >>> round(odds.if_watched, 2), round(odds.if_not, 2)
    (0.73, 0.27)
    """
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, not {epsilon}")
    not_watched = 1 / (1 + exp(min(epsilon, 700.0))) if epsilon < inf else 0.0
    return Odds(epsilon, 1 - not_watched, not_watched)


def odds(catalogue: Catalogue, release: Release, item_id: Any) -> Odds:
    """The odds for one item: ε_i = Σ_j c_ij / z_j, which is at most the release's ε.

    An item that is withheld, or not in the catalogue, costs nothing; one sent as it is, everything.
    A release `as_published` of several levels bounds nothing for items it counts without noise.
    """
    at = int(catalogue.positions([item_id])[0])
    if at < 0:
        return odds_of(0.0)
    row = catalogue.rows.matrix[[catalogue.rows.row_of_item[at]]]
    _, clear = treatments(row, dict(release.levels))
    names = catalogue.categories_of(at)
    counted_exactly = release.as_published and any(
        name in release.aggregates and name not in release.scales for name in names
    )
    if clear[0] or counted_exactly:
        return odds_of(inf)
    perturbed, _ = treatments(row, dict(release.levels))
    if not perturbed[0] and not release.as_published:
        return odds_of(0.0)
    return odds_of(float(np.sum([1 / release.scales[n] for n in names if n in release.scales])))
