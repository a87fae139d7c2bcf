"""D2P and i-D2P: neighbours and factors learned from AlterEgos, with substitution undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, svds

from epicrec.data import Catalogue, Ratings, find
from epicrec.errors import InputError
from epicrec.models.base import Feedback, Floats, Recommender
from epicrec.models.item_neighbours import _sum_similar, nearest_items
from epicrec.perturb.d2p import channel_guarantee, make_channel, no_features
from epicrec.perturb.groups import Groups
from epicrec.perturb.substitution import Channel, Posterior
from epicrec.privacy import Guarantee

_TINY = 1e-12


class _AlterEgos(Recommender):
    """Replace every event of every history (`perturb.d2p.D2P`), then learn from the AlterEgos only.

    Everything learned is post-processing of the AlterEgos, so the model has their guarantee (one
    item, change one) toward everyone else, and may be published. A history in a call is the
    asker's own: it is scored with what was learned and costs nothing where that happens on their
    device.

    With `correct` the known law of substitution is undone: shares π of the true items by
    expectation maximisation, then each AlterEgo y stands for its expected true history
    x̂_s = Σ_t y_t P(s | t) with P(s | t) = π_s T(s, t)/(πT)_t. `as_published` does without.
    """

    feedback: Feedback = "implicit"

    settings_: dict[str, Any]
    releases_: int
    p_: float
    p_star_: float
    group_indptr_: npt.NDArray[np.int64]
    group_items_: npt.NDArray[np.int32]
    shares_: Floats

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
        seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.p = p
        self.p_star = p_star
        self.lam = lam
        self.floor = floor
        self.neighbours = neighbours
        self.catalogue = catalogue
        self.correct = correct
        self.as_published = as_published
        self.seed = seed

    # ---- learning -----------------------------------------------------------------------------

    def _fit(self, ratings: Ratings) -> None:
        self._take(*self._law(ratings))
        self.releases_ = 1
        self._updates = 0
        self._events = ratings
        self._substitutes = self._draw(ratings)
        self._learn_from(ratings)

    def _law(self, ratings: Ratings) -> tuple[Channel, dict[str, Any]]:
        """The channel that the options mean for these items."""
        catalogue = no_features(ratings.item_ids)
        if self.catalogue is not None:
            catalogue = aligned(self.catalogue, ratings.item_ids)
        return make_channel(
            catalogue, p=self.p, p_star=self.p_star, lam=self.lam, floor=self.floor,
            neighbours=self.neighbours, epsilon=self.epsilon, as_published=self.as_published,
            ratings=ratings if self.as_published else None,
        )  # fmt: skip

    def _draw(self, events: Ratings) -> npt.NDArray[np.int64]:
        seed = None if self.seed is None else self.seed + 1_000_003 * self._updates
        return self.channel.draw(events.items, seed=seed)

    def _learn_from(self, events: Ratings) -> None:
        self._learn(alterego_matrix(events, self._substitutes), events.user_ids)

    def _learn(self, alteregos: Any, user_ids: npt.NDArray[Any]) -> None:
        """Learn from a sparse user × item matrix of how often each item stands in each AlterEgo."""
        raise NotImplementedError

    def update(self, histories: Ratings, *, renew: bool = False) -> Self:
        """Go on with the histories as they are now: only new events are drawn, old ones keep
        theirs.

        The ε stays as it is, since each event is released once. With `renew` every AlterEgo is
        drawn afresh; that is a second release of all events, and the guarantee counts it. Groups
        stay as they are; `fit` renews those too.
        """
        self._check_fitted()
        if not hasattr(self, "_substitutes"):
            raise InputError("a saved model holds no histories, so it cannot go on; fit it again")
        events = self._suitable(histories).with_items(self.item_ids_)
        self._updates += 1
        drawn = self._draw(events)
        if renew:
            self.releases_ += 1
        else:
            at = _where(self._events, events)
            drawn = np.where(at >= 0, self._substitutes[at], drawn)
        self._events, self._substitutes, self.histories_ = events, drawn, events
        self._learn_from(events)
        return self

    # ---- what is public -----------------------------------------------------------------------

    @property
    def channel(self) -> Channel:
        """The public law by which events were replaced."""
        if not hasattr(self, "_channel"):
            self._check_fitted()
            groups = Groups(self.group_indptr_, self.group_items_)
            self._channel = Channel(groups, self.p_, self.p_star_)
        return self._channel

    @property
    def guarantee(self) -> Guarantee:
        one = channel_guarantee(self.channel, as_published=self.as_published, seed=self.seed)
        if one.status == "none" or self.releases_ == 1:
            return one
        return replace(one, epsilon=self.releases_ * one.epsilon)

    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments; the catalogue, whose groups are learned state, as None."""
        return super().parameters() | {"catalogue": None}

    def _take(self, channel: Channel, settings: dict[str, Any]) -> None:
        self.p_, self.p_star_ = channel.p, channel.p_star
        self.group_indptr_, self.group_items_ = channel.groups.indptr, channel.groups.items
        self.settings_, self._channel = settings, channel

    @property
    def _corrected(self) -> bool:
        return self.correct and not self.as_published

    def _posterior(self) -> Posterior:
        if not hasattr(self, "_odds"):
            self._odds = self.channel.odds(np.asarray(self.shares_, np.float64))
        return self._odds

    def _learn_shares(self, alteregos: Any) -> None:
        counts = np.asarray(alteregos.sum(axis=0)).ravel().astype(np.float64)
        shares = self.channel.likely(counts) if self._corrected else counts
        self.shares_ = shares / max(float(shares.sum()), _TINY)
        vars(self).pop("_odds", None)


