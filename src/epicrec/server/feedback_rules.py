"""Feedback rules: which feedback says that a user likes an item, and which that they do not.

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

from epicrec.arrays import Array
from epicrec.errors import InputError

_RULE = re.compile(r"^([A-Za-z][A-Za-z0-9_.-]*?)\s*(?:(>=|<=|>|<|=)\s*(-?\d+(?:\.\d+)?))?$")
_COMPARE: dict[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Feedback of one type, of any value or of the values that pass a comparison."""

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

    def holds(self, values: Any) -> Any:
        """Whether the rule applies: to a value, or to each of an array of values. A rule without a
        comparison applies to all of them, and is True."""
        return not self.compare or _COMPARE[self.compare](values, self.value)


@dataclass(frozen=True)
class FeedbackRules:
    """Positive and negative feedback; where an item has both, the negative counts."""

    positive: tuple[Rule, ...]
    negative: tuple[Rule, ...]

    @classmethod
    def parse(cls, positive: str, negative: str) -> Self:
        return cls(*(
            tuple(Rule.parse(text) for text in listed.split(",") if text.strip())
            for listed in (positive, negative)
        ))  # fmt: skip

    def signs(self, kind: str, values: Array) -> npt.NDArray[np.int8]:
        """For each value of feedback of this type: 1 positive, -1 negative, 0 neither."""
        found = np.zeros(len(values), np.int8)
        for sign, rules in ((1, self.positive), (-1, self.negative)):
            for rule in rules:
                if rule.kind == kind:
                    found[rule.holds(values)] = sign
        return found

    def sign(self, kind: str, value: float) -> int:
        """`signs` of one value, without the cost of an array."""
        found = 0
        for sign, rules in ((1, self.positive), (-1, self.negative)):
            if any(rule.kind == kind and rule.holds(value) for rule in rules):
                found = sign
        return found

    def counts(self, kind: str) -> bool:
        """Whether feedback of this type may be positive."""
        return any(rule.kind == kind for rule in self.positive)

    def least(self, kind: str) -> float:
        """The least value of this type that is positive."""
        bounds = [
            rule.value if rule.compare.startswith(">") else -np.inf
            for rule in self.positive
            if rule.kind == kind
        ]
        return float(min(bounds, default=np.inf))
