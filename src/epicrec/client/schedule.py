"""Schedule: releases at times that were fixed beforehand, so that they tell nothing.

A first moment is drawn at random and the others follow at equal distances, whether or not anything
new was watched. Each film enters one release only, so any number of them costs as much as the
dearest. Where the program does not run at such a moment, it sends at its next start; what a server
did not take is sent again soon, the same bytes, and the next moment stays where it was.
"""

from __future__ import annotations

import secrets
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from epicrec.client.device import Device
from epicrec.client.remote import RemoteError
from epicrec.client.web import State, in_plain_words
from epicrec.errors import EpicrecError, InputError

EVERY = {"never": None, "weekly": timedelta(days=7), "monthly": timedelta(days=30)}
USUAL = "weekly"
"""What is offered until the person decides."""
_LOOK = 30.0
_RETRY = timedelta(minutes=15)


def set_schedule(device: Device, every: str) -> None:
    """From a moment within the first interval on, drawn here, once."""
    if every not in EVERY:
        raise InputError(f"there is no schedule {every!r}; choose {', '.join(EVERY)}")
    interval = EVERY[every] or timedelta(0)
    minutes = secrets.randbelow(int(interval / timedelta(minutes=1)) + 1)
    first = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=minutes)
    device.store.set(schedule={"every": every, "next": first.isoformat(), "problem": ""})


def next_moment(plan: dict[str, Any] | None) -> datetime | None:
    """When the next release is due; None where none is."""
    interval = EVERY[plan["every"]] if plan else None
    if plan is None or interval is None:
        return None
    if "next" not in plan:  # as the version before kept it
        return datetime.fromisoformat(plan["last"]) + interval
    return datetime.fromisoformat(plan["next"])


def next_try(plan: dict[str, Any] | None) -> datetime | None:
    """When what a server did not take is sent again; None where nothing waits for that."""
    at = plan and plan.get("retry")
    return datetime.fromisoformat(at) if at else None


def run_due(device: Device, moment: datetime) -> bool:
    """Send what waits, draw and send what is new, if it is time; whether it was."""
    plan = device.store.setting("schedule")
    following, again = next_moment(plan), next_try(plan)
    if following is None:
        return False
    interval = EVERY[plan["every"]] or timedelta(0)
    if following > moment + interval:  # the clock stood ahead when it was fixed
        set_schedule(device, plan["every"])
        return False
    if moment < min(following, again or following):
        return False
    is_due, problem, retry = moment >= following, "", None
    try:
        if device.choice.sends(device.catalogue):
            if is_due and not device.releases.unsent():
                device.draw(scheduled=True)
            for stored in device.releases.unsent():
                device.send(stored.id, scheduled=True)
    except RemoteError as error:
        problem, retry = str(error), (moment + _RETRY).isoformat()
    except EpicrecError as error:
        problem = str(error)
    if is_due:
        following += interval * ((moment - following) // interval + 1)
    device.store.set(
        schedule={
            "every": plan["every"], "next": following.isoformat(), "problem": problem,
            "retry": retry,
        }
    )  # fmt: skip
    return True


class Clock:
    """Looks every half minute whether a release or a common model's report is due."""

    def __init__(self, state: State) -> None:
        self._state, self._stop = state, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK):
            self.look()

    def look(self) -> None:
        """One look. Whatever goes wrong is told on the pages, and the clock goes on."""
        device, moment = self._state.device, datetime.now(UTC)
        if device is None:
            return
        trouble = ""
        for due in (
            lambda: run_due(device, moment),
            lambda: device.common.tick(moment, device.history.items),
        ):
            try:
                due()
            except Exception as error:
                trouble = in_plain_words(error)
        self._state.trouble = trouble
