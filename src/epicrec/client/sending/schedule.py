"""Schedule: releases at moments that were fixed beforehand, so that they tell nothing.

The first moment is drawn at random and the others follow at equal intervals, whether or not
anything new was watched. Each film enters one release only, so any number of releases costs as much
as the most expensive one. If the program does not run at such a moment, it sends at its next start.
What a server did not take is sent again soon, the same bytes, and the next moment stays where it
was.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from epicrec.client.sending.remote import RemoteError
from epicrec.errors import EpicrecError, InputError

if TYPE_CHECKING:
    from epicrec.client.device import Device

EVERY = {
    "never": None, "weekly": timedelta(days=7), "monthly": timedelta(days=30),
    "every three months": timedelta(days=91),
}  # fmt: skip
DEFAULT = "every three months"
"""What is offered until the person decides: every release by randomised response answers for the
whole list anew, and adds as much noise to what is learned as the first."""
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
    if plan is None or EVERY[plan["every"]] is None:
        return None
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
