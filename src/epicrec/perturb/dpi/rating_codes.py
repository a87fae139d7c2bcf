"""Rating codes: ratings as whole numbers of steps on their scale, and the noise on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Scale
from epicrec.errors import InputError
from epicrec.privacy import add_discrete_laplace, laplace_scale


def span(scale: Scale) -> int:
    """Δ, the steps from one end of the scale to the other: what one rating can change by."""
    steps = round((scale.high - scale.low) / scale.step)
    if steps < 1 or abs((scale.high - scale.low) / scale.step - steps) > 1e-6:
        raise InputError(f"the scale {scale} has no whole number of steps; correct high or step")
    return steps


def codes_of(values: npt.NDArray[Any], scale: Scale) -> Integers:
    """Ratings as 0 … Δ, whatever comes in: the bound holds even for a value off the scale."""
    steps = np.rint((np.asarray(values, np.float64) - scale.low) / scale.step)
    return np.asarray(np.clip(np.nan_to_num(steps), 0, span(scale)), np.int64)


def values_of(codes: npt.NDArray[Any], scale: Scale) -> npt.NDArray[np.float32]:
    """Back from 0 … Δ to ratings."""
    return (scale.low + scale.step * np.asarray(codes, np.float64)).astype(np.float32)


def clamped(codes: Integers, scale: Scale, epsilon: float, seed: int | None) -> Integers:
    """`clamp(code + Z)` with Z discrete Laplace of scale Δ/ε (equation 10 on the grid)."""
    check_epsilon(epsilon)
    noisy = np.array(codes, np.int64)
    add_discrete_laplace(noisy, laplace_scale(span(scale), epsilon), seed=seed)
    return np.clip(noisy, 0, span(scale))


def check_epsilon(epsilon: Any) -> None:
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < 700:
        raise InputError(f"epsilon must be a number above 0 (and below 700), not {epsilon!r}")
