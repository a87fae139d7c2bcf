"""Fold-in: the factors of a user who released since the training, by the model it adopted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from epicrec.arrays import Floats
from epicrec.models import load
from epicrec.models.d2p.blend import Blend
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.server.store.histories import Mechanism, UserHistory

_MODEL = "model.npz"


@dataclass(frozen=True, eq=False)
class FoldIn:
    """The blend that a training adopted, and the names of the mechanisms of its model's channels,
    empty for the channel of what is given in clear."""

    blend: Blend
    mechanisms: tuple[str, ...]

    @classmethod
    def of(cls, blend: Blend | None, drawn: Sequence[tuple[Mechanism, AlterEgos]]) -> Self | None:
        if blend is None:
            return None
        names = [mechanism.name for mechanism, _ in drawn]
        clear = len(blend.model.held.channels) - len(names)
        return cls(blend, (*[""] * clear, *names))

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the model. Returns what `open` needs beside it."""
        self.blend.model.save(folder / _MODEL)
        return {
            "mechanisms": self.mechanisms,
            "weight": self.blend.weight,
            "shares": [*self.blend.shares],
        }

    @classmethod
    def open(cls, folder: Path, rest: Mapping[str, Any]) -> Self:
        model: Any = load(folder / _MODEL)
        return cls(
            Blend(model, np.array(rest["shares"]), rest["weight"]), tuple(rest["mechanisms"])
        )

    def factors(self, own: UserHistory, id_of: Mapping[int, str]) -> Floats | None:
        """The factors of a user's present history; None where it tells nothing."""
        held = self.blend.model.held
        row: dict[int, float] = {}
        for name, column_of in zip(self.mechanisms, held.columns, strict=True):
            for key, value in own.drawn.get(name, {}).items() if name else ():
                if (at := column_of.get(id_of.get(key))) is not None:
                    row[at] = row.get(at, 0.0) + value
        columns, values = np.array([*row], np.int64), np.array([*row.values()])
        drawn = csr_array((values, columns, [0, len(row)]), (1, held.counts.shape[1]))
        expected = self.blend.model.guess(drawn)
        liked = [self._item_at.get(id_of.get(key)) for key in own.liked]
        expected[0, [at for at in liked if at is not None]] += 1
        if not expected.any():
            return None
        return np.asarray(self.blend.factors_of(expected)[0])

    @cached_property
    def _item_at(self) -> dict[Any, int]:
        return {item_id: at for at, item_id in enumerate(self.blend.model.held.item_ids.tolist())}
