"""Web: requests as the pages see them, and pages as the browser gets them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from math import isinf
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from epicrec.client.choice import STRENGTHS, in_words
from epicrec.client.device import Device
from epicrec.client.learned import in_worlds
from epicrec.client.promises import promise
from epicrec.client.security import MOST_BODY
from epicrec.client.store import LockedError
from epicrec.errors import EpicrecError

_FOLDER = Path(__file__).parent
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?')
_PART = re.compile(rb'[;\s]name="([^"]*)"')
_FILE = re.compile(rb'filename="([^"]*)"')


@dataclass
class State:
    """What the application holds: the device, unless a passphrase is still missing."""

    open_device: Callable[[str | None], Device]
    device: Device | None = None
    said: list[str] = field(default_factory=list)
    """Messages for the next page."""
    upload: tuple[str, bytes] | None = None
    """A file that left something open, until it is answered."""


@dataclass
class Ask:
    """One request."""

    state: State
    path: dict[str, str]
    query: dict[str, str]
    form: dict[str, list[str]]
    files: list[tuple[str, bytes]]
    plain: bool = False
    """The pages have no host name of their own, and say so."""
    port: int = 0
    """Where this program listens."""

    @property
    def device(self) -> Device:
        if self.state.device is None:
            raise LockedError("the history is under a passphrase; give it to go on")
        return self.state.device

    def field(self, name: str, default: str = "") -> str:
        return self.form.get(name, [default])[0]

    def say(self, text: str) -> None:
        self.state.said.append(text)

    def page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        said, self.state.said[:] = list(self.state.said), []
        device = self.state.device
        shown = PAGES.get_template(name).render(
            said=said, sealed=device is None, catalogue=device and device.catalogue,
            plain=self.plain, **values,
        )  # fmt: skip
        return HTMLResponse(shown, status)


Handler = Callable[[Ask], Response]


def endpoint(state: State, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler in a thread of its own, its mistakes told in plain words."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BODY:
                return Response("the file is too large; 64 MB are read", 413)
        form, files = read_form(request.headers.get("content-type", ""), bytes(body))
        query = dict(request.query_params)
        path = {name: str(value) for name, value in request.path_params.items()}
        plain, port = request.scope.get("plain", False), request.url.port or 0
        ask = Ask(state, path, query, form, files, plain, port)
        return await run_in_threadpool(_handled, handler, ask)

    return answer


def _handled(handler: Handler, ask: Ask) -> Response:
    try:
        return handler(ask)
    except LockedError:
        return to("/unlock")
    except EpicrecError as error:
        return ask.page("problem.html", 400, problem=str(error))


def read_form(kind: str, body: bytes) -> tuple[dict[str, list[str]], list[tuple[str, bytes]]]:
    """The fields and files of a form, in either of the two ways a browser writes one."""
    boundary = _BOUNDARY.search(kind)
    if not kind.startswith("multipart/form-data") or boundary is None:
        text = body.decode("utf-8", "replace")
        return parse_qs(text, keep_blank_values=True, max_num_fields=20_000), []
    form: dict[str, list[str]] = {}
    files: list[tuple[str, bytes]] = []
    for part in body.split(b"--" + boundary.group(1).encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name, file = _PART.search(head), _FILE.search(head)
        content = content.removesuffix(b"\r\n")
        if file is not None:
            files.append((file.group(1).decode("utf-8", "replace"), content))
        elif name is not None:
            form.setdefault(name.group(1).decode(), []).append(content.decode("utf-8", "replace"))
    return form, files


def entrance_page(opened: Path | None = None) -> str:
    """What 127.0.0.1 shows: how to come in, or which file was `opened`."""
    return PAGES.get_template("entrance.html").render(opened=opened)


def to(path: str) -> RedirectResponse:
    """On to another page after a change."""
    return RedirectResponse(path, 303)


PAGES = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.globals.update(
    in_worlds=in_worlds, in_words=in_words, strengths=STRENGTHS, isinf=isinf, promise=promise
)
PAGES.filters["segment"] = lambda text: quote(str(text), safe="")
PAGES.filters["day"] = lambda text: str(text)[:10]
PAGES.filters["moment"] = lambda text: str(text)[:16].replace("T", " ")
