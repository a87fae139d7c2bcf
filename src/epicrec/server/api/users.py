"""Routes of users: register, read one's own data, leave. The admin reads and adds everybody's."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Request

from epicrec import wire
from epicrec.server.api.access import Admin, Own, Running, address_of, too_many
from epicrec.server.api.cursors import Cursor, Number, key_at, written
from epicrec.server.store import users as stored_users

router = APIRouter(prefix="/api", tags=["users"])


@router.post("/register")
async def register(service: Running, request: Request) -> wire.Registration:
    """A random id and a secret for a new client. The secret is told here once; keep it."""
    if not service.settings.registration:
        raise HTTPException(403, "this server registers no clients by itself; ask its operator")
    address = address_of(request)
    if not service.registrations.take(address):
        raise too_many(service.registrations.wait(address))
    made = await service.database.write(stored_users.register)
    service.metrics.registrations.inc()
    return made


@router.get("/users")
async def list_users(
    service: Running, _: Admin, n: Number = 10, cursor: Cursor = ""
) -> wire.UserPage:
    """A page of users. For the admin."""
    found, place = await service.database.read(stored_users.page, n, key_at(cursor))
    return wire.UserPage(Cursor=written(place), Users=found)


@router.post("/users")
async def add_users(
    service: Running,
    _: Admin,
    users: Annotated[list[wire.User], Body(max_length=wire.MOST_ROWS)],
) -> wire.RowAffected:
    """Add users the admin speaks for, or change their labels. For the admin."""
    return wire.RowAffected(RowAffected=await service.database.write(stored_users.put, users))


@router.post("/user")
async def add_user(service: Running, _: Admin, user: wire.User) -> wire.RowAffected:
    """Add one user the admin speaks for, or change their labels. For the admin."""
    return wire.RowAffected(RowAffected=await service.database.write(stored_users.put, [user]))


@router.get("/user/{user_id}")
async def get_user(service: Running, user: Own) -> wire.User:
    """What is known of a user, for that user or the admin."""
    found = await service.database.read(stored_users.get, user.id)
    if found is None:
        raise HTTPException(404, "there is no such user")
    return found


@router.delete("/user/{user_id}")
async def delete_user(service: Running, user: Own) -> wire.RowAffected:
    """Forget a user and everything they released, for that user or the admin."""
    key = await service.database.write(stored_users.forget, user.id)
    if key is not None:
        await service.forget([key])
    return wire.RowAffected(RowAffected=int(key is not None))
