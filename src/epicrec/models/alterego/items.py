"""i-D2P: item models from AlterEgos, with the substitution undone; they may be published."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, svds

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.models.alterego.model import TINY, AlterEgoModel
from epicrec.models.factors import history_state
from epicrec.models.neighbours.items import nearest_items
from epicrec.models.spectrum import history_scales, leading_eigenpairs
from epicrec.perturb.d2p.correction import AlterEgos, Posterior
from epicrec.perturb.d2p.groups import no_features
from epicrec.perturb.d2p.law import make_channel
from epicrec.perturb.d2p.substitution import Channel

_KEPT = 20  # neighbours of an item where nothing is corrected, as in `item-knn`


class AlterEgoFactors(AlterEgoModel):
    """An item model that keeps so many `factors`: with substitution the rest is noise."""

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
        factors: int = 8,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, p=p, p_star=p_star, lam=lam, floor=floor, neighbours=neighbours,
            catalogue=catalogue, correct=correct, as_published=as_published, seed=seed,
        )  # fmt: skip
        self.factors = factors

    def _take(
        self, held: AlterEgos, changed: npt.NDArray[Any] | None = None,
        shares: AnyFloats | None = None,
    ) -> None:  # fmt: skip
        if self.factors <= 0:
            raise InputError(f"factors must be at least 1, got {self.factors}")
        super()._take(held, changed, shares)


class D2PItems(AlterEgoFactors):
    """i-D2P: items alike in the AlterEgos that hold them, ranked with the true history.

    Corrected: the expected histories, as shares of each user's events less π, scaled by 1/√π (the
    residuals of correspondence analysis), and of these the first `factors` right singular vectors
    V; `score = π + √π · V Vᵀ (x/n - π)/√π` for a history x of n items. Not corrected: cosine
    between items over AlterEgos as sets, each item's 20 nearest, summed over the history.

    As published (section 4.2.6) items, not users, get other profiles: in the profile of an item
    every user is replaced, mostly by one of a group of like users (AlterReplica), then as not
    corrected.

    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> D2PItems(p=0.5, p_star=0.5, seed=1).fit(ratings).recommend([1], n=1)["item_id"].to_pylist()
    ['c']
    """

    toward_: AnyFloats
    back_: AnyFloats
    nearest_: npt.NDArray[np.int32]
    similarities_: npt.NDArray[np.float32]

    # ---- as published: users are replaced in the profiles of items ------------------------------

    def _law(self, ratings: Ratings) -> tuple[Channel, dict[str, Any]]:
        if not self.as_published:
            return super()._law(ratings)
        turned = _transposed(ratings)
        return make_channel(
            no_features(turned.item_ids), p=self.p, p_star=self.p_star, lam=self.lam,
            floor=self.floor, neighbours=self.neighbours, epsilon=self.epsilon, ratings=turned,
            as_published=True,
        )  # fmt: skip

    def _draw(self, events: Ratings) -> npt.NDArray[np.int64]:
        if not self.as_published:
            return super()._draw(events)
        return self._channels[-1][0].draw(events.users, seed=self.seed)

    def _hold(self, changed: npt.NDArray[Any] | None = None) -> None:
        if not self.as_published:
            super()._hold(changed)
            return
        events, channel = self._events, self._channels[-1][0]
        replicas = csr_array(
            (np.ones(len(events)), (self._substitutes, events.items)),
            (events.n_users, events.n_items),
        )
        replicas.sum_duplicates()
        self._take(
            AlterEgos(
                (channel,), (np.arange(events.n_items),), replicas, events.user_ids, events.item_ids
            )
        )

    # ---- learning -------------------------------------------------------------------------------

    def _learn(self, _: npt.NDArray[Any]) -> None:
        if self._corrected:
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
        if not self._corrected:
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

    offsets_: AnyFloats
    factors_: AnyFloats
    projections_: AnyFloats

    def _learn(self, _: npt.NDArray[Any]) -> None:
        counts = np.asarray(self.shares_ * float(self._held.counts.sum()), np.float64)
        scales = history_scales(counts)
        pairs = shared_items(self._profiles, scales, self._posterior if self._corrected else None)
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


def _transposed(ratings: Ratings) -> Ratings:
    """Items as users and users as items."""
    turned = csr_array(ratings.csr().T)
    turned.sort_indices()
    return Ratings(
        user_ids=ratings.item_ids,
        item_ids=ratings.user_ids,
        indptr=turned.indptr.astype(np.int64),
        items=turned.indices.astype(np.int32),
        values=turned.data.astype(np.float32),
        scale=ratings.scale,
    )
