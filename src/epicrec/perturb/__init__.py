"""What leaves the device: EpicRec's mechanisms and the other perturbers.

Names are loaded when first used, so that importing this package imports nothing heavy.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from epicrec._lazy import attach
from epicrec.errors import InputError

if TYPE_CHECKING:
    from epicrec.data import Catalogue
    from epicrec.perturb.contract import Odds, Release, odds, odds_of
    from epicrec.perturb.d2p.alterego import AlterEgo
    from epicrec.perturb.d2p.mechanism import D2P, AlterEgoRelease
    from epicrec.perturb.dpi import DPI, HidingDPI, RatedRelease
    from epicrec.perturb.epicrec.mechanism import MEpicRec, SEpicRec
    from epicrec.perturb.epicrec.prior import Prior
    from epicrec.perturb.epicrec.stream import Stream, release_through
    from epicrec.perturb.levels import LEVELS, parse_level, parse_levels

__getattr__, __dir__ = attach(__name__, __file__)

PERTURBERS = {"s-epicrec": "SEpicRec", "m-epicrec": "MEpicRec", "d2p": "D2P"}
"""Methods that release a history over a catalogue, by name; `perturber_class` gives the class."""

__all__ = [
    "D2P",
    "DPI",
    "LEVELS",
    "PERTURBERS",
    "AlterEgo",
    "AlterEgoRelease",
    "HidingDPI",
    "MEpicRec",
    "Odds",
    "Prior",
    "RatedRelease",
    "Release",
    "SEpicRec",
    "Stream",
    "make_perturber",
    "odds",
    "odds_of",
    "parse_level",
    "parse_levels",
    "perturber_class",
    "release_through",
]


def make_perturber(method: str, catalogue: Catalogue, **options: Any) -> Any:
    """The perturber behind a method name; an option it does not have is an error."""
    cls = perturber_class(method)
    known = {name for name, field in signature(cls).parameters.items() if name != "catalogue"}
    for name in [name for name, value in options.items() if name not in known and value]:
        raise InputError(f"{method} has no setting {name!r}; its settings are: {', '.join(known)}")
    chosen = {name: value for name, value in options.items() if value is not None and name in known}
    return cls(catalogue=catalogue, **chosen)


def perturber_class(method: str) -> type[SEpicRec] | type[MEpicRec] | type[D2P]:
    """The class behind a method name."""
    if method not in PERTURBERS:
        raise InputError(f"there is no method {method!r} here; use one of {', '.join(PERTURBERS)}")
    found: type[SEpicRec] | type[MEpicRec] | type[D2P] = __getattr__(PERTURBERS[method])
    return found
