"""Array types by the names that the whole package uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
AnyFloats = npt.NDArray[np.floating[Any]]
"""Scores and predictions: 32 bits or 64."""
Positions = npt.NDArray[np.integer[Any]]
"""Rows or columns, as whole numbers of any size."""
