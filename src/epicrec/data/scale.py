"""Scale: the public scale that ratings are given on, and where a folder states its own."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from epicrec.arrays import Array, Bools, Floats
from epicrec.errors import InputError

DESCRIPTION = "dataset.toml"
"""What a folder says of its ratings: the public scale, as in scale = "1:5:1"."""


@dataclass(frozen=True)
class Scale:
    """The public scale of the ratings: from `low` to `high` in steps of `step`."""

    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.step > 0):
            raise InputError(
                f"a rating scale needs low < high and step > 0, got {self}; try Scale(1, 5, 1)"
            )

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} in steps of {self.step:g}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a `text` such as `low:high` or `low:high:step`, as on the command line."""
        try:
            low, high, *step = (float(part) for part in text.split(":"))
            return cls(low, high, *(step or [1.0]))
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"cannot read {text!r} as a scale; write low:high:step, such as 1:5:1"
            ) from None

    @property
    def text(self) -> str:
        """As `parse` reads it.

        >>> Scale(0.5, 5, 0.5).text
        '0.5:5:0.5'
        """
        return f"{self.low:.12g}:{self.high:.12g}:{self.step:.12g}"

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def star(self) -> float:
        """What one star of five is here: a quarter of the way from one end to the other."""
        return (self.high - self.low) / 4

    def of_stars(self, stars: Array) -> Floats:
        """The values nearest to 1 to 5 stars.

        >>> Scale(1, 10, 1).of_stars(np.array([0.5, 1, 3.5, 5])).tolist()
        [1.0, 1.0, 7.0, 10.0]
        """
        steps = np.rint((stars.clip(1, 5) - 1) / 4 * (self.high - self.low) / self.step)
        return np.asarray(np.clip(self.low + steps * self.step, self.low, self.high), np.float64)

    def holds(self, values: Array) -> Bools:
        """Which values lie on the scale (to within the precision of float32)."""
        steps = (values.astype(np.float64) - self.low) / self.step
        on_grid = np.abs(steps - np.rint(steps)) < 1e-3
        return on_grid & (values >= self.low - 1e-6) & (values <= self.high + 1e-6)


def as_scale(scale: Scale | str | None) -> Scale | None:
    """A scale as it may be given: itself, or as text."""
    if isinstance(scale, str):
        return Scale.parse(scale)
    if scale is None or isinstance(scale, Scale):
        return scale
    raise InputError(f'{scale!r} is no scale; write it as low:high:step, such as scale="1:5:1"')


STARS = Scale(1, 5, 1)
HALF_STARS = Scale(0.5, 5, 0.5)
KNOWN_SCALES = (STARS, HALF_STARS, Scale(1, 10, 1), Scale(-10, 10, 0.01))


def read_scale(folder: Path) -> Scale | None:
    """The scale in a folder's description, where there is one."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return None
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8")).get("scale")
    except (OSError, ValueError) as error:  # not TOML, or not UTF-8
        raise InputError(f'cannot read {path}: {error}. Write scale = "1:5:1"') from error
    if text is not None and not isinstance(text, str):
        raise InputError(f'{path}: the scale is text, low:high:step. Write scale = "1:5:1"')
    return None if text is None else Scale.parse(text)


def write_scale(folder: Path, scale: Scale) -> None:
    """Describe a folder's ratings, for `read_scale`."""
    (folder / DESCRIPTION).write_text(f'scale = "{scale.text}"\n', encoding="utf-8")
