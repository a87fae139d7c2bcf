"""Recommenders after DPI: the server learns from ratings that the devices randomised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec.arrays import AnyFloats, Positions
from epicrec.data import Ratings, find
from epicrec.errors import InputError
from epicrec.models import make_model, model_class
from epicrec.models.base import Recommender
from epicrec.papers.yang.dpm_models import PublishedNeighbours
from epicrec.parameters import taken
from epicrec.perturb.dpi.debiasing import Restoring
from epicrec.perturb.dpi.hiding import HidingDPI
from epicrec.perturb.dpi.mechanism import DPI
from epicrec.privacy import Guarantee
from epicrec.seeds import derived


class ReleasedRatings(Ratings):
    """Ratings that were altered once, with everybody's own id, to be used as they are ever after;
    `save` and `open` keep them."""


@dataclass(kw_only=True, eq=False, repr=False)
class AfterDPI(Recommender):
    """Alter every rating (Yang et al. 2019, section 3.1), then run an ordinary recommender.

    All that the recommender sees went through `DPI` (unit "rating value", change one) or, with the
    unit "rating", through `HidingDPI` (add or remove one): it and its predictions are
    post-processing, and the guarantee is that of the mechanism. Histories in a call must have been
    released too, once and for all: whoever draws anew at every call averages the noise away. A
    rating that was released in `fit` keeps its released value; others are drawn once by `released`,
    whose answer the caller keeps and asks with.

    `debias` undoes the clamp and shrinks by the known noise before the recommender looks
    (`Restoring`); False is the paper's way. `fakes` goes with the unit "rating".
    """

    status = "proved"
    units = ("rating value", "rating")

    recommender: ClassVar[str]
    """The method that learns from what was released."""

    epsilon: float = 1.0
    debias: bool = False
    unit: str = "rating value"
    fakes: float = 100.0
    seed: int | None = None

    inner: Recommender = field(init=False)
    restoring: Restoring = field(init=False)
    _memory: ReleasedRatings | None = field(default=None, init=False)
    """What was released so far: fitting again draws what is new."""
    released_users_: npt.NDArray[Any] = field(init=False)
    released_indptr_: npt.NDArray[np.int64] = field(init=False)
    released_items_: npt.NDArray[np.int32] = field(init=False)
    released_values_: npt.NDArray[np.float32] = field(init=False)

    @property
    def guarantee(self) -> Guarantee:
        return self._mechanism().guarantee

    def _mechanism(self, *, seed: int | None = None) -> DPI | HidingDPI:
        seed = self.seed if seed is None else seed
        if self.unit == "rating value":
            return DPI(self._scale, epsilon=self.epsilon, seed=seed)
        if self.unit == "rating":
            return HidingDPI(
                self.item_ids_, self._scale, epsilon=self.epsilon, fakes=self.fakes, seed=seed
            )
        raise InputError(f"DPI hides a 'rating value' or a 'rating', not a {self.unit!r}")

    @property
    def _scale(self) -> Any:
        self._check_fitted()
        return self.scale_

    def _check_public(self, ratings: Ratings) -> None:
        """What was released says its items and scale itself."""
        if not isinstance(ratings, ReleasedRatings):
            super()._check_public(ratings)

    def _fit(self, ratings: Ratings) -> None:
        if isinstance(ratings, ReleasedRatings):
            released = ratings
        else:
            released = self._drawn(ratings, [self._memory], self._mechanism())
        self._memory = released
        self.histories_ = released  # the true ratings are not kept
        self.released_users_ = released.user_ids
        self.released_indptr_, self.released_items_ = released.indptr, released.items
        self.released_values_ = released.values
        self._fit_inner()

    def _fit_inner(self) -> None:
        released = self._released()
        if self.debias:
            self.restoring = self._mechanism().restoring(released)
        self.inner = self._make_inner().fit(self._restored(released))

    def _make_inner(self) -> Recommender:
        has = taken(model_class(self.recommender))
        settings: dict[str, Any] = {"task": "ratings"} if "task" in has else {}
        return make_model(self.recommender, **settings)

    def _released(self) -> ReleasedRatings:
        return ReleasedRatings(
            self.released_users_, self.item_ids_, self.released_indptr_,
            self.released_items_, self.released_values_, self._scale,
        )  # fmt: skip

    def _restored(self, released: Ratings) -> Ratings:
        return self.restoring.apply(released) if self.debias else released

    def released(
        self, histories: Ratings, *, before: ReleasedRatings | None = None
    ) -> ReleasedRatings:
        """Histories as devices release them: drawn once, here. Keep what comes out, ask with it,
        and give it back as `before` when ratings are added: what was released, in `fit` or before,
        keeps its value, also where the rating has changed since.
        """
        self._check_fitted()
        mechanism = self._mechanism(seed=derived(self.seed, "call"))
        own = histories.with_items(self.item_ids_)
        return self._drawn(own, [self._released(), before], mechanism)

    def _drawn(
        self,
        ratings: Ratings,
        memories: list[ReleasedRatings | None],
        mechanism: DPI | HidingDPI,
    ) -> ReleasedRatings:
        """Released ratings of the same users: those of the memories as they are, others drawn."""
        drawn = mechanism.alter(ratings)
        for memory in memories:
            if memory is None or not len(memory):
                continue
            memory = memory.with_items(drawn.item_ids)
            if self.unit == "rating value":
                at = cells_in(memory, drawn)
                values = np.where(at >= 0, memory.values[at], drawn.values)
                drawn = replace(drawn, values=values.astype(np.float32))
            else:  # every cell of a known user was answered, sent or not
                known = find(memory.user_ids, ratings.user_ids)
                rows = np.where(known >= 0, known, memory.n_users + np.arange(ratings.n_users))
                drawn = stacked(memory, drawn).users_at(rows)
        return ReleasedRatings(
            ratings.user_ids, drawn.item_ids, drawn.indptr, drawn.items, drawn.values, drawn.scale
        )

    def _histories_of(self, users: Any) -> Ratings:
        """Known users, and histories all of whose ratings were released."""
        histories = super()._histories_of(users)
        ids = isinstance(users, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray)
        if not ids and not np.isscalar(users) and not isinstance(histories, ReleasedRatings):
            histories = self._as_fitted(histories)
        return self._restored(histories)

    def _as_fitted(self, histories: Ratings) -> Ratings:
        """Raw histories with the values that `fit` released; what it did not know is refused."""
        released = self._released()
        known = find(released.user_ids, histories.user_ids)
        cells = cells_in(released, histories)
        if self.unit == "rating value" and (cells >= 0).all():
            values = released.values[cells] if len(cells) else histories.values
            return replace(histories, values=values)
        if self.unit == "rating" and (known >= 0).all():
            return released.users_at(known)
        raise InputError(
            "this history holds ratings that were not released yet, and drawing them at every call "
            "would average the noise away: draw them once with released(history), or epicrec "
            "perturb dpi, keep what comes out, and ask with that"
        )

    def _scores(self, histories: Ratings) -> AnyFloats:
        return self.inner._scores(histories)

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        return self.inner._predict(histories, rows, items)

    def _restore(self, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        super()._restore(meta, arrays)
        self._memory = self._released()
        self._fit_inner()  # a function of what was released, so it need not be in the file
        return self


def cells_in(table: Ratings, ratings: Ratings) -> npt.NDArray[np.int64]:
    """Where each rating's user and item stand in another table over the same items, or -1."""
    users = find(table.user_ids, ratings.user_ids)[ratings.users]
    keys = table.users.astype(np.int64) * table.n_items + table.items
    at = find(keys, users * table.n_items + ratings.items)
    return np.where(users >= 0, at, -1)


