"""Lists from randomised response: what many people's answers say of how tastes go together.

Made unbiased, answers have a known variance. Their sums are counts of works, and the products of
the tastes they show are moments, both with noise of known covariance: the one learner of lists
does the rest (`learner`). Answers are read in blocks, two or three times over, so memory does not
grow with people. All of it is computed from what was sent and costs no privacy
(docs/randomised-response.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings
from epicrec.data.works import Works
from epicrec.models.factors import history_state
from epicrec.models.features import item_features
from epicrec.models.private.basis import Basis, popularity_weights, with_own
from epicrec.models.private.learner import ROUNDING, MeasuredCounts, TasteMoments, learn
from epicrec.perturb.randomised_response import Answering
from epicrec.progress import report

OWN_VARIANCE = 0.25
"""A person's answers weigh 1/(variance + this): what was seen varies by at most a quarter."""
FOLDS = 5
"""People are judged by what the other four fifths of them taught."""
SURE = 2.0
"""Tastes are used where their weight is above 0 by so many standard errors."""
LONG = 3.0
"""Honest noise is longer than usual by at most so many standard deviations."""
_JUDGED = 20_000
"""At most so many people are judged."""
_CELLS = 1 << 24
"""Answers that are read at once."""

FloatRows = npt.NDArray[np.float32]


