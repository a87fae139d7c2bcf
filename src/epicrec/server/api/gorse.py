"""Routes that Gorse's clients call and ours do not: lists for everybody, categories, neighbours.

What would tell one user about another is refused, with the reason.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, HTTPException
from starlette.concurrency import run_in_threadpool

from epicrec import wire
from epicrec.server.api.access import Admin, AnyCaller, Own, PathId, Running
from epicrec.server.api.cursors import Number, Offset
from epicrec.server.api.feedback import PathType
from epicrec.server.api.items import no_item
from epicrec.server.api.recommend import Category, PathCategory, check_category, session
from epicrec.server.service import Service
from epicrec.server.store import catalogue, feedback, users

router = APIRouter(prefix="/api", tags=["gorse"])

_MOST = 10**6


@router.get("/popular")
async def popular(
    service: Running, _: AnyCaller, n: Number = 10, offset: Offset = 0, category: Category = ""
) -> list[wire.Score]:
    """What those without data get: the most popular items."""
    check_category(service, category)
    lists = service.ranking.lists
    found = [] if lists is None else await run_in_threadpool(lists.popular, n, offset, category)
    return [wire.Score(Id=name, Score=score) for name, score in found]


@router.get("/popular/{category:path}")
async def popular_in_category(
    service: Running, caller: AnyCaller, category: PathCategory, n: Number = 10, offset: Offset = 0
) -> list[wire.Score]:
    """The most popular items of one category."""
    return await popular(service, caller, n, offset, category)


@router.get("/latest")
async def latest(
    service: Running, _: AnyCaller, n: Number = 10, offset: Offset = 0, category: Category = ""
) -> list[wire.Score]:
    """The newest items by the catalogue's timestamps; the score is the time."""
    found = await service.database.read(catalogue.latest, n, offset, category)
    return [wire.Score(Id=name, Score=stamp) for name, stamp in found]


@router.get("/latest/{category:path}")
async def latest_in_category(
    service: Running, caller: AnyCaller, category: PathCategory, n: Number = 10, offset: Offset = 0
) -> list[wire.Score]:
    """The newest items of one category."""
    return await latest(service, caller, n, offset, category)


@router.get("/item/{item_id}/neighbors/{category:path}")
async def neighbours_in_category(
    service: Running, _: AnyCaller, item_id: PathId, category: PathCategory, n: Number = 10,
    offset: Offset = 0,
) -> list[wire.Score]:  # fmt: skip
    """The items of one category that are most like one item."""
    check_category(service, category)
    lists = service.ranking.lists
    found = None
    if lists is not None:
        found = await run_in_threadpool(lists.neighbours, item_id, _MOST)
    if found is None:
        raise no_item()
    if category:
        inside = await service.database.read(catalogue.ids_in, category)
        found = [one for one in found if one[0] in inside]
    return [wire.Score(Id=name, Score=score) for name, score in found[offset : offset + n]]


@router.post("/session/recommend/{category:path}")
async def session_in_category(
    service: Running,
    caller: AnyCaller,
    category: PathCategory,
    feedback: Annotated[list[wire.Feedback], Body(max_length=wire.MOST_ROWS)],
    n: Number = 10,
    offset: Offset = 0,
) -> list[wire.Score]:
    """The best items of one category for whoever released this; nothing of it is stored."""
    return await session(service, caller, feedback, n, offset, category)


@router.patch("/user/{user_id}")
async def change_user(
    service: Running, _: Admin, user_id: PathId, change: wire.UserPatch
) -> wire.RowAffected:
    """Change what is given of one user. For the admin."""
    rows = await service.database.write(users.patch, user_id, change)
    if rows == 0:
        raise HTTPException(404, "there is no such user")
    return wire.RowAffected(RowAffected=rows)


@router.put("/item/{item_id}/category/{category}")
async def add_category(
    service: Running, _: Admin, item_id: PathId, category: PathCategory
) -> wire.RowAffected:
    """Put an item into a category; lists know it after the next training. For the admin."""
    return await _change_category(service, item_id, category, inside=True)


@router.delete("/item/{item_id}/category/{category}")
async def remove_category(
    service: Running, _: Admin, item_id: PathId, category: PathCategory
) -> wire.RowAffected:
    """Take an item out of a category. For the admin."""
    return await _change_category(service, item_id, category, inside=False)


@router.get("/item/{item_id}/feedback")
async def feedback_of_item(service: Running, _: Admin, item_id: PathId) -> list[wire.Feedback]:
    """All that was released about one item, by everybody. For the admin."""
    return (await service.database.read(feedback.page, _MOST, item_id=item_id))[0]


@router.get("/item/{item_id}/feedback/{feedback_type}")
async def feedback_of_item_and_type(
    service: Running, _: Admin, item_id: PathId, feedback_type: PathType
) -> list[wire.Feedback]:
    """All of one type that was released about one item. For the admin."""
    found, _next = await service.database.read(
        feedback.page, _MOST, item_id=item_id, feedback_type=feedback_type
    )
    return found


@router.get("/user/{user_id}/neighbors", responses={501: {"model": wire.Problem}})
async def user_neighbours(_: Own) -> None:
    """Not done: whose releases are alike would tell one user what another released."""
    raise HTTPException(
        501, "users are not compared here: who is like whom tells what each of them released"
    )


async def _change_category(
    service: Service, item_id: str, category: str, *, inside: bool
) -> wire.RowAffected:
    rows = await service.database.write(catalogue.put_into, item_id, category, inside=inside)
    if rows is None:
        raise no_item()
    return wire.RowAffected(RowAffected=rows)
