"""Users: registered, recognised by their secrets, paged, seen, forgotten."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from epicrec import wire
from epicrec.server.store.database import DELETIONS, next_revision
from epicrec.server.store.schema import feedback, users
from epicrec.server.store.sql import insert, rows_of


@dataclass(frozen=True, slots=True)
class StoredUser:
    """What the server needs to know of a user who is asking."""

    key: int
    id: str
    seen_day: int = 0


_WITH_SECRETS = "SELECT secret_digest, user_key, user_id, seen_day FROM users WHERE secret_digest "
_AT_ONCE = 500  # values in one statement


def today() -> int:
    """Days since 1970."""
    return int(time.time()) // 86_400


def digest(secret: str) -> bytes:
    """What is stored of a secret. It has 256 random bits, so one SHA-256 without salt is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def register(connection: Connection) -> wire.Registration:
    """Make a user with a random id and a random secret; only the secret's digest is stored."""
    user_id, secret = secrets.token_hex(16), secrets.token_urlsafe(32)
    connection.execute(
        insert(connection, users).values(
            user_id=user_id,
            secret_digest=digest(secret),
            labels="null",
            comment="",
            seen_day=today(),
            revision=0,
        )
    )
    return wire.Registration(UserId=user_id, Secret=secret)


def with_secrets(connection: Connection, digests: list[bytes]) -> dict[bytes, StoredUser]:
    """The users with these secrets. The search is by digest, so its time reveals nothing of one."""
    if connection.dialect.name == "sqlite":
        asked: list[tuple[str, Any]] = [("= ?", digest) for digest in digests]
    else:
        asked = [("= ANY(%b)", digests)]
    found = [rows_of(connection, _WITH_SECRETS + how, (one,)) for how, one in asked]
    return {bytes(digest): StoredUser(*row) for rows in found for digest, *row in rows}


def known(connection: Connection, user_id: str) -> StoredUser | None:
    found = connection.execute(
        select(users.c.user_key, users.c.user_id).where(users.c.user_id == user_id)
    ).one_or_none()
    return StoredUser(found.user_key, found.user_id) if found else None


def put(connection: Connection, given: list[wire.User]) -> int:
    """Add users whom the admin speaks for, or change their labels and comment."""
    statement = insert(connection, users)
    new = statement.excluded
    rows = [
        {
            "user_id": user.UserId,
            "labels": json.dumps(user.Labels),
            "comment": user.Comment,
            "seen_day": today(),
            "revision": 0,
        }
        for user in given
    ]
    if rows:
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["user_id"], set_={"labels": new.labels, "comment": new.comment}
            ),
            rows,
        )
    return len(given)


def patch(connection: Connection, user_id: str, change: wire.UserPatch) -> int:
    """Change the given fields of one user. Returns 0 where there is no such user."""
    values: dict[str, Any] = {}
    if change.Labels is not None:
        values["labels"] = json.dumps(change.Labels)
    if change.Comment is not None:
        values["comment"] = change.Comment
    if not values:
        return int(known(connection, user_id) is not None)
    named = users.c.user_id == user_id
    return connection.execute(update(users).where(named).values(**values)).rowcount


def get(connection: Connection, user_id: str) -> wire.User | None:
    row = connection.execute(select(users).where(users.c.user_id == user_id)).one_or_none()
    return _user(row) if row else None


def page(connection: Connection, n: int, after: int) -> tuple[list[wire.User], int | None]:
    """The next `n` users, and the key to resume from."""
    rows = connection.execute(
        select(users).where(users.c.user_key > after).order_by(users.c.user_key).limit(n)
    ).all()
    return [_user(row) for row in rows], rows[-1].user_key if len(rows) == n else None


def seen(connection: Connection, key: int, day: int) -> None:
    connection.execute(update(users).where(users.c.user_key == key).values(seen_day=day))


def forget(connection: Connection, user_id: str) -> int | None:
    """Delete a user and all they released. Returns their key, None where there is no such user."""
    key = connection.execute(
        delete(users).where(users.c.user_id == user_id).returning(users.c.user_key)
    ).scalar_one_or_none()
    if key is not None:
        next_revision(connection, DELETIONS)
    return key


def touch(connection: Connection, user_keys: set[int], number: int) -> None:
    """Record the revision at which these users' feedback changed."""
    wanted = sorted(user_keys)
    for start in range(0, len(wanted), _AT_ONCE):
        some = users.c.user_key.in_(wanted[start : start + _AT_ONCE])
        connection.execute(update(users).where(some).values(revision=number))


def purge(connection: Connection, days: int) -> list[int]:
    """Delete everyone not seen for this many days. Returns their keys."""
    gone = list(
        connection.execute(
            delete(users).where(users.c.seen_day < today() - days).returning(users.c.user_key)
        ).scalars()
    )
    if gone:
        next_revision(connection, DELETIONS)
    return gone


def keys(connection: Connection) -> list[int]:
    """All keys, in order."""
    return list(connection.execute(select(users.c.user_key).order_by(users.c.user_key)).scalars())


def changed_since(connection: Connection, revision: int) -> list[int]:
    """The keys of the users whose feedback changed after a revision."""
    return list(
        connection.execute(select(users.c.user_key).where(users.c.revision > revision)).scalars()
    )


def counts(connection: Connection) -> dict[str, int]:
    active = select(func.count()).select_from(users).where(users.c.seen_day >= today() - 7)
    return {
        "users": int(connection.execute(select(func.count()).select_from(users)).scalar_one()),
        "users_with_feedback": int(
            connection.execute(
                select(func.count()).select_from(select(feedback.c.user_key).distinct().subquery())
            ).scalar_one()
        ),
        "users_seen_in_7_days": int(connection.execute(active).scalar_one()),
    }


def _user(row: Any) -> wire.User:
    return wire.User(
        UserId=row.user_id,
        Labels=json.loads(row.labels),
        Comment=row.comment,
    )
