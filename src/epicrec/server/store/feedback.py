"""Feedback and releases: stored once and within quotas, paged, taken back, counted."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, tuple_

from epicrec import wire
from epicrec.errors import InputError
from epicrec.perturb import Release
from epicrec.privacy import Guarantee
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue
from epicrec.server.store.database import next_revision
from epicrec.server.store.schema import feedback, items, releases, repeats, users
from epicrec.server.store.sql import count_rows, insert, keys_by_id, put_rows
from epicrec.server.store.users import StoredUser, today, touch
from epicrec.server.store.users import put as put_users

Cursor = tuple[int, int, str, int]
START: Cursor = (0, 0, "", 0)

MOST = wire.MOST_VALUE
MOST_TYPES = 16
"""Feedback types of one user."""
REMEMBERED_DAYS = 2
"""How long an `Idempotency-Key` is remembered, at least to the end of the next day."""
MOST_REMEMBERED = 1000
"""Such keys remembered of one user."""

_STATED = (
    releases.c.guarantee, releases.c.settings, releases.c.aggregates,
    func.coalesce(releases.c.answers, b""),
)  # fmt: skip
_OVERWRITTEN = "value = excluded.value, timestamp = excluded.timestamp, comment = excluded.comment"
_GROWN = _OVERWRITTEN.replace(
    "value = excluded.value",
    f"value = CASE WHEN feedback.value + excluded.value > {MOST!r} THEN {MOST!r} "
    f"WHEN feedback.value + excluded.value < {-MOST!r} THEN {-MOST!r} "
    "ELSE feedback.value + excluded.value END",
)


def put(
    connection: Connection,
    rows: list[wire.Feedback],
    *,
    add: bool = False,
    make: bool = False,
    release: int = 0,
) -> set[int]:
    """Store feedback, or the rows of the release with this key: all rows or none. Returns the keys
    of the users.

    A row that exists is overwritten, or with `add` its value grows. With `make`, unknown users are
    created, as Gorse does; without it, an unknown user is an error. An unknown item always is an
    error: the catalogue is public, and what somebody watched must not add to it. Gorse skips such
    rows silently (`auto_insert_item = false`).
    """
    user_ids, item_ids = {row.UserId for row in rows}, {row.ItemId for row in rows}
    user_keys = keys_by_id(connection, users, user_ids)
    item_keys = keys_by_id(connection, items, item_ids)
    if make:
        new_users = user_ids - user_keys.keys()
        put_users(connection, [wire.User(UserId=user_id) for user_id in sorted(new_users)])
        user_keys = keys_by_id(connection, users, user_ids)
    _check_known(rows, user_keys, item_keys)
    # of several rows about the same item the last one wins, or with `add` all of them count
    merged: dict[tuple[int, int, str], tuple[Any, ...]] = {}
    for row in rows:
        at = (user_keys[row.UserId], item_keys[row.ItemId], row.FeedbackType)
        before = merged[at][4] if add and at in merged else 0.0
        value = min(max(before + row.Value, -MOST), MOST)
        merged[at] = (*at, release, value, catalogue.seconds(row.Timestamp), row.Comment)
    if merged:
        ordered = [merged[at] for at in sorted(merged)]
        put_rows(connection, feedback, ordered, _GROWN if add else _OVERWRITTEN)
    _touch(connection, set(user_keys.values()))
    return set(user_keys.values())


def receive(connection: Connection, user: StoredUser, released: wire.Released) -> int:
    """Store a release beside the user's others, in place of one with the same id. Returns its
    number of rows."""
    release, kind = Release.from_dict(released.Release), released.FeedbackType
    values = {
        "rows": len(release.items),
        "guarantee": json.dumps(release.guarantee.to_dict()),
        "method": release.method,
        "settings": written(release.settings),
        "aggregates": written(release.aggregates),
        "answers": release.answers,
    }
    key = connection.execute(
        insert(connection, releases)
        .values(user_key=user.key, feedback_type=kind, release_id=released.ReleaseId, **values)
        .on_conflict_do_update(
            index_elements=["user_key", "feedback_type", "release_id"], set_=values
        )
        .returning(releases.c.release_key)
    ).scalar_one()
    own = and_(feedback.c.user_key == user.key, feedback.c.release_key == key)
    connection.execute(delete(feedback).where(own))
    rows = [
        wire.Feedback(FeedbackType=kind, UserId=user.id, ItemId=item, Value=value)
        for item, value in zip(release.items, release.values, strict=True)
    ]
    if rows:
        put(connection, rows, release=key)
    else:
        _touch(connection, {user.key})
    return len(rows)


def written(public: Any) -> str:
    """Settings as canonical JSON: equal settings give equal text, which identifies a mechanism."""
    return json.dumps(public, sort_keys=True, separators=(",", ":"))


# ---- limits -----------------------------------------------------------------------------------


class QuotaError(InputError):
    """A user would store more than they may; the change is undone."""


def check_quota(connection: Connection, settings: Settings, user: StoredUser) -> None:
    """Raise, which undoes the change, where the user now stores more than they may."""
    rows, comments, kinds = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(func.length(feedback.c.comment)), 0),
            func.count(feedback.c.feedback_type.distinct()),
        ).where(feedback.c.user_key == user.key)
    ).one()
    stated, released = connection.execute(
        select(
            func.coalesce(func.sum(sum(func.length(column) for column in _STATED)), 0),
            func.count(releases.c.feedback_type.distinct()),
        ).where(releases.c.user_key == user.key)
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


def is_repeated(connection: Connection, user: StoredUser | None, name: str, body: bytes) -> bool:
    """Whether this user (None: the admin) has sent a request with this `Idempotency-Key` and body
    before. If not, it is recorded in the transaction of the change."""
    digest = hashlib.sha256(f"{user.key if user else 'admin'} {name}".encode()).digest()
    sent = hashlib.sha256(body).digest()
    connection.execute(delete(repeats).where(repeats.c.day <= today() - REMEMBERED_DAYS))
    entry = insert(connection, repeats).values(
        digest=digest, user_key=user.key if user else None, body=sent, day=today()
    )
    # first, so that of two processes with the same request one waits for the other
    new = entry.on_conflict_do_nothing().returning(repeats.c.day)
    if connection.execute(new).scalar_one_or_none() is None:
        before = select(repeats.c.body).where(repeats.c.digest == digest)
        if bytes(connection.execute(before).scalar_one()) != sent:
            raise InputError(
                "this Idempotency-Key came with another body before; every request needs a "
                "key of its own. Nothing was stored"
            )
        return True
    own = 0 if user is None else count_rows(connection, repeats, repeats.c.user_key == user.key)
    if own > MOST_REMEMBERED:
        raise QuotaError(
            f"a client may give {MOST_REMEMBERED:,} requests an Idempotency-Key in "
            f"{REMEMBERED_DAYS} days; go on without one, or send more rows at once. Nothing of "
            "this was stored"
        )
    return False


# ---- reading and taking back ------------------------------------------------------------------


def page(
    connection: Connection,
    n: int,
    after: Cursor = START,
    *,
    user_id: str | None = None,
    item_id: str | None = None,
    feedback_type: str | None = None,
) -> tuple[list[wire.Feedback], Cursor | None]:
    """The next `n` rows in order of user, item, type and release, and where to resume."""
    key = [*feedback.primary_key]
    query = (
        select(feedback, users.c.user_id, items.c.item_id)
        .join(users, users.c.user_key == feedback.c.user_key)
        .join(items, items.c.item_key == feedback.c.item_key)
        .where(tuple_(*key) > tuple_(*after))
        .order_by(*key)
        .limit(n)
    )
    for column, wanted in (
        (users.c.user_id, user_id),
        (items.c.item_id, item_id),
        (feedback.c.feedback_type, feedback_type),
    ):
        if wanted is not None:
            query = query.where(column == wanted)
    rows = connection.execute(query).all()
    last = tuple(getattr(rows[-1], column.name) for column in key) if len(rows) == n else None
    return [_feedback(row) for row in rows], last


def remove(
    connection: Connection, user: StoredUser, item_id: str, feedback_type: str | None = None
) -> int:
    """Delete a user's feedback on one item, of one type or of all. Returns the number of rows."""
    item = select(items.c.item_key).where(items.c.item_id == item_id).scalar_subquery()
    which = and_(feedback.c.user_key == user.key, feedback.c.item_key == item)
    if feedback_type is not None:
        which = and_(which, feedback.c.feedback_type == feedback_type)
    gone = connection.execute(delete(feedback).where(which)).rowcount
    _touch(connection, {user.key})
    return gone


