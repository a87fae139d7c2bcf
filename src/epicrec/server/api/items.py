"""Routes of the catalogue: every client reads it, the admin writes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Query
from starlette.concurrency import run_in_threadpool

from epicrec import wire
from epicrec.server.api.access import Admin, AnyCaller, PathId, Running
from epicrec.server.api.cursors import Cursor, Number, Offset, key_at, written
from epicrec.server.service import Service
from epicrec.server.store import catalogue

router = APIRouter(prefix="/api", tags=["items"])

Search = Annotated[str, Query(max_length=256, pattern=wire.PRINTABLE, description="In the title.")]


@router.get("/items")
async def list_items(
    service: Running, _: AnyCaller, n: Number = 10, cursor: Cursor = "", q: Search = ""
) -> wire.ItemPage:
    """A page of the catalogue."""
    found, place = await service.database.read(catalogue.page, n, key_at(cursor), q)
    return wire.ItemPage(Cursor=written(place), Items=found)


@router.post("/items")
async def add_items(
    service: Running,
    _: Admin,
    items: Annotated[list[wire.Item], Body(max_length=wire.MOST_ROWS)],
) -> wire.RowAffected:
    """Add items, or replace those with the same id. For the admin."""
    return await _add(service, items)


@router.post("/item")
async def add_item(service: Running, _: Admin, item: wire.Item) -> wire.RowAffected:
    """Add one item, or replace it. For the admin."""
    return await _add(service, [item])


@router.get("/item/{item_id}")
async def get_item(service: Running, _: AnyCaller, item_id: PathId) -> wire.Item:
    """One item."""
    found = await service.database.read(catalogue.get, item_id)
    if found is None:
        raise no_item()
    return found


@router.patch("/item/{item_id}")
async def change_item(
    service: Running, _: Admin, item_id: PathId, change: wire.ItemPatch
) -> wire.RowAffected:
    """Change what is given of one item. For the admin."""
    rows = await service.database.write(catalogue.patch, item_id, change)
    if rows == 0:
        raise no_item()
    if change.IsHidden is not None:
        service.ranking.show_item(item_id, not change.IsHidden)
    return wire.RowAffected(RowAffected=rows)


@router.delete("/item/{item_id}")
async def delete_item(service: Running, _: Admin, item_id: PathId) -> wire.RowAffected:
    """Delete one item and all feedback on it. For the admin."""
    rows = await service.database.write(catalogue.remove, item_id)
    service.ranking.show_item(item_id, False)
    return wire.RowAffected(RowAffected=rows)


@router.get("/item/{item_id}/neighbors")
async def neighbours(
    service: Running, _: AnyCaller, item_id: PathId, n: Number = 10, offset: Offset = 0
) -> list[wire.Score]:
    """The items most like one item."""
    lists = service.ranking.lists
    found = None
    if lists is not None:
        found = await run_in_threadpool(lists.neighbours, item_id, n, offset)
    if found is None:
        raise no_item()
    return [wire.Score(Id=name, Score=score) for name, score in found]


async def _add(service: Service, items: list[wire.Item]) -> wire.RowAffected:
    rows = await service.database.write(catalogue.put, items)
    for item in items:
        service.ranking.show_item(item.ItemId, not item.IsHidden)
    return wire.RowAffected(RowAffected=rows)


def no_item() -> HTTPException:
    return HTTPException(404, "there is no such item; GET /api/items lists what there is")
