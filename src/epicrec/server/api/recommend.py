"""Routes of recommendations: for a user, for an unstored session, and the item model."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Path, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from epicrec import wire
from epicrec.server.api.access import (
    AnyCaller,
    Caller,
    PathId,
    Running,
    WithSlashes,
    caller_of,
    limit_address,
    one_or_nobody,
    service_of,
)
from epicrec.server.api.cursors import Number, Offset
from epicrec.server.service import Service
from epicrec.server.store.histories import in_clear
from epicrec.server.training.publish import offered

router = APIRouter(prefix="/api", tags=["recommendations"])

Category = Annotated[str, Query(max_length=64, pattern=wire.PRINTABLE)]
Source = Annotated[
    str, Query(pattern="^(releases)?$", description="'releases': the model learned from them.")
]
PathCategory = Annotated[str, WithSlashes, Path(max_length=64, pattern=wire.PRINTABLE)]
Ids = list[str] | list[wire.Score]
SCORES = "2"
"""The X-API-Version that asks for scores."""
_VERSION = {"name": "X-API-Version", "in": "header", "description": "2 gives scores."}
_VERSIONED = {"parameters": [_VERSION | {"required": False, "schema": {"type": "string"}}]}


@router.get("/recommend/{user_id}", response_model=Ids, openapi_extra=_VERSIONED)
async def recommend(
    request: Request, user_id: PathId, n: Number = 10, offset: Offset = 0, category: Category = ""
) -> Response:
    """The best items for a user, for that user or the admin; what they gave in clear is left
    out. For the admin somebody unknown is a newcomer, as with Gorse."""
    service, caller = service_of(request), await caller_of(request)
    with_scores = request.headers.get("x-api-version") == SCORES
    body = await listed(service, caller, user_id, n, offset, category, with_scores=with_scores)
    return Response(body, media_type="application/json")


@router.get("/recommend/{user_id}/{category:path}", response_model=Ids, openapi_extra=_VERSIONED)
async def recommend_in_category(
    request: Request, user_id: PathId, category: PathCategory, n: Number = 10, offset: Offset = 0
) -> Response:
    """The best items of one category for a user, for that user or the admin."""
    return await recommend(request, user_id, n, offset, category)


@router.post("/session/recommend")
async def session(
    service: Running,
    _: AnyCaller,
    feedback: Annotated[list[wire.Feedback], Body(max_length=wire.MOST_ROWS)],
    n: Number = 10,
    offset: Offset = 0,
    category: Category = "",
) -> list[wire.Score]:
    """The best items for whoever released this; nothing of it is stored."""
    check_category(service, category)
    lists = service.ranking.lists
    if lists is None:
        return []
    rows = [
        (key, row.FeedbackType, row.Value)
        for row in feedback
        if (key := lists.key_of(row.ItemId)) is not None
    ]
    own = in_clear(rows, service.settings.feedback_rules, service.settings.rating_type)
    found = await run_in_threadpool(lists.for_own, own, n, offset, category)
    return [wire.Score(Id=name, Score=score) for name, score in found]


@router.get("/model/info")
async def model_info(service: Running, request: Request, source: Source = "") -> wire.ModelInfo:
    """Which item model is published, and what it promises. Needs no key."""
    limit_address(request)
    return _offered(service, source)[0]


@router.head("/model", include_in_schema=False)
@router.get(
    "/model",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, 206: {}, 304: {}, 416: {}},
)
async def model(service: Running, request: Request, source: Source = "") -> Response:
    """The published item model as one file, in parts if asked for (`Range`). Needs no key, so that
    fetching it tells no user's name."""
    limit_address(request)
    info, path = _offered(service, source)
    if service.model_problem:
        raise HTTPException(503, "the published model is damaged; its operator can mend it")
    headers = {
        "ETag": f'"{info.Hash}"',
        "X-Model-Version": str(info.Version),
        "Cache-Control": "public, max-age=3600",
    }
    known = request.headers.get("if-none-match", "")
    if known == "*" or info.Hash in known:
        return Response(status_code=304, headers=headers)
    return FileResponse(
        path, headers=headers, filename=path.name, media_type="application/octet-stream"
    )


def _offered(service: Service, source: str) -> tuple[wire.ModelInfo, FilePath]:
    found = offered(service.settings, source)
    if found is None:
        raise HTTPException(404, "no item model is published here yet")
    return found


def check_category(service: Service, category: str) -> None:
    lists = service.ranking.lists
    if category and lists is not None and not lists.has_category(category):
        raise HTTPException(404, "the catalogue has no such category; GET /api/items shows them")


async def listed(
    service: Service, caller: Caller, user_id: str, n: int, offset: int, category: str, *,
    with_scores: bool,
) -> bytes:  # fmt: skip
    """A user's list as JSON, written by hand as it is the most frequent answer."""
    user = await one_or_nobody(service, caller, user_id)
    check_category(service, category)
    found = await service.ranking.recommend(user, n, offset, category)
    if with_scores:
        return json.dumps([{"Id": name, "Score": score} for name, score in found]).encode()
    return json.dumps([name for name, _ in found]).encode()
