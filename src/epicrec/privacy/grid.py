"""Statistics as integers: sums are exact, in any order and on any number of machines."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.errors import InputError

_LARGEST = 2.0**62


@dataclass(frozen=True)
class Grid:
    """Multiples of 2⁻ᵇⁱᵗˢ. Round every *contribution* to it, then add up integers.

    Rounding goes toward zero, so no coordinate of a contribution grows, and neither does its L1 or
    L2 norm: a bound on one contribution's norm, and with it the sensitivity to adding or removing
    it, survives rounding with no loss. The step is a power of two because a float is then divided
    by it without error; dividing by 0.1 can round a quotient up to the next integer.
    """

    bits: int

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, int) or abs(self.bits) > 62:
            raise InputError(f"bits must be an integer from -62 to 62, not {self.bits!r}")

    @property
    def step(self) -> float:
        """The distance between neighbouring values."""
        return float(2.0**-self.bits)

    def toward_zero(self, values: npt.ArrayLike) -> Integers:
        """Each value in steps, rounded toward zero: |result|·step ≤ |value|."""
        scaled = np.asarray(values, dtype=np.float64) * 2.0**self.bits
        if not np.all(np.abs(scaled) <= _LARGEST):  # also catches NaN
            raise InputError(
                f"values must be numbers of at most 2**62 steps of {self.step}: "
                "remove NaN and infinite values, or use fewer bits"
            )
        return scaled.astype(np.int64)  # the cast truncates

    def to_values(self, steps: Integers) -> Floats:
        """Back from steps to ordinary numbers."""
        return np.asarray(steps * self.step, dtype=np.float64)

    def sensitivity(self, norm: float | Fraction) -> Fraction:
        """The bound `norm` on a contribution's L1 or L2 norm, in steps, exactly."""
        bound: Any = norm
        if not bound > 0 or not isfinite(bound):
            raise InputError(f"a norm bound must be above 0 and finite, not {norm}")
        return Fraction(norm) * Fraction(2) ** self.bits
