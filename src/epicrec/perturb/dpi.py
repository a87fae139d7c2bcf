"""DPI: ratings altered one by one on the device, and what a reader of them can put right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import exp, expm1, prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec.data import Ratings, Scale, find
from epicrec.errors import InputError
from epicrec.privacy import Guarantee, add_discrete_laplace, laplace_scale
from epicrec.privacy.noise import root_key, word_stream

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ONE = 1 << 62  # a probability is a whole number of 2⁻⁶² parts, so that bounds hold exactly
_BELOW = 1 - Fraction(1, 1 << 40)  # more than what exp and a product of floats can be off by
_CELLS_AT_ONCE = 1 << 22

SAYS_WHICH = "Which items were rated, and how many, is sent as it is and is not protected."
PUBLIC_ITEMS = "The list of items, the scale, who takes part and the fake ratings' law are public."


# ---- ratings as whole numbers ---------------------------------------------------------------


def span(scale: Scale) -> int:
    """Δ, the steps from one end of the scale to the other: what one rating can change by."""
    steps = round((scale.high - scale.low) / scale.step)
    if steps < 1 or abs((scale.high - scale.low) / scale.step - steps) > 1e-6:
        raise InputError(f"the scale {scale} has no whole number of steps; correct high or step")
    return steps


def codes_of(values: npt.NDArray[Any], scale: Scale) -> Integers:
    """Ratings as 0 … Δ, whatever comes in: the bound holds even for a value off the scale."""
    steps = np.rint((np.asarray(values, np.float64) - scale.low) / scale.step)
    return np.asarray(np.clip(np.nan_to_num(steps), 0, span(scale)), np.int64)


def values_of(codes: npt.NDArray[Any], scale: Scale) -> npt.NDArray[np.float32]:
    """Back from 0 … Δ to ratings."""
    return (scale.low + scale.step * np.asarray(codes, np.float64)).astype(np.float32)


# ---- the two mechanisms ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RatedRelease:
    """Altered ratings in the format they came in, and what they promise."""

    method: str
    ratings: Any
    guarantee: Guarantee


@dataclass(frozen=True)
class DPI:
    """Differentially Private Input (Yang et al. 2019, section 3.1, equation 10).

    On the integer grid of the scale: `code' = clamp(code + Z, 0, Δ)`, with Z discrete Laplace of
    scale Δ/ε, where Δ = (high - low)/step. Neighbouring inputs differ in the value of one rating,
    so in one code, by at most Δ: P(code' = v) changes by a factor of at most e^ε before the clamp,
    and clamping is post-processing. Pure ε for one "rating value" (change one); each user's
    ratings of all items compose to this because each code gets noise of its own. Which items were
    rated is not hidden: for that, see `HidingDPI`.

    `release` takes Ratings, or any table with `item_id, rating`, and gives back the same; a seed
    makes the noise repeatable and not private.

    >>> from epicrec.data import Scale
    >>> import pyarrow as pa
    >>> history = pa.table({"item_id": [7, 9], "rating": [5.0, 1.0]})
    >>> release = DPI(Scale(1, 5, 1), epsilon=1.0).release(history)
    >>> release.ratings["item_id"].to_pylist(), release.guarantee.unit
    ([7, 9], 'rating value')
    """

    scale: Scale
    epsilon: float = field(kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    method: ClassVar[str] = "dpi"

    def release(self, history: Any) -> RatedRelease:
        """Draw once and send that: a second draw of the same rating costs ε again."""
        return RatedRelease(
            method=self.method,
            ratings=_in_and_out(history, self.scale, self._alter),
            guarantee=self.guarantee,
        )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon, unit="rating value", relation="change one", assumes=(SAYS_WHICH,)
        ).seeded(self.seed)

    def restoring(self, released: Ratings) -> Restoring:
        """How to guess the true ratings behind released ones; free of charge."""
        return Restoring.learn(released, self.scale, self.epsilon)

    def _alter(self, ratings: Ratings) -> Ratings:
        codes = clamped(codes_of(ratings.values, self.scale), self.scale, self.epsilon, self.seed)
        return replace(ratings, values=values_of(codes, self.scale))


@dataclass(frozen=True)
class HidingDPI:
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

    item_ids: npt.NDArray[Any]
    scale: Scale
    epsilon: float = field(kw_only=True)
    fakes: float = field(default=100.0, kw_only=True)
    popularity: npt.NDArray[Any] | None = field(default=None, kw_only=True)
    existence: float = field(default=0.8, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    method: ClassVar[str] = "hiding-dpi"

    def release(self, history: Any) -> RatedRelease:
        """True and fake ratings, not to be told apart; items outside the list are not sent."""
        return RatedRelease(
            method=self.method,
            ratings=_in_and_out(history, self.scale, self._alter),
            guarantee=self.guarantee,
        )

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
        _check_epsilon(self.epsilon)
        if not 0 < self.existence < 1 or not self.fakes > 0:
            raise InputError("existence must lie between 0 and 1, and fakes above 0")
        weights = np.ones(len(self.item_ids)) if self.popularity is None else self.popularity
        weights = np.asarray(weights, np.float64)
        if weights.shape != (len(self.item_ids),) or not (weights > 0).all():
            raise InputError("popularity must be one weight above 0 for each item of the list")
        return keeping_chances(
            self.fakes * weights / weights.sum(), self.epsilon * self.existence, self.epsilon
        )

    def _alter(self, ratings: Ratings) -> Ratings:
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
        seed = None if self.seed is None else self.seed + 1  # not the words that chose the cells
        code = clamped(np.concatenate(codes), self.scale, self._value_epsilon, seed)
        indptr = np.searchsorted(np.concatenate(users), np.arange(ratings.n_users + 1))
        return Ratings(
            ratings.user_ids, self.item_ids, indptr.astype(np.int64),
            np.concatenate(items).astype(np.int32), values_of(code, self.scale), self.scale,
        )  # fmt: skip


def clamped(codes: Integers, scale: Scale, epsilon: float, seed: int | None) -> Integers:
    """`clamp(code + Z)` with Z discrete Laplace of scale Δ/ε (equation 10 on the grid)."""
    _check_epsilon(epsilon)
    noisy = np.array(codes, np.int64)
    add_discrete_laplace(noisy, laplace_scale(span(scale), epsilon), seed=seed)
    return np.clip(noisy, 0, span(scale))


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


# ---- what a reader can put right (post-processing) ------------------------------------------


def unclamped(values: npt.NDArray[Any], scale: Scale, epsilon: float) -> Floats:
    """Unbiased estimates of true ratings from clamped noisy ones: E[estimate | true] = true.

    With a = e^(-ε/Δ), noise that leaves the scale overshoots its end by a geometric number of steps
    with mean a/(1 - a), whatever the true rating was: the law has no memory. So the value
    `end ± step · a/(1 - a)` for the two ends, and the value itself in between, is the mean of the
    unclamped value given the clamped one, and unbiased like it.

    >>> unclamped(np.array([1.0, 3.0, 5.0]), Scale(1, 5, 1), 4.0).round(3).tolist()
    [0.418, 3.0, 5.582]
    """
    overshoot = scale.step / expm1(epsilon / span(scale))
    codes = codes_of(values, scale)
    beyond = (codes == span(scale)).astype(np.float64) - (codes == 0)
    return np.asarray(scale.low + scale.step * codes + overshoot * beyond, np.float64)


@dataclass(frozen=True)
class Restoring:
    """How to guess true ratings from released ones: unbiased, then shrunk by the known noise.

    The unbiased values spread by s² (`spread`) around their user's mean, most of it noise. A user's
    mean of n values is shrunk to the `mean` of all by `τ²/(τ² + s²/n)`, with τ² = `between`, and
    each value to its user's mean by `signal`, the share of s² that is not noise. Where only a share
    of the values is `genuine` and the rest are fakes around the middle of the scale, values are
    first stretched away from it, so that means come out right. All of this is learned from released
    ratings and the known law of the noise, so it costs no privacy.
    """

    scale: Scale
    epsilon: float
    genuine: float
    mean: float
    spread: float
    between: float
    signal: float

    @classmethod
    def learn(
        cls, released: Ratings, scale: Scale, epsilon: float, *, genuine: float = 1.0
    ) -> Restoring:
        x, users = unclamped(released.values, scale, epsilon), released.users
        x = _without_fakes(x, scale, genuine)
        mean, raters = float(x.mean()), int((released.user_counts > 0).sum())
        means = np.bincount(users, x) / np.maximum(np.bincount(users), 1)
        spread = float(((x - means[users]) ** 2).sum()) / max(1, len(x) - raters) + 1e-9
        between = float(((means[users] - mean) ** 2).mean()) - spread * raters / len(x)
        noise = noise_variance(mean, scale, epsilon) / genuine**2
        signal = genuine * max(0.0, 1 - noise / spread)
        return cls(scale, epsilon, genuine, mean, spread, max(0.0, between), signal)

    def apply(self, released: Ratings) -> Ratings:
        """Each true rating as best guessed."""
        users, counts = released.users, np.maximum(released.user_counts, 1)
        x = unclamped(released.values, self.scale, self.epsilon)
        x = _without_fakes(x, self.scale, self.genuine) - self.mean
        means = np.bincount(users, x, len(counts)) / counts
        means *= self.between / (self.between + self.spread / counts)
        guess = self.mean + means[users] + self.signal * (x - means[users])
        guess = np.clip(guess, self.scale.low, self.scale.high)
        return replace(released, values=guess.astype(np.float32))


def _without_fakes(x: Floats, scale: Scale, genuine: float) -> Floats:
    middle = scale.low + scale.step * (span(scale) // 2)
    return middle + (x - middle) / genuine


def noise_variance(true: float, scale: Scale, epsilon: float) -> float:
    """The variance of the `unclamped` value of a rating whose true value is `true`."""
    top = span(scale)
    values = values_of(np.arange(top + 1), scale).astype(np.float64)
    variance = channel_matrix(top, epsilon) @ unclamped(values, scale, epsilon) ** 2 - values**2
    return float(np.interp(true, values, variance))


def channel_matrix(top: int, epsilon: float) -> Floats:
    """P(released code | true code) for codes 0 … top: one row a true code."""
    a = exp(-epsilon / top)
    steps = np.abs(np.arange(top + 1)[:, None] - np.arange(top + 1))
    matrix = (1 - a) / (1 + a) * a**steps
    matrix[:, [0, -1]] = a ** steps[:, [0, -1]] / (1 + a)
    return np.asarray(matrix, np.float64)


# ---- the edges ------------------------------------------------------------------------------


def _in_and_out(history: Any, scale: Scale, alter: Callable[[Ratings], Ratings]) -> Any:
    """Alter Ratings, or a table of one or several people's ratings; the same format comes out."""
    if isinstance(history, Ratings):
        if history.scale is None:
            raise InputError("DPI alters ratings and got a history without them; add the column")
        return alter(history)
    if not isinstance(history, pa.Table):
        import narwhals as nw

        history = nw.from_native(history, eager_only=True).to_arrow()
    alone = "user_id" not in history.column_names
    if alone:
        history = history.append_column("user_id", pa.array(np.zeros(len(history), np.int64)))
    wanted = ["user_id", "item_id", "rating"]
    for name in wanted:
        if name not in history.column_names:
            raise InputError(f"the history has no column {name!r}; give item_id and rating")
    if alone and not len(history):  # a person without ratings may still send fakes
        ratings = _nothing(history["item_id"].to_numpy(), scale)
    else:
        ratings = Ratings.from_table(history.select(wanted), scale=scale)
    table = alter(ratings).to_table()
    return table.drop_columns("user_id") if alone else table


def _nothing(item_ids: npt.NDArray[Any], scale: Scale) -> Ratings:
    """One person without ratings."""
    return Ratings(
        np.zeros(1, np.int64), item_ids, np.zeros(2, np.int64),
        np.zeros(0, np.int32), np.zeros(0, np.float32), scale,
    )  # fmt: skip


def derived_seed(seed: int | None, name: Any) -> int | None:
    """A seed of its own for one user, so that their noise does not depend on who else is there."""
    if seed is None:
        return None
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")


def _words(seed: int | None) -> Callable[[tuple[int, ...]], Integers]:
    """A source of uniform whole numbers below 2⁶²."""
    stream = word_stream(root_key(seed, "hiding"), 0)
    return lambda shape: (stream(prod(shape)) >> np.uint64(2)).astype(np.int64).reshape(shape)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _check_epsilon(epsilon: Any) -> None:
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < 700:
        raise InputError(f"epsilon must be a number above 0 (and below 700), not {epsilon!r}")


def cells_in(table: Ratings, ratings: Ratings) -> Integers:
    """Where each rating's user and item stand in another table over the same items, or -1."""
    users = find(table.user_ids, ratings.user_ids)[ratings.users]
    keys = table.users.astype(np.int64) * table.n_items + table.items
    at = find(keys, users * table.n_items + ratings.items)
    return np.where(users >= 0, at, -1)
