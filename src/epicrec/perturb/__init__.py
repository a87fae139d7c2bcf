"""What leaves the device: EpicRec's mechanisms and the other perturbers.

Names are loaded when first used, so that importing this package imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epicrec._lazy import attach

if TYPE_CHECKING:
    from epicrec.perturb.contract import Odds, Release, odds, odds_of
    from epicrec.perturb.d2p.alterego import AlterEgo
    from epicrec.perturb.d2p.mechanism import D2P, AlterEgoRelease
    from epicrec.perturb.dpi import DPI, HidingDPI, RatedRelease
    from epicrec.perturb.epicrec.mechanism import MEpicRec, SEpicRec
    from epicrec.perturb.epicrec.prior import Prior
    from epicrec.perturb.epicrec.stream import Stream, release_through
    from epicrec.perturb.levels import LEVELS, parse_level, parse_levels
    from epicrec.perturb.registry import make_perturber, perturber_class

__getattr__, __dir__ = attach(__name__, __file__)

__all__ = [
    "D2P",
    "DPI",
    "LEVELS",
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
