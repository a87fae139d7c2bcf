"""Debiasing: the best guess at true ratings from released ones, the noise being known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, expm1
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.data import Ratings, Scale
from epicrec.perturb.dpi.rating_codes import codes_of, span, values_of


def unclamped(values: npt.NDArray[Any], scale: Scale, epsilon: float) -> Floats:
    """Unbiased estimates of true ratings from clamped noisy ones: E[estimate | true] = true.

    With a = e^(-ε/Δ), noise that leaves the scale overshoots its end by a geometric number of steps
    with mean a/(1 - a), whatever the true rating was: the distribution has no memory. So the value
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
    ratings and the known distribution of the noise, so it costs no privacy.
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


def liked_shares(
    items: npt.NDArray[Any], values: npt.NDArray[Any], scale: Scale, epsilon: float, liked: float,
    n_items: int,
) -> Floats:  # fmt: skip
    """Of each item the share of its true ratings that are at least `liked`, from released ones.

    A released code counts M⁻¹1[true ≥ liked], with M the noise's distribution: its mean is 1 for a
    true rating from `liked` on and 0 for another. An item's mean of these is shrunk to that of all
    items by what is known of its error, its n ratings' variance over n.
    """
    top = span(scale)
    wanted = values_of(np.arange(top + 1), scale) >= liked
    counted = np.linalg.solve(channel_matrix(top, epsilon), wanted.astype(np.float64))
    x = counted[codes_of(values, scale)]
    n = np.bincount(items, minlength=n_items)
    mean, variance = float(x.mean()), float(x.var())
    means = np.bincount(items, x, n_items) / np.maximum(n, 1)
    raters = max(int((n > 0).sum()), 1)
    between = max(float(n @ (means - mean) ** 2) / n.sum() - variance * raters / n.sum(), 0.0)
    kept = between / (between + variance / np.maximum(n, 1) + 1e-12)
    return np.asarray(np.clip(mean + kept * (means - mean), 0.0, 1.0), np.float64)
