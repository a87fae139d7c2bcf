"""Privacy choice: how private the person wants to be, in the words of the page, and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from epicrec import registry
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.parameters import taken
from epicrec.perturb import (
    MEpicRec,
    Perturber,
    make_perturber,
    parse_level,
    parse_levels,
    perturber_class,
)
from epicrec.perturb.levels import ALL, NO, PERTURBED, Level

RESPONSE, EPICREC, D2P_NAME = "randomised-response", "epicrec", "d2p"
STRENGTHS: dict[str, tuple[str, float, float | None]] = {
    "strongest": ("Strongest", 0.5, 0.1),
    "recommended": ("Recommended", 1.0, None),
    "balanced": ("Balanced", 2.0, 1.0),
    "weak": ("Weak", 3.0, 3.0),
}
"""Presets of noise: their name, ε of randomised response, and ε of other methods, which choose
the recommended one themselves on public data."""


@dataclass(frozen=True)
class Choice:
    """The overall level, exceptions by category, how much noise, and which mechanism."""

    overall: Level = PERTURBED
    exceptions: Mapping[str, Level] = field(default_factory=dict)
    strength: str = "recommended"
    mechanism: str = RESPONSE

    def __post_init__(self) -> None:
        if self.strength not in STRENGTHS:
            raise InputError(f"there is no strength {self.strength!r}; choose one on the page")
        if self.mechanism not in mechanisms():
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
        fixed = self._fixed
        if self.mechanism == EPICREC or not self.perturbs(catalogue):
            return MEpicRec(catalogue, epsilon=fixed)
        takes = fixed is not None and "epsilon" in taken(perturber_class(self.mechanism))
        settings: dict[str, Any] = {"epsilon": fixed} if takes else {}
        return make_perturber(self.mechanism, catalogue=catalogue, **settings)

    def perturbs(self, catalogue: Catalogue) -> bool:
        return PERTURBED in self.levels(catalogue).values()

    def sends(self, catalogue: Catalogue) -> bool:
        """Whether anything may leave at all: not where every category is kept to oneself."""
        return set(self.levels(catalogue).values()) != {NO}

    def epsilon(self, catalogue: Catalogue) -> float:
        """What a release at this choice costs, known before anything is drawn; 0 for nothing."""
        if not self.perturbs(catalogue):
            return 0.0
        if self._fixed is not None and self.mechanism in (RESPONSE, EPICREC, D2P_NAME):
            return self._fixed
        return self.perturber(catalogue).budget(self.levels(catalogue))

    @property
    def _fixed(self) -> float | None:
        """The ε that the strength fixes, None where the mechanism chooses it."""
        _, answers, others = STRENGTHS[self.strength]
        return answers if self.mechanism == RESPONSE else others


def mechanisms() -> dict[str, str]:
    """What can draw a release of films, and how each is explained: randomised response, EpicRec,
    D2P, and perturbers of other packages."""
    others = [
        entry.name
        for (entry, *_) in registry.entries(registry.PERTURBERS).values()
        if entry.package != registry.OURS
    ]
    said = {name: (perturber_class(name).__doc__ or name).split("\n")[0] for name in others}
    return {
        RESPONSE: "for every title of the list your computer says whether you have seen it, and "
        "lies at random; hides whether a film was watched",
        EPICREC: "noise on the number of films in each category, then stand-in films; hides "
        "whether a film was watched",
        D2P_NAME: "each film is exchanged for another; hides which film it was, not how many "
        "there are; needs a larger ε (recommended: 3)",
    } | said


def in_words(level: Level) -> str:
    """A level as the page says it."""
    return {
        NO: "Keep to myself",
        PERTURBED: "Send with noise",
        ALL: "Send as it is",
    }[level]
