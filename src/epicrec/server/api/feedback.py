"""Routes of feedback: what clients release, and what they take back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Header, HTTPException, Path, Request

from epicrec import wire
from epicrec.server.api.access import Admin, AnyCaller, Caller, Own, PathId, Running
from epicrec.server.api.cursors import Cursor, Number, row_at, written
from epicrec.server.service import Service
from epicrec.server.store import feedback
from epicrec.server.store.idempotency import once
from epicrec.server.store.quotas import within
from epicrec.server.store.users import StoredUser

router = APIRouter(prefix="/api", tags=["feedback"])

Rows = Annotated[list[wire.Feedback], Body(max_length=wire.MOST_ROWS)]
RequestName = Annotated[
    str, Header(alias="Idempotency-Key", max_length=128, pattern=wire.PRINTABLE)
]
PathType = Annotated[str, Path(max_length=32, pattern=wire.TYPE_NAME)]


@router.put("/user/{user_id}/release")
async def put_release(service: Running, user: Own, released: wire.Released) -> wire.RowAffected:
    """A release with its method, public settings and guarantee, beside the client's others; in
    the place of the one with the same ReleaseId, so that it may be sent again."""
    if released.UserId not in ("", user.id):
        raise HTTPException(403, "this release is made out to another user; look at its UserId")
    change = within(service.settings, user.key, feedback.receive)
    rows = await service.database.write(change, user, released)
    service.metrics.rows.inc(rows)
    service.changed([user.key])
    return wire.RowAffected(RowAffected=rows)


@router.put("/feedback")
async def put_feedback(service: Running, caller: AnyCaller, rows: Rows) -> wire.RowAffected:
    """Store feedback; rows that are there already are overwritten. It carries no guarantee."""
    return await _store(service, caller, rows, feedback.put)


@router.post("/feedback")
async def post_feedback(
    service: Running, caller: AnyCaller, rows: Rows, request: Request, name: RequestName = ""
) -> wire.RowAffected:
    """Store feedback; rows that are there already grow by the new ones. It carries no guarantee.

    With an `Idempotency-Key` the same request sent again within a day counts once."""
    add = partial(feedback.put, add=True)
    change = once(caller.user, name, await request.body(), add) if name else add
    return await _store(service, caller, rows, change)


@router.get("/feedback")
async def list_feedback(
    service: Running, _: Admin, n: Number = 10, cursor: Cursor = ""
) -> wire.FeedbackPage:
    """A page of all feedback. For the admin."""
    found, place = await service.database.read(feedback.page, n, row_at(cursor))
    return wire.FeedbackPage(Cursor=written(place), Feedback=found)


@router.get("/feedback/{feedback_type}")
async def list_feedback_of_type(
    service: Running, _: Admin, feedback_type: PathType, n: Number = 10, cursor: Cursor = ""
) -> wire.FeedbackPage:
    """A page of all feedback of one type. For the admin."""
    found, place = await service.database.read(
        feedback.page, n, row_at(cursor), feedback_type=feedback_type
    )
    return wire.FeedbackPage(Cursor=written(place), Feedback=found)


@router.get("/user/{user_id}/feedback")
async def own_feedback(service: Running, user: Own) -> list[wire.Feedback]:
    """All a user released, for that user or the admin."""
    return await _of(service, user)


@router.get("/user/{user_id}/feedback/{feedback_type}")
async def own_feedback_of_type(
    service: Running, user: Own, feedback_type: PathType
) -> list[wire.Feedback]:
    """All a user released of one type, for that user or the admin."""
    return await _of(service, user, feedback_type=feedback_type)


@router.get("/feedback/{user_id}/{item_id}")
async def feedback_on_item(service: Running, user: Own, item_id: PathId) -> list[wire.Feedback]:
    """What a user released about one item, for that user or the admin."""
    return await _of(service, user, item_id=item_id)


@router.delete("/feedback/{user_id}/{item_id}")
async def delete_feedback(service: Running, user: Own, item_id: PathId) -> wire.RowAffected:
    """Take back what a user released about one item."""
    return await _remove(service, user, item_id)


@router.get("/feedback/{feedback_type}/{user_id}/{item_id}")
async def one_feedback(
    service: Running, feedback_type: PathType, user: Own, item_id: PathId
) -> wire.Feedback:
    """One row, for that user or the admin."""
    found = await _of(service, user, item_id=item_id, feedback_type=feedback_type)
    if not found:
        raise HTTPException(404, "there is no such feedback")
    return found[0]


@router.delete("/feedback/{feedback_type}/{user_id}/{item_id}")
async def delete_one_feedback(
    service: Running, feedback_type: PathType, user: Own, item_id: PathId
) -> wire.RowAffected:
    """Take back one row."""
    return await _remove(service, user, item_id, feedback_type)


async def _store(
    service: Service, caller: Caller, rows: list[wire.Feedback], change: Callable[..., set[int]]
) -> wire.RowAffected:
    if caller.user is not None and any(row.UserId != caller.user.id for row in rows):
        raise HTTPException(403, "this key is not that user's; every row must be your own")
    if caller.user is None:
        keys = await service.database.write(change, rows, make=True)
    else:
        keys = await service.database.write(within(service.settings, caller.user.key, change), rows)
    service.metrics.rows.inc(len(rows) if keys else 0)
    service.changed(keys)
    return wire.RowAffected(RowAffected=len(rows))


async def _of(
    service: Service,
    user: StoredUser,
    *,
    item_id: str | None = None,
    feedback_type: str | None = None,
) -> list[wire.Feedback]:
    found, _ = await service.database.read(
        feedback.page, 10**6, user_id=user.id, item_id=item_id, feedback_type=feedback_type
    )
    return found


async def _remove(
    service: Service, user: StoredUser, item_id: str, feedback_type: str | None = None
) -> wire.RowAffected:
    rows = await service.database.write(feedback.remove, user, item_id, feedback_type)
    service.changed([user.key])
    return wire.RowAffected(RowAffected=rows)
