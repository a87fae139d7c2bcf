"""Routes of the operator: health, figures, training, metrics, and two pages without a script."""

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
from epicrec.server.api.access import Admin, Caller, Serving, browsing_admin
from epicrec.server.service import Service
from epicrec.server.store import catalogue, people, releases
from epicrec.server.store.database import cause, revision
from epicrec.server.training.ledger import NO_LISTS, spent
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
async def ready(serving: Serving, response: Response) -> wire.Health:
    """The process, its database and what it learned answer; where not, what is wrong."""
    problem, why = serving.ranking.problem, ""
    if problem and serving.ranking.lists is None:
        why = "what was learned is damaged, and nothing older is there"
    elif problem:
        why = "the newest training is damaged; the one before it answers"
    elif serving.model_problem:
        why = "the published model is damaged"
    connected, broken = True, ""
    try:
        await serving.database.read(revision)
    except Exception as error:
        connected, broken = False, cause(error)
    is_ready = connected and not (problem and serving.ranking.lists is None)
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
async def stats(serving: Serving, _: Admin) -> dict[str, Any]:
    """Counts, the guarantees of what was received, and what the published models have cost."""
    return await figures(serving)


@router.get("/api/dashboard/training")
async def training(serving: Serving, _: Admin) -> dict[str, Any]:
    """How far the training is, its last result, and which training is being served."""
    return serving.training_status()


@router.post("/api/dashboard/train")
async def train(serving: Serving, _: Admin) -> dict[str, bool]:
    """Train now, unless a training is under way."""
    if serving.model_alone:
        raise InputError(NO_LISTS)
    return {"Started": serving.training.start()}


@router.get("/api/dashboard/publishing")
async def publishing(serving: Serving, _: Admin) -> dict[str, Any]:
    """How far the item model is, and its last result."""
    return serving.publishing.status()


@router.post("/api/dashboard/publish")
async def publish(serving: Serving, _: Admin) -> dict[str, bool]:
    """Train and publish a new item model. Each one is a release and counts in the ledger."""
    return {"Started": serving.publishing.start()}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(serving: Serving, _: Browsing) -> Response:
    """Counts and times for Prometheus; the admin's key goes in as a password or bearer token."""
    return Response(await run_in_threadpool(serving.metrics.text), media_type=CONTENT_TYPE_LATEST)


@router.get("/operator", response_class=HTMLResponse)
async def operator_page(serving: Serving, _: Browsing) -> str:
    """What the operator wants to know at a glance. The admin's key is the password."""
    info = published(serving.settings)
    return _pages.get_template("operator.html").render(
        version=__version__,
        figures=await figures(serving),
        training=serving.training_status(),
        publishing=serving.publishing.status(),
        published=info,
        settings=serving.settings,
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


async def figures(serving: Service) -> dict[str, Any]:
    """Counts, guarantee mix and ledger, none of them about one person."""
    found = await serving.database.read(_counts)
    try:
        found["ledger"] = [str(total) for total in spent(serving.settings)]
    except EpicrecError as error:
        found["ledger"] = [str(error)]
    return found


def _counts(connection: Any) -> dict[str, Any]:
    by_type = releases.counts(connection)
    return {
        "counts": people.counts(connection)
        | {"items": catalogue.count(connection), "feedback": sum(by_type.values())},
        "feedback_by_type": by_type,
        "guarantees": releases.guarantee_mix(connection),
    }
