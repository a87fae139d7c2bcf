"""Yang, Li, Sun & Zhang (2019): noise on ratings (DPI) or inside the recommender (DPM)."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "PARTS":
        raise AttributeError(name)
    from epicrec.papers.yang.experiments import PARTS

    return PARTS
