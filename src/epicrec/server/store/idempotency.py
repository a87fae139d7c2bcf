"""Idempotency: a request with an `Idempotency-Key` is carried out once, however often it comes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from sqlalchemy import Connection, delete, func, select

from epicrec.errors import InputError
from epicrec.server.store.quotas import QuotaError
from epicrec.server.store.schema import repeats
from epicrec.server.store.sql import insert
from epicrec.server.store.users import StoredUser, today

P = ParamSpec("P")

DAYS = 2
"""How long a key is remembered, at least to the end of the next day."""
MOST = 1000
"""Keys remembered of one user."""


def once(
    user: StoredUser | None,
    name: str,
    body: bytes,
    change: Callable[Concatenate[Connection, P], set[int]],
) -> Callable[Concatenate[Connection, P], set[int]]:
    """The change, which does nothing where this user (None: the admin) has sent a request of this
    name and body before. The name is recorded in the transaction of the change."""
    digest = hashlib.sha256(f"{user.key if user else 'admin'} {name}".encode()).digest()
    sent = hashlib.sha256(body).digest()

    def bounded(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> set[int]:
        connection.execute(delete(repeats).where(repeats.c.day <= today() - DAYS))
        entry = insert(connection, repeats).values(
            digest=digest, user_key=user.key if user else None, body=sent, day=today()
        )
        # first, so that of two processes with the same request one waits for the other
        new = entry.on_conflict_do_nothing().returning(repeats.c.day)
        if connection.execute(new).scalar_one_or_none() is not None:
            _check(connection, user)
            return change(connection, *args, **kwargs)
        before = select(repeats.c.body).where(repeats.c.digest == digest)
        if bytes(connection.execute(before).scalar_one()) != sent:
            raise InputError(
                "this Idempotency-Key came with another body before; every request needs a "
                "key of its own. Nothing was stored"
            )
        return set()

    return bounded


def _check(connection: Connection, user: StoredUser | None) -> None:
    if user is None:
        return
    own = select(func.count()).select_from(repeats).where(repeats.c.user_key == user.key)
    if connection.execute(own).scalar_one() > MOST:
        raise QuotaError(
            f"a client may give {MOST:,} requests an Idempotency-Key in {DAYS} days; go on without "
            "one, or send more rows at once. Nothing of this was stored"
        )
