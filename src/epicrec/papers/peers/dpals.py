"""DPALS: alternating least squares in which every sum over people has noise, as a peer.

Chien, Jain, Krichene, Rendle, Song, Thakurta & Zhang (ICML 2021) with the adaptive weights of
Krichene, Jain, Song, Sundararajan, Thakurta & Zhang (ICML 2023): the strongest published learner
that hides whole users. Items' factors and people's are solved for in turn, each from the other's;
people are solved for at home, items from noisy sums over people. Everything after a measurement
uses released and public numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from epicrec.arrays import AnyFloats, Integers
from epicrec.data import Ratings
from epicrec.engine import Engine
from epicrec.errors import InputError
from epicrec.models.base import Task
from epicrec.models.estimates import SPREAD
from epicrec.models.factors import POPULARITY, AtHome, ReleasedFactors, rating_state, solve_users
from epicrec.models.features import item_features
from epicrec.models.private.budget import Budget, check_budget
from epicrec.models.private.lists import measure_counts
from epicrec.models.private.measurements import measure_effects
from epicrec.models.private.statistics import STEPS, root
from epicrec.models.private.tastes import ceil_roots
from epicrec.progress import report

PERSON_BITS, WEIGHT_BITS, LEVEL_BITS = 10, 12, 14
"""A person's factors are at most 2¹⁰ long, their items' weights 2¹²; levels are at most 2¹⁴."""
TARGET = 80
"""What a person's factors are multiplied by beside their products, per step of a residual: 80 · 64
steps · 2¹⁰ is 5 · 2²⁰, as long as the products may be."""
TOGETHER = 1 << (WEIGHT_BITS - 2)
"""The weight of a person's products in the sum over all items alike."""
_USERS_AT_ONCE = 1 << 13

FIRST, SECOND = 0.1, 0.2
"""Shares of the budget for two measurements of items; rounds share the rest."""
RARE = 0.25
"""Items weigh count^-RARE (Krichene et al. 2023, section 4.2)."""
EXPLAINED, UNSEEN = 0.12, 0.1
"""The variance of ratings, in squared stars, that factors are expected to explain; the weight of an
item that was not seen beside one that was."""


@dataclass(frozen=True, eq=False)
class ItemNormals:
    """What least squares needs for each item i: Σ_u w_ui z_u z_uᵀ and Σ_u w_ui y_ui z_u.

    Neighbours differ by one user with all their ratings, and the sensitivity, in L2, is how long
    one user's contribution can be. z is the user's factors, an integer vector no longer than
    2¹⁰. w are the levels of the user's items at a length of 2¹², rounded down. y is what the
    ratings lie above what is known without factors, in 64 steps a star, clamped to ±64; or 64 for
    an item that was seen.

    Of z zᵀ there is 5 z_a² on the diagonal and 7 z_a z_b below it, which is no longer than
    5 ‖z‖² ≤ 5·2²⁰ because 7/5 < √2. Beside it stands 80 y z, no longer than 80·64·2¹⁰ = 5·2²⁰.
    Over the items these are multiplied by w: √2·5·2²⁰·2¹² in all. With `together`, which histories
    without ratings need, z zᵀ stands once more for all items alike, a quarter as long.
    """

    people: Any
    """Public: from histories to factors and to residuals in stars."""
    levels: Integers
    k: int
    together: bool
    what = "what people's factors tell of items"
    norm = 2

    @property
    def width(self) -> int:
        """How many numbers there are for an item."""
        return self.k * (self.k + 1) // 2 + self.k

    @property
    def one(self) -> int:
        """What z and w of length one, and a star, are in the sums."""
        return 5 << (2 * PERSON_BITS + WEIGHT_BITS)

    @property
    def sensitivity(self) -> Fraction:
        """In L2, over adding or removing one user."""
        parts = 2 + (Fraction(TOGETHER, 1 << WEIGHT_BITS) ** 2 if self.together else 0)
        return root(Fraction(self.one) ** 2 * parts)

    def __call__(self, part: Ratings) -> Integers:
        """For each item the packed products and the targets; then the products of all alike."""
        from scipy.sparse import csr_array

        rows, columns = np.tril_indices(self.k)
        times = np.where(rows == columns, 5, 7)
        out = np.zeros((part.n_items + self.together, self.width), np.int64)
        for start in range(0, part.n_users, _USERS_AT_ONCE):
            block = part.users_at(np.arange(start, min(start + _USERS_AT_ONCE, part.n_users)))
            factors, residuals = self.people(block)
            z = clipped_rows(factors, PERSON_BITS)
            y = np.clip(np.trunc(residuals * STEPS), -STEPS, STEPS).astype(np.int64)
            w = user_weights(block, self.levels)
            shape, products = (block.n_users, part.n_items), z[:, rows] * z[:, columns] * times
            for span, values, own in (
                (slice(0, len(rows)), products, w),
                (slice(len(rows), self.width), TARGET * z, w * y),
            ):  # below 2¹³·2³⁵, so exact as floats
                matrix = csr_array((own.astype(np.float64), block.items, block.indptr), shape=shape)
                found = matrix.T @ values.astype(np.float64)
                out[: part.n_items, span] += found.astype(np.int64)
            if self.together:
                out[-1, : len(rows)] += TOGETHER * products.sum(axis=0)
            report("summing over people", start + block.n_users, part.n_users)
        return out.reshape(-1)

    def equations(self, raw: Integers, n_items: int) -> tuple[AnyFloats, AnyFloats, AnyFloats]:
        """Items' matrices and right sides, and the matrix of all alike, in units."""
        rows, columns = np.tril_indices(self.k)
        found = raw.reshape(n_items + self.together, -1) / self.one
        packed = found[:, : len(rows)] * np.where(rows == columns, 1.0, 5 / 7)
        matrices = np.zeros((len(found), self.k, self.k))
        matrices[:, rows, columns] = packed
        matrices[:, columns, rows] = packed
        right = found[:n_items, len(rows) :]
        alike = matrices[-1] * (1 << WEIGHT_BITS) / TOGETHER if self.together else 0 * matrices[0]
        return matrices[:n_items], right, alike


