"""Routes of the operator: health, figures, jobs, metrics, and two pages without scripts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from jinja2 import Environment, FileSystemLoader
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from epicrec import wire
from epicrec._version import __version__
from epicrec.errors import EpicrecError, InputError
from epicrec.server.api.access import Admin, Caller, Running, browsing_admin
from epicrec.server.store import catalogue, feedback, users
from epicrec.server.store.database import cause, revision
from epicrec.server.training.operator_ledger import NO_LISTS, spent
from epicrec.server.training.publish import published

router = APIRouter(tags=["operation"])
_FOLDER = Path(__file__).parent / "templates"
_pages = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True)
_pages.filters["moment"] = lambda stamp: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(stamp))
_pages.filters["words"] = lambda name: name.replace("_", " ")

Browsing = Annotated[Caller, Depends(browsing_admin)]


@router.get("/api/health/live")
async def live() -> wire.Health:
    """The process answers."""
    return wire.Health(Ready=True, DataStoreConnected=True)


@router.get("/api/health/ready", responses={503: {"model": wire.Health}})
async def ready(service: Running, response: Response) -> wire.Health:
    """The process, its database and what it learned answer; where not, what is wrong."""
    problem, why = service.ranking.problem, ""
    if problem and service.ranking.lists is None:
        why = "what was learned is damaged, and nothing older is there"
    elif problem:
        why = "the newest training is damaged; the one before it answers"
    elif service.model_problem:
        why = "the published model is damaged"
    connected, broken = True, ""
    try:
        await service.database.read(revision)
    except Exception as error:
        connected, broken = False, cause(error)
    is_ready = connected and not (problem and service.ranking.lists is None)
    if not is_ready:
        response.status_code = 503
    return wire.Health(
        Ready=is_ready,
        DataStoreConnected=connected,
        DataStoreError=broken,
        CacheStoreConnected=not why,
        CacheStoreError=why,
    )


@router.get("/api/dashboard/stats")
async def stats(service: Running, _: Admin) -> dict[str, Any]:
    """Counts, the guarantees of what was received, and what the published models have cost."""
    found = await service.database.read(_counts)
    try:
        found["ledger"] = [str(total) for total in spent(service.settings)]
    except EpicrecError as error:
        found["ledger"] = [str(error)]
    return found


@router.get("/api/dashboard/training")
async def training(service: Running, _: Admin) -> dict[str, Any]:
    """How far the training is, its last result, and which training is being served."""
    return service.training_status()


@router.post("/api/dashboard/train")
async def train(service: Running, _: Admin) -> dict[str, bool]:
    """Train now, or once more when the training that is under way is over."""
    if service.model_alone:
        raise InputError(NO_LISTS)
    return {"Started": service.training.start(again=True)}


@router.get("/api/dashboard/publishing")
async def publishing(service: Running, _: Admin) -> dict[str, Any]:
    """How far the item model is, and its last result."""
    return service.publishing.status()


@router.post("/api/dashboard/publish")
async def publish(service: Running, _: Admin) -> dict[str, bool]:
    """Train and publish a new item model. Each one is a release and counts in the ledger."""
    return {"Started": service.publishing.start()}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: Running, _: Browsing) -> Response:
    """Counts and times for Prometheus; the admin's key goes in as a password or bearer token."""
    return Response(await run_in_threadpool(service.metrics.text), media_type=CONTENT_TYPE_LATEST)


@router.get("/operator", response_class=HTMLResponse)
async def operator_page(service: Running, admin: Browsing) -> str:
    """What the operator wants to know at a glance. The admin's key is the password."""
    info = published(service.settings)
    return _pages.get_template("operator.html").render(
        version=__version__,
        figures=await stats(service, admin),
        training=service.training_status(),
        publishing=service.publishing.status(),
        published=info,
        settings=service.settings,
    )


@router.get("/docs", response_class=HTMLResponse)
async def docs_page(request: Request) -> str:
    """Every route on one page, from the OpenAPI document at /openapi.json."""
    document = request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            row = {"method": method.upper(), "path": path, **about}
            groups.setdefault(about.get("tags", ["other"])[0], []).append(row)
    return _pages.get_template("docs.html").render(info=document["info"], groups=groups)


@router.get("/style.css", include_in_schema=False)
async def style() -> Response:
    return Response((_FOLDER / "style.css").read_text("utf-8"), media_type="text/css")


def _counts(connection: Any) -> dict[str, Any]:
    """Counts and guarantees, none of them about one person."""
    by_type = feedback.counts(connection)
    return {
        "counts": users.counts(connection)
        | {"items": catalogue.count(connection), "feedback": sum(by_type.values())},
        "feedback_by_type": by_type,
        "guarantees": feedback.guarantee_mix(connection),
    }
