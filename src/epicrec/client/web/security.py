"""Security: who may speak to a web application on this machine.

Every page in the person's browser can send requests to 127.0.0.1, and every program on the machine
may listen there. A browser sends cookies to every port of a host, so what is set on 127.0.0.1
reaches any other program that listens there. The pages therefore have a host name of their own
(`<random>.localhost`, which browsers take for this machine), drawn at every start (`Door`). An
invitation that works once tells it: printed where the program was started, or in a file that only
its owner may read, and from which a browser goes on.

The pages answer (`Guard`) to that host name alone and to a browser that brings the session's
cookie, which goes to no other host; changes must come from our own pages; nothing may be framed,
and our pages may load and send nothing elsewhere. 127.0.0.1 itself has no cookie: it has an
entrance, which opens the owner's browser and shows the asking one nothing, and answers programs
that bring the token from the owner's folder. What a browser says of where a request comes from
(`Sec-Fetch-Site`) helps against other pages; programs can say anything, so it lets nobody in.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epicrec.client.vault import write_private
from epicrec.client.web.forms import MOST

MOST_BODY = 66 * 2**20
LARGE = "/data/catalogue"
"""Where files may be larger: they go onto the disk as they come."""
COOKIE = "epicrec"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
# the name of the host goes nowhere; "no-referrer" would take the origin from our own forms
_REFERRER = (b"referrer-policy", b"same-origin")
_LET_IN = """<!doctype html>
<meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>EpicRec</title>
<link rel="icon" href="/static/icon.svg">
<p><a href="/">On to EpicRec</a></p>
"""
"""A page of ours, and no redirection: a browser that comes from a file would not bring the cookie
along on one."""


_REFUSED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Not this way · EpicRec</title>
<link rel="stylesheet" href="/static/style.css"><link rel="icon" href="/static/icon.svg"></head>
<body><main><h1>Not this way</h1><p>{0}</p><p><a href="http://127.0.0.1:{1}/">The entrance</a></p>
</main></body></html>
"""
"""Dark only by its style sheet, which another host name does not get: a browser's own colour of
links is hard to read in the dark."""

FOR_EXTENSIONS = ("/extension/pair", "/extension/messages")
"""Where a browser's extension speaks to 127.0.0.1: it has no cookie, and what it says proves it."""
_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>EpicRec</title>
<p><a href="{0}" rel="noreferrer">To EpicRec</a></p>
"""
_PAUSE = 3.0  # seconds between two openings of a browser, which anybody on this machine may ask for


class Door:
    """What lets a person in during one run: the host name, the sessions and the invitation.

    `plain` becomes true where a browser does not know the host name and the person goes on without
    one: then the pages are on 127.0.0.1 too, with a cookie that other programs there may get.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._browse: Callable[[str], object] = webbrowser.open
        self.name = f"{secrets.token_hex(10)}.localhost"
        self.session, self.plain_session = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.program = secrets.token_urlsafe(24)
        self.plain = False
        self._invitation: tuple[str, bool] | None = None
        self._lock = threading.Lock()
        self._opened = -_PAUSE
        write_private(self.program_file, self.program.encode())

    @property
    def program_file(self) -> Path:
        """Holds the token by which programs of the same person speak to this one."""
        return self.folder / "token"

    @property
    def redirect_file(self) -> Path:
        return self.folder / "open.html"

    def invite(self, *, plain: bool = False) -> str:
        """An address that lets one browser in, once; earlier ones no longer do."""
        with self._lock:
            token = secrets.token_urlsafe(24)
            self._invitation = token, plain
        return f"http://{'127.0.0.1' if plain else self.name}:{self.port}/?token={token}"

    def redeem(self, token: str, *, plain: bool) -> bool:
        """Whether this is the invitation, for this host; it is used up."""
        with self._lock:
            if self._invitation is None or not same(token, self._invitation[0]):
                return False
            if self._invitation[1] != plain:
                return False
            self._invitation = None
            self.plain = self.plain or plain
        self.redirect_file.unlink(missing_ok=True)
        return True

    def open(self, address: str) -> None:
        """Open it in the person's own browser; the address is in no command's arguments."""
        write_private(self.redirect_file, _REDIRECT.format(escape(address)).encode())
        if has_screen():
            where = self.redirect_file.resolve().as_uri()
            threading.Thread(target=self._browse, args=(where,), daemon=True).start()

    def open_anew(self, *, plain: bool) -> bool:
        """The same for somebody who asks at the entrance, at most every few seconds."""
        with self._lock:
            if time.monotonic() < self._opened + _PAUSE:
                return False
            self._opened = time.monotonic()
        self.open(self.invite(plain=plain))
        return True

    def close(self) -> None:
        for file in (self.program_file, self.redirect_file):
            file.unlink(missing_ok=True)


