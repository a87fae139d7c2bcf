"""Releases as older versions wrote them, in the form of today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def upgraded(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A release of format 1 as one of format 2; others as they are.

    Format 1 had no number. D2P's had `times` where the others had `levels`, `scales` and `clear`.
    """
    if "format" in values:
        return values
    substituted = values["method"] == "d2p"
    settings = dict(values["settings"]) if substituted else {"scales": values["scales"]}
    kept = {} if substituted else {"levels": values["levels"], "clear": values["clear"]}
    return {
        "format": 2,
        "method": values["method"],
        "items": values["items"],
        "guarantee": values["guarantee"],
        "counts": values["times"] if substituted else None,
        "ratings": values["ratings"] if substituted else None,
        "settings": settings | {"as_published": values["as_published"]},
        "aggregates": {} if substituted else values["aggregates"],
        "kept": kept,
        "seconds": values["seconds"],
    }
