"""The fast path: plain requests for a list, answered before FastAPI reads them.

They are the most frequent requests, and checking one by the schemas costs more than answering it.
All others go on to the routes in `recommend`, which answer by the same function and say what is
wrong.
"""

from __future__ import annotations

import re

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from epicrec.server.api.access import caller_with
from epicrec.server.api.recommend import SCORES, listed
from epicrec.server.service import Service

_USER = r"/api/recommend/([^/\x00-\x1f\x7f]{1,256})"
_CATEGORY = r"/([^\x00-\x1f\x7f]{0,64})"
_PAGE = re.compile(rb"(?:n=([1-9]\d{0,2})(?:&|$))?(?:offset=(\d{1,6}))?")


class FastPath(BaseRoute):
    """A route for what its pattern matches; `path` is its template."""

    def __init__(self, path: str, pattern: str) -> None:
        self.path, self._pattern = path, re.compile(pattern)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] != "GET":
            return Match.NONE, {}
        place = self._pattern.fullmatch(scope["path"])
        page = place and _PAGE.fullmatch(scope["query_string"])
        if not place or not page:
            return Match.NONE, {}
        n, offset = page.groups()
        asked = (
            place[1],
            int(n or 10),
            int(offset or 0),
            place[2] if self._pattern.groups > 1 else "",
        )
        return Match.FULL, {"route": self, "asked": asked}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        service: Service = scope["app"].state.service
        client = scope["client"]
        key, version = (_header(scope, name) for name in (b"x-api-key", b"x-api-version"))
        caller = await caller_with(service, key, client[0] if client else "unknown")
        body = await listed(service, caller, *scope["asked"], with_scores=version == SCORES)
        headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((v.decode("latin-1") for name, v in scope["headers"] if name == wanted), None)


ROUTES = [
    FastPath("/api/recommend/{user_id}", _USER),
    FastPath("/api/recommend/{user_id}/{category:path}", _USER + _CATEGORY),
]
