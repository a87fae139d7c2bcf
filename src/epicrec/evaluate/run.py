"""By name: any method measured, any paper reproduced, any mechanism audited."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from epicrec.data import Dataset
from epicrec.errors import InputError
from epicrec.evaluate.protocols import Evaluation, evaluate_model
from epicrec.privacy import AuditResult

PROTOCOLS = ("rating", "topn", "aggregates", "mae-loss", "yang")

PAPERS = {
    "epicrec": "epicrec_figures:reproduce",
    "mcsherry-mironov": "mcsherry_mironov:reproduce",
    "d2p": "d2p:reproduce",
    "yang": "yang:reproduce_yang",
}
"""The papers, and what runs their experiments."""

AUDITS = {
    "s-epicrec": "epicrec:audit_epicrec",
    "m-epicrec": "epicrec:audit_epicrec",
    "d2p": "d2p:audit_d2p",
    "i-d2p": "d2p:audit_d2p",
    "d2p-svd": "d2p:audit_d2p",
    **dict.fromkeys(("avg", "pcc", "cos", "private-bias"), "yang:audit_yang"),
    **dict.fromkeys(("dpi-avg", "dpi-pcc", "dpi-cos", "dpi-svd"), "yang:audit_yang"),
    **dict.fromkeys(("dpm-avg", "dpm-pcc", "dpm-cos"), "yang:audit_yang"),
    "covariance-svd": "mcsherry_mironov:audit_covariance",
    "covariance-knn": "mcsherry_mironov:audit_covariance",
}
"""The mechanisms that can be audited, and what does it."""


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
        from epicrec.evaluate.epicrec import PROTOCOLS as OWN

        if protocol not in OWN:
            raise InputError(f"{method} is measured by {', '.join(OWN)}, not by {protocol!r}")
        return _call(OWN[protocol], (dataset,), {"method": method, **options, **(settings or {})})
    if protocol == "yang":
        from epicrec.evaluate.yang import evaluate_yang

        return _call(evaluate_yang, (method, dataset), {**options, "settings": settings})
    if protocol not in ("rating", "topn"):
        raise InputError(f"the protocol {protocol!r} is for s-epicrec and m-epicrec, not {method}")
    return evaluate_model(method, dataset, protocol=protocol, settings=settings, **options)


def reproduce(paper: str, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
    """A paper's tables and figures, the paper's value beside ours; plots as files in `folder`."""
    found: dict[str, Any] = _named(PAPERS, paper, "paper")(Path(folder), quick=quick)
    return found


def audit(method: str, *, epsilon: float = 1.0, runs: int | None = None) -> AuditResult:
    """A 95 % lower bound on what a mechanism really leaks, to be held against its claim."""
    how = {} if runs is None else {"runs": runs}
    found: AuditResult = _named(AUDITS, method, "audit of")(method, epsilon=epsilon, **how)
    return found


def _named(homes: Mapping[str, str], name: str, what: str) -> Callable[..., Any]:
    if name not in homes:
        raise InputError(f"there is no {what} {name!r}; choose from {', '.join(homes)}")
    module, function = homes[name].split(":")
    found: Callable[..., Any] = getattr(import_module(f"epicrec.evaluate.{module}"), function)
    return found


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
