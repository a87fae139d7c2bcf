"""Schedule: releases at fixed times.

They happen whether or not anything new was watched, so that their time tells nothing. Each film
enters one release only, so any number of them costs as much as the dearest.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from epicrec.client.device import Device
from epicrec.client.history import now
from epicrec.client.web import State
from epicrec.errors import EpicrecError, InputError

EVERY = {"never": None, "weekly": timedelta(days=7), "monthly": timedelta(days=30)}
_LOOK = 30.0


def set_schedule(device: Device, every: str) -> None:
    if every not in EVERY:
        raise InputError(f"there is no schedule {every!r}; choose {', '.join(EVERY)}")
    device.store.set(schedule={"every": every, "last": now(), "problem": ""})


def due(device: Device, moment: datetime) -> bool:
    plan = device.store.setting("schedule")
    interval = EVERY[plan["every"]] if plan else None
    return interval is not None and moment >= datetime.fromisoformat(plan["last"]) + interval


def run_due(device: Device, moment: datetime) -> bool:
    """Send what waits, draw and send what is new, if it is time; whether it was."""
    if not due(device, moment):
        return False
    plan = device.store.setting("schedule")
    problem = ""
    try:
        if not device.releases.unsent():
            device.draw(scheduled=True)
        for stored in device.releases.unsent():
            device.send(stored.id)
    except EpicrecError as error:
        problem = str(error)
    device.store.set(
        schedule={"every": plan["every"], "last": moment.isoformat(), "problem": problem}
    )
    return True


class Clock:
    """Looks every half minute whether a release is due, until stopped."""

    def __init__(self, state: State) -> None:
        self._state, self._stop = state, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK):
            if self._state.device is not None:
                run_due(self._state.device, datetime.now(UTC))
