"""A device's AlterEgo over time: what is drawn once is kept, and the ledger knows of each draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.perturb.d2p.mechanism import D2P, AlterEgoRelease
from epicrec.privacy import Ledger


@dataclass
class AlterEgo:
    """A person's AlterEgo as their history grows; the maintenance operations of section 2.1.

    `substitutes` maps each item released so far to what stands for it and to the number of the
    perturber that drew it. An item keeps its substitute, so every item costs ε once however often
    the AlterEgo is sent: batches are about disjoint items, and the ledger takes their maximum.
    `renew` draws everything afresh: a new release about all items, which the ledger adds. `regroup`
    goes on with other groups for items still to come. A release is a tuple with one part for each
    perturber whose substitutes are in it, since a server can undo only what it knows the law of.
    Keep `substitutes` and `batches` on the device, with the ledger.
    """

    perturber: D2P
    ledger: Ledger
    substitutes: dict[Any, tuple[Any, int]] = field(default_factory=dict)
    batches: int = 0
    earlier: list[D2P] = field(default_factory=list)
    """Perturbers before the present one."""

    def update(self, history: Any) -> tuple[AlterEgoRelease, ...]:
        """The AlterEgo of the history as it is now; only new items are drawn and paid for."""
        started = perf_counter()
        items, ratings = self.perturber._events(history)
        ids = self.perturber.catalogue.item_ids[items].tolist()
        fresh = np.array([i not in self.substitutes for i in ids], np.bool_)
        if fresh.any():
            self._draw(items[fresh], f"batch {self.batches + 1}")
            self.batches += 1
        return self._release(ids, ratings, started)

    def renew(self, history: Any) -> tuple[AlterEgoRelease, ...]:
        """A fresh AlterEgo of the whole history: a second release, which costs ε again."""
        started = perf_counter()
        items, ratings = self.perturber._events(history)
        self._draw(items, None)
        ids = self.perturber.catalogue.item_ids[items].tolist()
        return self._release(ids, ratings, started)

    def regroup(self, perturber: D2P) -> None:
        """Take other groups (new items in the catalogue, another λ) for the items still to come."""
        self.earlier.append(self.perturber)
        self.perturber = perturber

    def _draw(self, items: npt.NDArray[np.int64], group: str | None) -> None:
        """Enter the draw in the ledger, then make it."""
        perturber = self.perturber
        self.ledger.spend(
            perturber.guarantee, about=f"d2p: {len(items)} items replaced", group=group,
            disclosure=perturber.guarantee.status == "none",
        )  # fmt: skip
        known = perturber.catalogue.item_ids
        drawn = known[perturber.channel.draw(items, seed=perturber.seed)].tolist()
        for item, substitute in zip(known[items].tolist(), drawn, strict=True):
            self.substitutes[item] = substitute, len(self.earlier)

    def _release(self, ids: list[Any], ratings: Any, started: float) -> tuple[AlterEgoRelease, ...]:
        parts = []
        for number, perturber in enumerate([*self.earlier, self.perturber]):
            own = [at for at, item in enumerate(ids) if self.substitutes[item][1] == number]
            if own or perturber is self.perturber:
                drawn = [self.substitutes[ids[at]][0] for at in own]
                positions = perturber.catalogue.positions(drawn) if own else np.zeros(0, np.int64)
                carried = None if ratings is None else ratings[own]
                parts.append(perturber._as_release(positions, carried, perturber.seed, started))
        return tuple(parts)
