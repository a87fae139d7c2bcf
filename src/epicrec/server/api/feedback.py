"""Routes of feedback: what clients release, and what they take back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, HTTPException, Path, Request

from epicrec import wire
from epicrec.server.api.access import Admin, AnyCaller, Caller, Own, PathId, Running
from epicrec.server.api.cursors import Cursor, Number, row_at, written
from epicrec.server.service import Service
from epicrec.server.store import feedback
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

    def change(connection: Any) -> int:
        rows = feedback.receive(connection, user, released)
        feedback.check_quota(connection, service.settings, user)
        return rows

    rows = await service.database.write(change)
    service.metrics.rows.inc(rows)
    service.ranking.changed([user.key])
    return wire.RowAffected(RowAffected=rows)


@router.put("/feedback")
async def put_feedback(service: Running, caller: AnyCaller, rows: Rows) -> wire.RowAffected:
    """Store feedback; rows that are there already are overwritten. It carries no guarantee."""
    return await _store(service, caller, rows)


@router.post("/feedback")
async def post_feedback(
    service: Running, caller: AnyCaller, rows: Rows, request: Request, name: RequestName = ""
) -> wire.RowAffected:
    """Store feedback; rows that are there already grow by the new ones. It carries no guarantee.

    With an `Idempotency-Key` the same request sent again within a day counts once."""
    sent = (name, await request.body()) if name else None
    return await _store(service, caller, rows, add=True, sent=sent)


@router.get("/feedback")
async def list_feedback(
    service: Running, _: Admin, n: Number = 10, cursor: Cursor = ""
) -> wire.FeedbackPage:
    """A page of all feedback. For the admin."""
    return await _page(service, n, cursor)


@router.get("/feedback/{feedback_type}")
async def list_feedback_of_type(
    service: Running, _: Admin, feedback_type: PathType, n: Number = 10, cursor: Cursor = ""
) -> wire.FeedbackPage:
    """A page of all feedback of one type. For the admin."""
    return await _page(service, n, cursor, feedback_type)


@router.get("/user/{user_id}/feedback")
async def own_feedback(service: Running, user: Own) -> list[wire.Feedback]:
    """All a user released, for that user or the admin."""
    return await rows_of(service, user_id=user.id)


@router.get("/user/{user_id}/feedback/{feedback_type}")
async def own_feedback_of_type(
    service: Running, user: Own, feedback_type: PathType
) -> list[wire.Feedback]:
    """All a user released of one type, for that user or the admin."""
    return await rows_of(service, user_id=user.id, feedback_type=feedback_type)


@router.get("/feedback/{user_id}/{item_id}")
async def feedback_on_item(service: Running, user: Own, item_id: PathId) -> list[wire.Feedback]:
    """What a user released about one item, for that user or the admin."""
    return await rows_of(service, user_id=user.id, item_id=item_id)


@router.delete("/feedback/{user_id}/{item_id}")
async def delete_feedback(service: Running, user: Own, item_id: PathId) -> wire.RowAffected:
    """Take back what a user released about one item."""
    return await _remove(service, user, item_id)


@router.get("/feedback/{feedback_type}/{user_id}/{item_id}")
async def one_feedback(
    service: Running, feedback_type: PathType, user: Own, item_id: PathId
) -> wire.Feedback:
    """One row, for that user or the admin."""
    found = await rows_of(service, user_id=user.id, item_id=item_id, feedback_type=feedback_type)
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
    service: Service,
    caller: Caller,
    rows: list[wire.Feedback],
    *,
    add: bool = False,
    sent: tuple[str, bytes] | None = None,
) -> wire.RowAffected:
    """Store rows; those of a request `sent` before, by its name and body, are stored already."""
    user = caller.user
    if user is not None and any(row.UserId != user.id for row in rows):
        raise HTTPException(403, "this key is not that user's; every row must be your own")

    def change(connection: Any) -> set[int]:
        stored: set[int] = set()
        if sent is None or not feedback.is_repeated(connection, user, *sent):
            stored = feedback.put(connection, rows, add=add, make=user is None)
        if user is not None:
            feedback.check_quota(connection, service.settings, user)
        return stored

    keys = await service.database.write(change)
    service.metrics.rows.inc(len(rows) if keys else 0)
    service.ranking.changed(keys)
    return wire.RowAffected(RowAffected=len(rows))


async def _page(
    service: Service, n: int, cursor: str, feedback_type: str | None = None
) -> wire.FeedbackPage:
    found, place = await service.database.read(
        feedback.page, n, row_at(cursor), feedback_type=feedback_type
    )
    return wire.FeedbackPage(Cursor=written(place), Feedback=found)


async def rows_of(
    service: Service,
    *,
    user_id: str | None = None,
    item_id: str | None = None,
    feedback_type: str | None = None,
) -> list[wire.Feedback]:
    """All feedback of a user or on an item."""
    found, _ = await service.database.read(
        feedback.page, 10**6, user_id=user_id, item_id=item_id, feedback_type=feedback_type
    )
    return found


async def _remove(
    service: Service, user: StoredUser, item_id: str, feedback_type: str | None = None
) -> wire.RowAffected:
    rows = await service.database.write(feedback.remove, user, item_id, feedback_type)
    service.ranking.changed([user.key])
    return wire.RowAffected(RowAffected=rows)
