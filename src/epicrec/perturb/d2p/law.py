"""The law of substitution that D2P's settings mean, and what a draw by it promises."""

from __future__ import annotations

from math import isinf
from typing import Any

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.perturb.d2p.choice import check_epsilon, choose, whole_floor
from epicrec.perturb.d2p.groups import hiding_lambda, public_groups, with_outsiders
from epicrec.perturb.d2p.rating_groups import cosine_groups
from epicrec.perturb.d2p.substitution import Channel
from epicrec.privacy import Guarantee

DEFAULT_EPSILON = 3.0

SAYS_HOW_MANY = "How many items a history has is sent as it is and is not protected."
PUBLIC_GROUPS = "The catalogue, its groups, p and p* were chosen without looking at any history."
PRIVATE_GROUPS = (
    "The groups were made from private ratings, which the paper's proof takes for public."
)
CARRIED = (
    "Ratings travel with the substitutes as they are: only which item they belong to is hidden."
)


def make_channel(
    catalogue: Catalogue,
    *,
    epsilon: float | None = None,
    lam: float | None = None,
    ratings: Ratings | None = None,
    as_published: bool = False,
    **options: Any,
) -> tuple[Channel, dict[str, Any]]:
    """The channel that these options (p, p_star, lam, hide, floor, neighbours) mean for a
    catalogue, and the settings in full; an ε that they exceed is an error."""
    if epsilon is not None:
        check_epsilon(epsilon)
    if lam is not None and not lam >= 0:
        raise InputError(f"λ is a distance and at least 0, not {lam}")
    if as_published:
        channel, settings = _published_channel(catalogue, ratings, lam=lam, **options)
        cost = channel.published_epsilon
    else:
        channel, settings = _public_channel(catalogue, epsilon=epsilon, lam=lam, **options)
        cost = channel.epsilon
    if epsilon is not None and cost > epsilon * (1 + 1e-9):
        raise InputError(
            f"p = {settings['p']:g}, p* = {settings['p_star']:g} and λ = {settings['lam']:g} cost "
            f"ε = {cost:.4g}, more than {epsilon:g}; leave p out to have it chosen, or raise ε"
        )
    return channel, settings


def _published_channel(
    catalogue: Catalogue,
    ratings: Ratings | None,
    *,
    p: float | None = None,
    p_star: float | None = None,
    lam: float | None = None,
    hide: str | None = None,
    floor: int | None = None,
    neighbours: int = 0,
) -> tuple[Channel, dict[str, Any]]:
    """Groups of the ratings by cosine (Algorithm 1); without options the paper's setting for
    MovieLens: p = 0.7, p* = 0.03, λ = 6.5, no floor."""
    if ratings is None:
        raise InputError(
            "the paper's groups come from ratings: pass ratings=, or use public groups"
        )
    if hide is not None:
        raise InputError("hide goes with public groups; as published, give λ itself")
    p, p_star = 0.7 if p is None else p, 0.03 if p_star is None else p_star
    lam = 6.5 if lam is None else lam
    floor = whole_floor(1 if floor is None else floor, len(catalogue))
    known = ratings.with_items(catalogue.item_ids)
    groups = cosine_groups(known, lam, neighbours=neighbours, floor=floor)
    return Channel(groups, p, p_star), _settings(p, p_star, lam, floor, neighbours)


def _public_channel(
    catalogue: Catalogue,
    *,
    epsilon: float | None,
    p: float | None = None,
    p_star: float | None = None,
    lam: float | None = None,
    hide: str | None = None,
    floor: int | None = None,
    neighbours: int = 0,
) -> tuple[Channel, dict[str, Any]]:
    """Groups of the catalogue. Without p, p solves equation (12) for ε (3 unless given) and what
    else is missing is chosen on the catalogue. With p, p* defaults to 0, λ to 1 and the floor to a
    twentieth of the catalogue."""
    if neighbours:
        raise InputError("neighbouring groups belong to as_published; raise λ or the floor instead")
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
    if hide is not None:
        groups = with_outsiders(groups, catalogue, hide)
    settings = _settings(p, p_star, lam, floor, neighbours)
    return Channel(groups, p, p_star), settings | ({} if hide is None else {"hide": hide})


def _settings(p: float, p_star: float, lam: float, floor: int, neighbours: int) -> dict[str, Any]:
    return {"p": p, "p_star": p_star, "lam": lam, "floor": floor, "neighbours": neighbours}


def channel_guarantee(
    *channels: Channel,
    as_published: bool = False,
    carried: bool = False,
    past: float = 0.0,
    seed: int | None = None,
) -> Guarantee:
    """What AlterEgos promise whose items each went through one of these channels.

    The exact ε of the dearest, or (12) as published; `past` is what earlier draws of the same items
    have cost.
    """
    epsilon = past + max(
        channel.published_epsilon if as_published else channel.epsilon for channel in channels
    )
    if isinf(epsilon):
        return Guarantee.none(unit="item", relation="change one")
    return Guarantee(
        epsilon=epsilon,
        unit="item",
        relation="change one",
        status="claimed" if as_published or carried else "proved",
        assumes=(
            PRIVATE_GROUPS if as_published else PUBLIC_GROUPS,
            SAYS_HOW_MANY,
            *((CARRIED,) if carried else ()),
        ),
    ).seeded(seed)
