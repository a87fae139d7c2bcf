"""Perturbers by the name of their method, made over what is public."""

from __future__ import annotations

from typing import Any

from epicrec import registry
from epicrec.data import Catalogue, Scale
from epicrec.parameters import check, check_complete, given, taken
from epicrec.perturb.contract import Perturber

_HOW = {
    "catalogue": "give a catalogue, the public list of items",
    "item_ids": "give a catalogue, the public list of items",
    "scale": "give the public scale of the ratings, such as 1:5:1",
    "epsilon": "give an epsilon, such as 1.0",
}


def perturber_class(method: str, *, as_published: bool = False) -> type[Perturber]:
    """The class behind a method name, ours or another package's, or the paper's own version."""
    found: type[Perturber] = registry.load_class(
        registry.PERTURBERS, method, Perturber, as_published=as_published
    )
    return found


def make_perturber(
    method: str,
    *,
    catalogue: Catalogue | None = None,
    scale: Scale | None = None,
    seed: int | None = None,
    as_published: bool | None = None,
    **settings: Any,
) -> Perturber:
    """The perturber behind a method's name with these settings; as published, the paper's own.

    What is public (`catalogue`, its `item_ids`, `scale`) and `seed` are offered to all, for those
    that take them; any other setting that the perturber does not have is an error.
    """
    check(method, make_perturber, given(as_published=as_published))
    cls = perturber_class(method, as_published=bool(as_published))
    item_ids = None if catalogue is None else catalogue.item_ids
    offered = given(catalogue=catalogue, item_ids=item_ids, scale=scale, seed=seed)
    has = taken(cls)
    settings = {name: value for name, value in offered.items() if name in has} | settings
    check(method, cls, settings)
    check_complete(method, cls, settings, _HOW)
    return cls(**settings)
