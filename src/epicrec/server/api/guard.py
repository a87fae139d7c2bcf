"""Guard: the middleware that bounds requests, adds headers for browsers, logs and counts."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epicrec.server.operations.logs import event, log
from epicrec.server.operations.metrics import Metrics

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; frame-ancestors 'none'"),
]
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_SLOWEST = 10_000  # bytes a second: the average that a body must reach after the read timeout
_STALLED = 30.0  # seconds until a client that does not read a long answer is given up

SLASH = "\x1f"
"""Replaces a slash written as `%2F` in a path: it belongs to an id and separates nothing."""
_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)


class Guard:
    """`larger` are limits of their own for paths with these prefixes."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, body_limit: int, patience: float,
        larger: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.app, self.metrics, self.body_limit, self.larger = app, metrics, body_limit, larger
        self.patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500
        started_answer = False
        if b"%" in scope["raw_path"]:
            scope["path"] = unquote(_ENCODED_SLASH.sub(b"%1F", scope["raw_path"]).decode("ascii"))

        async def sending(message: Message) -> None:
            nonlocal status, started_answer
            if message["type"] == "http.response.start":
                started_answer = True
                status = message["status"]
                headers = message["headers"] = list(message.get("headers", ()))
                own = {name for name, _ in headers}
                headers += [header for header in _HEADERS if header[0] not in own]
                if scope["scheme"] == "https":
                    headers.append(_HSTS)
            if not message.get("more_body"):
                await send(message)
                return
            async with asyncio.timeout(_STALLED):
                await send(message)

        try:
            if scope["method"] not in ("GET", "HEAD"):
                body = await _body(scope, receive, self._limit(scope["path"]), self.patience)
                receive = _again(body, receive)
            await self.app(scope, receive, sending)
        except _Unread as error:
            await _refuse(sending, error.status, str(error))
        except Exception as error:
            log.error("failed", exc_info=error)
            if not started_answer:
                await _refuse(sending, 500, "the server failed; its log says where")
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "(none)")
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            self.metrics.answered(method, route, status, seconds)
            event("request", method=method, route=route, status=status, ms=round(1e3 * seconds, 2))

    def _limit(self, path: str) -> int:
        own = [limit for start, limit in self.larger.items() if path.startswith(start)]
        return max([self.body_limit, *own])


class _Unread(Exception):
    """A body is not read to its end; the message says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def _body(scope: Scope, receive: Receive, limit: int, patience: float) -> bytes:
    """The whole body, where it is not too large and arrives in time."""
    too_large = _Unread(413, f"the body is larger than {limit:,} bytes; send less at a time")
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > limit:
            raise too_large
    body = bytearray()
    more = True
    end = asyncio.get_running_loop().time() + patience
    while more:
        try:
            async with asyncio.timeout_at(end + len(body) / _SLOWEST):
                message = await receive()
        except TimeoutError:
            raise _Unread(408, "the body came too slowly; send it again") from None
        if message["type"] == "http.disconnect":
            raise _Unread(400, "the body ended before its time")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise too_large
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body first and then goes on."""
    told = False

    async def receiving() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"detail": text}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
