"""The device: reading a viewing history, choosing what leaves it, and showing recommendations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epicrec._lazy import attach

if TYPE_CHECKING:
    from epicrec.client.device import Device
    from epicrec.client.main import make_client, run_client

__all__ = ["Device", "make_client", "run_client"]

__getattr__, __dir__ = attach(__name__, __file__)
