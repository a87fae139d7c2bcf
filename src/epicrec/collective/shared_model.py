"""The shared model: the learner of private histories with sums taken by two servers, in rounds.

The learner asks its budget for noisy sums, one after the other. Here each of them is a round. What
is computed between them, and at the end, is the learner's own code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from epicrec.arrays import Array, Integers
from epicrec.collective.contributions import (
    Statistic,
    basis_of,
    name_of,
    nobody,
    published,
    sensitivity_of,
    statistic_of,
)
from epicrec.collective.in_process import released
from epicrec.collective.messages import Refusal
from epicrec.collective.results import Taught
from epicrec.collective.task import RoundParameters, Task
from epicrec.data import Catalogue, Ratings
from epicrec.engine import Engine, local
from epicrec.models.base import Feedback
from epicrec.models.factors import ReleasedFactors
from epicrec.models.features import item_features
from epicrec.models.private.basis import Basis
from epicrec.models.private.budget import Budget, check_budget
from epicrec.models.private.lists import release_histories
from epicrec.models.svd import most_factors
from epicrec.privacy import gaussian_epsilon

Rounds = Callable[[RoundParameters, bytes, Integers], Integers]
"""From a round's parameters, what is published for it and everyone's plain sum (where it is known)
to what the servers open."""


@dataclass(frozen=True)
class TwoNoises(Budget):
    """A budget whose sums come from rounds: μ counts one server's noise, the sums have both.

    `taught` are the rounds that are over; `rounds` runs those that follow.
    """

    task: Task = field(default_factory=lambda: Task.of(1.0, 1e-6))
    item_ids: Array = field(default_factory=lambda: np.zeros(0, np.int64))
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
        """The basis that the next round was published with, or this one for a round to come."""
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
        """A round with this share: what both servers open, and the σ of both noises together."""
        self.note(statistic, share)
        number = len(self.numbers)
        self.numbers.append(number)
        if number < len(self.taught):
            return self._over(statistic, number)
        shown = published(statistic, self.item_ids, self.bases[-1] if self.bases else None)
        parameters = RoundParameters(
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
        """The result of a round that is over, if it is the one that the learner asks for."""
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
    """Training came to a round that has not been run yet."""

    def __init__(self, parameters: RoundParameters, published: bytes) -> None:
        super().__init__(f"round {parameters.round}, {parameters.statistic}")
        self.parameters, self.published = parameters, published


def resumed(
    task: Task, item_ids: Array, catalogue: Catalogue | None, taught: Sequence[Taught]
) -> tuple[dict[str, Any], dict[str, float]]:
    """A model's state from the rounds that are over; raises NextRound where one is missing.

    It takes sums and bases from the rounds, so the leader and every device get the same model.
    """

    def missing(parameters: RoundParameters, shown: bytes, _: Integers) -> NoReturn:
        raise NextRound(parameters, shown)

    return train(task, nobody(item_ids), catalogue, missing, local, taught)


class Collective(ReleasedFactors):
    """Lists from sums that two servers take over shares, in which nobody sees a contribution.

    The shared model as a recommender. The learner is that of `covariance-svd` for histories at the
    user level. Every sum is a round of the protocol (docs/collective.md) with the noise of both
    servers; μ counts that of one, because the other may be the adversary. Fitted in process, the
    sums are the same integers as those of sealed shares.

    Unit: user; this person's history against an empty one from the same participating device.
    """

    feedback: Feedback = "implicit"
    status = "proved"
    units = ("user",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        most: int = 1 << 20,
        seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.most = most
        self.seed = seed

    @property
    def by_sums(self) -> bool:
        return True

    def _fit(self, ratings: Ratings) -> None:
        self._fit_with(ratings, None)

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        check_budget(self.epsilon, self.delta, "user")
        task = Task.of(self.epsilon, self.delta, self.most)
        ratings = ratings.first_users(task.most)

        def rounds(parameters: RoundParameters, _: bytes, total: Integers) -> Integers:
            return self.once(lambda: released(parameters, total, self.seed))

        state, spent = train(task, ratings, catalogue, rounds, self.engine)
        self._keep(task, state, spent)

    def _keep(self, task: Task, state: dict[str, Any], spent: dict[str, float]) -> None:
        vars(self).update(state)
        self.released_ = spent
        self.guarantee_ = task.guarantee().seeded(self.seed).to_dict()

    @classmethod
    def of_rounds(
        cls,
        task: Task,
        item_ids: Array,
        taught: Sequence[Taught],
        catalogue: Catalogue | None = None,
    ) -> Self:
        """The model of a task whose rounds are over; raises NextRound where one is missing.

        The catalogue is only needed for the parameters of a missing round.
        """
        state, spent = resumed(task, item_ids, catalogue, taught)
        epsilon = task.guarantee().epsilon
        model = cls(epsilon=epsilon, delta=task.delta, most=task.most)
        model.item_ids_, model.scale_ = item_ids, None
        model._keep(task, state, spent)
        return model