@dataclass(kw_only=True, eq=False, repr=False)
class DPALS(ReleasedFactors):
    """Alternating least squares with noise, whole users hidden (Chien et al. 2021), as a peer.

    Chien et al. (2021) with adaptive weights (Krichene et al. 2023). Released, all at the user
    level and with Gaussian noise: items measured twice (as `covariance-svd`), then in each of
    `rounds` the sums `ItemNormals`, whose sensitivity is proved there. Rounds build on each other,
    and μ² of all add up to that of (ε, δ) exactly. Unlike the paper's code, whose noise is on
    floats, sums are integers with integer noise; and in its favour, ratings are taken off released
    item means and factors are shrunk by the noise that they are known to have. Constants were set
    beforehand and fitted to no data.
    """

    status = "proved"
    units = ("user",)

    epsilon: float = 1.0
    delta: float = 1e-6
    task: Task = "lists"
    factors: int = 8
    rounds: int = 3
    seed: int | None = None

    def _fit(self, ratings: Ratings) -> None:
        check_budget(self.epsilon, self.delta, "user")
        if self.factors < 1 or self.rounds < 1:
            raise InputError(
                f"factors and rounds are at least 1, not {self.factors} and {self.rounds}"
            )
        budget = Budget(self.epsilon, self.delta, "user", "gaussian", self.seed)
        release = _release_histories if self.task == "lists" else _release_ratings
        state = release(budget.bounded(ratings), budget, self.factors, self.rounds, self.engine)
        self._hold(state)
        self.released_, self.guarantee_ = budget.spent, budget.guarantee().to_dict()

    def _people(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        if self.task == "ratings":
            return self.at_home.people(histories)
        ones = np.ones(len(histories))
        return np.zeros(histories.n_users), solve_users(histories, ones, self.factors_, self.ridge_)


def _release_ratings(
    ratings: Ratings, budget: Budget, k: int, rounds: int, engine: Engine
) -> dict[str, Any]:
    """The state of a model of ratings, and all measurements for it."""
    scale = ratings.scale
    assert scale is not None
    first = measure_effects(ratings, budget, FIRST, engine)
    measured = (first + measure_effects(ratings, budget, SECOND, engine, like=first)).settled()
    found = measured.estimates(item_features(None, ratings.item_ids), SPREAD.total)
    levels = adaptive_levels(measured.items.counts, measured.items.noise)
    each = measured.users / max(float(measured.items.counts.sum()), measured.users, 1.0)
    spread = replace(SPREAD, taste=0.0, unsure=measured.unsure)
    own = spread.columns(np.zeros((ratings.n_items, 0)))

    def state(factors: AnyFloats) -> dict[str, Any]:
        columns = np.hstack([own, factors / sqrt(k)])
        return rating_state(found, columns, spread.noise - EXPLAINED, scale)

    def people(model: AtHome) -> Any:
        def solved(part: Ratings) -> tuple[AnyFloats, AnyFloats]:
            _, p = model.people(part)
            _, residuals = model.expected(part)
            residuals = residuals - model.factors[part.items, 0] * p[part.users, 0]
            return p[:, 1:] / sqrt(k), residuals / scale.star

        return solved

    factors = _start(ratings.n_items, k) * sqrt(EXPLAINED)
    for turn in range(rounds):
        at_home = AtHome(**{n.removesuffix("_"): value for n, value in state(factors).items()})
        normals = ItemNormals(people(at_home), levels, k, together=False)
        share = (1 - FIRST - SECOND) / rounds
        raw, noise = budget.measure(normals, share, engine(normals, ratings), turn=2 + turn)
        matrices, right, _ = normals.equations(raw, ratings.n_items)
        sampled = spread.noise * each
        factors = solved_items(matrices, right, sampled, (noise / normals.one) ** 2, EXPLAINED)
    return state(factors)


def _release_histories(
    ratings: Ratings, budget: Budget, k: int, rounds: int, engine: Engine
) -> dict[str, Any]:
    """The state of a model of histories, and all measurements for it."""
    measured = measure_counts(ratings, budget, FIRST + SECOND, engine)
    levels = adaptive_levels(measured.counts, np.full(ratings.n_items, measured.spread))
    users = max(measured.people, 1.0)
    each = users / max(measured.total, users)

    def at_home(factors: AnyFloats) -> tuple[AnyFloats, AnyFloats]:
        """Factors turned so that people are solved for with a ridge of one, and the turn."""
        alike = UNSEEN * factors.T @ factors + np.eye(k) * 1e-3
        turn = np.linalg.inv(np.linalg.cholesky(alike)).T
        return factors @ turn, turn

    def people(factors: AnyFloats) -> Any:
        turned, turn = at_home(factors)

        def solved(part: Ratings) -> tuple[AnyFloats, AnyFloats]:
            ones = np.ones(len(part))
            found = solve_users(part, ones, turned, 1.0) @ turn.T
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            return found / np.maximum(lengths, 1e-9), ones

        return solved

    factors = _start(ratings.n_items, k)
    for turn in range(rounds):
        normals = ItemNormals(people(factors), levels, k, together=True)
        share = (1 - FIRST - SECOND) / rounds
        raw, noise = budget.measure(normals, share, engine(normals, ratings), turn=2 + turn)
        matrices, right, alike = normals.equations(raw, ratings.n_items)
        sigma = noise / normals.one
        shown = np.maximum(measured.counts, 0.0) / users
        expected = float(np.mean(shown**2)) + 1e-6
        factors = solved_items(matrices + UNSEEN * each * alike, right, 0.0, sigma**2, expected)
    turned, _ = at_home(factors)
    counts = np.maximum(measured.counts, 0.0)
    return {
        "offsets_": POPULARITY * counts / max(float(counts.max()), 1.0),
        "factors_": turned.astype(np.float32),
        "projections_": np.zeros((ratings.n_items, 0), np.float32),
        "ridge_": 1.0,
    }


def adaptive_levels(counts: AnyFloats, noise: AnyFloats) -> Integers:
    """count^-RARE of each item, as whole numbers from 1 to 2¹⁴; counts in noise are like it."""
    wish = (np.maximum(counts, 0) + noise + 1.0) ** -RARE
    levels = np.maximum(np.rint((1 << LEVEL_BITS) * wish / wish.max()), 1)
    return np.asarray(levels, np.int64)


def user_weights(part: Ratings, levels: Integers) -> Integers:
    """Each user's levels at a length of 2¹², rounded down."""
    own = levels[part.items]
    squares = np.concatenate([[0], np.cumsum(own * own)])
    lengths = ceil_roots(squares[part.indptr[1:]] - squares[part.indptr[:-1]])
    return np.asarray((own << WEIGHT_BITS) // np.repeat(np.maximum(lengths, 1), part.user_counts))


def clipped_rows(rows: AnyFloats, bits: int) -> Integers:
    """Rows in steps of 2⁻ᵇⁱᵗˢ, toward zero; those longer than one are brought to length one."""
    finite = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    steps = np.trunc(np.clip(finite, -(2.0**10), 2.0**10) * (1 << bits)).astype(np.int64)
    lengths = np.maximum(ceil_roots((steps * steps).sum(axis=1)), 1 << bits)
    return np.asarray(np.sign(steps) * ((np.abs(steps) << bits) // lengths[:, None]))


def solved_items(
    matrices: AnyFloats, right: AnyFloats, sampled: float, noise: float, expected: float
) -> AnyFloats:
    """The posterior mean of v ~ Normal(0, expected·I) from right = A v + e, for each item.

    e has the variance sampled·A, as few ratings have, and `noise` beside it. Eigenvalues of A that
    noise has made negative count as 0: nothing is known in their directions.
    """
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, 0.0)
    gain = expected * values / (expected * values**2 + sampled * values + noise + 1e-12)
    turned = np.einsum("iab,ia->ib", vectors, right) * gain
    return np.asarray(np.einsum("iab,ib->ia", vectors, turned))


def _start(n_items: int, k: int) -> AnyFloats:
    """Directions to begin with: the same for everyone, drawn without looking at any data."""
    return np.random.default_rng(0).standard_normal((n_items, k))
