"""What D2P's recommenders share: AlterEgos drawn, kept up to date, and the substitution undone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numba
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Ratings, find
from epicrec.errors import InputError
from epicrec.models.base import Recommender
from epicrec.perturb.d2p.alteregos import AlterEgos, Posterior
from epicrec.perturb.d2p.channel import Channel, channel_guarantee
from epicrec.perturb.d2p.groups import PublicSimilarity, no_features
from epicrec.perturb.d2p.item_shares import likely_shares
from epicrec.perturb.d2p.tuning import make_channel
from epicrec.privacy import Guarantee
from epicrec.privacy.guarantee import Status
from epicrec.seeds import derived

TINY = 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class AlterEgoModel(Recommender):
    """Replace every event of every history (`perturb.d2p.D2P`), then learn from the AlterEgos only.

    Everything learned is post-processing of the AlterEgos, so the model has their guarantee (one
    item, change one) toward everyone else, and may be published. A history in a call is the
    asker's own: it is scored with what was learned and costs nothing where that happens on their
    device.

    `p`, `p_star`, `lam` and `floor` are the settings of D2P, chosen by `epsilon` where they are not
    given; `catalogue` has the features by which items are alike.

    With `correct` the known substitution is undone: shares π of the true items
    (`likely_shares`), then each AlterEgo y stands for its expected true history
    x̂_s = Σ_t y_t P(s | t) with P(s | t) = π_s T(s, t)/(πT)_t.
    """

    status: ClassVar[Status] = "proved"
    units = ("item",)

    task = "lists"
    by_user: ClassVar[bool] = False
    """True where what is learned of a user is learned from that user's AlterEgo alone; an update
    then costs what the changed users cost. The shares π stay as they are until the next fit."""

    epsilon: float | None = None
    p: float | None = None
    p_star: float | None = None
    lam: float | None = None
    floor: int | None = None
    catalogue: Catalogue | None = None
    correct: bool = True
    seed: int | None = None

    settings_: dict[str, Any] = field(init=False)
    shares_: AnyFloats = field(init=False)
    past_epsilon_: float = field(init=False)
    """What AlterEgos of one user cost, at most, that were redrawn since."""

    # ---- learning -----------------------------------------------------------------------------

    def _fit(self, ratings: Ratings) -> None:
        channel, self.settings_ = self._channel_for(ratings)
        self.past_epsilon_ = 0.0
        self._past: dict[Any, float] = {}
        self._draws = 0
        self._channels = [(channel, ratings.item_ids)]
        self._events = ratings  # all that were ever drawn: one that comes back keeps its substitute
        self._present = np.ones(len(ratings), np.bool_)
        self._drawn_by = np.zeros(len(ratings), np.int64)
        self._substitutes = self._draw(ratings)
        self._hold()

    def fit_alteregos(self, *batches: AlterEgos, shares: AnyFloats | None = None) -> Self:
        """Learn from AlterEgos that devices drew themselves, as a server that never sees a history.

        One batch for each set of groups that were in use (`perturb.d2p.mechanism.collected`).
        `shares` are those of the true items where they are known already (`likely_shares`).
        """
        if not batches or not sum(batch.counts.sum() for batch in batches):
            raise InputError("there is nothing to learn from; give at least one AlterEgo")
        held = AlterEgos.joined(batches)
        self.item_ids_, self.scale_, self.histories_ = held.item_ids, None, None
        self.settings_, self.past_epsilon_ = {}, 0.0
        vars(self).pop("_substitutes", None)
        self._take(held, shares=shares)
        return self

    def update(
        self, histories: Ratings, *, renew: bool = False, catalogue: Catalogue | None = None
    ) -> Self:
        """Continue with the histories of these users as they are now; other users stay as they are.

        Only new events are drawn. Old ones keep their substitutes, also where they were taken back
        and come again: each event is released once, so the ε stays. With `renew` the AlterEgos of
        these users are redrawn; that is a second release of their events, and the guarantee counts
        it. With a `catalogue` the groups are made from it for what is drawn from now on, and items
        that came since are known; what was drawn by earlier groups is corrected by those.
        """
        self._check_fitted()
        if not hasattr(self, "_substitutes"):
            raise InputError("this model holds no histories, so it cannot go on; fit it again")
        changed = self._suitable(histories)
        if catalogue is None:
            changed = changed.with_items(self.item_ids_)
        else:
            changed = changed.with_items(np.union1d(self.item_ids_, catalogue.item_ids))
            self.catalogue = catalogue
            channel, self.settings_ = self._channel_for(changed)
            self._channels.append((channel, changed.item_ids))
        at = _where(self._events, changed)
        known = at >= 0
        theirs = np.isin(self._events.user_ids, changed.user_ids)[self._events.users]
        self._present = self._present & ~theirs
        self._present[at[known]] = True
        self._draws += 1
        drawn, newest = self._draw(changed), len(self._channels) - 1
        old = find(changed.item_ids, self.item_ids_)[self._substitutes]
        if renew:
            self._count_renewal(changed.user_ids)
            old[at[known]], self._drawn_by[at[known]] = drawn[known], newest
        fresh = changed.select(~known)
        self._events, order = _joined(self._events, fresh)
        self._substitutes = np.concatenate([old, drawn[~known]])[order]
        self._drawn_by = np.concatenate([self._drawn_by, np.full(len(fresh), newest)])[order]
        self._present = np.concatenate([self._present, np.ones(len(fresh), np.bool_)])[order]
        self.item_ids_ = changed.item_ids
        self.histories_ = self._events.select(self._present)
        self._hold(None if catalogue is not None else changed.user_ids)
        return self

    def _count_renewal(self, user_ids: npt.NDArray[Any]) -> None:
        """What these users' AlterEgos cost so far stays spent; the most expensive user counts."""
        for user in user_ids.tolist():
            self._past[user] = self._past.get(user, 0.0) + self._held.epsilon
        self.past_epsilon_ = max(self._past.values(), default=0.0)

    def _channel_for(self, ratings: Ratings) -> tuple[Channel, dict[str, Any]]:
        """The channel that the options mean for these items, and the settings in full."""
        return make_channel(
            self._features(ratings.item_ids), p=self.p, p_star=self.p_star, lam=self.lam,
            floor=self.floor, epsilon=self.epsilon,
        )  # fmt: skip

    def _features(self, item_ids: npt.NDArray[Any]) -> Catalogue:
        known = self.catalogue
        return no_features(item_ids) if known is None else aligned(known, item_ids)

    def _draw(self, events: Ratings) -> npt.NDArray[np.int64]:
        seed = derived(self.seed, "draw", self._draws)
        return self._channels[-1][0].draw(events.items, seed=seed)

    def _hold(self, changed: npt.NDArray[Any] | None = None) -> None:
        """Learn from the AlterEgos as they are drawn now; only these users' are new, if given."""
        events = self._events
        batches = []
        used = np.union1d(self._drawn_by, len(self._channels) - 1)  # the newest is for what comes
        self._channels = [self._channels[number] for number in used]
        self._drawn_by = np.searchsorted(used, self._drawn_by)
        for number, (channel, item_ids) in enumerate(self._channels):
            mine = self._present & (self._drawn_by == number)
            of = events if mine.all() else events.select(mine)
            own = find(item_ids, events.item_ids)[self._substitutes[mine]]
            counts = alterego_matrix(of, own, len(item_ids))
            batches.append(AlterEgos.of(channel, counts, of.user_ids, item_ids))
        self._take(batches[0] if len(batches) == 1 else AlterEgos.joined(batches), changed)

    def _take(
        self, held: AlterEgos, changed: npt.NDArray[Any] | None = None,
        shares: AnyFloats | None = None,
    ) -> None:  # fmt: skip
        if changed is None or not self.by_user:
            if not self.correct:
                shares = np.asarray(held.by_item().sum(axis=0) / held.counts.sum()).ravel()
            elif shares is None:
                shares = likely_shares(held, PublicSimilarity(self._features(held.item_ids)))
            self.shares_, changed = shares, held.user_ids
        self._prepare(held)
        self._learn(changed)
        vars(self).update((held if self.by_user else held.without_users()).to_arrays())

    def _prepare(self, held: AlterEgos) -> None:
        """Have at hand what scoring needs of the AlterEgos: as outputs, or as sets of items."""
        self._held = held
        if self.correct:
            self._profiles = held.counts
            self._posterior = Posterior(held, np.asarray(self.shares_, np.float64))
        else:
            self._profiles = held.by_item()
            self._profiles.data[:] = 1

    @abstractmethod
    def _learn(self, changed: npt.NDArray[Any]) -> None:
        """Learn from the AlterEgos (`_profiles`), of which `shares_` are known; only these users'
        changed, where the model learns `by_user`."""

    # ---- scoring ------------------------------------------------------------------------------

    @abstractmethod
    def _score(self, profiles: Any, user_ids: npt.NDArray[Any]) -> AnyFloats:
        """Scores from profiles over `item_ids_`, a sparse row for each of these users."""

    def _scores(self, histories: Ratings) -> AnyFloats:
        return self._score(histories.csr(), histories.user_ids)

    def server_scores(self, user_ids: npt.NDArray[Any]) -> AnyFloats:
        """Scores for known users from their AlterEgos alone, as by a server without histories."""
        rows = find(self._held.user_ids, user_ids)
        if (rows < 0).any():
            raise InputError(f"there is no AlterEgo of user {user_ids[int(np.argmin(rows))]!s}")
        return self._score(csr_array(self._expected(rows)), user_ids)

    def _expected(self, rows: npt.NDArray[Any]) -> AnyFloats:
        """What these AlterEgos stand for: expected histories, or themselves where not corrected."""
        own = self._profiles[rows]
        return self.guess(own) if self.correct else own.toarray()

    def guess(self, alteregos: Any) -> AnyFloats:
        """The expected histories, one a row, of AlterEgos: sparse rows of outputs."""
        return self._posterior.guess(alteregos)

    # ---- what is public -----------------------------------------------------------------------

    @property
    def held(self) -> AlterEgos:
        """The AlterEgos; their channels alone where the model was read from a file."""
        self._check_fitted()
        return self._held

    @property
    def channel(self) -> Channel:
        """The public channel that replaces events now."""
        self._check_fitted()
        return self._held.channels[-1]

    @property
    def promises(self) -> bool:
        """Always: p and p_star are an ε, too."""
        return True

    @property
    def guarantee(self) -> Guarantee:
        self._check_fitted()
        return channel_guarantee(*self._held.channels, past=self.past_epsilon_, seed=self.seed)

    def _restore(self, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        super()._restore(meta, arrays)
        self._prepare(AlterEgos.from_arrays(vars(self), self.item_ids_))
        return self


# ---- pure parts -------------------------------------------------------------------------------


def alterego_matrix(events: Ratings, substitutes: npt.NDArray[Any], n_items: int) -> Any:
    """A sparse user × item matrix of how often each item is in each AlterEgo."""
    times, items, indptr = _counted(events.indptr, np.asarray(substitutes, np.int64), n_items)
    return csr_array((times, items, indptr), (events.n_users, n_items))


@numba.njit(cache=True)
def _counted(indptr: Any, substitutes: Any, n_items: int) -> Any:
    times, items = np.empty(len(substitutes)), np.empty(len(substitutes), np.int32)
    ends, places = np.zeros(len(indptr), np.int64), np.full(n_items, -1)
    size = 0
    for user in range(len(indptr) - 1):
        start = size
        for event in range(indptr[user], indptr[user + 1]):
            item = substitutes[event]
            if places[item] >= start:
                times[places[item]] += 1
                continue
            places[item], items[size], times[size] = size, item, 1
            size += 1
        ends[user + 1] = size
    return times[:size], items[:size], ends


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


def _where(old: Ratings, new: Ratings) -> npt.NDArray[np.int64]:
    """For each event of `new` its place in `old`, or -1."""
    user = find(old.user_ids, new.user_ids)[new.users]
    item = find(old.item_ids, new.item_ids)[new.items]
    keys = user * old.n_items + item
    known = old.users.astype(np.int64) * old.n_items + old.items
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where((user >= 0) & (item >= 0) & (known[at] == keys), at, -1)


def _joined(old: Ratings, new: Ratings) -> tuple[Ratings, npt.NDArray[np.intp]]:
    """All events of both, over the items of `new`; and the order that brings them there from those
    of `old` followed by those of `new`."""
    user_ids = np.union1d(old.user_ids, new.user_ids)
    users, items = (
        np.concatenate([find(ids, old_ids)[mine], find(ids, new_ids)[others]])
        for ids, old_ids, mine, new_ids, others in (
            (user_ids, old.user_ids, old.users, new.user_ids, new.users),
            (new.item_ids, old.item_ids, old.items, new.item_ids, new.items),
        )
    )
    order = np.lexsort((items, users))
    counts = np.bincount(users, minlength=len(user_ids))
    events = Ratings(
        user_ids=user_ids,
        item_ids=new.item_ids,
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=items[order].astype(np.int32),
        values=np.ones(len(items), np.float32),
        scale=None,
    )
    return events, order