class D2PUserKNN(_AlterEgos):
    """D2P: the k nearest AlterEgos vote for what their owners have (sections 2.1.3 and 2.1.4).

    As published: the cosine of the history with AlterEgos as sets; the score of an item is the
    weight of the neighbours whose AlterEgo holds it. Corrected: with the expected histories x̂ in
    place of AlterEgos, both sides less what popularity alone would give,
    `w_uv = cos(x_u - n_u π, x̂_v - n_v π)` and `score = Σ_v w_uv x̂_v` over the k largest. A user's
    own AlterEgo (the same id) is no neighbour. The x̂ are never held: memory is that of the
    AlterEgos.

    >>> ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], list("abacbc"), [5, 4, 5, 2, 4, 1])
    >>> model = D2PUserKNN(p=0.5, p_star=0.5, seed=1).fit(ratings)
    >>> model.recommend([1], n=1)["item_id"].to_pylist(), model.guarantee.reproducible
    (['c'], True)
    """

    needs_known_users = True

    released_users_: npt.NDArray[Any]
    released_indptr_: npt.NDArray[np.int64]
    released_items_: npt.NDArray[np.int32]
    released_times_: npt.NDArray[np.float32]
    norms_: Floats

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
        seed: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, p=p, p_star=p_star, lam=lam, floor=floor, neighbours=neighbours,
            catalogue=catalogue, correct=correct, as_published=as_published, seed=seed,
        )  # fmt: skip
        self.k = k

    def _learn(self, alteregos: Any, user_ids: npt.NDArray[Any]) -> None:
        if self.k <= 0:
            raise InputError(f"k must be at least 1, got {self.k}")
        self._learn_shares(alteregos)
        if not self._corrected:
            alteregos.data[:] = 1
        self.released_users_ = user_ids
        self.released_indptr_ = alteregos.indptr.astype(np.int64)
        self.released_items_ = alteregos.indices.astype(np.int32)
        self.released_times_ = alteregos.data.astype(np.float32)
        vars(self).pop("_known", None)
        self.norms_ = np.empty(len(user_ids))
        for start in range(0, len(user_ids), 512):
            rows = np.arange(start, min(start + 512, len(user_ids)))
            self.norms_[rows] = np.linalg.norm(self._centred(self._expected(rows)), axis=1)

    def alteregos(self) -> Any:
        """The AlterEgos: a sparse user × item matrix of how often each item stands in each."""
        if not hasattr(self, "_known"):
            self._known = csr_array(
                (
                    self.released_times_.astype(np.float64),
                    self.released_items_,
                    self.released_indptr_,
                ),
                (len(self.released_users_), len(self.item_ids_)),
            )
        return self._known

    def _expected(self, rows: npt.NDArray[Any]) -> Floats:
        """What these AlterEgos stand for: expected histories, or themselves where not corrected."""
        own = self.alteregos()[rows].toarray()
        return self._posterior().guess(own) if self._corrected else own

    def _centred(self, profiles: Floats) -> Floats:
        if not self._corrected:
            return profiles
        return np.asarray(profiles - profiles.sum(axis=1, keepdims=True) * self.shares_)

    def _scores(self, histories: Ratings) -> Floats:
        return self._score(histories.csr().toarray().astype(np.float64), histories.user_ids)

    def server_scores(self, user_ids: npt.NDArray[Any]) -> Floats:
        """Scores for known users from their AlterEgos alone, as by a server without histories."""
        rows = find(self.released_users_, user_ids)
        return self._score(self._expected(rows), user_ids)

    def _score(self, profiles: Floats, user_ids: npt.NDArray[Any]) -> Floats:
        known = self.alteregos()
        asked = self._centred(profiles)
        lengths = np.linalg.norm(asked, axis=1, keepdims=True)
        if self._corrected:
            totals = np.asarray(known.sum(axis=1)).ravel()
            dots = (known @ self._posterior().ask(asked).T).T
            dots -= (asked @ self.shares_)[:, None] * totals
        else:
            dots = (known @ asked.T).T
        weights = np.maximum(dots / np.maximum(lengths * self.norms_, _TINY), 0.0)
        own = find(self.released_users_, user_ids)
        weights[np.flatnonzero(own >= 0), own[own >= 0]] = 0.0
        if self.k < weights.shape[1]:
            least = np.partition(weights, -self.k, axis=1)[:, -self.k]
            weights[weights < least[:, None]] = 0.0
        votes = (known.T @ weights.T).T
        scores = self._posterior().guess(votes) if self._corrected else votes
        return np.where(weights.any(axis=1, keepdims=True), scores, self.shares_)


