"""Blend: popularity, moved by what a model makes of an AlterEgo as far as releases ask for it.

Held-out releases are perturbed too, so lists cannot be judged by what they find: undoing a draw
leaves little but noise. What can be judged is how likely a model makes the held-out substitutes,
through the channel that drew them. Usually a guess that beats popularity so also orders items
better, but that is seen and not proved: likelihood depends little on the head of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.arrays import AnyFloats
from epicrec.models.d2p.recommenders import D2PSvd
from epicrec.perturb.d2p.alteregos import AlterEgos

HELD_OUT = 0.2
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0])
"""How far the model may move people from popularity."""
_LEAST = 0.02  # no output is taken to be less likely than this part of its usual chance
_AT_ONCE = 256
SURE = 1.959963984540054
"""Standard errors on either side in a 95 % interval."""


@dataclass(frozen=True, eq=False)
class Blend:
    """A person's shares: those of all, moved by w times what the model says of this person and not
    of the average one; both over items that are not taken to be in the person's history."""

    model: D2PSvd
    shares: AnyFloats
    weight: float

    @property
    def item_factors(self) -> AnyFloats:
        """A person's shares are these times `person_factors`, but for what is in their history."""
        return np.column_stack([self.model.factors_, self.shares]).astype(np.float64)

    def person_factors(self, counts: Any) -> AnyFloats:
        """For AlterEgos, one a row, as they were released (columns are the channels' outputs)."""
        found = [self.factors_of(expected) for expected in self._expected(csr_array(counts))]
        return np.concatenate(found) if found else np.zeros((0, self.item_factors.shape[1]))

    def _expected(self, counts: Any) -> Iterator[AnyFloats]:
        for start in range(0, counts.shape[0], _AT_ONCE):
            yield self.model.guess(counts[start : start + _AT_ONCE])

    def factors_of(self, expected: AnyFloats) -> AnyFloats:
        """For expected histories, one a row."""
        new = 1 - expected.clip(0, 1)
        own, usual = self._places(expected, new)
        totals = (new @ self.shares)[:, None]
        return np.asarray(
            np.column_stack([self.weight * (own - usual), 1 / np.maximum(totals, 1e-12)])
        )

    def _places(self, expected: AnyFloats, new: AnyFloats) -> tuple[AnyFloats, AnyFloats]:
        """The model's factors of these histories and of the average one, so scaled that the scores
        of items that are `new` to the person add up to 1."""
        found = []
        for histories in (expected, self.model.shares_[None, :]):
            place = histories @ self.model.projections_
            scores = (place @ self.model.factors_.T).clip(0)
            totals = np.einsum("ui,ui->u", np.broadcast_to(scores, new.shape), new)
            found.append(place / np.maximum(totals, 1e-12)[:, None])
        return found[0], found[1]


@dataclass(frozen=True)
class Judged:
    """What held-out releases say: the mean gain in log-likelihood of an event over popularity, its
    95 % interval over people, and how far the model moves people."""

    weight: float
    gain: float
    low: float
    high: float
    people: int

    @property
    def is_better(self) -> bool:
        return self.low > 0


def judged(
    events: AlterEgos,
    learn: Callable[[AlterEgos], tuple[D2PSvd, AnyFloats]],
    *,
    most: int = 4000,
) -> Judged | None:
    """Learn a model and the shares of all from four fifths of the events and see what the rest
    says; None where it is too few.

    The weight is chosen on one half of the people and judged on the other, both ways, so
    that the interval holds for the choice too.
    """
    kept, held = _divided(events)
    people = np.flatnonzero((np.diff(held.indptr) > 0) & (np.diff(kept.indptr) > 0))
    if len(people) < 20:
        return None
    people = np.sort(np.random.default_rng(1).permutation(people)[:most])
    blend = Blend(*learn(replace(events, counts=kept)), 0.0)
    gains = np.concatenate(
        [_gains(events, blend, kept[part], held[part]) for part in _parts(people)]
    )
    even = np.arange(len(people)) % 2 == 0
    chosen = [_chosen(gains[side]) for side in (~even, even)]
    each = np.where(even, gains[:, chosen[0]], gains[:, chosen[1]])
    per_event = float(np.asarray(held[people].sum()) / len(people))
    mean, error = each.mean() / per_event, each.std(ddof=1) / np.sqrt(len(each)) / per_event
    weight = float(WEIGHTS[_chosen(gains)])
    return Judged(
        weight, float(mean), float(mean - SURE * error), float(mean + SURE * error), len(people)
    )


def _chosen(gains: AnyFloats) -> int:
    """The least weight that is not surely worse than the best: noise in what a model adds stands at
    the head of lists, where likelihood hardly sees it."""
    less = gains - gains[:, [int(gains.sum(axis=0).argmax())]]
    error = SURE * less.std(axis=0, ddof=1) / np.sqrt(len(less))
    return int(np.argmax(less.mean(axis=0) >= -error))


def _parts(people: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    for start in range(0, len(people), _AT_ONCE):
        yield people[start : start + _AT_ONCE]


def _divided(events: AlterEgos) -> tuple[Any, Any]:
    """Each event by itself kept or held out; the draws of different events are independent."""
    counts = csr_array(events.counts)
    times = np.ceil(counts.data)
    drawn = np.random.default_rng(0).binomial(times.astype(np.int64), HELD_OUT)
    out = counts.data * drawn / np.maximum(times, 1)
    kept, held = counts.copy(), counts.copy()
    kept.data, held.data = counts.data - out, out
    for part in (kept, held):
        part.eliminate_zeros()
    return kept, held


def _gains(events: AlterEgos, blend: Blend, kept: Any, held: Any) -> AnyFloats:
    """People × weights: by how much the blend makes the held-out events likelier than
    popularity does."""
    expected = blend.model.guess(kept)
    new = 1 - expected.clip(0, 1)
    usual = new * blend.shares
    usual /= np.maximum(usual.sum(axis=1, keepdims=True), 1e-12)
    own, average = (
        (place @ blend.model.factors_.T).clip(0) * new for place in blend._places(expected, new)
    )
    rows, columns = held.nonzero()
    moved = events.spread_at(own - average, rows, columns) / np.maximum(
        events.spread_at(usual, rows, columns), 1e-300
    )
    gain = np.log(np.maximum(1 + WEIGHTS * moved[:, None], _LEAST)) * held.data[:, None]
    out = np.zeros((held.shape[0], len(WEIGHTS)))
    np.add.at(out, rows, gain)
    return out
