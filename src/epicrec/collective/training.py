"""A common model in rounds: the learner of private histories, its sums taken by two servers.

The learner asks its budget for sums with noise, one after the other. Here each of them is a round.
What is computed between them, and at the end, is the learner's own code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.collective.refusals import Refusal
from epicrec.collective.results import Taught
from epicrec.collective.statistics import (
    Statistic,
    basis_of,
    name_of,
    nobody,
    published,
    sensitivity_of,
    statistic_of,
)
from epicrec.collective.task import ASSUMES, Parameters
from epicrec.data import Catalogue, Ratings
from epicrec.engine import Engine, local
from epicrec.models.features import item_features
from epicrec.models.private.basis import Basis
from epicrec.models.private.budget import Budget
from epicrec.models.private.lists import release_histories
from epicrec.models.svd import most_factors
from epicrec.privacy import Guarantee, gaussian_epsilon, gaussian_guarantee, gaussian_mu

Rounds = Callable[[Parameters, bytes, Integers], Integers]
"""From a round's parameters, what is published for it and everyone's plain sum (where it is known)
to what the servers open."""


NAME = "common-model"
"""Of a task, unless it is told another."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One training of a common model: its name, its budget, and how many people it can hold."""

    name: str
    mu: float
    delta: float
    most: int = 1 << 20

    @classmethod
    def of(cls, epsilon: float, delta: float, most: int = 1 << 20, name: str = NAME) -> Self:
        """A task whose rounds together are (ε, δ)-private for a person."""
        return cls(name=name, mu=gaussian_mu(epsilon, delta), delta=delta, most=most)

    def guarantee(self) -> Guarantee:
        """What all rounds together promise everyone who takes part."""
        return gaussian_guarantee(
            self.mu, self.delta, unit="user", relation="add or remove one", assumes=ASSUMES
        )


@dataclass(frozen=True)
class TwoNoises(Budget):
    """A budget whose sums come out of rounds: μ counts one server's noise, both are in the sums.

    `taught` are the rounds that are over; those that follow are asked of `rounds`.
    """

    task: Task = field(default_factory=lambda: Task.of(1.0, 1e-6))
    item_ids: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))
    rounds: Rounds = field(default=lambda _, __, total: total)
    taught: Sequence[Taught] = ()
    numbers: list[int] = field(default_factory=list)
    bases: list[Basis] = field(default_factory=list)

    pairs: ClassVar[bool] = False
    catalogued: ClassVar[bool] = False  # a device has the results, and what was published with them

    @property
    def mu(self) -> float:
        return self.task.mu / sqrt(2)

    def settled(self, basis: Callable[[], Basis]) -> Basis:
        """The basis that the next round was published with; where it has not been, this one."""
        at = len(self.numbers)
        over = at < len(self.taught)
        found = basis_of(self.taught[at].published, self.item_ids) if over else basis()
        self.bases.append(found)
        return found

    def measure(
        self,
        statistic: Any,
        share: float,
        total: Integers,
        *,
        turn: int = 0,  # noqa: ARG002  (rounds have numbers)
    ) -> tuple[Integers, float]:
        """A round of this share: what both servers open, and the size of both noises together."""
        self.note(statistic, share)
        number = len(self.numbers)
        self.numbers.append(number)
        if number < len(self.taught):
            return self._over(statistic, number)
        shown = published(statistic, self.item_ids, self.bases[-1] if self.bases else None)
        parameters = Parameters(
            task=self.task.name,
            round=number,
            statistic=name_of(statistic),
            length=len(statistic(nobody(self.item_ids))),
            sensitivity=sensitivity_of(statistic),
            mu=self.task.mu,
            delta=self.task.delta,
            share=Fraction(share),
            most=self.task.most,
            basis=hashlib.sha256(shown).digest(),
        )
        return self.rounds(parameters, shown, total), parameters.sigma * sqrt(2)

    def _over(self, statistic: Statistic, number: int) -> tuple[Integers, float]:
        """What a round that is over taught, if it is the one that the learner asks for."""
        result, task = self.taught[number].result, self.task
        given, empty = result.parameters, nobody(self.item_ids)
        then = statistic_of(self.taught[number].published, self.item_ids)
        asked = (task.name, number, task.mu, task.delta, task.most, name_of(statistic))
        told = (given.task, given.round, given.mu, given.delta, given.most, name_of(then))
        if asked != told or not len(statistic(empty)) == len(then(empty)) == given.length:
            raise Refusal(
                "outdatedConfig",
                f"round {number} was about something else: the catalogue or the version of "
                "epicrec changed within a task; start another task",
            )
        return result.total, given.sigma * sqrt(2)


def train(
    task: Task,
    histories: Ratings,
    catalogue: Catalogue | None,
    rounds: Rounds,
    engine: Engine,
    taught: Sequence[Taught] = (),
) -> tuple[dict[str, Any], dict[str, float]]:
    """A model's state and the record of its rounds, over histories whose items are public."""
    budget = TwoNoises(
        gaussian_epsilon(task.mu, task.delta), task.delta, "user", "gaussian", None,
        task=task, item_ids=histories.item_ids, rounds=rounds, taught=taught,
    )  # fmt: skip
    features = item_features(catalogue, histories.item_ids)
    factors = most_factors(None, "implicit")
    return release_histories(histories, features, budget, factors, engine), budget.spent


class NextRound(Exception):
    """A training came to a round that has not been yet."""

    def __init__(self, parameters: Parameters, published: bytes) -> None:
        super().__init__(f"round {parameters.round}, {parameters.statistic}")
        self.parameters, self.published = parameters, published


def resumed(
    task: Task, item_ids: npt.NDArray[Any], catalogue: Catalogue | None, taught: Sequence[Taught]
) -> tuple[dict[str, Any], dict[str, float]]:
    """A model's state from the rounds that are over; raises NextRound where one is missing.

    The sums are theirs and so are the bases: the leader and every device come to the same model.
    """

    def missing(parameters: Parameters, shown: bytes, _: Integers) -> NoReturn:
        raise NextRound(parameters, shown)

    return train(task, nobody(item_ids), catalogue, missing, local, taught)
