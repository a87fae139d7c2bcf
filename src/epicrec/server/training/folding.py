"""Folding: somebody who released since the training, scored by its model of releases at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.models import load
from epicrec.models.d2p.blend import Blend
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.server.store.received import Law, Own

_MODEL = "model.npz"


@dataclass(frozen=True, eq=False)
class Folding:
    """The blend that a training adopted, and the law of each of its model's channels by name; that
    of what is given in clear has none."""

    blend: Blend
    laws: tuple[str, ...]

    @classmethod
    def of(cls, blend: Blend | None, drawn: Sequence[tuple[Law, AlterEgos]]) -> Self | None:
        if blend is None:
            return None
        names = [law.name for law, _ in drawn]
        clear = len(blend.model.held.channels) - len(names)
        return cls(blend, (*[""] * clear, *names))

    def save(self, folder: Path) -> dict[str, Any]:
        """Writes the model, and gives what `open` needs beside it."""
        self.blend.model.save(folder / _MODEL)
        return {"laws": self.laws, "weight": self.blend.weight, "shares": [*self.blend.shares]}

    @classmethod
    def open(cls, folder: Path, rest: Mapping[str, Any]) -> Self:
        model: Any = load(folder / _MODEL)
        return cls(Blend(model, np.array(rest["shares"]), rest["weight"]), tuple(rest["laws"]))

    def factors(self, own: Own, id_of: Mapping[int, str]) -> npt.NDArray[np.float64] | None:
        """The factors of what somebody has by now; None where it tells nothing."""
        held = self.blend.model.held
        row: dict[int, float] = {}
        for name, column_of in zip(self.laws, held.columns, strict=True):
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
