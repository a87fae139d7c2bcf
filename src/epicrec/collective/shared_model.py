"""The shared model: the learner of private lists, with each step of its plan as a round.

The leader asks the plan for the next step and publishes it. Every device has the same model from
the rounds that are over, and never plans itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from math import sqrt
from typing import Self

import numpy as np

from epicrec.arrays import Array
from epicrec.collective.contributions import (
    COUNTS,
    PRODUCTS,
    items_of,
    name_of,
    nobody,
    published,
    sensitivity_of,
    step_of,
)
from epicrec.collective.messages import Refusal
from epicrec.collective.results import Taught, released
from epicrec.collective.task import RoundParameters, Task
from epicrec.data import Catalogue, Ratings
from epicrec.models.factors import ReleasedFactors
from epicrec.models.features import item_features
from epicrec.models.private.budget import check_budget
from epicrec.models.private.lists import Released, Step, next_step, popularity_note
from epicrec.models.private.tastes import TasteProducts

BOTH = sqrt(2)
"""μ counts one server's noise; the sums have that of both."""


def next_round(
    task: Task, item_ids: Array, catalogue: Catalogue | None, done: Released
) -> tuple[RoundParameters, bytes] | None:
    """The parameters of the next round and what is published for it; None after the last one."""
    step = next_step(done, item_features(catalogue, item_ids), task.mu / BOTH)
    return None if step is None else _round(task, item_ids, step, len(done.steps))


def _round(task: Task, item_ids: Array, step: Step, number: int) -> tuple[RoundParameters, bytes]:
    shown = published(step, item_ids)
    parameters = RoundParameters(
        task=task.name,
        round=number,
        statistic=name_of(step.statistic),
        length=len(step.statistic(nobody(item_ids))),
        sensitivity=sensitivity_of(step.statistic),
        mu=task.mu,
        delta=task.delta,
        share=step.share,
        most=task.most,
        basis=hashlib.sha256(shown).digest(),
    )
    return parameters, shown


def released_by(task: Task, item_ids: Array, taught: Sequence[Taught]) -> Released:
    """What the rounds that are over have released, if they are rounds of this task's plan."""
    done = Released("user")
    told: list[RoundParameters] = []
    for one in taught:
        given = one.result.parameters
        if (given.task, given.mu, given.delta, given.most) != (
            task.name, task.mu, task.delta, task.most,
        ):  # fmt: skip
            raise Refusal("outdatedConfig", f"round {given.round} is of another task")
        step = planned_step(given, one.published, item_ids, told)
        done = done.plus(step, one.result.total, given.sigma * BOTH)
        told.append(given)
    return done


def planned_step(
    given: RoundParameters, shown: bytes, item_ids: Array, before: Sequence[RoundParameters]
) -> Step:
    """The step of a plan that a round is; refused unless it follows the rounds before it."""
    number = given.round
    whole = sum((one.share for one in before), given.share)
    alike = {(one.task, one.mu, one.delta, one.most) for one in (*before, given)}
    if [one.round for one in (*before, given)] != list(range(len(before) + 1)) or len(alike) > 1:
        raise Refusal("outdatedConfig", f"round {number} does not follow the rounds before it")
    if whole > 1:
        raise Refusal("outdatedConfig", "the task has more rounds than it has a budget for")
    if not before and given.statistic != COUNTS:
        raise Refusal("outdatedConfig", "the first round of a task is about counts of items")
    bases = {one.basis for one in (*before, given) if one.statistic == PRODUCTS}
    if len(bases) > 1:
        raise Refusal("outdatedConfig", "tastes were measured in two bases, and do not add up")
    step = step_of(shown, item_ids, given.share)
    statistic = step.statistic
    asked = name_of(statistic), len(statistic(nobody(item_ids)))
    if asked != (given.statistic, given.length):
        raise Refusal("outdatedConfig", f"round {number} is about something else than it says")
    if sensitivity_of(statistic) > given.sensitivity:
        raise Refusal("outdatedConfig", f"round {number} has too little noise for its statistic")
    return step


def check_round(
    catalogue: Catalogue | None,
    given: RoundParameters,
    shown: bytes,
    before: Sequence[RoundParameters],
) -> None:
    """What a helper checks before it signs a round, so that devices can rely on two parties.

    The round is the next step of its task's plan, within the budget, and its basis has the public
    features of the helper's own `catalogue` and single items, and nothing else.
    """
    item_ids = items_of(shown)
    statistic = planned_step(given, shown, item_ids, before).statistic
    if catalogue is None or not isinstance(statistic, TasteProducts):
        return
    public, told = item_features(catalogue, item_ids), statistic.features.tocsc()
    known = min(public.shape[1], told.shape[1])
    single = np.diff(told[:, known:].indptr) == 1
    if (told[:, :known] != public.tocsc()[:, :known]).nnz or not single.all():
        raise Refusal(
            "outdatedConfig",
            "the basis has features that are not those of the catalogue here; have the same "
            "catalogue on both servers",
        )


class Collective(ReleasedFactors):
    """Lists from sums that two servers take over shares, in which nobody sees a contribution.

    The shared model as a recommender. The learner is that of `covariance-svd` for histories at the
    user level. Every sum is a round of the protocol (docs/collective.md) with the noise of both
    servers; μ counts that of one, because the other may be the adversary. Fitted in process, the
    sums are the same integers as those of sealed shares.

    `most` is how many devices there can be at most, which the range of the sums has to hold.

    Unit: user; this person's history against an empty one from the same participating device.
    """

    task = "lists"
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

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        check_budget(self.epsilon, self.delta, "user")
        task = Task.of(self.epsilon, self.delta, self.most)
        ratings, done = ratings.first_users(task.most), Released("user")
        features = item_features(catalogue, ratings.item_ids)
        while step := next_step(done, features, task.mu / BOTH):
            given, _ = _round(task, ratings.item_ids, step, len(done.steps))
            total = self.engine(step.statistic, ratings)
            total = self.once(partial(released, given, total, self.seed))
            done = done.plus(step, total, given.sigma * BOTH)
        self._keep(task, done)

    def _keep(self, task: Task, done: Released) -> None:
        state, learned = done.state()
        self._hold(state)
        self.note_ = "" if learned else popularity_note(done, self.epsilon)
        kinds = dict.fromkeys(step.statistic.what for step in done.steps)
        self.released_ = {
            what: float(sum(step.share for step in done.steps if step.statistic.what == what))
            for what in kinds
        }
        self.guarantee_ = task.guarantee().seeded(self.seed).to_dict()

    @classmethod
    def of_rounds(cls, task: Task, item_ids: Array, taught: Sequence[Taught]) -> Self | None:
        """The model of a task whose rounds are over; None while some are to come."""
        done = released_by(task, item_ids, taught)
        if done.left:
            return None
        model = cls(epsilon=task.guarantee().epsilon, delta=task.delta, most=task.most)
        model.item_ids_, model.scale_ = item_ids, None
        model._keep(task, done)
        return model
