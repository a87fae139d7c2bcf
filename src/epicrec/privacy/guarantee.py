"""What a release promises, in a form that can be printed, stored and added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf, isinf, isnan
from typing import Any, Literal, get_args

from epicrec.errors import InputError

Unit = Literal["rating value", "rating", "item", "user"]
Relation = Literal["change one", "add or remove one"]
Status = Literal["proved", "claimed", "none"]

UNITS: tuple[Unit, ...] = get_args(Unit)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy: of what, how strong, and on what grounds.

    `unit` is what is protected, from the finest to the coarsest, each a part of the next: the value
    of one rating; one rating, value and existence; one item of a history with everything known of
    it; a user, which is all data under one user id, and a person only where nobody has two.
    `relation` is how two neighbouring inputs differ in one unit. `status` is `proved` (a proof in
    the docs covers this code), `claimed` (a paper says so) or `none` (no guarantee: epsilon is
    infinite). `assumes` lists what the proof assumes. `mu` is set where the release is
    mu-Gaussian-DP, which composes without loss. `reproducible` noise came from a seed: good for
    experiments, not private.
    """

    epsilon: float
    delta: float = 0.0
    unit: Unit
    relation: Relation
    status: Status = "proved"
    assumes: tuple[str, ...] = ()
    mu: float | None = None
    reproducible: bool = False

    def __post_init__(self) -> None:
        for name, values in (
            ("unit", UNITS),
            ("relation", get_args(Relation)),
            ("status", get_args(Status)),
        ):
            if getattr(self, name) not in values:
                choices = ", ".join(repr(value) for value in values)
                raise InputError(f"{name} must be one of {choices}, not {getattr(self, name)!r}")
        if not _is_number(self.epsilon) or not self.epsilon >= 0:
            raise InputError(f"epsilon must be at least 0, not {self.epsilon!r}")
        if not _is_number(self.delta) or not 0 <= self.delta < 1:
            raise InputError(f"delta must be at least 0 and below 1, not {self.delta!r}")
        if self.mu is not None and (not _is_number(self.mu) or not 0 < self.mu < inf):
            raise InputError(f"mu must be above 0 and finite, or None, not {self.mu!r}")
        if self.mu is not None and self.delta == 0:
            raise InputError("a Gaussian guarantee (mu) needs a delta above 0")
        if isinf(self.epsilon) != (self.status == "none"):
            raise InputError(
                f"status {self.status!r} does not go with epsilon {self.epsilon}: an infinite "
                "epsilon and the status 'none' mean the same and come together"
            )
        if isinstance(self.assumes, str) or not all(isinstance(line, str) for line in self.assumes):
            raise InputError("assumes must be a sequence of sentences")
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "assumes", tuple(self.assumes))

    @classmethod
    def none(cls, *, unit: Unit = "rating", relation: Relation = "add or remove one") -> Guarantee:
        """The guarantee of what has none: a non-private model, data sent in the clear. `unit` and
        `relation` say of what."""
        return cls(epsilon=inf, unit=unit, relation=relation, status="none")

    def seeded(self, seed: int | None) -> Guarantee:
        """This guarantee for noise drawn with `seed`: not private unless None."""
        return self if seed is None else replace(self, reproducible=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite epsilon, which JSON lacks, becomes null."""
        return asdict(self) | {
            "epsilon": None if isinf(self.epsilon) else self.epsilon,
            "assumes": list(self.assumes),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Guarantee:
        """Read the `values` that `to_dict` wrote."""
        try:
            return cls(
                **{**values, "epsilon": inf if values["epsilon"] is None else values["epsilon"]}
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"not a guarantee: {error}; fields are those of to_dict") from error

    def __str__(self) -> str:
        if self.status == "none":
            return f"No privacy guarantee for one {self.unit}."
        delta = f", δ = {self.delta:.3g}" if self.delta else ""
        text = f"ε = {self.epsilon:.4g}{delta} for one {self.unit} ({self.relation}), {self.status}"
        if self.assumes:
            text += f", assuming: {'; '.join(line.rstrip('.') for line in self.assumes)}"
        if self.reproducible:
            text += "; reproducible, not private: the noise came from a seed"
        return text + "."


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return not isnan(value)
    except OverflowError:  # a whole number beyond every float
        return False
