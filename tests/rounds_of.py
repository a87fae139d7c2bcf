"""Small rounds for the tests of the collective."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.contributions import published, sensitivity_of
from epicrec.collective.helper import Helper
from epicrec.collective.leader import Leader
from epicrec.collective.results import Result
from epicrec.collective.shares import Announcement, Report, make_report
from epicrec.collective.task import RoundParameters
from epicrec.models.private.lists import Step, counts_statistic

ITEMS = np.array([f"item {number}" for number in range(19)])
STEP = Step(counts_statistic("user", 2, len(ITEMS)), Fraction(1))
PUBLISHED = published(STEP, ITEMS)
DELTA = sensitivity_of(STEP.statistic)


def parameters(**changes: Any) -> RoundParameters:
    return RoundParameters(
        **{
            "task": "films",
            "round": 0,
            "statistic": "counts",
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


def simulate(
    parameters: RoundParameters,
    published: bytes,
    vectors: Iterable[Integers],
    leader: Leader,
    helper: Helper,
) -> Result:
    """A whole round over sealed shares, one vector a device."""
    announcement = leader.start(parameters, published, helper).announcement
    for vector in vectors:
        sent = make_report(announcement, vector).encoded()
        leader.upload(parameters.task, parameters.round, Report.from_encoded(sent))
    return leader.collect(parameters.task, parameters.round, helper)