class D2PItems(_AlterEgos):
    """i-D2P: an item model from AlterEgos, ranked on the device with the true history.

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

    toward_: Floats
    back_: Floats
    nearest_: npt.NDArray[np.int32]
    similarities_: npt.NDArray[np.float32]

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
        kept: int = 20,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, p=p, p_star=p_star, lam=lam, floor=floor, neighbours=neighbours,
            catalogue=catalogue, correct=correct, as_published=as_published, seed=seed,
        )  # fmt: skip
        self.factors = factors
        self.kept = kept

    def _law(self, ratings: Ratings) -> tuple[Channel, dict[str, Any]]:
        if not self.as_published:
            return super()._law(ratings)
        turned = transposed(ratings)
        return make_channel(
            no_features(turned.item_ids), p=self.p, p_star=self.p_star, lam=self.lam,
            floor=self.floor, neighbours=self.neighbours, epsilon=self.epsilon, ratings=turned,
            as_published=True,
        )  # fmt: skip

    def _draw(self, events: Ratings) -> npt.NDArray[np.int64]:
        if not self.as_published:
            return super()._draw(events)
        return self.channel.draw(events.users, seed=self.seed)

    def _learn_from(self, events: Ratings) -> None:
        if not self.as_published:
            super()._learn_from(events)
            return
        ones = np.ones(len(events))
        places = (self._substitutes, events.items)
        replicas = csr_array((ones, places), (events.n_users, events.n_items))
        replicas.sum_duplicates()
        self._learn(replicas, events.user_ids)

    def update(self, histories: Ratings, *, renew: bool = False) -> Self:
        if self.as_published:
            raise InputError("replicas as published are not kept up to date; fit the model again")
        return super().update(histories, renew=renew)

    def _learn(self, alteregos: Any, user_ids: npt.NDArray[Any]) -> None:
        if self.factors <= 0 or self.kept <= 0:
            raise InputError(f"factors and kept are at least 1, got {self.factors} and {self.kept}")
        self._learn_shares(alteregos)
        if self._corrected:
            vectors = item_vectors(alteregos, self._posterior(), self.factors)
            root = np.sqrt(np.maximum(self.shares_, _TINY))[:, None]
            self.toward_, self.back_ = vectors / root, vectors * root
            return
        sets = Ratings(
            user_ids=user_ids, item_ids=self.item_ids_, indptr=alteregos.indptr.astype(np.int64),
            items=alteregos.indices.astype(np.int32),
            values=np.ones(alteregos.nnz, np.float32), scale=None,
        )  # fmt: skip
        self.nearest_, self.similarities_ = nearest_items(sets, sets.values, self.kept, 0.0)

    def _scores(self, histories: Ratings) -> Floats:
        if not self._corrected:
            out = np.zeros((histories.n_users, histories.n_items), np.float32)
            _sum_similar(
                histories.indptr, histories.items, histories.values, self.nearest_,
                self.similarities_, out,
            )  # fmt: skip
            return out + _TINY * self.shares_
        counts = np.maximum(histories.user_counts, 1)[:, None]
        seen = np.asarray(histories.csr() @ self.toward_) / counts
        place = seen - (histories.user_counts > 0)[:, None] * (self.shares_ @ self.toward_)
        return self.shares_ + place @ self.back_.T

    def server_scores(self, alteregos: Any) -> Floats:
        """Scores from AlterEgos (sparse rows of counts), as by a server without histories."""
        if not self._corrected:
            dense = self._neighbour_matrix()
            return np.asarray((alteregos > 0).astype(np.float64) @ dense)
        guessed = self._posterior().guess(alteregos.toarray())
        guessed /= np.maximum(guessed.sum(axis=1, keepdims=True), _TINY)
        return self.shares_ + (guessed - self.shares_) @ self.toward_ @ self.back_.T

    def _neighbour_matrix(self) -> Any:
        rows, ranks = np.nonzero(self.nearest_ >= 0)
        places = (rows, self.nearest_[rows, ranks])
        size = len(self.item_ids_)
        return csr_array((self.similarities_[rows, ranks].astype(np.float64), places), (size, size))


# ---- pure parts -------------------------------------------------------------------------------


def alterego_matrix(events: Ratings, substitutes: npt.NDArray[Any]) -> Any:
    """A sparse user × item matrix of how often each item stands in each AlterEgo."""
    matrix = csr_array(
        (np.ones(len(events)), substitutes, events.indptr),
        (events.n_users, events.n_items),
        copy=True,
    )
    matrix.sum_duplicates()
    return matrix


def item_vectors(alteregos: Any, posterior: Posterior, factors: int) -> Floats:
    """The leading right singular vectors of (x̂_u/n_u - π)·√n_u/√π, which is never formed."""
    counts = np.asarray(alteregos.sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.maximum(counts, 1.0))
    shares = posterior.shares
    root = np.sqrt(np.maximum(shares, _TINY))

    def forward(v: Floats) -> Floats:
        weights = np.ravel(v) / root
        return np.asarray(
            scale * (alteregos @ posterior.ask(weights) - counts * (shares @ weights))
        )

    def backward(w: Floats) -> Floats:
        users = scale * np.ravel(w)
        return np.asarray((posterior.guess(alteregos.T @ users) - shares * (counts @ users)) / root)

    shape = alteregos.shape
    if min(shape) <= max(50, factors + 1):
        full = np.stack([forward(row) for row in np.eye(shape[1])], axis=1)
        return np.linalg.svd(full, full_matrices=False)[2][:factors].T
    operator = LinearOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    start = np.cos(np.arange(min(shape)))
    return np.asarray(
        svds(operator, k=factors, v0=start, return_singular_vectors="vh")[2].T[:, ::-1]
    )


def aligned(catalogue: Catalogue, item_ids: npt.NDArray[Any]) -> Catalogue:
    """The catalogue over other ids; an item it does not know has no features."""
    if np.array_equal(catalogue.item_ids, item_ids):
        return catalogue
    at = find(catalogue.item_ids, item_ids)
    known = at >= 0
    rows = csr_array(catalogue.matrix)[np.maximum(at, 0)].multiply(known[:, None]).tocsr()
    rows.eliminate_zeros()
    popularity = catalogue.popularity
    return Catalogue(
        item_ids=item_ids,
        titles=np.where(known, catalogue.titles[at], ""),
        years=np.where(known, catalogue.years[at], 0).astype(np.int32),
        categories=catalogue.categories,
        indptr=rows.indptr.astype(np.int64),
        indices=rows.indices.astype(np.int32),
        popularity=None if popularity is None else np.where(known, popularity[at], 0.0),
    )


def transposed(ratings: Ratings) -> Ratings:
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


def _where(old: Ratings, new: Ratings) -> npt.NDArray[np.int64]:
    """For each event of `new` its place in `old` (same items), or -1."""
    user = find(old.user_ids, new.user_ids)[new.users]
    keys = user * old.n_items + new.items
    known = old.users.astype(np.int64) * old.n_items + old.items
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where((user >= 0) & (known[at] == keys), at, -1)
