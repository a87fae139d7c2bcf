"""Splits: one set of ratings into a part to train on and a held-out part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epicrec.arrays import Bools, Integers
from epicrec.data.ratings import Ratings
from epicrec.errors import InputError

Split = tuple[Ratings, Ratings]


def split_random(ratings: Ratings, fraction: float, *, seed: int) -> Split:
    """Hold out `fraction` of all ratings, drawn without regard to user or item."""
    held = held_at_random(ratings.user_counts, fraction, seed=seed)
    return ratings.select(~held), ratings.select(held)


def held_at_random(counts: Integers, fraction: float, *, seed: int) -> Bools:
    """Which ratings `split_random` holds out, of users who have so many, in the users' order."""
    _check_fraction(fraction)
    held = np.zeros(int(counts.sum()), np.bool_)
    count = max(1, round(fraction * len(held)))
    held[np.random.default_rng(seed).permutation(len(held))[:count]] = True
    return held


def split_per_user(ratings: Ratings, fraction: float, *, seed: int) -> Split:
    """Hold out `fraction` of each user's ratings, rounded down: everyone keeps a history."""
    held = held_per_user(ratings.user_counts, fraction, seed=seed)
    return ratings.select(~held), ratings.select(held)


def held_per_user(counts: Integers, fraction: float, *, seed: int) -> Bools:
    """Which ratings `split_per_user` holds out, of users who have so many, in the users' order."""
    _check_fraction(fraction)
    users = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    order = np.lexsort((np.random.default_rng(seed).random(len(users)), users))
    return _first_of(order, counts, (fraction * counts).astype(np.int64))


def folds_of(ratings: Ratings, folds: int, *, per_user: bool, seed: int) -> Iterator[Split]:
    """Each of so many parts of the ratings held out in turn: parts of all ratings, or of each
    user's, as equal as they can be."""
    if folds < 2:
        raise InputError(f"cross-validation needs 2 folds or more, got {folds}; try 5")
    rng = np.random.default_rng(seed)
    if per_user:
        order = np.lexsort((rng.random(len(ratings)), ratings.users))
        counts = ratings.user_counts
        first = rng.integers(0, folds, len(counts))  # whose history is short is not always in one
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts - first, counts)
    else:
        order, place = rng.permutation(len(ratings)), np.arange(len(ratings))
    part = np.empty(len(ratings), np.int64)
    part[order] = place % folds
    for fold in range(folds):
        yield ratings.select(part != fold), ratings.select(part == fold)


def split_last(ratings: Ratings, n: int) -> Split:
    """Hold out each user's `n` latest ratings, as far as they leave one to learn from."""
    if n <= 0:
        raise InputError(f"n must be at least 1 to hold out each user's last n ratings, got {n}")
    if ratings.timestamps is None:
        raise InputError("these ratings have no timestamps; use a random split")
    order = np.lexsort((-ratings.timestamps, ratings.users))
    counts = ratings.user_counts
    held = _first_of(order, counts, np.minimum(n, counts - 1).clip(0))
    return ratings.select(~held), ratings.select(held)


def split_users(ratings: Ratings, fraction: float, *, seed: int) -> Split:
    """Hold out `fraction` of the users with all their ratings."""
    _check_fraction(fraction)
    chosen = np.zeros(ratings.n_users, np.bool_)
    count = max(1, round(fraction * ratings.n_users))
    chosen[np.random.default_rng(seed).permutation(ratings.n_users)[:count]] = True
    held = np.repeat(chosen, ratings.user_counts)
    return ratings.select(~held), ratings.select(held)


def split_probe(ratings: Ratings) -> Split:
    """Hold out the ratings that the data set itself marks in its `probe` column."""
    if ratings.probe is None:
        raise InputError("these ratings have no probe column; use a random split")
    held = np.asarray(ratings.probe)
    return ratings.select(~held), ratings.select(held)


def _first_of(order: Integers, counts: Integers, wanted: Integers) -> Bools:
    """The first `wanted[u]` ratings of each user in the given order by user."""
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = np.zeros(len(order), np.bool_)
    held[order] = rank < np.repeat(wanted, counts)
    return held


def _check_fraction(fraction: float) -> None:
    if not 0 < fraction < 1:
        raise InputError(f"the held-out fraction must lie between 0 and 1, got {fraction}; try 0.2")
