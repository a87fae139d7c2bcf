"""DPM, the noisy recommenders of Yang et al. 2019, and the neighbours they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.base import Recommender
from epicrec.models.neighbours.users import plain_means
from epicrec.privacy import Grid, Guarantee, discrete_laplace, laplace_scale
from epicrec.seeds import derived

GRID = Grid(20)
_HISTORIES_AT_ONCE = 256

UNPROVED = (
    "The claim is the paper's and does not hold, because other people's ratings enter without "
    "noise and one rating changes many similarities at once (docs/yang.md)."
)
ENOUGH = "Every user has at least k ratings, and how many is public."
ONCE = "Predictions are asked for once, since each call draws new noise."


class PublishedNeighbours(Recommender):
    """`r̂_ai = r̄_a + Σ_u w_au (r_ui - r̄_u) / Σ_u |w_au|` as Yang et al. and Breese et al. have it.

    The sum above runs over the users u who rated i, the one below over all users (Breese et al.'s
    κ: "the absolute values of the weights sum to unity"), so an item with few raters stays near the
    user's mean. The paper's line 8 leaves the division out; predictions would leave the scale.
    Similarities of a block of histories at a time are in memory, never users × users.

    `centred` weighs by Pearson's correlation over common items (equation 8), otherwise by the
    cosine of the rating vectors (equation 9).
    """

    needs_known_users = True
    means_: AnyFloats

    def __init__(self, *, centred: bool) -> None:
        self.centred = centred

    def _fit(self, ratings: Ratings) -> None:
        self.means_ = self._means(ratings)

    def _means(self, histories: Ratings) -> AnyFloats:
        return own_means(histories)

    def _weights(self, block: Ratings, known: Ratings) -> AnyFloats:
        return similarities(block, known, centred=self.centred)

    def _scores(self, histories: Ratings) -> AnyFloats:
        known = self.histories_
        assert known is not None
        means = self._means(histories)
        residuals = known.values - np.repeat(self.means_, known.user_counts)
        deviations = _like(known.csr(), residuals.astype(np.float32))
        out = np.empty((histories.n_users, histories.n_items), np.float32)
        for start in range(0, histories.n_users, _HISTORIES_AT_ONCE):
            rows = np.arange(start, min(start + _HISTORIES_AT_ONCE, histories.n_users))
            weights = self._weights(histories.users_at(rows), known)
            total = np.abs(weights).sum(axis=1, keepdims=True)
            shares = weights / np.where(total > 0, total, 1)
            out[rows] = means[rows, None] + shares.astype(np.float32) @ deviations
        return out


@dataclass(kw_only=True, eq=False, repr=False)
class _DPM(Recommender):
    """What the three share: ε as the paper claims it, for one rating value (change one)."""

    status = "claimed"
    units = ("rating value",)

    takes_for_granted: ClassVar[tuple[str, ...]] = (ENOUGH, ONCE)

    epsilon: float = 1.0
    k: int = 3
    seed: int | None = None

    def _check(self) -> None:
        if not self.epsilon > 0 or self.k < 1:
            raise InputError(
                f"epsilon must be above 0 and k at least 1, not {self.epsilon} and {self.k}"
            )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            unit="rating value",
            relation="change one",
            status="claimed",
            assumes=self.takes_for_granted,
        ).seeded(self.seed)

    def _noisy_means(self, histories: Ratings, epsilon: float) -> AnyFloats:
        """Each user's mean plus Lap(Δr/(k ε)) (Theorem 6; Algorithm 1, lines 4 and 7)."""
        assert self.scale_ is not None
        sensitivity = (self.scale_.high - self.scale_.low) / self.k
        return noised(own_means(histories), sensitivity, epsilon, histories, self.seed, "mean")


class DPMAvg(_DPM):
    """The user's mean plus Laplace noise of scale Δr/(k ε) (Yang et al. 2019, Theorem 8).

    The sensitivity Δr/k takes for granted that each user has at least k ratings and that their
    number does not change (Theorem 6); then the claim holds, for one call. Users with fewer ratings
    get the same noise, and less privacy.
    """

    def _fit(self, ratings: Ratings) -> None:
        del ratings  # nothing is learned: the history in the call is all there is
        self._check()

    def _scores(self, histories: Ratings) -> AnyFloats:
        means = self._noisy_means(histories, self.epsilon)
        return np.broadcast_to(means[:, None], (histories.n_users, histories.n_items))


