"""Asking again: noise that is drawn anew at every answer goes away in the mean of many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from epicrec.arrays import Bools, Floats

ASKED = 60


def averaging(
    answers: Callable[[Bools, int], Floats], *, people: int = 600
) -> tuple[Floats, Bools]:
    """The mean of sixty answers about each person, half of whom gave the highest rating and half
    the lowest. `answers` gives a row for each person and a column for each time it is asked."""
    truth = np.arange(people) % 2 == 0
    return answers(truth, ASKED).mean(axis=1), truth
