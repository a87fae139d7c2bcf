"""By name: any method measured by any protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from epicrec.data import Dataset
from epicrec.errors import InputError
from epicrec.evaluate.protocols import Evaluation, evaluate_model

PROTOCOLS = ("rating", "topn", "aggregates", "mae-loss", "yang")


def evaluate(
    method: str,
    dataset: Dataset,
    *,
    protocol: str = "rating",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Measure a method on a data set by a protocol; see `evaluate_model` for the usual options."""
    if protocol not in PROTOCOLS:
        raise InputError(f"there is no protocol {protocol!r}; choose from {', '.join(PROTOCOLS)}")
    if method in ("s-epicrec", "m-epicrec"):
        from epicrec.evaluate.releases import PROTOCOLS as OWN

        if protocol not in OWN:
            raise InputError(f"{method} is measured by {', '.join(OWN)}, not by {protocol!r}")
        return _call(OWN[protocol], (dataset,), {"method": method, **options, **(settings or {})})
    if protocol == "yang":
        from epicrec.evaluate.four_blocks import evaluate_yang

        return _call(evaluate_yang, (method, dataset), {**options, "settings": settings})
    if protocol not in ("rating", "topn"):
        raise InputError(f"the protocol {protocol!r} is for s-epicrec and m-epicrec, not {method}")
    return evaluate_model(method, dataset, protocol=protocol, settings=settings, **options)


def _call(
    function: Callable[..., Evaluation], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> Evaluation:
    """Pass on what was asked for; an option that the function does not have is refused."""
    known = inspect.signature(function).parameters
    given = {name: value for name, value in options.items() if value is not None}
    for name in [name for name in given if name not in known]:
        if name not in ("test_fraction", "n"):  # these have defaults that mean nothing here
            choices = ", ".join(known)
            raise InputError(f"this protocol has no setting {name!r}; its settings are: {choices}")
        del given[name]
    return function(*arguments, **given)
