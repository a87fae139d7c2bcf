"""The local engine: all users on this machine, with the threads the statistic itself uses."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np

from epicrec.data import Ratings
from epicrec.engine import Integers, RemoteRatings, Statistic, merge
from epicrec.errors import InputError


def local(statistic: Statistic, ratings: Ratings, *, partitions: int = 1) -> Integers:
    """The sum over all users. One partition is fastest here: more only need more memory."""
    if partitions < 1:
        raise InputError(f"partitions must be at least 1, got {partitions}")
    if partitions == 1:
        return statistic(ratings)
    edges = np.linspace(0, ratings.n_users, partitions + 1).astype(np.int64)
    parts = (ratings.users_at(np.arange(*span)) for span in pairwise(edges))
    return reduce(merge, map(statistic, parts))


def where_they_are(statistic: Statistic, ratings: Ratings | RemoteRatings) -> Integers:
    """The sum taken where the ratings are: here, or on the machines that hold them."""
    if isinstance(ratings, RemoteRatings):
        return ratings.total(statistic)
    return local(statistic, ratings)
