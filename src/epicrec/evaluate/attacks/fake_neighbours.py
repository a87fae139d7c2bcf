"""Fake neighbours (Calandrino et al. 2011): accounts made to resemble somebody are shown what only
that person has."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicrec.arrays import Bools, Floats
from epicrec.data import Ratings

KNOWN, FAKES = 8, 5
_MARK = 1_000_000


def fake_neighbours(
    model: Any, ratings: Ratings, *, victims: int = 240, seed: int = 0
) -> tuple[Floats, Bools]:
    """How highly a fake account is recommended a film that the victim has, or has not.

    The attacker knows eight of a victim's films and opens five accounts with just these. The
    victim is among the few real people near them.
    """
    rng = np.random.default_rng(seed)
    able = np.flatnonzero(ratings.user_counts > KNOWN + 1)
    people = rng.choice(able, min(victims, len(able)), replace=False)
    truth = np.arange(len(people)) % 2 == 0
    users, items, targets = [], [], []
    for number, (person, has) in enumerate(zip(people, truth, strict=True)):
        own = rng.permutation(ratings.items[ratings.row(int(person))])
        others = np.setdiff1d(np.arange(ratings.n_items), own)
        targets.append(int(own[KNOWN] if has else rng.choice(others, p=_chances(ratings, others))))
        for fake in range(FAKES):
            users += [_MARK + number * FAKES + fake] * KNOWN
            items += own[:KNOWN].tolist()
    everybody = Ratings.from_columns(
        np.concatenate([ratings.users, users]), np.concatenate([ratings.items, items]),
        np.concatenate([ratings.values, np.full(len(users), 5.0)]), scale=ratings.scale,
    ).with_items(np.arange(ratings.n_items))  # fmt: skip
    model.fit(everybody)
    asked = model._suitable(everybody)
    rows = asked.positions(_MARK + FAKES * np.arange(len(people)))
    scores = model._scores(asked.users_at(rows))
    ranks = np.argsort(np.argsort(scores, axis=1), axis=1)
    return ranks[np.arange(len(people)), targets].astype(np.float64), truth


def _chances(ratings: Ratings, others: Any) -> Floats:
    """Films that a victim has not are asked about as often as people watch them."""
    counts = ratings.item_counts[others] + 1e-9
    return np.asarray(counts / counts.sum(), np.float64)
