"""Security: who may speak to a web application on this machine.

Every page in the person's browser can send requests to 127.0.0.1. So: the Host header must name
this machine and port (against names rebound to it); a token, new at every start, must come in a
cookie that no other site can set, read or have sent; changes must come from our own pages; nothing
may be framed, and our pages may load and send nothing elsewhere.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 66 * 2**20
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # "no-referrer" would take the origin from our own forms
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_REFUSED = "Open the address that the program printed when it started; it lets this browser in."


class Guard:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

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
                if b"cache-control" not in own:
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        refusal = self._judge(scope)
        await (refusal or self.app)(scope, receive, sending)

    def _judge(self, scope: Scope) -> Response | None:
        """None where the request may pass."""
        headers = Headers(scope=scope)
        port = (scope.get("server") or ("", 0))[1]
        host = headers.get("host", "").lower()
        if host not in {f"{name}:{port}" for name in _NAMES}:
            return PlainTextResponse("this address is not served here", 421)
        cookie = f"epicrec-{port}"
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and scope["path"] == "/" and self._is_token(given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._is_token(_cookie(headers.get("cookie", ""), cookie)):
            return PlainTextResponse(_REFUSED, 403)
        # other ports of this machine are the same site to a browser: they do send the cookie
        ours = headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
        if scope["method"] in ("GET", "HEAD"):
            ours = ours or headers.get("sec-fetch-mode") == "navigate"
        else:
            ours = ours and headers.get("origin", f"http://{host}") == f"http://{host}"
        if not ours:
            return PlainTextResponse("this is for the application's own pages", 403)
        if not headers.get("content-length", "0").isdecimal() or (
            int(headers.get("content-length", "0")) > MOST_BODY
        ):
            return PlainTextResponse("the file is too large; 64 MB are read", 413)
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
