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
from epicrec.errors import InputError
from epicrec.machine import in_threads, processors
from epicrec.progress import report

FEW = 1 << 16
"""So few ratings are not worth a second thread."""
AT_ONCE = 1 << 24
"""So many memory-mapped ratings are read at once, or one user with more."""
Once = Callable[[Callable[[], Integers]], Integers]
"""Calls a function that draws noise: each time, or only once where a checkpoint keeps the noise."""


class Statistic(Protocol):
    """A sum over users: what one partition of them contributes, as int64.

    A statistic holds only what is public or already released, and can be sent to other machines.
    """

    def __call__(self, part: Ratings) -> Integers: ...


class Engine(Protocol):
    """Takes the sum of a statistic over all users."""

    def __call__(self, statistic: Statistic, ratings: Any) -> Integers: ...


class RemoteRatings(ABC):
    """Ratings on other machines: the part of `Ratings` that a model needs to learn from sums.

    The items and the scale are public and held here; the ratings are reached only through sums.
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
        """The same without the values: what was seen, not how it was rated."""

    @abstractmethod
    def first_users(self, most: int) -> Self:
        """At most so many users, the first in the order of their ids."""

    @abstractmethod
    def total(self, statistic: Statistic) -> Integers:
        """The sum over all users, taken where they are."""


def local(statistic: Statistic, ratings: Ratings, *, at_once: int | None = None) -> Integers:
    """The sum over all users on this machine, with the threads that the statistic itself uses.

    Users are added up in blocks of at most so many ratings. Ratings in memory are one block, which
    is fastest. Memory-mapped ones are blocks of `AT_ONCE`, so that memory holds one block and two
    sums, however many ratings there are.
    """
    if at_once is not None and at_once < 1:
        raise InputError(f"at_once must be at least 1, got {at_once}")
    at_once = at_once or (AT_ONCE if ratings.mapped else max(len(ratings), 1))
    if len(ratings) <= at_once:
        return statistic(ratings)
    total, done = None, 0
    for block in ratings.blocks(at_once):
        part = statistic(block)
        total = part if total is None else merge(total, part)
        done += len(block)
        report("taking sums", done, len(ratings))
    assert total is not None
    return total


def where_they_are(statistic: Statistic, ratings: Ratings | RemoteRatings) -> Integers:
    """The sum taken where the ratings are: here, or on the machines that hold them."""
    if isinstance(ratings, RemoteRatings):
        return ratings.total(statistic)
    return local(statistic, ratings)


def contribution(statistic: Statistic, history: Integers, n_items: int) -> Integers:
    """What one user adds to a sum, by the code that every engine runs. The history has positions
    among all items, in any order."""
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
    """The sum of `work` over blocks of users, in threads: one block for each processor, or more
    where a block may have at most so many ratings."""
    each = at_once or max(-(-len(part) // processors()), FEW)
    found = in_threads(work, part.blocks(each) if part.n_users else [part])
    return reduce(merge, found)


def merge(into: Integers, part: Integers) -> Integers:
    """Add one partial sum to another, in place."""
    into += part
    return into


def drawn(draw: Callable[[], Integers]) -> Integers:
    """Draw the noise now: the `Once` of a fit without a checkpoint."""
    return draw()