def has_screen() -> bool:
    """Whether a browser would open a window, and not take over the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


class Guard:
    """Around the whole application; `entrance` makes the page that 127.0.0.1 shows, `extension`
    answers the browsers' extensions there."""

    def __init__(self, app: ASGIApp, door: Door, entrance: ASGIApp, extension: ASGIApp) -> None:
        self.app, self.door, self.entrance, self.extension = app, door, entrance, extension

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"] = list(message.get("headers", ()))
                own = {name for name, _ in headers}
                headers += _HEADERS
                if b"referrer-policy" not in own:
                    headers.append(_REFERRER)
                if b"cache-control" not in own:
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        answer = self._judge(scope)
        await answer(scope, receive, sending)

    def _judge(self, scope: Scope) -> ASGIApp:
        """What answers a request: the application, the entrance or a refusal."""
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        plain = host in {f"{name}:{self.door.port}" for name in _LOOPBACK}
        if not plain and host != f"{self.door.name}:{self.door.port}":
            return self._refused(
                "This address is not served here, or no longer: it is another at every start. "
                "The entrance lets you back in.",
                421,
            )
        length = headers.get("content-length", "0")
        most = MOST if scope["path"] == LARGE else MOST_BODY
        if not length.isdecimal() or len(length) > 12 or int(length) > most:
            return self._refused(f"The file is too large; {most // 2**20:,} MB are read.", 413)
        if scope["method"] == "POST" and scope["path"] in FOR_EXTENSIONS:
            return self.extension if plain else Response(status_code=403)
        if scope["method"] == "GET" and scope["path"].startswith("/static/"):
            return self.app  # the same for everybody, and in every installation
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and scope["path"] == "/" and given:
            return self._redeemed(given, plain)
        if plain and same(headers.get("authorization", ""), f"Bearer {self.door.program}"):
            return self.app
        if plain and not self.door.plain:
            return self.entrance
        secret = self.door.plain_session if plain else self.door.session
        if not same(_cookie(headers.get("cookie", "")), secret):
            if plain:
                return self.entrance
            return self._refused("This browser was not let in yet, or not since the start.", 403)
        if not from_our_pages(scope, f"http://{host}"):
            return self._refused("This is for the application's own pages.", 403)
        scope["plain"] = plain
        return self.app

    def _refused(self, words: str, status: int) -> Response:
        return refused(words, self.door.port, status)

    def _redeemed(self, token: str, plain: bool) -> Response:
        if not self.door.redeem(token, plain=plain):
            return self._refused(
                "This invitation was used, or a newer one was made. The entrance lets you back in.",
                403,
            )
        answer = HTMLResponse(_LET_IN, headers={"Referrer-Policy": "no-referrer"})
        secret = self.door.plain_session if plain else self.door.session
        answer.set_cookie(COOKIE, secret, httponly=True, samesite="strict", path="/")
        return answer


def refused(words: str, port: int, status: int) -> Response:
    """The page for a request that is not let in: why, and where to go."""
    return HTMLResponse(_REFUSED.format(words, port), status)


def from_our_pages(scope: Scope, origin: str) -> bool:
    """Whether a browser that lets itself be believed says so: a help, and no proof of anything.

    A change must say where it comes from. To read, it is enough that nothing says otherwise.
    """
    headers = Headers(scope=scope)
    site, said = headers.get("sec-fetch-site"), headers.get("origin")
    if scope["method"] in ("GET", "HEAD"):
        return site in (None, "same-origin", "none") or headers.get("sec-fetch-mode") == "navigate"
    return (site or said) is not None and site in (None, "same-origin") and said in (None, origin)


def entrance_to(door: Door, page: ASGIApp, opened: ASGIApp) -> ASGIApp:
    """What 127.0.0.1 shows without a token: a `page` with a button, and, when it was
    pressed, where the owner's browser was sent."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await page(scope, receive, send)
        elif not from_our_pages(scope, f"http://{Headers(scope=scope).get('host', '')}"):
            no = refused("This is for the application's own pages.", door.port, 403)
            await no(scope, receive, send)
        else:
            form = parse_qs((await Request(scope, receive).body()).decode("utf-8", "replace"))
            if not door.open_anew(plain="plain" in form):
                no = refused("One moment; a window was opened just now.", door.port, 429)
                await no(scope, receive, send)
                return
            await opened(scope, receive, send)

    return answer


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
