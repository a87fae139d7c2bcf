"""Quotas: how much one user may store, so that nobody fills the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, func, select

from epicrec.errors import InputError
from epicrec.server.settings import Settings
from epicrec.server.store.schema import feedback, releases

P = ParamSpec("P")
T = TypeVar("T")

MOST_TYPES = 16
"""Feedback types of one user."""
_STATED = (releases.c.guarantee, releases.c.settings, releases.c.aggregates)


class QuotaError(InputError):
    """A user would store more than they may; the change is undone."""


def within(
    settings: Settings, user_key: int, change: Callable[Concatenate[Connection, P], T]
) -> Callable[Concatenate[Connection, P], T]:
    """The change, which fails and is undone where the user would store more than they may."""

    def bounded(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = change(connection, *args, **kwargs)
        _check(connection, settings, user_key)
        return result

    return bounded


def _check(connection: Connection, settings: Settings, user_key: int) -> None:
    rows, comments, kinds = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(func.length(feedback.c.comment)), 0),
            func.count(feedback.c.feedback_type.distinct()),
        ).where(feedback.c.user_key == user_key)
    ).one()
    stated, released = connection.execute(
        select(
            func.coalesce(func.sum(sum(func.length(column) for column in _STATED)), 0),
            func.count(releases.c.feedback_type.distinct()),
        ).where(releases.c.user_key == user_key)
    ).one()
    for found, most, what in (
        (rows, settings.rows_per_user, "rows of feedback"),
        (comments + stated, settings.bytes_per_user, "bytes of comments and what releases state"),
        (max(kinds, released), MOST_TYPES, "types of feedback"),
    ):
        if found > most:
            raise QuotaError(
                f"with this you would store {int(found):,} {what}, and a client may store "
                f"{most:,}; take something back first. Nothing of this was stored"
            )
