"""Choice: how private the person wants to be, in the words of the page, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb import D2P, MEpicRec, Perturber, parse_level, parse_levels
from epicrec.perturb.epicrec.quantify import LARGEST
from epicrec.perturb.levels import ALL, NO, PERTURBED, Level

EPICREC, D2P_NAME = "epicrec", "d2p"
STRENGTHS: dict[str, tuple[str, float | None]] = {
    "strongest": ("Strongest", 0.1),
    "recommended": ("Recommended", None),
    "balanced": ("Balanced", 1.0),
    "weak": ("Weak", 3.0),
}
"""Presets of noise: their name and ε; the recommended one is found on public data."""


@dataclass(frozen=True)
class Choice:
    """The overall level, exceptions by category, how much noise, and which mechanism."""

    overall: Level = PERTURBED
    exceptions: Mapping[str, Level] = field(default_factory=dict)
    strength: str = "recommended"
    mechanism: str = EPICREC

    def __post_init__(self) -> None:
        if self.strength not in STRENGTHS:
            raise InputError(f"there is no strength {self.strength!r}; choose one on the page")
        if self.mechanism not in (EPICREC, D2P_NAME):
            raise InputError(f"there is no mechanism {self.mechanism!r}; choose one on the page")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choice:
        exceptions = {name: parse_level(text) for name, text in values["exceptions"].items()}
        overall = parse_level(values["overall"])
        return cls(overall, exceptions, values["strength"], values["mechanism"])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"exceptions": dict(self.exceptions)}

    def levels(self, catalogue: Catalogue) -> dict[str, Level]:
        """The level of every category; exceptions for unknown ones are left out."""
        known = {n: v for n, v in self.exceptions.items() if n in set(catalogue.categories)}
        return parse_levels(
            dict.fromkeys(catalogue.categories, self.overall) | known, catalogue.categories
        )

    def perturber(self, catalogue: Catalogue) -> Perturber:
        """What draws the releases; without noise, EpicRec's levels say all."""
        fixed = STRENGTHS[self.strength][1]
        if self.mechanism == D2P_NAME and self.perturbs(catalogue):
            return D2P(catalogue, epsilon=D2P_RECOMMENDED if fixed is None else fixed)
        return MEpicRec(catalogue, epsilon=fixed)

    def perturbs(self, catalogue: Catalogue) -> bool:
        return PERTURBED in self.levels(catalogue).values()

    def epsilon(self, catalogue: Catalogue) -> float:
        """What a release at this choice costs, known before anything is drawn; 0 for nothing."""
        if not self.perturbs(catalogue):
            return 0.0
        fixed = STRENGTHS[self.strength][1]
        if fixed is not None:
            return fixed
        if self.mechanism == D2P_NAME:
            return D2P_RECOMMENDED
        return self.perturber(catalogue).budget(self.levels(catalogue))


D2P_RECOMMENDED = 3.0
"""AlterEgos hide one item among few at a small ε; theirs is larger than EpicRec's."""
assert LARGEST <= D2P_RECOMMENDED


def in_words(level: Level) -> str:
    """A level as the page says it."""
    return {
        NO: "Keep to myself",
        PERTURBED: "Send with noise",
        ALL: "Send as it is",
    }[level]
