"""The device: reading a viewing history, choosing what leaves it, and showing recommendations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epicrec.client.device import Device
    from epicrec.client.main import make_client, run_client

_HOMES = {"Device": "device", "make_client": "main", "run_client": "main"}

__all__ = ["Device", "make_client", "run_client"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
