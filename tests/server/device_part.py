"""One device of a common model, in a process of its own which may be killed at a step."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from epicrec.client.device import Device
from epicrec.client.sending.shared_model_reports import WINDOW
from epicrec.data.datasets import load_catalogue


def take_part(given: dict[str, Any]) -> None:
    """Hear of the round, seal, record and send; ends with 0 when the report arrived."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    device = Device(
        Path(given["folder"]),
        load_catalogue("films"),
        server=given["url"],
        certificate=Path(given["certificate"]).read_text(),
    )
    if device.shared_model.part is None:
        device.shared_model.join(given["task"], given["leader_key"], given["helper_key"])
    device.shared_model.tick(now, lambda: given["history"])
    device.shared_model.tick(now + WINDOW, list)
    with device.store.reading() as db:
        states = [row["state"] for row in db.execute("SELECT state FROM rounds")]
    device.close()
    sys.exit(0 if states == ["sent"] else 1)
