"""D2P's recommenders as published: groups from private ratings, and nothing corrected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.models.d2p.alterego_model import AlterEgoModel
from epicrec.models.d2p.recommenders import D2PItems, D2PUserKNN
from epicrec.papers.d2p.mechanism import published_channel, published_guarantee
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import no_features
from epicrec.privacy import Guarantee


@dataclass(kw_only=True, eq=False, repr=False)
class _FromRatings(AlterEgoModel):
    """What both share: the server draws, by groups of all ratings."""

    as_published = True
    status = "claimed"

    neighbours: int = 0
    catalogue: Catalogue | None = field(default=None, init=False)
    correct: bool = field(default=False, init=False)

    def _channel_for(self, ratings: Ratings) -> tuple[Channel, dict[str, Any]]:
        return published_channel(
            no_features(ratings.item_ids), ratings, epsilon=self.epsilon, p=self.p,
            p_star=self.p_star, lam=self.lam, floor=self.floor, neighbours=self.neighbours,
        )  # fmt: skip

    def fit_alteregos(self, *batches: AlterEgos, shares: AnyFloats | None = None) -> Self:
        del batches, shares
        raise InputError("as_published takes histories: the paper's server draws itself")

    def update(
        self, histories: Ratings, *, renew: bool = False, catalogue: Catalogue | None = None
    ) -> Self:
        del histories, renew, catalogue
        raise InputError("groups as published are from all ratings; fit the model again")

    @property
    def guarantee(self) -> Guarantee:
        self._check_fitted()
        return published_guarantee(self.channel, seed=self.seed)


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedD2PUsers(_FromRatings, D2PUserKNN):
    """D2P (sections 2.1.3 and 2.1.4): neighbours by the cosine of a history with AlterEgos as sets.

    The score of an item is the weight of the neighbours whose AlterEgo holds it, or their number
    with `weighted=False`: the most popular among neighbours, as the paper's text has it.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedD2PItems(_FromRatings, D2PItems):
    """i-D2P (section 4.2.6): items, not users, get other profiles.

    In the profile of an item every user is replaced, mostly by one of a group of like users
    (AlterReplica). Items are then alike by the cosine of these profiles as sets.
    """

    def _channel_for(self, ratings: Ratings) -> tuple[Channel, dict[str, Any]]:
        return super()._channel_for(_transposed(ratings))

    def _draw(self, events: Ratings) -> npt.NDArray[np.int64]:
        return self._channels[-1][0].draw(events.users, seed=self.seed)

    def _hold(self, changed: npt.NDArray[Any] | None = None) -> None:
        events, channel = self._events, self._channels[-1][0]
        replicas = csr_array(
            (np.ones(len(events)), (self._substitutes, events.items)),
            (events.n_users, events.n_items),
        )
        replicas.sum_duplicates()
        places = (np.arange(events.n_items),)
        self._take(
            AlterEgos((channel,), places, replicas, events.user_ids, events.item_ids), changed
        )


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
