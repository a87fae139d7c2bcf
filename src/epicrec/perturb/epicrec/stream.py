"""Streams: releases over time that count each history item once, and are in a ledger first.

The paper has a single release; a device that releases every week would pay ε each time. Here each
item enters the noisy totals of exactly one release. Two histories that differ in one item then
differ in one batch only, and the cost for any item is the largest ε of the batches, not their sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isinf
from typing import Any

import numpy as np

from epicrec.perturb.contract import Release
from epicrec.perturb.epicrec.mechanism import MEpicRec, SEpicRec, item_ids_of
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.privacy import Guarantee, Ledger


def release_through(
    ledger: Ledger,
    perturber: SEpicRec | MEpicRec,
    history: Any,
    levels: Levels = PERTURBED,
    *,
    group: str | None = None,
) -> Release:
    """A release that is in the ledger before anyone sees it; refused if it exceeds the limit.

    Noised items are entered with their ε; items sent as they are, as a disclosure. With a `group`
    the history must share no item with any other group's.
    """
    release = perturber.release(history, levels)
    about = f"{release.method}: category totals"
    if not isinf(release.guarantee.epsilon):
        ledger.spend(release.guarantee, about=about, group=group)
    if release.clear:
        ledger.spend(
            Guarantee.none(unit="item"),
            about=f"{release.method}: {release.clear} items in clear",
            group=group,
            disclosure=True,
        )
    return release


@dataclass
class Stream:
    """A person's releases over time; levels may change between them.

    `counted` are the ids already in some noisy total: they enter none again. An item withheld so
    far is still fresh, and one whose categories become "all release" is sent as it is. Store
    `counted` and `batches` with the ledger, and save them before the release is sent.
    """

    perturber: SEpicRec | MEpicRec
    ledger: Ledger
    counted: set[Any] = field(default_factory=set)
    batches: int = 0

    def release(self, history: Any, levels: Levels = PERTURBED) -> Release:
        """Release what the whole history has that no release has counted yet."""
        ids = item_ids_of(history)
        treated = self.perturber.treatment(ids, levels)
        fresh = [i for i, t in zip(ids.tolist(), treated, strict=True) if self._enters(i, t)]
        self.batches += 1
        release = release_through(
            self.ledger,
            self.perturber,
            _same_type(fresh, ids),
            levels,
            group=f"batch {self.batches}",
        )
        self.counted |= {i for i, t in zip(ids.tolist(), treated, strict=True) if t == PERTURBED}
        return release

    def _enters(self, item: Any, treatment: str) -> bool:
        return treatment != PERTURBED or item not in self.counted


def _same_type(fresh: Iterable[Any], ids: Any) -> Any:
    return np.array(list(fresh), dtype=ids.dtype)
