"""The contract of all that leaves a device: a `Perturber` makes a `Release`, one form for all.

`Sent` is what a server holds of many releases, and `Told` what they say of the histories.
`make_perturber` makes a perturber by the name of its method.
"""

from __future__ import annotations

import binascii
import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil, exp, inf, isfinite, isinf
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from epicrec import registry
from epicrec.data import Catalogue, Scale
from epicrec.errors import InputError
from epicrec.parameters import check, check_complete, given, taken
from epicrec.perturb.levels import PERTURBED, Level, Levels, parse_level
from epicrec.privacy import Guarantee
from epicrec.privacy.guarantee import Status, Unit

if TYPE_CHECKING:
    from epicrec.perturb.d2p.alteregos import AlterEgos

FORMAT = 1
"""Of a release as JSON."""

Totals = Mapping[str, tuple[float, float]]
"""For each category: how many items of it all histories together hold, and the variance of that."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """What leaves a device in the place of a history, and all that a receiver needs to correct it.

    `items` are distinct, each with the `counts` of the history's items it stands for (None: once
    each) or its altered `ratings` (None: none are sent). Or there are `answers`: a bit for every
    work of a public list that the settings name, packed. `settings` are the mechanism's and public:
    ε, the noise's scales or the odds of substitution, the version of the catalogue. `aggregates`
    are the noisy totals that the items were made from, and no more private than these. `kept` is
    the device's record of how the release came about and never leaves it: `public()` is without.
    """

    method: str
    items: tuple[Any, ...]
    guarantee: Guarantee
    counts: tuple[int, ...] | None = None
    ratings: tuple[float, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    aggregates: Mapping[str, int] = field(default_factory=dict)
    answers: bytes | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.method, str):
            raise InputError("not a release: the method is a name")
        if len(set(self.items)) != len(self.items):
            raise InputError("not a release: an item stands in it twice; send each once")
        if not all(isinstance(m, Mapping) for m in (self.settings, self.aggregates, self.kept)):
            raise InputError("not a release: settings, aggregates and kept are names with values")
        if any(type(count) is not int or not 0 < count < 2**53 for count in self.counts or ()):
            raise InputError("not a release: counts are whole numbers from 1 on")
        if not all(isfinite(rating) for rating in self.ratings or ()):
            raise InputError("not a release: ratings are numbers")
        if self.answers is not None and (self.items or not isinstance(self.answers, bytes)):
            raise InputError("not a release: it has a bit for every work of a list, or items")
        for name, values in (("counts", self.counts), ("ratings", self.ratings)):
            if values is not None and len(values) != len(self.items):
                raise InputError(
                    f"not a release: {len(values)} {name} for {len(self.items)} items; one each"
                )

    @property
    def values(self) -> tuple[float, ...]:
        """The number that goes with each item: its count, else its rating, else 1."""
        return tuple(map(float, self.counts or self.ratings or [1] * len(self.items)))

    @property
    def clear(self) -> int:
        """How many of the items are sent as they are, which no noise protects."""
        return int(self.kept.get("clear", 0))

    @property
    def as_published(self) -> bool:
        """Whether a paper's own version of the mechanism made it."""
        return bool(self.settings.get("as_published", False))

    def public(self) -> Release:
        """What may leave: all but the device's own record, and how long the drawing took."""
        return Release(**{**vars(self), "kept": {}, "seconds": 0.0})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {name: _plain(value) for name, value in vars(self).items()}
        return {"format": FORMAT} | plain | {"guarantee": self.guarantee.to_dict()}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Release:
        """Read what `to_dict` wrote."""
        try:
            plain = dict(values)
            if plain.pop("format") != FORMAT:
                raise InputError(
                    "this release is of another version of epicrec; update this one to read it"
                )
            for name in ("items", "counts", "ratings"):
                plain[name] = None if plain[name] is None else tuple(plain[name])
            if plain["answers"] is not None:
                plain["answers"] = b64decode(plain["answers"], validate=True)
            plain["guarantee"] = Guarantee.from_dict(plain["guarantee"])
            return cls(**plain)
        except (KeyError, TypeError, AttributeError, OverflowError, binascii.Error) as error:
            names = ", ".join(["format", *(f.name for f in fields(cls))])
            raise InputError(f"not a release: {error}; its fields are {names}") from error

    @classmethod
    def from_json(cls, text: str) -> Release:
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"not a release: {error}; expected what to_json wrote") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return list(value) if isinstance(value, tuple) else value


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
        watched, wrong = self.worlds
        return (
            f"Whoever guesses from the release, and is wrong about people who did not watch it in "
            f"no more than {wrong} of 100 worlds, says that you did in at most {watched} of 100."
        )

    @property
    def worlds(self) -> tuple[int, int]:
        """Of 100 worlds: said at most if watched, rounded up, and said wrongly if not."""
        watched = ceil(100 * self.if_watched - 1e-9)
        return watched, 100 - watched


