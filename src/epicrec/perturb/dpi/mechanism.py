"""DPI: each rating altered by itself; which items were rated is not hidden."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass, field, replace
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_array

from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.perturb.contract import (
    Odds,
    Perturber,
    Release,
    Sent,
    Told,
    odds_of,
    refuse_levels,
)
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.dpi.debiasing import Restoring, liked_shares
from epicrec.perturb.dpi.rating_codes import check_epsilon, clamped, codes_of, values_of
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.privacy import Guarantee

SAYS_WHICH = "Which items were rated, and how many, is sent as it is and is not protected."


class RatingPerturber(Perturber):
    """What the two share: ratings altered one cell at a time, for one person or for many."""

    task = "ratings"

    scale: Scale
    epsilon: float
    seed: int | None

    @abstractmethod
    def alter(self, ratings: Ratings) -> Ratings:
        """Everybody's ratings as each of their devices would release them."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What one release promises."""

    @abstractmethod
    def restoring(self, released: Ratings) -> Restoring:
        """How to guess the true ratings behind released ones; free of charge."""

    def release(
        self, history: Any, levels: Levels = PERTURBED, *, seed: int | None = None
    ) -> Release:
        started = perf_counter()
        refuse_levels(type(self).__name__, levels)
        own = self if seed is None else replace(self, seed=seed)  # type: ignore[type-var]
        sent = own.alter(_of_one(history, self.scale))
        return Release(
            method=self.method,
            items=tuple(sent.item_ids[sent.items].tolist()),
            ratings=tuple(sent.values.tolist()),
            guarantee=own.guarantee,
            settings=self._settings(),
            seconds=perf_counter() - started,
        )

    def budget(self, levels: Levels = PERTURBED) -> float:
        refuse_levels(type(self).__name__, levels)
        return self.guarantee.epsilon

    def _settings(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "scale": asdict(self.scale)}


@dataclass(frozen=True)
class DPI(RatingPerturber):
    """Differentially Private Input (Yang et al. 2019, section 3.1, equation 10).

    On the integer grid of the scale: `code' = clamp(code + Z, 0, Δ)`, with Z discrete Laplace of
    scale Δ/ε, where Δ = (high - low)/step. Neighbouring inputs differ in the value of one rating,
    so in one code, by at most Δ: P(code' = v) changes by a factor of at most e^ε before the clamp,
    and clamping is post-processing. Pure ε for one "rating value" (change one); each user's
    ratings of all items compose to this because each code gets noise of its own. Which items were
    rated is not hidden: for that, see `HidingDPI`.

    A history is any table with `item_id, rating`.

    >>> from epicrec.data import Scale
    >>> import pyarrow as pa
    >>> history = pa.table({"item_id": [7, 9], "rating": [5.0, 1.0]})
    >>> release = DPI(Scale(1, 5, 1), epsilon=1.0).release(history)
    >>> release.items, release.guarantee.unit
    ((7, 9), 'rating value')
    """

    status = "proved"
    units = ("rating value",)

    scale: Scale
    epsilon: float = field(kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon, unit="rating value", relation="change one", assumes=(SAYS_WHICH,)
        ).seeded(self.seed)

    def restoring(self, released: Ratings) -> Restoring:
        """How to guess the true ratings behind released ones; free of charge."""
        return Restoring.learn(released, self.scale, self.epsilon)

    def alter(self, ratings: Ratings) -> Ratings:
        codes = clamped(codes_of(ratings.values, self.scale), self.scale, self.epsilon, self.seed)
        return replace(ratings, values=values_of(codes, self.scale))

    @classmethod
    def told(cls, sent: Sent, catalogue: Catalogue) -> Told:
        """What was rated, as it is; each item counts by the share of those who like it, which the
        noise hides of one person and not of many."""
        rated = csr_array(sent.counts)
        scale, epsilon = Scale(**sent.settings["scale"]), float(sent.settings["epsilon"])
        check_epsilon(epsilon)
        if rated.nnz:
            items = rated.indices
            likes = liked_shares(items, rated.data, scale, epsilon, sent.liked, len(catalogue))
            rated = csr_array((likes[items], items, rated.indptr), rated.shape)
        clear = Channel.identity(len(catalogue))
        return Told(events=AlterEgos.of(clear, rated, sent.user_ids, catalogue.item_ids))

    @classmethod
    def odds(cls, release: Release, item_id: Any, catalogue: Catalogue) -> Odds:
        """Whether an item was rated is sent as it is, rated or not."""
        del release, item_id, catalogue
        return odds_of(inf)


def _of_one(history: Any, scale: Scale) -> Ratings:
    """One person's ratings, from a table with `item_id` and `rating`."""
    if isinstance(history, Ratings):
        if history.scale is None:
            raise InputError("DPI alters ratings and got a history without them; add the column")
        history = history.to_table()
    if not hasattr(history, "columns"):
        raise InputError("DPI alters ratings: a history is a table with item_id and rating")
    if not isinstance(history, pa.Table):
        import narwhals as nw

        history = nw.from_native(history, eager_only=True).to_arrow()
    for name in ("item_id", "rating"):
        if name not in history.column_names:
            raise InputError(f"the history has no column {name!r}; give item_id and rating")
    if "user_id" in history.column_names and len(history["user_id"].unique()) > 1:
        raise InputError("a history is one person's; for many people's ratings use alter")
    table = history.select(["item_id", "rating"])
    if not len(table):  # a person without ratings may still send fakes
        return _nothing(table["item_id"].to_numpy(), scale)
    alone = table.append_column("user_id", pa.array(np.zeros(len(table), np.int64)))
    return Ratings.from_table(alone, scale=scale)


def _nothing(item_ids: npt.NDArray[Any], scale: Scale) -> Ratings:
    """One person without ratings."""
    return Ratings(
        np.zeros(1, np.int64), item_ids, np.zeros(2, np.int64),
        np.zeros(0, np.int32), np.zeros(0, np.float32), scale,
    )  # fmt: skip
