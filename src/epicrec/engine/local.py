"""The local engine: all users on this machine, with the threads the statistic itself uses."""

from __future__ import annotations

from epicrec.arrays import Integers
from epicrec.data import Ratings
from epicrec.engine import RemoteRatings, Statistic, merge
from epicrec.errors import InputError
from epicrec.progress import report

AT_ONCE = 1 << 24
"""So many ratings on the disk are looked at at once, or one user with more."""


def local(statistic: Statistic, ratings: Ratings, *, at_once: int | None = None) -> Integers:
    """The sum over all users, by blocks of them that have at most so many ratings.

    Ratings in memory are one block, which is fastest. Mapped ones are blocks of `AT_ONCE`, so that
    memory does not grow with them: it is that of one block and of two sums.
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