@dataclass(frozen=True, eq=False, kw_only=True)
class Sent:
    """Releases of many people by one method with the same public settings, as a server holds them.

    `counts` (sparse, people × items of the catalogue) has what was sent with each item: how often
    it is there, or its rating, of which those from `liked` on count as liked. `aggregates` are the
    sums of the people's.
    """

    settings: Mapping[str, Any]
    counts: Any
    user_ids: npt.NDArray[Any]
    aggregates: Mapping[str, int] = field(default_factory=dict)
    releases: int = 0
    liked: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Told:
    """What many releases say of histories: events with the channel each went through, and totals.

    It is post-processing of what was released, with public knowledge only: it costs no privacy.
    """

    events: AlterEgos | None = None
    totals: Totals = field(default_factory=dict)


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


class Perturber(ABC):
    """Alters one person's history on their device: a history in, a `Release` out.

    Constructors only store; `release` validates. What a constructor takes is public: a catalogue,
    a scale, settings; none of it may come from the history. The release carries the guarantee of
    this very draw. An explicit `seed` makes the noise repeatable and not private, and the guarantee
    says so.
    """

    task: ClassVar[Literal["ratings", "lists"]] = "lists"
    """Whether a history holds ratings, or what was seen."""
    status: ClassVar[Status] = "none"
    """What the guarantee rests on unless a setting changes it, as `epicrec methods` lists it."""
    as_published: ClassVar[bool] = False
    """Whether it is a paper's own version, with the paper's flaws."""
    units: ClassVar[tuple[Unit, ...]] = ()
    """What the guarantee can hide; nothing where there is none."""

    @property
    def method(self) -> str:
        """The name it is registered under; an unregistered class is named by where it is."""
        cls = type(self)
        return registry.name_of(registry.PERTURBERS, cls) or registry.place_of(cls)

    @abstractmethod
    def release(
        self, history: Any, levels: Levels = PERTURBED, *, seed: int | None = None
    ) -> Release:
        """Draw the release of a history: a sequence of item ids, or a table with `item_id` (and
        `rating`, where the mechanism alters ratings).

        `levels` say how private each category is to be. `seed` replaces the constructor's for this
        one draw. Draw once, show that, send that: each further draw costs ε again.
        """

    @abstractmethod
    def budget(self, levels: Levels = PERTURBED) -> float:
        """The ε that a release at these levels costs, known before anything is drawn."""

    def treatment(self, item_ids: Any, levels: Levels = PERTURBED) -> list[Level]:
        """What happens to each item at these levels."""
        refuse_levels(type(self).__name__, levels)
        return [PERTURBED] * len(item_ids_of(item_ids))

    @classmethod
    def odds(cls, release: Release, item_id: Any, catalogue: Catalogue) -> Odds | None:
        """What one of its releases tells about one item, or None: it cannot say.

        Unless a mechanism knows better, a proved guarantee for whole items bounds every item alike,
        and without one nothing is said.
        """
        del item_id, catalogue
        promise = release.guarantee
        bounded = promise.status == "proved" and promise.unit != "rating value"
        return odds_of(promise.epsilon) if bounded and not promise.delta else None

    @classmethod
    def told(cls, sent: Sent, catalogue: Catalogue) -> Told:
        """What many of its releases with the same settings say, over the catalogue they name.

        Nothing, unless a mechanism knows better. Settings it cannot have are an InputError.
        """
        del sent, catalogue
        return Told()


