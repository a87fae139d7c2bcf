"""Where sums are taken: a statistic is a function from a partition of users to an integer sum.

Partial sums are merged by adding them. As integers they do not depend on the partitions, on their
order or on the number of machines, so every engine gives the same sum to the last bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Ratings, Scale
from epicrec.machine import in_threads, processors

FEW = 1 << 16
"""So few ratings are not worth a second thread."""
Once = Callable[[Callable[[], Integers]], Integers]
"""Has noise drawn, by what it is given: anew, or once for all where a checkpoint keeps it."""


class Statistic(Protocol):
    """A sum over users: what one partition of them contributes, as int64.

    A statistic holds only what is public or already released, and can be sent to other machines.
    """

    def __call__(self, part: Ratings) -> Integers: ...


class Engine(Protocol):
    """Takes the sum of a statistic over all users."""

    def __call__(self, statistic: Statistic, ratings: Any) -> Integers: ...


class RemoteRatings(ABC):
    """Ratings on other machines: all that a model which learns from sums reads of `Ratings`.

    The items and the scale are public, so they are here; of the ratings there are only sums.
    """

    item_ids: npt.NDArray[Any]
    scale: Scale | None
    items_given = True
    scale_given = True

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @abstractmethod
    def __len__(self) -> int:
        """How many ratings there are."""

    @abstractmethod
    def as_history(self) -> Self:
        """The same without the ratings' values: what was seen, not how it was rated."""

    @abstractmethod
    def first_users(self, most: int) -> Self:
        """Only so many users, the first in the order of their ids; all where they are fewer."""

    @abstractmethod
    def total(self, statistic: Statistic) -> Integers:
        """The sum over all users, taken where they are."""


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


def summed(
    work: Callable[[Ratings], Integers], part: Ratings, *, at_once: int | None = None
) -> Integers:
    """The sum of what `work` finds in blocks of users, in threads: one block a processor, or
    several where they are to have at most so many ratings."""
    each = at_once or max(-(-len(part) // processors()), FEW)
    found = in_threads(work, part.blocks(each) if part.n_users else [part])
    return reduce(merge, found)


def merge(into: Integers, part: Integers) -> Integers:
    """Add one partial sum to another, in place."""
    into += part
    return into


def drawn(draw: Callable[[], Integers]) -> Integers:
    """The noise as it is drawn now, where nothing keeps it."""
    return draw()
