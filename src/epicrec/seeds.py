"""Seeds: one seed gives every draw its own, so that no two draws share random words.

A seed is for experiments. Where there is none, every draw takes fresh randomness from the system.
Splits and the simulated viewers use the seed itself and keep their streams for good.
"""

from __future__ import annotations

import hashlib
from typing import overload

import numpy as np

from epicrec.errors import InputError


@overload
def derived(seed: int, *names: object) -> int: ...
@overload
def derived(seed: None, *names: object) -> None: ...
@overload
def derived(seed: int | None, *names: object) -> int | None: ...
def derived(seed: int | None, *names: object) -> int | None:
    """The seed for these names, by a hash; a user's does not depend on who else is there.

    >>> derived(1, "release", "ann") == derived(1, "release", "bob")
    False
    >>> derived(None, "release", "ann") is None
    True
    """
    if checked(seed) is None:
        return None
    text = " ".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def checked(seed: int | None) -> int | None:
    """The seed as an int, or an error where it is no seed."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a non-negative integer or None, not {seed!r}")
    return int(seed)