# ---- by name ----------------------------------------------------------------------------------

_HOW = {
    "catalogue": "give a catalogue, the public list of items",
    "item_ids": "give a catalogue, the public list of items",
    "scale": "give the public scale of the ratings, such as 1:5:1",
    "epsilon": "give an epsilon, such as 1.0",
}


def perturber_class(method: str, *, as_published: bool = False) -> type[Perturber]:
    """The class behind a method name, ours or another package's, or the paper's own version."""
    found: type[Perturber] = registry.load_class(
        registry.PERTURBERS, method, Perturber, as_published=as_published
    )
    return found


def make_perturber(
    method: str,
    *,
    catalogue: Catalogue | None = None,
    scale: Scale | None = None,
    seed: int | None = None,
    as_published: bool | None = None,
    **settings: Any,
) -> Perturber:
    """The perturber behind a method's name with these settings; as published, the paper's own.

    What is public (`catalogue`, its `item_ids`, `scale`) and `seed` are offered to all, for those
    that take them; any other setting that the perturber does not have is an error.
    """
    check(method, make_perturber, given(as_published=as_published))
    cls = perturber_class(method, as_published=bool(as_published))
    item_ids = None if catalogue is None else catalogue.item_ids
    offered = given(catalogue=catalogue, item_ids=item_ids, scale=scale, seed=seed)
    has = taken(cls)
    settings = {name: value for name, value in offered.items() if name in has} | settings
    check(method, cls, settings)
    check_complete(method, cls, settings, _HOW)
    return cls(**settings)


# ---- what mechanisms share --------------------------------------------------------------------


def refuse_levels(name: str, levels: Levels) -> None:
    """For mechanisms that treat everything alike."""
    each = [levels] if isinstance(levels, str) else levels.values()
    if any(parse_level(level) != PERTURBED for level in each):
        raise InputError(f"{name} treats everything alike; its only level is {PERTURBED!r}")


def check_catalogue(catalogue: Any) -> None:
    """Refuse what is no catalogue."""
    if not isinstance(catalogue, Catalogue):
        raise InputError(f"catalogue must be a Catalogue, not a {type(catalogue).__name__}")


def ledger_entries(release: Release) -> list[tuple[str, Guarantee]]:
    """What a ledger must know of a release: the noised part with its ε, and what is sent as it is
    as a disclosure (a guarantee of none)."""
    entries = []
    if not isinf(release.guarantee.epsilon):
        entries.append((f"{release.method}, with noise", release.guarantee))
    elif not release.clear:
        entries.append((f"{release.method}, not protected", release.guarantee))
    if release.clear:
        entries.append((f"{release.clear} in clear", Guarantee.none(unit="item")))
    return entries


def nothing_left() -> Guarantee:
    """The guarantee of a release that does not depend on the history at all."""
    return Guarantee(
        epsilon=0.0,
        unit="item",
        relation="add or remove one",
        assumes=("Nothing that depends on the history left the device.",),
    )


def item_ids_of(history: Any) -> npt.NDArray[Any]:
    """The item ids of a history: a sequence or array of ids, or any table with `item_id`."""
    if hasattr(history, "columns") or hasattr(history, "column_names"):
        import narwhals as nw

        table = nw.from_native(history, eager_only=True)
        if "item_id" not in table.columns:
            raise InputError(
                f"the history has no column 'item_id'; found {', '.join(table.columns)}. Rename it"
            )
        history = table["item_id"].to_list()
    if isinstance(history, str | bytes):
        raise InputError("a history is a sequence of item ids, not one text; put the ids in a list")
    ids = np.asarray(history if isinstance(history, np.ndarray) else list(history))
    if ids.ndim != 1 or (ids.dtype.kind not in "iuUS" and ids.size):
        raise InputError(
            "a history is a flat sequence of item ids: whole numbers or text, none missing"
        )
    return ids if ids.size else np.zeros(0, np.int64)
