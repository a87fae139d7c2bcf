"""McSherry & Mironov (KDD 2009): item effects and a covariance measured with noise."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "PARTS":
        raise AttributeError(name)
    from epicrec.papers.mcsherry_mironov.experiments import PARTS

    return PARTS