@dataclass(kw_only=True, eq=False, repr=False)
class _DPMUserBased(_DPM, PublishedNeighbours):
    """Algorithm 1 of Yang et al. 2019, with ε₁ = 0.2 ε and ε₂ = 0.8 ε unless `similarity_share`,
    the part of ε that is ε₁, is another.

    The similarities get Lap(2/ε₁), the means Lap(Δr/(k ε₂)). Claimed ε, **not** proved: Lap(2/ε₁)
    covers one similarity that changes by 2, but a changed rating of `a` changes w_au for every u;
    and r_ui enters line 8 as it is. Two items with the same single rater are predicted alike just
    when that person rated them alike, whatever the noise: see `evaluate.audits.fitted_models`.
    """

    takes_for_granted = (UNPROVED, ENOUGH, ONCE)

    similarity_share: float = 0.2

    def _fit(self, ratings: Ratings) -> None:
        self._check()
        if not 0 < self.similarity_share < 1:
            raise InputError(
                "similarity_share is the part of ε for similarities, between 0 and 1, not "
                f"{self.similarity_share}"
            )
        super()._fit(ratings)

    def _means(self, histories: Ratings) -> AnyFloats:
        return self._noisy_means(histories, (1 - self.similarity_share) * self.epsilon)

    def _weights(self, block: Ratings, known: Ratings) -> AnyFloats:
        exact = super()._weights(block, known)
        own = self.similarity_share * self.epsilon
        return noised(exact, 2.0, own, block, self.seed, "similarity")

    def save(self, path: str | Path) -> None:
        """Refused: every prediction needs everybody's true ratings."""
        raise InputError(
            f"a {type(self).__name__} cannot be saved: it needs everybody's true ratings for each "
            f"prediction, and {path} would hold them; use the sound default (pcc with --epsilon)"
        )


class DPMPcc(_DPMUserBased):
    """Perturbed Pearson neighbours (Yang et al. 2019, Algorithm 1); claimed, not proved."""

    centred = True


class DPMCos(_DPMUserBased):
    """Perturbed cosine neighbours (Yang et al. 2019, Algorithm 1); claimed, not proved."""

    centred = False


def own_means(histories: Ratings) -> AnyFloats:
    """Each user's mean; the middle of the scale for an empty history."""
    assert histories.scale is not None
    return plain_means(histories, histories.scale.middle)


def similarities(histories: Ratings, known: Ratings, *, centred: bool) -> AnyFloats:
    """Pearson's correlation over common items (centred) or the cosine: equations 8 and 9."""
    if not centred:
        norms = [np.sqrt(np.asarray((t.csr() ** 2).sum(axis=1))) for t in (histories, known)]
        dot = (histories.csr() @ known.csr().T).toarray()
        return np.asarray(dot / np.maximum(np.outer(*norms), 1e-12), np.float64)
    mine, theirs = (_like(table.csr(), _residuals(table)) for table in (histories, known))
    ones = [_like(t.csr(), np.ones(len(t), np.float64)) for t in (histories, known)]
    dot = (mine @ theirs.T).toarray()
    scale = (mine**2 @ ones[1].T).toarray() * (ones[0] @ (theirs**2).T).toarray()
    return np.asarray(np.where(scale > 0, dot / np.sqrt(np.where(scale > 0, scale, 1)), 0.0))


def noised(
    values: AnyFloats,
    sensitivity: float,
    epsilon: float,
    histories: Ratings,
    seed: int | None,
    what: str,
) -> AnyFloats:
    """Values (one row a history) plus Lap(sensitivity/ε), as integer noise on the grid of 2⁻²⁰.

    A seed is taken apart by user and by `what` is noised, so that a user's noise does not depend on
    who else is asked about.
    """
    steps = GRID.toward_zero(values)
    scale = laplace_scale(GRID.sensitivity(sensitivity), epsilon)
    if seed is None:
        return GRID.to_values(steps + discrete_laplace(steps.shape, scale))
    for row, user in enumerate(histories.user_ids):
        own = derived(seed, what, user)
        steps[row] += discrete_laplace(steps[row].shape, scale, seed=own)
    return GRID.to_values(steps)


def _residuals(table: Ratings) -> npt.NDArray[np.float64]:
    return np.asarray(table.values - own_means(table)[table.users], np.float64)


def _like(matrix: Any, values: npt.NDArray[Any]) -> Any:
    """A sparse matrix of the same shape with other values."""
    copy = matrix.copy()
    copy.data = values
    return copy
