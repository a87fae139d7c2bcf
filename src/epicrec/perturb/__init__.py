"""What leaves the device: randomised response, and the mechanisms of the papers."""

from epicrec.perturb.batches import Batch, batch_of, release_through
from epicrec.perturb.contract import (
    Odds,
    Perturber,
    Release,
    make_perturber,
    odds_of,
    perturber_class,
)
from epicrec.perturb.d2p.mechanism import D2P
from epicrec.perturb.dpi.hiding import HidingDPI
from epicrec.perturb.dpi.mechanism import DPI
from epicrec.perturb.epicrec.mechanism import MEpicRec, SEpicRec
from epicrec.perturb.epicrec.prior import Prior
from epicrec.perturb.levels import LEVELS, parse_level, parse_levels
from epicrec.perturb.randomised_response import RandomisedResponse

__all__ = [
    "D2P",
    "DPI",
    "LEVELS",
    "Batch",
    "HidingDPI",
    "MEpicRec",
    "Odds",
    "Perturber",
    "Prior",
    "RandomisedResponse",
    "Release",
    "SEpicRec",
    "batch_of",
    "make_perturber",
    "odds_of",
    "parse_level",
    "parse_levels",
    "perturber_class",
    "release_through",
]
