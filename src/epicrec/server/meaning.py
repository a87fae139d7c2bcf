"""Meaning: which feedback says that somebody likes an item, and which that they do not.

Types and thresholds are written as Gorse writes them: `like`, `read>=3`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from epicrec.errors import InputError

_RULE = re.compile(r"^([A-Za-z][A-Za-z0-9_.-]*?)\s*(?:(>=|<=|>|<|=)\s*(-?\d+(?:\.\d+)?))?$")
_COMPARE: dict[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Feedback of one type, of any value or of those that compare so."""

    kind: str
    compare: str = ""
    value: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _RULE.match(text.strip())
        if found is None:
            raise InputError(
                f"{text.strip()!r} is no type of feedback; write one such as like or read>=3"
            )
        kind, compare, value = found.groups()
        return cls(kind, compare or "", float(value or 0))

    def holds(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        if not self.compare:
            return np.ones(len(values), np.bool_)
        return np.asarray(_COMPARE[self.compare](values, self.value), np.bool_)

    def holds_for(self, value: float) -> bool:
        return not self.compare or bool(_COMPARE[self.compare](value, self.value))


@dataclass(frozen=True)
class Meaning:
    """What counts for an item and what against it; of an item with both, what is against wins."""

    positive: tuple[Rule, ...]
    negative: tuple[Rule, ...]

    @classmethod
    def parse(cls, positive: str, negative: str) -> Self:
        return cls(*(
            tuple(Rule.parse(text) for text in listed.split(",") if text.strip())
            for listed in (positive, negative)
        ))  # fmt: skip

    def likes(self, kind: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
        """For each value of feedback of this type 1 for, -1 against, 0 neither."""
        found = np.zeros(len(values), np.int8)
        for sign, rules in ((1, self.positive), (-1, self.negative)):
            for rule in rules:
                if rule.kind == kind:
                    found[rule.holds(values)] = sign
        return found

    def sign(self, kind: str, value: float) -> int:
        """The same of one value."""
        found = 0
        for sign, rules in ((1, self.positive), (-1, self.negative)):
            if any(rule.kind == kind and rule.holds_for(value) for rule in rules):
                found = sign
        return found

    def counts(self, kind: str) -> bool:
        """Whether feedback of this type may count for an item."""
        return any(rule.kind == kind for rule in self.positive)

    def least(self, kind: str) -> float:
        """The least value of this type that counts for an item."""
        bounds = [
            rule.value if rule.compare.startswith(">") else -np.inf
            for rule in self.positive
            if rule.kind == kind
        ]
        return float(min(bounds, default=np.inf))
