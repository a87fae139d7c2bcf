"""Imports when they are needed: optional dependencies, and public names loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from epicrec.errors import InputError


def needs(extra: str, *modules: str) -> None:
    """Raise an error that says what to install, where one of these modules is absent."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise InputError(
            f"this needs {', '.join(missing)}; install them with pip install 'epicrec[{extra}]'"
        )


def on_first_use(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__`: imports the module of a public name when the name is first used.

    `homes` are the modules of the package and the names that each of them has.
    """

    def find(name: str) -> Any:
        for module, names in homes.items():
            if name in names:
                return getattr(import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
