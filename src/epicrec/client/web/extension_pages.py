"""Pages of the browser extension: the paired browsers and their sites; and the two addresses to
which the extension itself speaks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from epicrec.client.imports.extension import is_extension
from epicrec.client.web.promises import said
from epicrec.client.web.request import Ask, State, to
from epicrec.client.web.security import FOR_EXTENSIONS

_MOST = 2**20


def extension(ask: Ask) -> Response:
    return _shown(ask, "")


def new_code(ask: Ask) -> Response:
    """The code is on this page alone, and is gone with it."""
    return _shown(ask, ask.device.extension.new_code(ask.port))


def revoke(ask: Ask) -> Response:
    ask.device.extension.revoke(ask.field("pairing"))
    ask.say(said("extension revoked"))
    return to("/extension")


def switch(ask: Ask) -> Response:
    wanted = set(ask.form.get("site", []))
    for site in ask.device.extension.sites():
        ask.device.extension.switch(site.name, allowed=site.name in wanted)
    ask.say("Saved which sites count.")
    return to("/extension")


def _shown(ask: Ask, code: str) -> Response:
    known = ask.device.extension
    return ask.page("extension.html", code=code, pairings=known.pairings(), sites=known.sites())


def told(state: State, path: str) -> Callable[[Request], Awaitable[Response]]:
    """Answers an extension at `path`; anybody else gets an empty refusal."""
    answer = _pair if path == FOR_EXTENSIONS[0] else _messages

    async def answering(request: Request) -> Response:
        origin = request.headers.get("origin", "")
        if not is_extension(origin):
            return Response(status_code=403)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST:
                return Response(status_code=413)
        try:
            given = json.loads(body)
            fields = {name: str(value) for name, value in given.items()}
        except (ValueError, AttributeError):
            return Response(status_code=403)
        return await run_in_threadpool(answer, state, fields, origin)

    return answering


def _pair(state: State, given: dict[str, str], origin: str) -> Response:
    if state.device is None:  # under a passphrase that was not given yet
        return Response(status_code=503)
    made = state.device.extension.pair(given.get("code", ""), origin, given.get("former", ""))
    return Response(status_code=403) if made is None else JSONResponse(made)


def _messages(state: State, given: dict[str, str], origin: str) -> Response:
    if state.device is None:
        return Response(status_code=503)
    answer = state.device.extension.receive(
        given.get("pairing", ""), given.get("sealed", ""), origin
    )
    return Response(status_code=403) if answer is None else JSONResponse({"sealed": answer})