class Block(NamedTuple):
    """Some people's answers, a row for each release; all releases of a person are in one block."""

    people: Integers
    """Whose each row is: numbers from 0 on, ascending."""
    ways: Integers
    """How each row was answered, as a place in `Answers.ways`."""
    bits: npt.NDArray[np.uint8]
    """Packed, one release a row."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Many people's answers over one list of works, which can be read again and again."""

    works: Works
    ways: tuple[Answering, ...]
    blocks: Callable[[], Iterable[Block]]
    number: int
    """Of people."""

    @property
    def rows_at_once(self) -> int:
        """How many rows a block should have."""
        return max(1, _CELLS // len(self.works))

    def people(self, doing: str, most: int | None = None) -> Iterator[People]:
        """Block by block; `most` stops after so many people."""
        shifts = np.array([way.lie / (1 - 2 * way.lie) for way in self.ways], np.float32)
        scales = np.array([1 / (1 - 2 * way.lie) for way in self.ways], np.float32)
        for block in self.blocks():
            bits = self.ways[0].read(block.bits)
            rows = bits * scales[block.ways] - shifts[block.ways]
            numbers, starts = np.unique(block.people, return_index=True)
            if len(numbers) < len(rows):
                rows = np.add.reduceat(rows, starts, axis=0)
            spent = np.zeros((len(numbers), len(self.ways)))
            np.add.at(spent, (np.searchsorted(numbers, block.people), block.ways), 1)
            yield People(numbers, rows, spent)
            done = int(numbers[-1]) + 1
            report(doing, done, self.number)
            if most is not None and done >= most:
                return

    @property
    def variances(self) -> Floats:
        """Of one answer, for each way and work; never 0, as it is divided by."""
        return np.array([np.maximum(way.variance, 1e-6) for way in self.ways])


class People(NamedTuple):
    """Some people's answers, made unbiased and added up over their releases."""

    numbers: Integers
    rows: FloatRows
    spent: Floats
    """How many releases each has made in each way."""


def learn_answers(answers: Answers, *, tastes: bool = True) -> tuple[dict[str, Any], str]:
    """The state of a model over the works, and a note where its lists are popularity."""
    counts = _counts(answers)
    why = "tastes were not asked for"
    if tastes:
        measured = _Measured.of(answers, counts)
        found = measured.state()
        if found is not None:
            share, spread = measured.share_of_tastes(answers)
            if share > SURE * spread:
                return _weighted(found, min(share, 1.0)), ""
        people = f"{answers.number:,} people's answers"
        why = f"{people} show tastes no better than popularity does"
    none = np.zeros((len(answers.works), 0))
    note = f"these lists are popularity: {why}"
    return history_state(np.maximum(counts.ranking, 0.0), none, none), note


def _weighted(state: dict[str, Any], share: float) -> dict[str, Any]:
    """With popularity, which is the first factor, weighing more than tastes by 1/share."""
    scales = np.ones(state["factors_"].shape[1], np.float32)
    scales[0] = share**-0.5
    return state | {name: state[name] * scales for name in ("factors_", "projections_")}


def state_of_items(state: dict[str, Any], works: Works) -> dict[str, Any]:
    """The state over the items of the catalogue: entries of one work are alike."""
    return {name: value[works.of_item] for name, value in state.items()}


def _weights(spent: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """What each person's answers weigh, and the mean variance of one."""
    variance = spent @ variances.mean(axis=1)
    return 1 / (variance + OWN_VARIANCE), variance


def _counts(answers: Answers) -> MeasuredCounts:
    """How many people have seen each work."""
    total, weight = np.zeros(len(answers.works)), 0.0
    spent = np.zeros(len(answers.ways))
    for part in answers.people("counting answers"):
        weights, _ = _weights(part.spent, answers.variances)
        total += weights @ part.rows
        weight += float(weights.sum())
        spent += weights**2 @ part.spent
    scale = answers.number / weight
    noise = float((spent @ answers.variances).mean())
    return MeasuredCounts(
        "rating", total * scale, scale * sqrt(noise), float(answers.number), 0.0, 1.0
    )


@dataclass(frozen=True, eq=False)
class _Honest:
    """How long tastes are that answers show, so that nobody counts as longer by lying."""

    whitening: Floats
    """Directions × axes on which one person's noise is even and of variance 1."""
    variance: float
    """Of the answers that this is for, in the mean."""

    @classmethod
    def of(cls, directions: FloatRows, variances: Floats) -> _Honest:
        each = directions.astype(np.float64)
        values, vectors = np.linalg.eigh((each.T * variances) @ each)
        measured = values > ROUNDING * values[-1]
        whitening = vectors[:, measured] / np.sqrt(values[measured])
        return cls(whitening, float(variances.mean()))

    def clipped(self, tastes: Floats, variance: Floats, *, noisy: bool = True) -> Floats:
        """What is left of each person's squared taste where it is brought to the length that the
        noise of honest answers has: d, and three standard deviations more, squared."""
        d = self.whitening.shape[1]
        squares = ((tastes @ self.whitening) ** 2).sum(axis=1) + (0 if noisy else d)
        longest = (d + LONG * sqrt(2 * d)) * variance / self.variance
        return np.asarray(np.minimum(1.0, longest / np.maximum(squares, 1e-300)))


@dataclass(frozen=True, eq=False)
class _Measured:
    """Moments of tastes, for each fold of the people by itself."""

    counts: MeasuredCounts
    basis: Basis
    weights: Floats
    directions: FloatRows
    """Works × directions: a history's taste is the sum over its works."""
    honest: _Honest
    products: Floats
    """Folds × directions × directions: Σ w z zᵀ."""
    spent: Floats
    """Folds × ways: Σ w over releases."""
    people: Floats
    """Folds × 3: the sums of w, of w times a person's variance v, and of (w v)²."""
    variances: Floats

    @classmethod
    def of(cls, answers: Answers, counts: MeasuredCounts) -> _Measured:
        known, weights, popular = popularity_weights(counts.cleaned)
        catalogue = answers.works.catalogue
        first = np.unique(answers.works.of_item, return_index=True)[1]
        features = item_features(catalogue, catalogue.item_ids)[first]
        basis = Basis.of(with_own(features, known), known, popular)
        directions = (weights * basis.scales)[:, None] * (basis.features @ basis.apart)
        directions = directions.astype(np.float32)
        d = directions.shape[1]
        products, people = np.zeros((FOLDS, d, d)), np.zeros((FOLDS, 3))
        spent = np.zeros((FOLDS, len(answers.ways)))
        usual = (counts.counts / counts.people) @ directions
        variances = answers.variances
        honest = _Honest.of(directions, variances.mean(axis=0))
        for part in answers.people("measuring tastes"):
            found = (part.rows @ directions).astype(np.float64) - usual
            weights_of, variance = _weights(part.spent, variances)
            squares = weights_of**2 * honest.clipped(found, variance)
            for fold in range(FOLDS):
                mine = part.numbers % FOLDS == fold
                w, v = squares[mine], variance[mine]
                products[fold] += (found[mine] * w[:, None]).T @ found[mine]
                spent[fold] += w @ part.spent[mine]
                people[fold] += w.sum(), (w * v).sum(), ((w * v) ** 2).sum()
        return cls(counts, basis, weights, directions, honest, products, spent, people, variances)

    def moments(self, without: int | None = None) -> TasteMoments:
        """As if all people had been measured, from all, or from all but one fold."""
        used = np.arange(FOLDS) != (-1 if without is None else without)
        weight, variance, squares = self.people[used].sum(axis=0)
        each = self.directions.astype(np.float64)
        noise = (each.T * (self.spent[used].sum(axis=0) @ self.variances)) @ each / weight
        people = variance**2 / max(squares, 1e-300)
        matrix = self.counts.people * (self.products[used].sum(axis=0) / weight - noise)
        return TasteMoments(matrix, noise * self.counts.people / sqrt(people), 1.0, people)

    def without_noise(self, histories: Ratings) -> Floats:
        """The moments of some histories."""
        found = histories.csr() @ self.directions.astype(np.float64)
        shares = self.honest.clipped(found, np.full(len(found), self.honest.variance), noisy=False)
        return np.asarray((found * shares[:, None]).T @ found)

    def state(self, without: int | None = None) -> dict[str, Any] | None:
        """What is learned from all people, or from all but those of one fold."""
        return learn(self.counts, self.moments(without), self.basis, self.without_noise)

    def share_of_tastes(self, answers: Answers) -> tuple[float, float]:
        """How much tastes should weigh beside popularity to explain histories with the least
        squared error, 1 being what the learner gives them; and the standard error of it.

        Tastes score work i of a person h by Σ_j≠i T_ij h_j, and popularity by Σ_j≠i P_ij h_j, both
        learned from the other folds. The answers about two works have independent noise, so sums of
        h_i · score_i and, less the known noise, of products of scores have the right means though
        h are answers.
        """
        states = {fold: self.state(fold) for fold in range(FOLDS)}
        taught = {
            fold: state["factors_"] * self.weights.astype(np.float32)[:, None]
            for fold, state in states.items()
            if state is not None
        }
        agreements, products = [np.zeros((1, 2))], [np.zeros((1, 2, 2))]
        for part in answers.people("judging tastes", _JUDGED):
            rows = part.rows * self.weights.astype(np.float32)
            noise = part.spent @ self.variances * self.weights**2
            for fold, columns in taught.items():
                mine = part.numbers % FOLDS == fold
                found = _judged(rows[mine], noise[mine], (columns[:, :1], columns[:, 1:]))
                agreements.append(found[0])
                products.append(found[1])
        agreement, square = np.concatenate(agreements), np.concatenate(products)
        inverse = np.linalg.pinv(square.sum(axis=0))
        best = inverse @ agreement.sum(axis=0)
        off = (agreement - square @ best) @ inverse
        share = best[1] / max(best[0], 1e-300)
        spread = sqrt(float((off[:, 1] ** 2).sum())) / max(best[0], 1e-300)
        return float(share), spread


def _judged(rows: FloatRows, noise: Floats, parts: tuple[FloatRows, ...]) -> tuple[Floats, Floats]:
    """For B = C Cᵀ of each part, the sums over i of h_i score_i, and of products of two scores."""
    own = [np.einsum("ik,ik->i", c, c) for c in parts]
    scores = [(rows @ c) @ c.T - rows * o for c, o in zip(parts, own, strict=True)]
    agreement = np.column_stack([np.einsum("ui,ui->u", rows, each) for each in scores])
    products = np.empty((len(rows), len(parts), len(parts)))
    for a, b in np.ndindex(len(parts), len(parts)):
        both = np.einsum("ik,ik->i", parts[a] @ (parts[a].T @ parts[b]), parts[b]) - own[a] * own[b]
        products[:, a, b] = np.einsum("ui,ui->u", scores[a], scores[b]) - noise @ both
    return agreement, products
