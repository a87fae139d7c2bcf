"""D2P: user neighbours among AlterEgos, with the substitution undone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, find
from epicrec.errors import InputError
from epicrec.models.alterego.model import TINY, AlterEgoModel

_USERS_AT_ONCE = 512


class D2PUserKNN(AlterEgoModel):
    """D2P: the k nearest AlterEgos vote for what their owners have (sections 2.1.3 and 2.1.4).

    As published: the cosine of the history with AlterEgos as sets; the score of an item is the
    weight of the neighbours whose AlterEgo holds it, or their number with `weighted=False`: the
    most popular among neighbours, as the paper's text has it. Corrected: with the expected
    histories x̂ in place of AlterEgos, both sides less what popularity alone would give,
    `w_uv = cos(x_u - n_u π, x̂_v - n_v π)` and `score = Σ_v w_uv x̂_v` over the k largest. A user's
    own AlterEgo (the same id) is no neighbour. The x̂ are never held: memory is that of the
    AlterEgos.

    >>> from epicrec.data import Ratings
    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> model = D2PUserKNN(p=0.5, p_star=0.5, seed=1).fit(ratings)
    >>> model.recommend([1], n=1)["item_id"].to_pylist(), model.guarantee.reproducible
    (['c'], True)
    """

    needs_known_users = True
    by_user = True

    alterego_users_: npt.NDArray[Any]
    norms_: AnyFloats

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        p: float | None = None,
        p_star: float | None = None,
        lam: float | None = None,
        floor: int | None = None,
        neighbours: int = 0,
        catalogue: Catalogue | None = None,
        correct: bool = True,
        as_published: bool = False,
        k: int = 50,
        weighted: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, p=p, p_star=p_star, lam=lam, floor=floor, neighbours=neighbours,
            catalogue=catalogue, correct=correct, as_published=as_published, seed=seed,
        )  # fmt: skip
        self.k = k
        self.weighted = weighted

    def _learn(self, changed: npt.NDArray[Any]) -> None:
        if self.k <= 0:
            raise InputError(f"k must be at least 1, got {self.k}")
        norms = np.zeros(len(self._held.user_ids))
        if len(changed) < len(norms):
            at = find(self._held.user_ids, self.alterego_users_)
            norms[at[at >= 0]] = self.norms_[at >= 0]
        todo = find(self._held.user_ids, changed)
        todo = todo[todo >= 0]
        for start in range(0, len(todo), _USERS_AT_ONCE):
            rows = todo[start : start + _USERS_AT_ONCE]
            norms[rows] = np.linalg.norm(self._centred(self._expected(rows)), axis=1)
        self.norms_ = norms

    def _centred(self, profiles: AnyFloats) -> AnyFloats:
        if not self._corrected:
            return profiles
        return np.asarray(profiles - profiles.sum(axis=1, keepdims=True) * self.shares_)

    def _score(self, profiles: Any, user_ids: npt.NDArray[Any]) -> AnyFloats:
        known = self._profiles
        asked = self._centred(profiles.toarray().astype(np.float64))
        lengths = np.linalg.norm(asked, axis=1, keepdims=True)
        if self._corrected:
            totals = np.asarray(known.sum(axis=1)).ravel()
            dots = (known @ self._posterior.ask(asked).T).T
            dots -= (asked @ self.shares_)[:, None] * totals
        else:
            dots = (known @ asked.T).T
        weights = np.maximum(dots / np.maximum(lengths * self.norms_, TINY), 0.0)
        own = find(self._held.user_ids, user_ids)
        weights[np.flatnonzero(own >= 0), own[own >= 0]] = 0.0
        if self.k < weights.shape[1]:
            least = np.partition(weights, -self.k, axis=1)[:, -self.k]
            weights[weights < least[:, None]] = 0.0
        if not self.weighted:
            weights = (weights > 0).astype(np.float64)
        votes = (known.T @ weights.T).T
        scores = self._posterior.guess(votes) if self._corrected else votes
        return np.where(weights.any(axis=1, keepdims=True), scores, self.shares_)
