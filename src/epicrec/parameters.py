"""Parameters of constructors and protocols, checked in one place by name, type and range."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite, isnan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from epicrec.errors import InputError

_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "epsilon": (lambda value: value > 0 and isfinite(value), "a number above 0"),
    "delta": (lambda value: 0 <= value < 1, "at least 0 and below 1, such as 1e-6"),
    "seed": (lambda value: value >= 0, "a whole number from 0 on"),
    "test_fraction": (lambda value: 0 < value < 1, "between 0 and 1, both excluded"),
    **dict.fromkeys(("n", "max_users", "runs", "seeds"), (lambda value: value >= 1, "at least 1")),
}
"""The values that a parameter of this name may have, beside its type."""


def _is_number(value: Any, kind: type = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_TYPES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: _is_number(value, Integral), "a whole number"),
    float: (_is_number, "a number"),
    str: (lambda value: isinstance(value, str), "a text"),
    NoneType: (lambda value: value is None, "null"),
}


def given(**options: Any) -> dict[str, Any]:
    """The options that were given: those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def taken(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a class or a function."""
    return [*inspect.signature(function).parameters]


def check(owner: str, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that `function` (a class or a protocol) does not take, or of a wrong type.

    Types are read from the annotations: int, float, bool, str, Literal, None and unions of these;
    anything richer is left to the function itself. `owner` is its name in messages.
    """
    known, annotations = taken(function), _annotations(function)
    for name, value in settings.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]!r}? I" if near else "i"
            choices = ", ".join(known) or "none"
            raise InputError(f"{owner} has no setting {name!r}; {meant}ts settings are: {choices}")
        kinds = _kinds(annotations.get(name, Any))
        if kinds is not None and not any(fits(value) for fits, _ in kinds):
            wanted = " or ".join(wanted for _, wanted in kinds)
            raise InputError(f"{name} of {owner} is {wanted}, not {value!r}")
        _check_range(owner, name, value)


def check_complete(
    owner: str,
    function: Callable[..., Any],
    settings: Iterable[str],
    how: Mapping[str, str] | None = None,
) -> None:
    """Refuse to go on without a parameter that has no default; `how` says how to give some."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is parameter.empty and name not in settings:
            raise InputError(f"{owner} needs {name}; {(how or {}).get(name, f'give {name}=…')}")


def _check_range(owner: str, name: str, value: Any) -> None:
    if not _is_number(value):
        return
    if isnan(value):
        raise InputError(f"{name} of {owner} is not a number (NaN); give one")
    if name in _RANGES:
        holds, wanted = _RANGES[name]
        if not holds(value):
            raise InputError(f"{name} of {owner} must be {wanted}, not {value!r}")


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # an annotation that only type checkers can read: check names alone
        return {}
    return {name: p.annotation for name, p in signature.parameters.items()}


def _kinds(annotation: Any) -> list[tuple[Callable[[Any], bool], str]] | None:
    """A test and a name for each plain type of an annotation; None where it is not plain."""
    if annotation is None:
        annotation = NoneType
    if get_origin(annotation) in (Union, UnionType):
        each = [_kinds(part) for part in get_args(annotation)]
        return None if None in each else [kind for kinds in each for kind in kinds or ()]
    if get_origin(annotation) is Literal:
        values = get_args(annotation)
        return [(lambda value: value in values, " or ".join(map(repr, values)))]
    return next(([_TYPES[plain]] for plain in _TYPES if annotation is plain), None)
