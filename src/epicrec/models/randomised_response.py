"""Lists learned from randomised response: nobody is trusted, and devices rank at home."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Bools
from epicrec.data import Catalogue, Ratings
from epicrec.data.works import catalogue_works
from epicrec.models.d2p.alterego_model import aligned
from epicrec.models.factors import ReleasedFactors
from epicrec.models.private.answers import Answers, Block, learn_answers, state_of_items
from epicrec.perturb.d2p.groups import no_features
from epicrec.perturb.randomised_response import Answering, RandomisedResponse
from epicrec.privacy import Guarantee
from epicrec.progress import report
from epicrec.seeds import derived


@dataclass(kw_only=True, eq=False, repr=False)
class RandomisedResponseLists(ReleasedFactors):
    """Item factors from everybody's answers, which devices drew (`perturb/randomised_response.py`).

    Each user answers for every work of the public list, truthfully with probability
    e^ε/(1 + e^ε). The server learns from the answers alone (`models/private/answers.py`); a user's
    own history is used where they are. The guarantee is that of the answers: ε for one item, add or
    remove one. With `tastes=False` lists are popularity as these answers tell it.
    """

    task = "lists"
    status = "proved"
    units = ("item",)

    epsilon: float = 1.0
    tastes: bool = True
    seed: int | None = None

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        ids = ratings.item_ids
        public = no_features(ids) if catalogue is None else aligned(catalogue, ids)
        how = Answering(catalogue_works(public), self.epsilon)
        promise = RandomisedResponse(public, epsilon=self.epsilon, seed=self.seed).guarantee()
        drawn = _drawn(ratings, how, self.seed)
        self._learn(_held(drawn, how), promise)

    def fit_answers(self, answers: Answers, promise: Guarantee) -> Self:
        """Learn from answers that devices have sent; `promise` is what they give people."""
        self.item_ids_, self.scale_ = answers.works.catalogue.item_ids, None
        self.histories_ = None
        self._learn(answers, promise)
        return self

    def _learn(self, answers: Answers, promise: Guarantee) -> None:
        state, self.note_ = learn_answers(answers, tastes=self.tastes)
        self._hold(state_of_items(state, answers.works))
        self.released_ = {"answers for every work": 1.0}
        self.guarantee_ = promise.to_dict()


def _drawn(ratings: Ratings, how: Answering, seed: int | None) -> npt.NDArray[np.uint8]:
    """What all users' devices send, one a row."""
    drawn = np.empty((ratings.n_users, how.size), np.uint8)
    for user in range(ratings.n_users):
        own = derived(seed, "answers", user)
        drawn[user] = np.frombuffer(how.answer(_seen(ratings, how, user), own), np.uint8)
        report("answering", user, ratings.n_users)
    return drawn


def _seen(ratings: Ratings, how: Answering, user: int) -> Bools:
    seen = np.zeros(len(how.works), np.bool_)
    seen[how.works.of_item[ratings.items[ratings.row(user)]]] = True
    return seen


def _held(bits: npt.NDArray[np.uint8], how: Answering) -> Answers:
    """Answers that are all in memory, one release a person."""

    def blocks() -> Iterator[Block]:
        for start in range(0, len(bits), answers.rows_at_once):
            part = bits[start : start + answers.rows_at_once]
            people = np.arange(start, start + len(part))
            yield Block(people, np.zeros(len(part), np.int64), part)

    answers = Answers(how.works, (how,), blocks, len(bits))
    return answers
