"""Batches: releases over time that count each item of a history once, and are in a ledger first.

The papers have a single release; a device that releases every week would pay ε each time. Here each
item enters the noised part of exactly one release. Two histories that differ in one item then
differ in one batch only, and the cost for any item is the largest ε of the batches, not their sum.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from epicrec.perturb.contract import Perturber, Release, item_ids_of, ledger_entries
from epicrec.perturb.levels import ALL, PERTURBED, Levels
from epicrec.privacy import Ledger


@dataclass(frozen=True)
class Batch:
    """What of a history a release at some levels is about; the rest is withheld or unknown.

    `perturbed` are all items that noise is for, `fresh` those among them that no release has
    counted yet, `clear` those that are sent as they are. An item withheld so far is still fresh.
    """

    perturbed: list[Any]
    fresh: list[Any]
    clear: list[Any]


def batch_of(
    perturber: Perturber, history: Any, levels: Levels, counted: Container[Any] = ()
) -> Batch:
    """Divide a history by what happens to each item; `counted` are those in an earlier release."""
    ids = item_ids_of(history)
    treated = list(zip(ids.tolist(), perturber.treatment(ids, levels), strict=True))
    perturbed = [item for item, level in treated if level == PERTURBED]
    return Batch(
        perturbed=perturbed,
        fresh=[item for item in perturbed if item not in counted],
        clear=[item for item, level in treated if level == ALL],
    )


def release_through(
    ledger: Ledger,
    perturber: Perturber,
    history: Any,
    levels: Levels = PERTURBED,
    *,
    group: str | None = None,
) -> Release:
    """A release that is in the ledger before anyone sees it; refused if it exceeds the limit.

    Noised items are entered with their ε; items sent as they are, as a disclosure. With a `group`
    the history must share no noised item with any other group's: give the fresh ones of a batch.
    """
    release = perturber.release(history, levels)
    for about, guarantee in ledger_entries(release):
        ledger.spend(guarantee, about=about, group=group, disclosure=guarantee.status == "none")
    return release
