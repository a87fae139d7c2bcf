"""Whether a result is one that honest people can give, noise and all.

It does not keep a lie out: one device can move a sum as far as it likes, modulo the modulus. It
refuses what shows, so that nobody ranks with it. A false alarm has a chance below 10⁻⁹.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.task import Parameters

_ALARM = 1e-9
DIAGONAL, BELOW = 5, 7


def implausible(parameters: Parameters, people: int, total: Integers) -> str | None:
    """What is wrong with a result, or None."""
    if not 0 <= people <= parameters.most:
        return f"{people} people took part, and at most {parameters.most} can"
    return CHECKS.get(parameters.statistic, _norms)(parameters, people, total)


def steps(tests: int) -> float:
    """How many standard deviations noise may be off where so many are looked at: 6 or more."""
    return max(6.0, -NormalDist().inv_cdf(_ALARM / (2 * tests)))


def _norms(parameters: Parameters, people: int, total: Integers) -> str | None:
    """No entry is beyond what so many vectors of norm Δ add up to."""
    room = steps(parameters.length) * sqrt(2) * parameters.sigma
    if np.abs(total).max() > people * parameters.sensitivity + room:
        return f"an entry is beyond what {people} people can add up to"
    return None


def _counts(parameters: Parameters, people: int, total: Integers) -> str | None:
    """Nobody counts less than nothing, nor more than once."""
    room = steps(parameters.length) * sqrt(2) * parameters.sigma
    if total.min() < -room:
        return "a count is below zero"
    return _norms(parameters, people, total)


def _products(parameters: Parameters, people: int, total: Integers) -> str | None:
    """A sum of z zᵀ has no negative direction, and a trace of at most one for each person.

    Packed as in `TasteProducts`, 5 z_j² on the diagonal and 7 z_i z_j below. The noise on such a
    matrix of side d reaches no further than 2√d of that on its diagonal, and more with a chance
    that falls like a Gaussian's (Davidson and Szarek 2001).
    """
    size = int((sqrt(8 * parameters.length + 1) - 1) / 2)
    spread, one = sqrt(2) * parameters.sigma / DIAGONAL, parameters.sensitivity / DIAGONAL
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = total / BELOW
    matrix[np.diag_indices(size)] *= BELOW / DIAGONAL
    if np.trace(matrix) > people * one + steps(1) * spread * sqrt(size):
        return f"the trace is beyond what {people} people can add up to"
    if np.linalg.eigvalsh(matrix)[0] < -spread * (2 * sqrt(size) + steps(1)):  # lower triangle
        return "a direction has a negative square"
    return _norms(parameters, people, total)


CHECKS: dict[str, Callable[[Parameters, int, Integers], str | None]] = {
    "counts": _counts,
    "products": _products,
}
"""By the name of a statistic; of any other the norms are checked."""
