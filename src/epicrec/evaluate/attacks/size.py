"""Size and time: how much is sent, and whether anything is, tells how much was watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from epicrec.arrays import Bools, Floats


def size_and_time(
    sent: Callable[[Sequence[int]], int], items: int, *, weeks: int = 300, seed: int = 0
) -> tuple[Floats, Bools]:
    """How many rows leave in a week in which one film was watched, or none; 0 where nothing is
    sent. `sent` says it for the films of one week."""
    rng = np.random.default_rng(seed)
    watched = np.arange(weeks) % 2 == 0
    films = [[int(rng.integers(items))] if busy else [] for busy in watched]
    return np.array([float(sent(week)) for week in films]), watched
