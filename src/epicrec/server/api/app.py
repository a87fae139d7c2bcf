"""The ASGI application: routes, errors in plain words, start and stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import IntegrityError
from starlette.routing import BaseRoute

from epicrec import wire
from epicrec._version import __version__
from epicrec.collective.messages import Refusal
from epicrec.errors import InputError
from epicrec.server.api import feedback, gorse, items, operator, recommend, shared_model, users
from epicrec.server.api.guard import Guard
from epicrec.server.operations.logs import event, flush_logs
from epicrec.server.service import Service
from epicrec.server.settings import Settings
from epicrec.server.store.database import UNAVAILABLE, BusyError, cause
from epicrec.server.store.feedback import QuotaError

_KEY = {
    "type": "apiKey",
    "in": "header",
    "name": "X-API-Key",
    "description": "A client's secret, or the admin's key.",
}
_OPEN = (
    ("get", "/api/health/live"), ("get", "/api/health/ready"), ("get", "/docs"),
    ("post", "/api/register"), ("get", "/api/model"), ("get", "/api/model/info"),
    ("get", "/collective/key"), ("get", "/tasks/{task}/round"),
    ("get", "/tasks/{task}/rounds/{number}/result"),
    ("get", "/tasks/{task}/rounds/{number}/abort"), ("post", "/aggregation/{step}"),
)  # fmt: skip
"""Routes that need no key; aggregation is signed instead."""
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": wire.Problem, "description": about}
    for status, about in {
        400: "The request cannot be used as it is.",
        401: "The key is missing or wrong.",
        403: "The key is not for this.",
        404: "There is no such thing.",
        408: "The body came too slowly.",
        409: "Something was changed at the same time.",
        413: "The body, or all that this user stores, is too large.",
        422: "A field is missing, of the wrong type or out of bounds.",
        429: "Too many requests.",
        503: "The database or its disk cannot be used now; what was sent is not stored.",
    }.items()
}


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        await service.start()
        event("started", version=__version__)
        yield {"settings": settings}  # to the connections
        await service.stop()
        event("stopped")
        flush_logs()

    app = FastAPI(
        title="epicrec server",
        version=__version__,
        description="A recommender that stores only what clients release.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere; /docs is ours
        redoc_url=None,
    )
    app.state.service = service
    app.openapi = partial(_openapi, app.openapi)  # type: ignore[method-assign]
    if settings.role != "helper":
        app.router.routes[:0] = recommend.FAST_PATHS
    app.router.routes += _routes(settings.role)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(InputError, _with_status(400))
    app.add_exception_handler(BusyError, _with_status(429, {"Retry-After": "1"}))
    app.add_exception_handler(QuotaError, _with_status(413))
    app.add_exception_handler(IntegrityError, _overtaken)
    for gone in UNAVAILABLE:
        app.add_exception_handler(gone, _unavailable)
    larger = {}
    if settings.role:
        app.add_exception_handler(Refusal, shared_model.refused)
        larger = dict.fromkeys(shared_model.LARGE, settings.collective_body_limit)
    app.add_middleware(
        Guard, metrics=service.metrics, body_limit=settings.body_limit,
        patience=settings.read_timeout, larger=larger,
    )  # fmt: skip
    return app


@cache
def _routes(role: str) -> list[BaseRoute]:
    """The routes, the most frequent first. Made once: FastAPI's checks of the responses take longer
    than the rest of a start.

    A helper answers its leader and its operator, and is no recommender.
    """
    every = APIRouter()
    recommending = (recommend, items, users, feedback, gorse) if role != "helper" else ()
    for module in (*recommending, operator):
        every.include_router(module.router, responses=_PROBLEMS)
    if role:
        every.include_router(shared_model.ROUTERS[role], responses=_PROBLEMS)
    return every.routes


def _openapi(document: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """FastAPI's document, with the header `X-API-Key` where a key is needed."""
    made = document()
    made["components"]["securitySchemes"] = {"key": _KEY}
    made["security"] = [{"key": []}]
    for method, path in _OPEN:
        if path in made["paths"]:
            made["paths"][path][method]["security"] = []
    return made


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Say which field is wrong and why, without repeating what was sent."""
    assert isinstance(error, RequestValidationError)
    lines = [
        f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()[:5]
    ]
    more = len(error.errors()) - len(lines)
    text = "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
    return JSONResponse({"detail": text.encode("utf-8", "replace").decode()}, 422)


def _with_status(status: int, headers: dict[str, str] | None = None) -> Any:
    """A handler of errors whose own text says what to do."""

    async def answer(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status, headers=headers)

    return answer


async def _overtaken(_: Request, error: Exception) -> JSONResponse:
    event("overtaken", error=type(error).__name__)
    return JSONResponse({"detail": "this was changed or deleted meanwhile; look, try again"}, 409)


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    why = cause(error)
    event("unavailable", why=why)
    text = f"{why}; nothing of this was stored; try again later"
    return JSONResponse({"detail": text}, 503, headers={"Retry-After": "5"})
