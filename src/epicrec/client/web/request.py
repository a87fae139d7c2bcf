"""Request: what a page is asked (`Ask`), and the page that the browser gets."""

from __future__ import annotations

import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from errno import EDQUOT, ENOSPC
from functools import wraps
from math import isinf
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from epicrec.client.device import Device
from epicrec.client.sending.exposure import in_worlds
from epicrec.client.sending.privacy_choice import STRENGTHS, in_words
from epicrec.client.store import LockedError
from epicrec.client.vault import DamagedError
from epicrec.client.web.forms import read_form, received
from epicrec.client.web.promises import promise
from epicrec.client.web.security import MOST_BODY
from epicrec.errors import EpicrecError, InputError
from epicrec.perturb import odds_of
from epicrec.privacy import LedgerDamagedError

if TYPE_CHECKING:
    from epicrec.client.web.jobs import Job

_SAID, _MOST_SAID = "said", 32


@dataclass
class State:
    """What the application holds: the device, unless a passphrase is still missing."""

    open_device: Callable[[str | None], Device]
    device: Device | None = None
    said: dict[str, list[str]] = field(default_factory=dict)
    """Messages for a page that a change leads to, by the name in its address; the last few."""
    uploads: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Files that left something open, until it is answered; the last few of them."""
    jobs: dict[str, Job] = field(default_factory=dict)
    """What takes longer than a page should, by its name; the last few of them."""
    damage: EpicrecError | None = None
    """Why there is no device, where no passphrase would help."""
    folder: Path | None = None
    """Where the device's files are."""
    trouble: str = ""
    """What goes wrong in the background, until it goes well."""


@dataclass
class Ask:
    """One request."""

    state: State
    path: dict[str, str]
    query: dict[str, str]
    form: dict[str, list[str]]
    files: list[tuple[str, bytes]]
    received: Path | None = None
    """Where the files of a large form are; the handler that reads them deletes the folder."""
    plain: bool = False
    """The pages have no host name of their own, and say so."""
    port: int = 0
    """Where this program listens."""
    said: list[str] = field(default_factory=list)
    """Messages for the page that answers: those of this request, and of the change before it."""

    @property
    def device(self) -> Device:
        if self.state.damage is not None:
            raise self.state.damage
        if self.state.device is None:
            raise LockedError("the history is under a passphrase; give it to go on")
        return self.state.device

    def field(self, name: str, default: str = "") -> str:
        return self.form.get(name, [default])[0]

    def say(self, text: str) -> None:
        self.said.append(text)

    def page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        device = self.state.device
        shown = PAGES.get_template(name).render(
            said=self.said, sealed=device is None, catalogue=device and device.catalogue,
            plain=self.plain, trouble=self.state.trouble,
            lockable=device is not None and device.store.is_sealed, **values,
        )  # fmt: skip
        return HTMLResponse(shown, status)


Handler = Callable[[Ask], Response]


def endpoint(state: State, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler in a thread of its own, its errors in plain words."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BODY:
                break
        return await run_in_threadpool(_handled, handler, state, request, bytes(body))

    return answer


def receiving(state: State, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The same for a form whose files go onto the disk as they come."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        device, problem, folder = state.device, None, None
        if device is not None:
            try:
                kind = request.headers.get("content-type", "")
                folder = await received(request.stream(), kind, device.uploads)
            except ClientDisconnect:
                raise
            except Exception as error:
                problem = error

        def handle(ask: Ask) -> Response:
            if problem is not None:
                raise problem
            ask.received = folder
            return handler(ask)

        return await run_in_threadpool(_handled, handle, state, request, b"")

    return answer


def no_such_page(state: State) -> Callable[[Request, Exception], Response]:
    """What answers an address that no page has."""

    def answer(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        problem = "there is no such page; it may have had another address in an older version"
        return _asked(state, request).page("problem.html", status, problem=problem, details="")

    return answer


def _asked(state: State, request: Request) -> Ask:
    path = {name: str(value) for name, value in request.path_params.items()}
    plain, port = request.scope.get("plain", False), request.url.port or 0
    query = dict(request.query_params)
    said = state.said.pop(query.get(_SAID, ""), [])
    return Ask(state, path, query, {}, [], plain=plain, port=port, said=said)


def _handled(handler: Handler, state: State, request: Request, body: bytes) -> Response:
    """Whatever goes wrong, the person gets a page that says what and where to go on."""
    ask = _asked(state, request)
    try:
        if len(body) > MOST_BODY:
            raise InputError("the file is too large; 64 MB are read")
        ask.form, ask.files = read_form(request.headers.get("content-type", ""), body)
        return _carrying(ask, handler(ask))
    except LockedError:
        return _carrying(ask, to("/unlock"))
    except (DamagedError, LedgerDamagedError) as error:
        of_history = isinstance(error, DamagedError)
        return ask.page("damaged.html", 500, problem=str(error), of_history=of_history)
    except EpicrecError as error:
        return ask.page("problem.html", 400, problem=str(error), details="")
    except Exception as error:
        details = traceback.format_exc()
        print(details, file=sys.stderr, flush=True)
        return ask.page("problem.html", 500, problem=in_plain_words(error), details=details)


def _carrying(ask: Ask, answer: Response) -> Response:
    """A redirection takes the messages of its request along, for that tab alone: the address names
    them, by a name that is used once."""
    if ask.said and isinstance(answer, RedirectResponse):
        name, said = token_urlsafe(6), ask.state.said
        said[name] = ask.said
        for old in list(said)[:-_MOST_SAID]:
            said.pop(old, None)
        path, mark, place = answer.headers["location"].partition("#")
        joint = "&" if "?" in path else "?"
        answer.headers["location"] = f"{path}{joint}{_SAID}={name}{mark}{place}"
    return answer


def in_plain_words(error: Exception) -> str:
    """What went wrong that nobody foresaw, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", 0) in (ENOSPC, EDQUOT):
        return "the disk is full, so this was not saved; make room on it, then try again"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return (
            "the file with your history is damaged; stop EpicRec and start it again, and it shows "
            "what can be done"
        )
    if isinstance(error, OSError | sqlite3.OperationalError):
        return f"this machine did not allow it ({error}); look at the disk, then try again"
    return (
        "something went wrong in EpicRec itself, and what you asked for was not finished; go back "
        "and try again, and if it happens again report what stands below"
    )


def entrance_page(opened: Path | None = None) -> str:
    """What 127.0.0.1 shows: how to come in, or which file was `opened`."""
    return PAGES.get_template("entrance.html").render(opened=opened)


def sentence(text: object) -> str:
    """What an error says, as a sentence. It may begin with a file's name or an address, which stay.

    >>> sentence("no file was chosen"), sentence("films.csv is empty.")
    ('No file was chosen.', 'films.csv is empty.')
    """
    words = str(text).rstrip(".")
    named = any(mark in words.partition(" ")[0] for mark in ".:/")
    return f"{words if named else words[:1].upper() + words[1:]}."


def to(path: str) -> RedirectResponse:
    """On to another page after a change."""
    return RedirectResponse(path, 303)


def download(name: str, content: bytes, kind: str) -> Response:
    """A file for the person to keep."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)


PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.globals.update(
    in_worlds=in_worlds,
    in_words=in_words,
    strengths=STRENGTHS,
    isinf=isinf,
    promise=promise,
    odds_of=odds_of,
)
PAGES.filters["segment"] = lambda text: quote(str(text), safe="")
PAGES.filters["sentence"] = sentence
PAGES.filters["day"] = lambda text: str(text)[:10]
PAGES.filters["moment"] = lambda text: str(text)[:16].replace("T", " ")
