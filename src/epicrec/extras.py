"""Optional dependencies: what to install for the parts of the package that need more."""

from __future__ import annotations

from importlib.util import find_spec

from epicrec.errors import InputError


def needs(extra: str, *modules: str) -> None:
    """Raise an error that says what to install, where one of these modules is absent."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise InputError(
            f"this needs {', '.join(missing)}; install them with pip install 'epicrec[{extra}]'"
        )
