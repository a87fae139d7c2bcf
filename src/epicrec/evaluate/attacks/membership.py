"""Membership: a model fits those it was learned from better than others."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicrec.arrays import Bools, Floats
from epicrec.data import Ratings


def membership(model: Any, ratings: Ratings, *, seed: int = 0) -> tuple[Floats, Bools]:
    """How well the model foretells each person's ratings, each from the others they gave; half of
    the people are in what it was learned from."""
    rng = np.random.default_rng(seed)
    inside = rng.random(ratings.n_users) < 0.5
    over = Ratings.from_columns(
        ratings.users, ratings.items, ratings.values, scale=ratings.scale
    ).with_items(np.arange(ratings.n_items))
    model.fit(over.users_at(np.flatnonzero(inside)))
    scores = np.asarray(model._scores(model._suitable(over)), np.float64)
    errors = (over.values - scores[over.users, over.items]) ** 2
    counts = np.maximum(over.user_counts, 1)
    return -np.bincount(over.users, errors, over.n_users) / counts, inside