def stacked(above: Ratings, below: Ratings) -> Ratings:
    """Two tables over the same items, one under the other; user ids may repeat."""
    ids = np.concatenate([above.user_ids.astype(object), below.user_ids.astype(object)])
    return Ratings(
        ids, above.item_ids, np.concatenate([above.indptr, above.indptr[-1] + below.indptr[1:]]),
        np.concatenate([above.items, below.items]), np.concatenate([above.values, below.values]),
        above.scale,
    )  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class NeighboursAfterDPI(AfterDPI):
    """`normalise` "all" divides by the weights of all neighbours, as published; "raters" by those
    of the neighbours who rated the item, as the models `pcc` and `cos` do."""

    normalise: Literal["all", "raters"] = "all"

    def _make_inner(self) -> Recommender:
        if self.normalise == "all":
            return PublishedNeighbours(centred=self.recommender == "pcc")
        return super()._make_inner()


class DPIAvg(AfterDPI):
    """DPI, then each user's mean of their altered ratings."""

    recommender = "avg"


class DPIPcc(NeighboursAfterDPI):
    """DPI, then neighbours weighted by Pearson's correlation."""

    recommender = "pcc"


class DPICos(NeighboursAfterDPI):
    """DPI, then neighbours weighted by the cosine."""

    recommender = "cos"


class DPISvd(AfterDPI):
    """DPI, then latent factors: any recommender can follow."""

    recommender = "svd"
