"""Neighbours by search: the pair of inputs that a method's own numbers tell apart best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_STARTS, _TRIES = 4, 60


def climb(
    score: Callable[[tuple[int, ...]], float], choices: Sequence[int], *, seed: int = 0
) -> tuple[int, ...]:
    """The best of some random starts, each changed in one place as long as that helps.

    A candidate is one whole number below `choices[i]` in each place i. The seed only says where the
    search goes; the methods it is for draw fresh noise.

    >>> climb(lambda candidate: -abs(candidate[0] - 7) + candidate[1], [10, 3])
    (7, 2)
    """
    rng = np.random.default_rng(seed)
    best, reached = (0,) * len(choices), -np.inf
    for _ in range(_STARTS):
        here = tuple(int(rng.integers(choice)) for choice in choices)
        height = score(here)
        for _ in range(_TRIES):
            place = int(rng.integers(len(choices)))
            there = (*here[:place], int(rng.integers(choices[place])), *here[place + 1 :])
            if (found := score(there)) >= height:
                here, height = there, found
        if height > reached:
            best, reached = here, height
    return best
