"""What leaves the device: EpicRec's mechanisms and the other perturbers.

Names are loaded when first used, so that importing this package imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epicrec.perturb.epicrec import MEpicRec, SEpicRec
    from epicrec.perturb.levels import LEVELS, parse_level, parse_levels
    from epicrec.perturb.prior import Prior
    from epicrec.perturb.release import Odds, Release, odds, odds_of
    from epicrec.perturb.streams import Stream, release_through

_MODULES = {
    "epicrec": ("MEpicRec", "SEpicRec"),
    "levels": ("LEVELS", "parse_level", "parse_levels"),
    "prior": ("Prior",),
    "release": ("Odds", "Release", "odds", "odds_of"),
    "streams": ("Stream", "release_through"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "LEVELS",
    "MEpicRec",
    "Odds",
    "Prior",
    "Release",
    "SEpicRec",
    "Stream",
    "odds",
    "odds_of",
    "parse_level",
    "parse_levels",
    "release_through",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
