"""The common model as a recommender: what devices would learn together, from histories at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.collective.results import Taught
from epicrec.collective.simulation import released
from epicrec.collective.task import Parameters
from epicrec.collective.training import Task, resumed, train
from epicrec.data import Catalogue, Ratings
from epicrec.models.base import Feedback
from epicrec.models.factors import ReleasedFactors
from epicrec.models.private.budget import check_budget


class Collective(ReleasedFactors):
    """Lists from sums that two servers take over shares, in which nobody sees a contribution.

    The learner is that of `covariance-svd` for histories at the user level; every sum is a round of
    the protocol (docs/collective.md) with the noise of both servers in it, while μ counts that of
    one, as the other may be the adversary. Fitted in process, the sums are the same integers as by
    way of sealed shares.

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

        def rounds(parameters: Parameters, _: bytes, total: Integers) -> Integers:
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
        item_ids: npt.NDArray[Any],
        taught: Sequence[Taught],
        catalogue: Catalogue | None = None,
    ) -> Self:
        """The model of a task whose rounds are over; raises NextRound where one is missing.

        The catalogue is for the parameters of a missing round alone.
        """
        state, spent = resumed(task, item_ids, catalogue, taught)
        epsilon = task.guarantee().epsilon
        model = cls(epsilon=epsilon, delta=task.delta, most=task.most)
        model.item_ids_, model.scale_ = item_ids, None
        model._keep(task, state, spent)
        return model
