"""Watching lists change (Calandrino et al. 2011): who knows a few of somebody's films sees, in the
lists of films alike, which film came next."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicrec.arrays import Bools, Floats
from epicrec.data import Ratings

_KNOWN = 4


def lists_over_time(model: Any, ratings: Ratings, *, seed: int = 0) -> tuple[Floats, Bools]:
    """How far a film rises in the lists of films that its viewer is known to have seen.

    Between two days half of the people watch a film each. The model is learned on both days, and
    everybody sees the list beside each film. For each person the same film is asked about,
    watched or not: the sum of the places it gained in the lists of four films they are known by.
    """
    rng = np.random.default_rng(seed)
    people = np.flatnonzero(ratings.user_counts >= _KNOWN)
    watched = rng.random(len(people)) < 0.5
    targets, known = [], []
    for person in people:
        own = ratings.items[ratings.row(int(person))]
        others = np.setdiff1d(np.arange(ratings.n_items), own)
        rare = others[np.argsort(ratings.item_counts[others], kind="stable")[: len(others) // 2]]
        targets.append(int(rng.choice(rare)))
        known.append(rng.choice(own, _KNOWN, replace=False))
    after = _with(ratings, people[watched], np.array(targets)[watched])
    places = [_places(model, day) for day in (ratings, after)]
    scores = [
        float(np.sum(places[0][own, target] - places[1][own, target]))
        for own, target in zip(known, targets, strict=True)
    ]
    return np.array(scores), watched


def _with(ratings: Ratings, users: Any, items: Any) -> Ratings:
    """The same people after some watched one film more, and liked it."""
    both = Ratings.from_columns(
        np.concatenate([ratings.users, users]),
        np.concatenate([ratings.items, items]),
        np.concatenate([ratings.values, np.full(len(users), 5.0)]),
        scale=ratings.scale,
    )
    return both.with_items(np.arange(ratings.n_items))


def _places(model: Any, ratings: Ratings) -> Floats:
    """For each film, where every other stands in the list beside it."""
    n = ratings.n_items
    over = Ratings.from_columns(
        ratings.users, ratings.items, ratings.values, scale=ratings.scale
    ).with_items(np.arange(n))
    alone = Ratings.from_columns(np.arange(n), np.arange(n), np.full(n, 5.0), scale=ratings.scale)
    model.fit(over)
    scores = model._scores(model._suitable(alone.with_items(np.arange(n))))
    return np.argsort(np.argsort(-scores, axis=1), axis=1).astype(np.float64)
