"""Where sums are taken: a statistic is a function from a partition of users to an integer sum.

Partial sums are merged by adding them. As integers they do not depend on the partitions, on their
order or on the number of machines, so every engine gives the same sum to the last bit.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings

Integers = npt.NDArray[np.int64]


class Statistic(Protocol):
    """A sum over users: what one partition of them contributes, as int64.

    A statistic holds only what is public or already released, and can be sent to other machines.
    """

    def __call__(self, part: Ratings) -> Integers: ...


class Engine(Protocol):
    """Takes the sum of a statistic over all users."""

    def __call__(self, statistic: Statistic, ratings: Ratings) -> Integers: ...


def contribution(statistic: Statistic, history: Integers, n_items: int) -> Integers:
    """What one person adds to a sum, by the code that every engine runs: their items, as positions
    among all there are, in any order."""
    items = np.unique(np.asarray(history, np.int32))
    return statistic(
        Ratings(
            np.zeros(1, np.int64), np.arange(n_items), np.array([0, len(items)], np.int64), items,
            np.ones(len(items), np.float32), None,
        )
    )  # fmt: skip


def merge(into: Integers, part: Integers) -> Integers:
    """Add one partial sum to another, in place."""
    into += part
    return into