def counts(connection: Connection) -> dict[str, int]:
    rows = connection.execute(
        select(feedback.c.feedback_type, func.count()).group_by(feedback.c.feedback_type)
    )
    return {name: int(number) for name, number in rows}


def total(connection: Connection) -> int:
    return count_rows(connection, feedback)


def guarantee_mix(connection: Connection) -> list[dict[str, Any]]:
    """How many releases state which guarantee, the strongest first."""
    mix: Counter[tuple[float, str]] = Counter()
    rows = connection.execute(
        select(releases.c.guarantee, func.count()).group_by(releases.c.guarantee)
    )
    for stated, number in rows:
        mix[_band(stated)] += int(number)
    return [{"guarantee": name, "releases": mix[order, name]} for order, name in sorted(mix)]


def _touch(connection: Connection, user_keys: set[int]) -> None:
    touch(connection, user_keys, next_revision(connection))


def _check_known(
    rows: list[wire.Feedback], user_keys: dict[str, int], item_keys: dict[str, int]
) -> None:
    for at, row in enumerate(rows, start=1):
        if row.UserId not in user_keys:
            raise InputError(f"row {at}: there is no such user; register first. Nothing was stored")
        if row.ItemId not in item_keys:
            raise InputError(
                f"row {at}: the item is not in the catalogue; GET /api/items lists what is, and "
                "the admin adds to it with POST /api/items. Nothing was stored"
            )


def _band(stated: str) -> tuple[float, str]:
    """The band that a stated guarantee belongs to, after its place in the order of bands."""
    guarantee = Guarantee.from_dict(json.loads(stated))
    if guarantee.status == "none" or guarantee.reproducible:
        return (1e5, "none: sent in clear")
    top = next((edge for edge in (0.1, 0.5, 1, 2, 4, 8) if guarantee.epsilon <= edge), None)
    name = f"ε ≤ {top:g}" if top else "ε > 8"
    return (top or 9.0, f"{name} for one {guarantee.unit}, {guarantee.status}")


def _feedback(row: Any) -> wire.Feedback:
    return wire.Feedback(
        FeedbackType=row.feedback_type,
        UserId=row.user_id,
        ItemId=row.item_id,
        Value=row.value,
        Timestamp=catalogue.moment(row.timestamp),
        Comment=row.comment,
    )
