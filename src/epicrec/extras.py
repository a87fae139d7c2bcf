"""Extras: parts of the package that need more than the base, and what to install for them."""

from __future__ import annotations

from importlib.util import find_spec

from epicrec.errors import InputError


def needs(extra: str, *modules: str) -> None:
    """Say what to install where an extra's libraries are absent; asked before the work begins."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise InputError(
            f"this needs {', '.join(missing)}; install them with pip install 'epicrec[{extra}]'"
        )
