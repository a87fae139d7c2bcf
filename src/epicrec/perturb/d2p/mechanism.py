"""D2P: a history replaced, item by item, by an AlterEgo (Guerraoui et al., VLDB 2015)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isinf
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.perturb.d2p.choice import check_epsilon, choose, whole_floor
from epicrec.perturb.d2p.correction import AlterEgos
from epicrec.perturb.d2p.groups import hiding_lambda, public_groups, with_outsiders
from epicrec.perturb.d2p.rating_groups import cosine_groups
from epicrec.perturb.d2p.substitution import Channel
from epicrec.perturb.epicrec.mechanism import item_ids_of
from epicrec.perturb.levels import PERTURBED
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


# ---- what is released -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AlterEgoRelease:
    """One AlterEgo: only `items`, `times` and `ratings` are sent.

    `items` are distinct and in the catalogue's order, `times` how many of the history's items each
    stands for, `ratings` the mean of the ratings carried along (None where none are sent).
    """

    items: tuple[Any, ...]
    times: tuple[int, ...]
    guarantee: Guarantee
    ratings: tuple[float, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    as_published: bool = False
    seconds: float = 0.0
    method: str = "d2p"

    clear: ClassVar[int] = 0
    """Nothing is sent as it is on purpose."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "method": self.method,
            "items": list(self.items),
            "times": list(self.times),
            "ratings": None if self.ratings is None else list(self.ratings),
            "guarantee": self.guarantee.to_dict(),
            "settings": dict(self.settings),
            "as_published": self.as_published,
            "seconds": self.seconds,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AlterEgoRelease:
        """Read what `to_dict` wrote."""
        try:
            plain = dict(values)
            plain["items"], plain["times"] = tuple(plain["items"]), tuple(plain["times"])
            plain["ratings"] = None if plain["ratings"] is None else tuple(plain["ratings"])
            plain["guarantee"] = Guarantee.from_dict(plain["guarantee"])
            return cls(**plain)
        except (KeyError, TypeError) as error:
            raise InputError(f"not a release: {error}; fields are those of to_dict") from error

    @classmethod
    def from_json(cls, text: str) -> AlterEgoRelease:
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"not a release: {error}; expected what to_json wrote") from error


# ---- the perturber ----------------------------------------------------------------------------


