"""Access: who is asking, what they may see, and how often they may ask."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Path, Request
from pydantic import BeforeValidator

from epicrec import wire
from epicrec.server.api.guard import SLASH
from epicrec.server.service import Service
from epicrec.server.store import users
from epicrec.server.store.users import StoredUser

WithSlashes = BeforeValidator(lambda text: text.replace(SLASH, "/"))
PathId = Annotated[str, WithSlashes, Path(min_length=1, max_length=256, pattern=wire.PRINTABLE)]


@dataclass(frozen=True)
class Caller:
    """The admin (`user` is None) or one user."""

    user: StoredUser | None

    @property
    def is_admin(self) -> bool:
        return self.user is None


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _running(request: Request) -> Service:
    return service_of(request)  # FastAPI would call a function that is not async in a thread


def address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


async def caller_of(request: Request) -> Caller:
    """The caller with the key in `X-API-Key`."""
    key = request.headers.get("x-api-key")
    return await caller_with(service_of(request), key, address_of(request))


async def admin_of(request: Request) -> Caller:
    caller = await caller_of(request)
    if not caller.is_admin:
        raise HTTPException(403, "this needs the admin's key")
    return caller


async def browsing_admin(request: Request) -> Caller:
    """The admin with a browser or a metrics collector: the key as a password, or as a bearer token.

    Only for reading: a browser adds such a key to requests that other pages make."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    key = request.headers.get("x-api-key")
    if kind.lower() == "bearer":
        key = value
    elif kind.lower() == "basic":
        try:
            key = base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            key = ""
    if not key:
        asks = {"WWW-Authenticate": 'Basic realm="epicrec operator", charset="UTF-8"'}
        raise HTTPException(401, "give the admin's key as the password", headers=asks)
    caller = await caller_with(service_of(request), key, address_of(request))
    if not caller.is_admin:
        raise HTTPException(403, "this needs the admin's key")
    return caller


async def own(user_id: PathId, request: Request) -> StoredUser:
    """The user in the path, for themselves or the admin. Others get the same answer whether that
    user exists or not."""
    found = await one_or_nobody(service_of(request), await caller_of(request), user_id)
    if found is None:
        raise HTTPException(404, "there is no such user")
    return found


async def one_or_nobody(service: Service, caller: Caller, user_id: str) -> StoredUser | None:
    """The same, but None where the admin names a user who does not exist."""
    if caller.user is not None:
        return mine(caller, user_id)
    return await service.database.ask(users.known, user_id)


def mine(caller: Caller, user_id: str) -> StoredUser:
    if caller.user is None or caller.user.id != user_id:
        raise HTTPException(403, "this key is not that user's")
    return caller.user


def limit_address(request: Request) -> None:
    """Limit requests without a key by address."""
    service, address = service_of(request), address_of(request)
    if not service.requests.take(address):
        raise too_many(service.requests.wait(address))


def too_many(seconds: int) -> HTTPException:
    return HTTPException(
        429, f"too many requests; wait {seconds} seconds", headers={"Retry-After": str(seconds)}
    )


async def caller_with(service: Service, key: str | None, address: str) -> Caller:
    """The caller with this key. Wrong keys are counted by address, and beyond the limit told to
    wait. A right key works whatever others at the same address have tried: it cannot be guessed."""
    if key is None:
        raise HTTPException(401, "the header X-API-Key is missing; POST /api/register gives a key")
    found = users.digest(key)
    is_admin = hmac.compare_digest(found, service.admin_digest)
    user = None if is_admin else await service.callers.whose(found)
    if user is None and not is_admin:
        if not service.failures.take(address):
            raise too_many(service.failures.wait(address))
        raise HTTPException(401, "nobody has this key")
    if user is not None and not service.requests.take(user.key):
        raise too_many(service.requests.wait(user.key))
    return Caller(user)


Running = Annotated[Service, Depends(_running)]
AnyCaller = Annotated[Caller, Depends(caller_of)]
Admin = Annotated[Caller, Depends(admin_of)]
Own = Annotated[StoredUser, Depends(own)]
