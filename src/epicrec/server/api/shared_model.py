"""Routes of the shared model, after IETF's DAP: a task's rounds, reports, results; aggregation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from epicrec import wire
from epicrec.collective.aggregators import aborted_by, found_in, taught_by
from epicrec.collective.helper import Helper
from epicrec.collective.leader import Leader
from epicrec.collective.messages import PROBLEM, VERSION, Refusal, encode
from epicrec.collective.rounds import Book, Round
from epicrec.collective.shares import Report
from epicrec.server.api.access import AnyCaller, PathId, Running, limit_address
from epicrec.server.shared_model import SIGNATURE, SharedModelServer

LARGE = ("/tasks/", "/aggregation/")
"""Where bodies may be larger than elsewhere."""
_STATUS = {"unauthorizedRequest": 403, "unrecognizedTask": 404, "invalidMessage": 400}
_BYTES: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}
_STEPS = ("begin", "verify", "agree", "aggregate", "reveal", "confirm", "abort")

Number = Annotated[int, Path(ge=0, le=2**31 - 1)]

_both, leader, helper = (APIRouter(tags=["collective"]) for _ in range(3))


@_both.get("/collective/key")
async def key(service: Running, request: Request) -> wire.SigningKey:
    """This server's role and signing key. Devices take the helper's from elsewhere, and compare."""
    limit_address(request)
    own = _shared_model(service)
    role: Any = service.settings.role
    return wire.SigningKey(Role=role, Key=own.key.hex(), Fingerprint=own.fingerprint)


@leader.get("/tasks/{task}/round", responses=_BYTES, response_class=Response)
async def current(service: Running, request: Request, task: PathId) -> Response:
    """The newest round of a task that takes reports: its announcement, and what is published."""
    limit_address(request)
    own = _shared_model(service)

    def announced() -> bytes:
        with own.store.reading() as book:
            number = book.last_round(task)
            found = found_in(book, task, number)
            if found.state != "open" or own.aggregator.is_lost(found):
                raise Refusal("unrecognizedTask", f"the task {task!r} has no open round now")
            return encode(found.announcement.encoded(), book.published(task, number))

    return _octets(await run_in_threadpool(announced))


@leader.put("/tasks/{task}/rounds/{number}/reports", status_code=201, response_class=Response)
async def upload(
    service: Running, caller: AnyCaller, request: Request, task: PathId, number: Number
) -> Response:
    """Take a report, sealed for both servers: one for each account and round, however often."""
    if caller.user is None:
        raise HTTPException(403, "reports come from devices; this is the admin's key")
    report = Report.from_encoded(await request.body())
    token = hashlib.sha256(encode(VERSION, "admission", caller.user.id, task, number)).digest()
    await run_in_threadpool(_leader(service).upload, task, number, report, token)
    return Response(status_code=201)


@leader.get("/tasks/{task}/rounds/{number}/result", responses=_BYTES, response_class=Response)
async def result(service: Running, request: Request, task: PathId, number: Number) -> Response:
    """What a finished round taught, signed by both servers, for anybody: the model follows."""
    limit_address(request)
    return await _ended(service, task, number, lambda *found: taught_by(*found).encoded())


@leader.get("/tasks/{task}/rounds/{number}/abort", responses=_BYTES, response_class=Response)
async def aborted(service: Running, request: Request, task: PathId, number: Number) -> Response:
    """That a round ended without a result and showed nothing, signed by both servers."""
    limit_address(request)
    return await _ended(service, task, number, lambda _, found: aborted_by(found).encoded())


@helper.post("/aggregation/{step}", responses=_BYTES, response_class=Response)
async def aggregation(service: Running, request: Request, step: str) -> Response:
    """A step of a round, for the leader alone: from begin to confirm, or abort."""
    own = _shared_model(service)
    if own.helper is None or step not in _STEPS:
        raise HTTPException(404, f"there is no step {step!r}; there are {', '.join(_STEPS)}")
    body = await request.body()
    own.check(step, body, request.headers.get(SIGNATURE, ""))
    act = getattr(Helper, step)
    return _octets(await run_in_threadpool(act, own.helper, body))


async def refused(_: Request, error: Exception) -> JSONResponse:
    """A problem document (RFC 9457) by the names of DAP."""
    assert isinstance(error, Refusal)
    status = _STATUS.get(error.kind, 409)
    body = {"type": PROBLEM + error.kind, "title": error.kind, "status": status,
            "detail": str(error)}  # fmt: skip
    return JSONResponse(body, status, media_type="application/problem+json")


def _shared_model(service: Running) -> SharedModelServer:
    assert service.shared_model is not None
    return service.shared_model


async def _ended(
    service: Running, task: str, number: int, read: Callable[[Book, Round], bytes]
) -> Response:
    def find() -> bytes:
        with _shared_model(service).store.reading() as book:
            return read(book, found_in(book, task, number))

    return _octets(await run_in_threadpool(find))


def _leader(service: Running) -> Leader:
    found = _shared_model(service).leader
    assert found is not None
    return found


def _octets(content: bytes) -> Response:
    return Response(content, media_type="application/octet-stream")


for _router in (leader, helper):
    _router.include_router(_both)
ROUTERS = {"leader": leader, "helper": helper}
