"""Small rounds for the tests of the collective."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np

from epicrec.collective.shares import Announcement, Report, make_report
from epicrec.collective.task import RoundParameters

DELTA = 1 << 24
PUBLISHED = b"what is published beside the name"


def parameters(**changes: Any) -> RoundParameters:
    return RoundParameters(
        **{
            "task": "films",
            "round": 0,
            "statistic": "vector",
            "length": 20,
            "sensitivity": DELTA,
            "mu": 0.5,
            "delta": 1e-5,
            "share": Fraction(1),
            "most": 10_000,
            "basis": hashlib.sha256(PUBLISHED).digest(),
        }
        | changes
    )


def vector(rng: np.random.Generator, given: RoundParameters) -> Any:
    """Integers in all directions with a norm of at most Δ."""
    direction = rng.normal(size=given.length)
    return np.trunc(direction / np.linalg.norm(direction) * given.sensitivity * 0.99).astype(
        np.int64
    )


def open_round(leader: Any, helper: Any, **changes: Any) -> Announcement:
    return leader.start(parameters(**changes), PUBLISHED, helper).announcement


def send(leader: Any, announcement: Announcement, value: Any) -> Report:
    report = make_report(announcement, value)
    given = announcement.parameters
    leader.upload(given.task, given.round, report)
    return report
