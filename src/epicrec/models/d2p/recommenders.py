"""The recommenders on AlterEgos: user neighbours (d2p), item models (i-d2p) and svd (d2p-svd).

Item models hold no user and may be published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, svds

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Ratings, find  # noqa: F401 (`check` reads the fields' types)
from epicrec.errors import InputError
from epicrec.models.d2p.alterego_model import TINY, AlterEgoModel
from epicrec.models.factors import history_state
from epicrec.models.neighbours.items import nearest_items
from epicrec.models.spectrum import history_scales, leading_eigenpairs
from epicrec.perturb.d2p.alteregos import AlterEgos, Posterior

_USERS_AT_ONCE = 512
_KEPT = 20  # neighbours of an item where nothing is corrected, as in `item-knn`


@dataclass(kw_only=True, eq=False, repr=False)
class D2PUserKNN(AlterEgoModel):
    """D2P: the k nearest AlterEgos vote for what their owners have (sections 2.1.3 and 2.1.4).

    Corrected: with the expected histories x̂ in place of AlterEgos, both sides less what popularity
    alone would give, `w_uv = cos(x_u - n_u π, x̂_v - n_v π)` and `score = Σ_v w_uv x̂_v` over the k
    largest. Not corrected: the cosine of the history with AlterEgos as sets; the score of an item
    is the weight of the neighbours whose AlterEgo holds it. With `weighted=False` each neighbour
    counts alike. A user's own AlterEgo (the same id) is no neighbour. The x̂ are never held: memory
    is that of the AlterEgos.

    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> model = D2PUserKNN(p=0.5, p_star=0.5, seed=1).fit(ratings)
    >>> model.recommend([1], n=1)["item_id"].to_pylist(), model.guarantee.reproducible
    (['c'], True)
    """

    needs_known_users = True
    by_user = True

    k: int = 50
    weighted: bool = True

    alterego_users_: npt.NDArray[Any] = field(init=False)
    norms_: AnyFloats = field(init=False)

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
        if not self.correct:
            return profiles
        return np.asarray(profiles - profiles.sum(axis=1, keepdims=True) * self.shares_)

    def _score(self, profiles: Any, user_ids: npt.NDArray[Any]) -> AnyFloats:
        known = self._profiles
        asked = self._centred(profiles.toarray().astype(np.float64))
        lengths = np.linalg.norm(asked, axis=1, keepdims=True)
        if self.correct:
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
        scores = self._posterior.guess(votes) if self.correct else votes
        return np.where(weights.any(axis=1, keepdims=True), scores, self.shares_)


@dataclass(kw_only=True, eq=False, repr=False)
class AlterEgoFactors(AlterEgoModel):
    """An item model that keeps so many `factors`: with substitution the rest is noise."""

    factors: int = 8

    def _take(
        self, held: AlterEgos, changed: npt.NDArray[Any] | None = None,
        shares: AnyFloats | None = None,
    ) -> None:  # fmt: skip
        if self.factors <= 0:
            raise InputError(f"factors must be at least 1, got {self.factors}")
        super()._take(held, changed, shares)


@dataclass(kw_only=True, eq=False, repr=False)
class D2PItems(AlterEgoFactors):
    """i-D2P: items alike in the AlterEgos that hold them, ranked with the true history.

    Corrected: the expected histories, as shares of each user's events less π, scaled by 1/√π (the
    residuals of correspondence analysis), and of these the first `factors` right singular vectors
    V; `score = π + √π · V Vᵀ (x/n - π)/√π` for a history x of n items. Not corrected: cosine
    between items over AlterEgos as sets, each item's 20 nearest, summed over the history.

    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> D2PItems(p=0.5, p_star=0.5, seed=1).fit(ratings).recommend([1], n=1)["item_id"].to_pylist()
    ['c']
    """

    toward_: AnyFloats = field(init=False)
    back_: AnyFloats = field(init=False)
    nearest_: npt.NDArray[np.int32] = field(init=False)
    similarities_: npt.NDArray[np.float32] = field(init=False)

    def _learn(self, _: npt.NDArray[Any]) -> None:
        if self.correct:
            vectors = item_vectors(self._profiles, self._posterior, self.factors)
            root = np.sqrt(np.maximum(self.shares_, TINY))[:, None]
            self.toward_, self.back_ = vectors / root, vectors * root
            return
        self._profiles.sort_indices()
        sets = Ratings(
            user_ids=self._held.user_ids, item_ids=self.item_ids_, scale=None,
            indptr=self._profiles.indptr.astype(np.int64),
            items=self._profiles.indices.astype(np.int32),
            values=np.ones(self._profiles.nnz, np.float32),
        )  # fmt: skip
        self.nearest_, self.similarities_ = nearest_items(sets, sets.values, _KEPT, 0.0)

    def _score(self, profiles: Any, _: npt.NDArray[Any]) -> AnyFloats:
        if not self.correct:
            rows, ranks = np.nonzero(self.nearest_ >= 0)
            places = (rows, self.nearest_[rows, ranks])
            n = len(self.item_ids_)
            similar = csr_array(
                (self.similarities_[rows, ranks].astype(np.float64), places), (n, n)
            )
            return np.asarray((profiles @ similar).toarray() + TINY * self.shares_)
        totals = np.asarray(profiles.sum(axis=1)).ravel()
        seen = (profiles @ self.toward_) / np.maximum(totals, TINY)[:, None]
        place = seen - (totals > 0)[:, None] * (self.shares_ @ self.toward_)
        return np.asarray(self.shares_ + place @ self.back_.T)


@dataclass(kw_only=True, eq=False, repr=False)
class D2PSvd(AlterEgoFactors):
    """`svd` on AlterEgos: its eigenvectors of what is watched together, on corrected counts.

    Corrected: with Y the AlterEgos, W = diag(1/n_u) and G the guess P(s | t), the sum over users of
    what two true items share is G (YᵀWY - diag) Gᵀ, without the products of an event with itself;
    the matrix is only ever multiplied. Its `factors` first eigenvectors in `svd`'s scale are kept.
    Not corrected: the same of the AlterEgos as they are.

    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> D2PSvd(p=0.5, p_star=0.5, seed=1).fit(ratings).recommend([1], n=1)["item_id"].to_pylist()
    ['c']
    """

    offsets_: AnyFloats = field(init=False)
    factors_: AnyFloats = field(init=False)
    projections_: AnyFloats = field(init=False)

    def _learn(self, _: npt.NDArray[Any]) -> None:
        counts = np.asarray(self.shares_ * float(self._held.counts.sum()), np.float64)
        scales = history_scales(counts)
        pairs = shared_items(self._profiles, scales, self._posterior if self.correct else None)
        _, vectors = leading_eigenpairs(pairs, self.factors)
        state = history_state(counts, vectors / scales[:, None], vectors * scales[:, None])
        vars(self).update(state)

    def _score(self, profiles: Any, _: npt.NDArray[Any]) -> AnyFloats:
        return np.asarray(profiles @ self.projections_ @ self.factors_.T + self.offsets_)


# ---- pure parts -------------------------------------------------------------------------------


def item_vectors(alteregos: Any, posterior: Posterior, factors: int) -> AnyFloats:
    """The leading right singular vectors of (x̂_u/n_u - π)·√n_u/√π, which is never formed."""
    counts = np.asarray(alteregos.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.maximum(counts, 1.0))
    shares = posterior.shares
    root = np.sqrt(np.maximum(shares, TINY))

    def forward(v: AnyFloats) -> AnyFloats:
        weights = np.ravel(v) / root
        return np.asarray(
            scale * (alteregos @ posterior.ask(weights) - counts * (shares @ weights))
        )

    def backward(w: AnyFloats) -> AnyFloats:
        users = scale * np.ravel(w)
        return np.asarray((posterior.guess(alteregos.T @ users) - shares * (counts @ users)) / root)

    shape = (alteregos.shape[0], len(shares))
    if min(shape) <= max(50, factors + 1):
        full = np.stack([forward(row) for row in np.eye(shape[1])], axis=1)
        return np.linalg.svd(full, full_matrices=False)[2][:factors].T
    operator = LinearOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    start = np.cos(np.arange(min(shape)))
    return np.asarray(
        svds(operator, k=factors, v0=start, return_singular_vectors="vh")[2].T[:, ::-1]
    )


def shared_items(alteregos: Any, scales: AnyFloats, posterior: Posterior | None) -> Any:
    """D G (YᵀWY - diag) Gᵀ D with W = diag(1/n_u), as an operator that never forms the matrix."""
    weights = 1 / np.maximum(np.asarray(alteregos.sum(axis=1)).ravel(), 1.0)
    own = np.asarray(alteregos.T @ weights)
    turned = alteregos.T.tocsr()

    def times(x: AnyFloats) -> AnyFloats:
        asked = x.reshape(len(scales), -1) * scales[:, None]
        seen = asked if posterior is None else posterior.ask(asked.T).T
        seen = turned @ (weights[:, None] * (alteregos @ seen)) - own[:, None] * seen
        out = seen if posterior is None else posterior.guess(seen.T).T
        return np.asarray((out * scales[:, None]).reshape(x.shape))

    shape = (len(scales), len(scales))
    return LinearOperator(shape, matvec=times, matmat=times, dtype=np.dtype(np.float64))
