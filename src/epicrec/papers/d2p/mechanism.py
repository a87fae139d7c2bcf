"""D2P as published: groups from private ratings, and the ε of equation (12) as claimed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import isinf
from typing import Any

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.papers.d2p.rating_groups import cosine_groups
from epicrec.perturb.d2p.channel import CARRIED, SAYS_HOW_MANY, Channel
from epicrec.perturb.d2p.mechanism import D2P
from epicrec.perturb.d2p.tuning import check_budget, check_cost, whole_floor
from epicrec.privacy import Guarantee

PRIVATE_GROUPS = (
    "The groups were made from private ratings, which the paper's proof takes for public."
)


@dataclass(frozen=True, eq=False)
class PublishedD2P(D2P):
    """D2P as published: the groups of Algorithm 1 from `ratings`, which are not private.

    `neighbours` joins each group with those that share most items with it (Definition 4).
    """

    as_published = True
    status = "claimed"

    neighbours: int = field(default=0, kw_only=True)
    ratings: Ratings | None = field(default=None, kw_only=True)

    @property
    def guarantee(self) -> Guarantee:
        return published_guarantee(self.channel, carried=self.carry_ratings, seed=self.seed)

    @property
    def _made(self) -> tuple[Channel, dict[str, Any]]:
        if self.ratings is None:
            raise InputError(
                "the paper's groups come from ratings: pass ratings=, or use public groups"
            )
        if self.hide is not None:
            raise InputError("hide goes with public groups; as published, give λ itself")
        return _cached_channel(
            self.catalogue, self.ratings, epsilon=self.epsilon, p=self.p, p_star=self.p_star,
            lam=self.lam, floor=self.floor, neighbours=self.neighbours,
        )  # fmt: skip


def published_channel(
    catalogue: Catalogue,
    ratings: Ratings,
    *,
    epsilon: float | None = None,
    p: float | None = None,
    p_star: float | None = None,
    lam: float | None = None,
    floor: int | None = None,
    neighbours: int = 0,
) -> tuple[Channel, dict[str, Any]]:
    """The channel by groups of the ratings (Algorithm 1), and the settings in full.

    Without options the paper's setting for MovieLens: p = 0.7, p* = 0.03, λ = 6.5, no floor.
    """
    check_budget(epsilon, lam)
    p, p_star = 0.7 if p is None else p, 0.03 if p_star is None else p_star
    lam = 6.5 if lam is None else lam
    floor = whole_floor(1 if floor is None else floor, len(catalogue))
    known = ratings.with_items(catalogue.item_ids)
    channel = Channel(cosine_groups(known, lam, neighbours=neighbours, floor=floor), p, p_star)
    settings: dict[str, Any] = {"p": p, "p_star": p_star, "lam": lam, "floor": floor}
    settings["neighbours"] = neighbours
    check_cost(channel.epsilon_bound, epsilon, settings)
    return channel, settings


_cached_channel = lru_cache(maxsize=8)(published_channel)


def published_guarantee(
    channel: Channel, *, carried: bool = False, seed: int | None = None
) -> Guarantee:
    """What the paper claims: the ε of equation (12)."""
    if isinf(channel.epsilon_bound):
        return Guarantee.none(unit="item", relation="change one")
    return Guarantee(
        epsilon=channel.epsilon_bound,
        unit="item",
        relation="change one",
        status="claimed",
        assumes=(PRIVATE_GROUPS, SAYS_HOW_MANY, *((CARRIED,) if carried else ())),
    ).seeded(seed)