def make_channel(
    catalogue: Catalogue,
    *,
    p: float | None = None,
    p_star: float | None = None,
    lam: float | None = None,
    hide: str | None = None,
    floor: int | None = None,
    neighbours: int = 0,
    epsilon: float | None = None,
    ratings: Ratings | None = None,
    as_published: bool = False,
) -> tuple[Channel, dict[str, Any]]:
    """The channel that these options mean, and the settings in full.

    Without p, p solves equation (12) for ε (3 unless given) and what else is missing is chosen on
    the catalogue. With p, p* defaults to 0, λ to 1 and the floor to a twentieth of the catalogue,
    and an ε that these exceed is an error. `as_published` groups the `ratings` by cosine
    (Algorithm 1) and defaults to the paper's setting for MovieLens: p = 0.7, p* = 0.03, λ = 6.5,
    no floor.
    """
    n = len(catalogue)
    if epsilon is not None:
        check_epsilon(epsilon)
    if lam is not None and not lam >= 0:
        raise InputError(f"λ is a distance and at least 0, not {lam}")
    if as_published:
        if ratings is None:
            raise InputError(
                "the paper's groups come from ratings: pass ratings=, or use public groups"
            )
        if hide is not None:
            raise InputError("hide goes with public groups; as published, give λ itself")
        p, p_star = 0.7 if p is None else p, 0.03 if p_star is None else p_star
        lam, floor = 6.5 if lam is None else lam, whole_floor(1 if floor is None else floor, n)
        groups = cosine_groups(
            ratings.with_items(catalogue.item_ids), lam, neighbours=neighbours, floor=floor
        )
        channel = Channel(groups, p, p_star)
        cost = channel.published_epsilon
    else:
        if neighbours:
            raise InputError(
                "neighbouring groups belong to as_published; raise λ or the floor instead"
            )
        if hide is not None:
            lam = max(lam or 0.0, hiding_lambda(catalogue, hide))
        if p is None:
            chosen = choose(
                catalogue, DEFAULT_EPSILON if epsilon is None else epsilon,
                p_star=p_star, lam=lam, floor=floor,
            )  # fmt: skip
            p, p_star, lam, floor = chosen.p, chosen.p_star, chosen.lam, chosen.floor
        else:
            p_star, lam = 0.0 if p_star is None else p_star, 1.0 if lam is None else lam
            floor = whole_floor(max(1, n // 20) if floor is None else floor, n)
        groups = public_groups(catalogue, lam, floor)
        if hide is not None:
            groups = with_outsiders(groups, catalogue, hide)
        channel = Channel(groups, p, p_star)
        cost = channel.epsilon
    if epsilon is not None and cost > epsilon * (1 + 1e-9):
        raise InputError(
            f"p = {p:g}, p* = {p_star:g} and λ = {lam:g} cost ε = {cost:.4g}, more than "
            f"{epsilon:g}; leave p out to have it chosen, or raise ε"
        )
    settings = {"p": p, "p_star": p_star, "lam": lam, "floor": floor, "neighbours": neighbours}
    return channel, settings | ({} if hide is None else {"hide": hide})


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


@dataclass(frozen=True, eq=False)
class D2P:
    """Replace every item of a history at random, mostly by one at some distance (sections 2 and 3).

    The mechanism: each item is kept with probability p*; otherwise it becomes, with probability p,
    any item, else one of its group. Relation: two histories that differ in which item stands in one
    place. One item's substitute is drawn without regard to the others, so the release's
    probability changes by at most max T(s, t)/T(s', t), of which ε is the logarithm, computed over
    all triples (`Channel.epsilon`); equation (12) with the true least group is an upper bound.

    Sound where the paper is not: groups come from the public catalogue and have a floor; one draw
    decides between group and everything, not two; it runs on the device. `as_published` takes the
    paper's groups from `ratings`. `carry_ratings` sends the ratings of the history along, which
    hides only which item they belong to. `hide` names a category: every item of it then reaches
    items outside it (Figure 13), which are at least half of its group. Without options the settings
    are chosen for ε = 3.

    >>> from epicrec.data.simulate import embedded_items
    >>> films = Catalogue.from_table(embedded_items())
    >>> release = D2P(films, p=0.5, p_star=0.2).release(films.item_ids[:30])
    >>> sum(release.times), round(release.guarantee.epsilon, 2)
    (30, 5.67)
    """

    catalogue: Catalogue
    p: float | None = field(default=None, kw_only=True)
    p_star: float | None = field(default=None, kw_only=True)
    lam: float | None = field(default=None, kw_only=True)
    hide: str | None = field(default=None, kw_only=True)
    floor: int | None = field(default=None, kw_only=True)
    neighbours: int = field(default=0, kw_only=True)
    epsilon: float | None = field(default=None, kw_only=True)
    ratings: Ratings | None = field(default=None, kw_only=True)
    carry_ratings: bool = field(default=False, kw_only=True)
    as_published: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    method: ClassVar[str] = "d2p"

    @property
    def channel(self) -> Channel:
        """The public law of substitution; the same for everyone with these options."""
        return self._made[0]

    @property
    def settings(self) -> dict[str, Any]:
        """p, p*, λ and floor as given or chosen."""
        return self._made[1]

    @property
    def guarantee(self) -> Guarantee:
        """What one release promises."""
        return channel_guarantee(
            self.channel, as_published=self.as_published, carried=self.carry_ratings, seed=self.seed
        )

    def release(
        self, history: Any, levels: Any = PERTURBED, *, seed: int | None = None
    ) -> AlterEgoRelease:
        """The AlterEgo of a history: a sequence of item ids, or a table with `item_id` (and
        `rating`).

        Items outside the catalogue are not released. `seed` replaces the constructor's for this one
        draw. Draw once, show that, send that: each further draw costs ε again. To go on releasing a
        history that grows, use `AlterEgo`.
        """
        started = perf_counter()
        if levels != PERTURBED:
            raise InputError(f"D2P replaces everything; its only level is {PERTURBED!r}")
        items, ratings = self._events(history)
        seed = self.seed if seed is None else seed
        substitutes = self.channel.draw(items, seed=seed)
        return self._as_release(substitutes, ratings, seed, started)

    def _events(self, history: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
        """The distinct known items of a history, in order, and their ratings where carried."""
        if not isinstance(self.catalogue, Catalogue):
            raise InputError(
                f"catalogue must be a Catalogue, not a {type(self.catalogue).__name__}"
            )
        at = self.catalogue.positions(item_ids_of(history))
        items, first = np.unique(at, return_index=True)
        first = first[items >= 0]
        ratings = _ratings_of(history, len(at))[first] if self.carry_ratings else None
        return items[items >= 0].astype(np.int64), ratings

    def _as_release(
        self, substitutes: Any, ratings: Any, seed: int | None, started: float
    ) -> AlterEgoRelease:
        sent, which, times = np.unique(substitutes, return_inverse=True, return_counts=True)
        means = None if ratings is None else np.bincount(which, ratings, len(sent)) / times
        return AlterEgoRelease(
            items=tuple(self.catalogue.item_ids[sent].tolist()),
            times=tuple(times.tolist()),
            ratings=None if means is None else tuple(means.tolist()),
            guarantee=replace(self, seed=seed).guarantee,
            settings=self.settings,
            as_published=self.as_published,
            seconds=perf_counter() - started,
        )

    @property
    def _made(self) -> tuple[Channel, dict[str, Any]]:
        return _cached_channel(
            self.catalogue, self.p, self.p_star, self.lam, self.hide, self.floor, self.neighbours,
            self.epsilon, self.ratings, self.as_published,
        )  # fmt: skip


@lru_cache(maxsize=8)
def _cached_channel(
    catalogue: Catalogue, p: float | None, p_star: float | None, lam: float | None,
    hide: str | None, floor: int | None, neighbours: int, epsilon: float | None,
    ratings: Ratings | None, as_published: bool,
) -> tuple[Channel, dict[str, Any]]:  # fmt: skip
    return make_channel(
        catalogue, p=p, p_star=p_star, lam=lam, hide=hide, floor=floor, neighbours=neighbours,
        epsilon=epsilon, ratings=ratings, as_published=as_published,
    )  # fmt: skip


def collected(perturber: D2P, releases: Mapping[Any, AlterEgoRelease]) -> AlterEgos:
    """What a server holds: the releases of many users, by their ids, drawn with this perturber.

    Releases that say other settings are refused: their substitutes stand for something else.
    """
    item_ids, users = perturber.catalogue.item_ids, sorted(releases)
    for user in users:
        if dict(releases[user].settings) != perturber.settings:
            raise InputError(
                f"the release of {user!r} was drawn with {dict(releases[user].settings)}, not with "
                f"{perturber.settings}; collect it with the perturber that drew it"
            )
    sizes = [len(releases[user].items) for user in users]
    sent = [item for user in users for item in releases[user].items]
    columns = perturber.catalogue.positions(sent) if sent else np.zeros(0, np.int64)
    if (columns < 0).any():
        raise InputError(f"item {sent[int(np.argmin(columns))]!r} is not in the catalogue")
    times = np.array([count for user in users for count in releases[user].times], np.float64)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    counts = csr_array((times, columns, indptr), (len(users), len(item_ids)))
    return AlterEgos.of(perturber.channel, counts, np.array(users), item_ids)


# ---- checks -----------------------------------------------------------------------------------


def _ratings_of(history: Any, count: int) -> npt.NDArray[np.float64]:
    import narwhals as nw

    if hasattr(history, "columns") or hasattr(history, "column_names"):
        table = nw.from_native(history, eager_only=True)
        if "rating" in table.columns:
            values = np.asarray(table["rating"].to_list(), np.float64)
            if np.isfinite(values).all() and len(values) == count:
                return values
    raise InputError("carry_ratings needs a table with item_id and a rating in every row")
