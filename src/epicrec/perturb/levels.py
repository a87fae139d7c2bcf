"""Levels: how private a person wants each category to be, and what that makes of each item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Bools
from epicrec.data import Catalogue
from epicrec.errors import InputError

Level = Literal["no release", "perturbed release", "all release"]
NO: Level = "no release"
PERTURBED: Level = "perturbed release"
ALL: Level = "all release"
LEVELS: tuple[Level, ...] = (NO, PERTURBED, ALL)

Levels = str | Mapping[str, str]
"""One level for everything, or category → level; categories left out are perturbed."""


def parse_level(text: str) -> Level:
    """The level of this name, in any case; "no", "perturbed" and "all" are short for the names.

    >>> parse_level("All release"), parse_level("no")
    ('all release', 'no release')
    """
    wanted = str(text).strip().lower().replace("_", " ").replace("-", " ")
    for level in LEVELS:
        if wanted in (level, level.removesuffix(" release")):
            return level
    raise InputError(f"there is no level {text!r}; choose one of {', '.join(LEVELS)}")


def parse_levels(levels: Levels, categories: tuple[str, ...]) -> dict[str, Level]:
    """The level of every category."""
    if isinstance(levels, str):
        return dict.fromkeys(categories, parse_level(levels))
    unknown = [name for name in levels if name not in set(categories)]
    if unknown:
        raise InputError(
            f"the catalogue has no category {unknown[0]!r}; it has {_some(categories)}. "
            "Correct the name or leave it out"
        )
    return {name: parse_level(levels.get(name, PERTURBED)) for name in categories}


def treatments(matrix: npt.NDArray[np.uint8], levels: dict[str, Level]) -> tuple[Bools, Bools]:
    """Which category rows enter the noisy totals, and which are sent as they are.

    The stricter level wins: one "no release" category withholds an item, one "perturbed release"
    category (and no "no release") perturbs it, and only when all its categories are "all release"
    is it sent as it is. An item without categories has nothing to be perturbed by: it is sent only
    if every category of the catalogue is "all release", and withheld otherwise.
    """
    chosen = np.array(list(levels.values()), dtype=object)
    withheld = has_any(matrix, chosen == NO)
    perturbed = ~withheld & has_any(matrix, chosen == PERTURBED)
    clear = ~withheld & ~perturbed & np.asarray(matrix.any(axis=1))
    if len(chosen) and (chosen == ALL).all():
        clear[:] = True
    return perturbed, clear


def public_levels(levels: dict[str, Level]) -> dict[str, Level]:
    """The levels as everything that is sent depends on them: a withheld category counts as one
    that was never watched, so that no release tells that it is withheld. Where nothing is
    perturbed there is no noise to hide behind, and the levels show."""
    if PERTURBED not in levels.values():
        return levels
    return {name: PERTURBED if level == NO else level for name, level in levels.items()}


def withheld(catalogue: Catalogue, levels: dict[str, Level]) -> Bools:
    """Which items of a catalogue have a category with "no release"."""
    chosen = np.array(list(levels.values()), dtype=object)
    return has_any(catalogue.rows.matrix, chosen == NO)[catalogue.rows.row_of_item]


def has_any(matrix: npt.NDArray[np.uint8], columns: Bools) -> Bools:
    """Which rows have one of these categories."""
    return np.asarray(matrix[:, columns].any(axis=1), dtype=np.bool_)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
