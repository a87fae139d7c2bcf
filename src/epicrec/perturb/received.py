"""Received: what the releases of many people say of their histories, the noise being known.

All of it is post-processing of what was released, with public knowledge only: it costs no privacy.
Each mechanism says it of its own releases (`Perturber.told`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    from epicrec.perturb.d2p.correction import AlterEgos

Totals = Mapping[str, tuple[float, float]]
"""Of each category how many items of it all histories together hold, and the variance of that."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sent:
    """Releases of many people by one method with the same public settings, as a server holds them.

    `counts` (sparse, people × items of the catalogue) has what was sent with each item: how often
    it stands there, or its rating, of which those from `liked` on count as liked. `aggregates` are
    the sums of the people's.
    """

    settings: Mapping[str, Any]
    counts: Any
    user_ids: npt.NDArray[Any]
    aggregates: Mapping[str, int] = field(default_factory=dict)
    releases: int = 0
    liked: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Told:
    """What they say: events of histories, each with the law it went through, and totals."""

    events: AlterEgos | None = None
    totals: Totals = field(default_factory=dict)
