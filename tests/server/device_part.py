"""One device of a common model in a process of its own, which may be killed at a step.

    python device_part.py MOMENT SETTINGS

Hears of the round, seals, records and sends; ends with 0 when its report arrived.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from epicrec.client.common import WINDOW
from epicrec.client.device import Device
from epicrec.data.datasets import load_catalogue
from killing import kill_at

given = json.loads(sys.argv[2])
kill_at(sys.argv[1])
now = datetime(2030, 1, 1, tzinfo=UTC)
device = Device(
    Path(given["folder"]),
    load_catalogue("films"),
    server=given["url"],
    certificate=Path(given["certificate"]).read_text(),
)
if device.common.part is None:
    device.common.join(given["task"], given["leader_key"], given["helper_key"])
device.common.tick(now, lambda: given["history"])
device.common.tick(now + WINDOW, list)
with device.store.reading() as db:
    states = [row["state"] for row in db.execute("SELECT state FROM rounds")]
device.close()
sys.exit(0 if states == ["sent"] else 1)
