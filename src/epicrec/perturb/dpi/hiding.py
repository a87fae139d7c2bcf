"""HidingDPI: DPI that also hides which items were rated, by fake ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from math import exp, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.perturb.contract import Sent, Told
from epicrec.perturb.dpi.debiasing import Restoring
from epicrec.perturb.dpi.mechanism import RatingPerturber
from epicrec.perturb.dpi.rating_codes import check_epsilon, clamped, codes_of, span, values_of
from epicrec.privacy import Guarantee
from epicrec.privacy.noise import root_key, word_stream
from epicrec.seeds import derived

_ONE = 1 << 62  # a probability is a whole number of 2⁻⁶² parts, so that bounds hold exactly
_BELOW = 1 - Fraction(1, 1 << 40)  # more than what exp and a product of floats can be off by
_CELLS_AT_ONCE = 1 << 22

PUBLIC_ITEMS = "The list of items, the scale, who takes part and the fake ratings' law are public."


@dataclass(frozen=True)
class HidingDPI(RatingPerturber):
    """DPI that also hides which items were rated, over a public list of items.

    Each cell (user, item) is answered by itself. A rated cell is sent with probability p_i, its
    code altered as in DPI by noise of scale m/ε_v; an unrated one is sent with probability q_i as
    a fake: the middle code c₀ altered in the same way. With m = max(c₀, Δ - c₀), ε = ε_e + ε_v:

    * adding or removing a rating of code c changes P(sent as v) from q K(v|c₀) to p K(v|c), where
      K(v|c)/K(v|c₀) is within e^±(|c - c₀| ε_v/m), so within e^±ε_v, and p/q within e^±ε_e;
    * it changes P(not sent) from 1 - q to 1 - p, within e^±ε.

    The three bounds on p and q are kept in whole numbers of 2⁻⁶². Pure ε for one "rating" (add or
    remove one). `fakes` is how many fakes an empty history yields, spread over the items by
    `popularity` (public weights; None for equal ones); more fakes let more true ratings through,
    since p_i ≤ e^ε_e q_i. `existence` is ε_e/ε.
    """

    status = "proved"
    units = ("rating",)

    item_ids: npt.NDArray[Any]
    scale: Scale
    epsilon: float = field(kw_only=True)
    fakes: float = field(default=100.0, kw_only=True)
    popularity: npt.NDArray[Any] | None = field(default=None, kw_only=True)
    existence: float = field(default=0.8, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            unit="rating",
            relation="add or remove one",
            assumes=(PUBLIC_ITEMS,),
        ).seeded(self.seed)

    def restoring(self, released: Ratings) -> Restoring:
        """As for `DPI`, with this mechanism's noise, and the share of fakes taken out of the means.

        With a share ρ of the cells rated, ρ p + (1 - ρ) q of them are sent; ρ p of these are true.
        Where less than a fifth is, taking out the rest would leave little but noise: a fifth then.
        """
        kept, faked = (float(chance.mean()) for chance in self.chances())
        sent = max(len(released), 1) / (released.n_users * released.n_items)
        rated = (sent - faked) / max(kept - faked, 1e-12)
        genuine = float(np.clip(rated * kept / sent, 0.2, 1.0))
        return Restoring.learn(released, self.scale, self._value_epsilon, genuine=genuine)

    def chances(self) -> tuple[Floats, Floats]:
        """p and q: how likely a rated and an unrated cell of each item is sent."""
        kept, faked = self._chances()
        return kept / _ONE, faked / _ONE

    @property
    def _middle(self) -> int:
        return span(self.scale) // 2

    @property
    def _value_epsilon(self) -> float:
        """The ε of a DPI with the same noise: m is about half of Δ, so it is about 2 ε_v."""
        reach = max(self._middle, span(self.scale) - self._middle)
        return self.epsilon * (1 - self.existence) * span(self.scale) / reach

    def _chances(self) -> tuple[Integers, Integers]:
        check_epsilon(self.epsilon)
        if not 0 < self.existence < 1 or not self.fakes > 0:
            raise InputError("existence must lie between 0 and 1, and fakes above 0")
        weights = np.ones(len(self.item_ids)) if self.popularity is None else self.popularity
        weights = np.asarray(weights, np.float64)
        if weights.shape != (len(self.item_ids),) or not (weights > 0).all():
            raise InputError("popularity must be one weight above 0 for each item of the list")
        return keeping_chances(
            self.fakes * weights / weights.sum(), self.epsilon * self.existence, self.epsilon
        )

    def alter(self, ratings: Ratings) -> Ratings:
        kept, faked = self._chances()
        if ratings.n_items:
            ratings = ratings.with_items(self.item_ids)
        n_items, block = len(self.item_ids), max(1, _CELLS_AT_ONCE // max(1, len(self.item_ids)))
        words = _words(self.seed)
        users, items, codes = [], [], []
        for start in range(0, ratings.n_users, block):
            stop = min(start + block, ratings.n_users)
            cells = np.full((stop - start, n_items), -1, np.int64)
            part = slice(ratings.indptr[start], ratings.indptr[stop])
            row = np.repeat(np.arange(stop - start), ratings.user_counts[start:stop])
            cells[row, ratings.items[part]] = codes_of(ratings.values[part], self.scale)
            sent = words(cells.shape) < np.where(cells >= 0, kept, faked)
            at, item = np.nonzero(sent)
            code = cells[at, item]
            users.append(at + start)
            items.append(item)
            codes.append(np.where(code < 0, self._middle, code))
        seed = derived(self.seed, "values")  # not the words that chose the cells
        code = clamped(np.concatenate(codes), self.scale, self._value_epsilon, seed)
        indptr = np.searchsorted(np.concatenate(users), np.arange(ratings.n_users + 1))
        return Ratings(
            ratings.user_ids, self.item_ids, indptr.astype(np.int64),
            np.concatenate(items).astype(np.int32), values_of(code, self.scale), self.scale,
        )  # fmt: skip

    @classmethod
    def told(cls, sent: Sent, catalogue: Catalogue) -> Told:
        """How many items of each category all people together have rated.

        Of n people c send item i, R p + (n - R) q on average, where R of them rated it. So
        R = (c - n q)/(p - q) without bias, with variance [R p(1 - p) + (n - R) q(1 - q)]/(p - q)²;
        a category's items are drawn independently. Of one person it tells next to nothing.
        """
        known = [None] if catalogue.popularity is None else [None, catalogue.popularity]
        given: dict[str, Any] = {
            name: float(sent.settings[name]) for name in ("epsilon", "fakes", "existence")
        }
        scale = Scale(**sent.settings["scale"])
        made = [cls(catalogue.item_ids, scale, popularity=one, **given) for one in known]
        own = next((one for one in made if one._listed == sent.settings.get("items")), None)
        if own is None:
            raise InputError("it was drawn by a list of items that is not known here")
        kept, faked = own.chances()
        if not (kept > faked).all():
            raise InputError("so small an ε tells nothing of which items were rated")
        n, apart = sent.releases, kept - faked
        rated = (np.bincount(sent.counts.indices, minlength=len(catalogue)) - n * faked) / apart
        likely = rated.clip(0, n)
        variance = likely * kept * (1 - kept) + (n - likely) * faked * (1 - faked)
        members = catalogue.matrix.astype(np.float64)
        values, errors = members.T @ rated, members.T @ (variance / apart**2)
        return Told(
            totals={
                name: (float(value), float(error))
                for name, value, error in zip(catalogue.categories, values, errors, strict=True)
            }
        )

    @property
    def _listed(self) -> str:
        """Tells lists of items with their weights apart."""
        found = sha256("\n".join(map(str, self.item_ids)).encode())
        weights = () if self.popularity is None else self.popularity
        found.update(np.asarray(weights, np.float64).tobytes())
        return found.hexdigest()[:16]

    def _settings(self) -> dict[str, Any]:
        own = {"fakes": self.fakes, "existence": self.existence, "items": self._listed}
        return super()._settings() | own


def keeping_chances(
    faked: npt.NDArray[Any], epsilon_existence: float, epsilon: float
) -> tuple[Integers, Integers]:
    """The greatest p for each q with q ≤ p, p ≤ e^ε_e q and (1 - q) ≤ e^ε (1 - p), in 2⁻⁶² parts.

    e^ε is taken from below, as a fraction, so that the bounds hold exactly. q is at most ½.
    """
    ratio = Fraction(exp(epsilon_existence)) * _BELOW
    whole = Fraction(exp(epsilon)) * _BELOW
    q = np.maximum((np.clip(faked, 0, 0.5) * _ONE).astype(np.int64), 1)
    parts, which = np.unique(q, return_inverse=True)
    best = [
        max(part, min(int(ratio * part), _ONE - _ceil(Fraction(_ONE - part) / whole)))
        for part in parts.tolist()
    ]
    return np.array(best, np.int64)[which], q


def _words(seed: int | None) -> Callable[[tuple[int, ...]], Integers]:
    """A source of uniform whole numbers below 2⁶²."""
    stream = word_stream(root_key(seed, "hiding"), 0)
    return lambda shape: (stream(prod(shape)) >> np.uint64(2)).astype(np.int64).reshape(shape)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
