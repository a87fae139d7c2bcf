"""Door: what lets a person in during one run of the program, and nobody else.

A browser sends cookies to every port of a host, so what is set on 127.0.0.1 reaches any other
program that listens there. The pages therefore live under a host name of their own, drawn anew at
every start (`<random>.localhost`, which browsers take for this machine), that no other program
knows. It is told in an invitation that works once: printed where the program was started, or in a
file that only its owner may read, and from which a browser goes on.
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
from pathlib import Path

from epicrec.client.vault import write_private

_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>EpicRec</title>
<p><a href="{0}" rel="noreferrer">To EpicRec</a></p>
"""
_PAUSE = 3.0  # seconds between two openings of a browser, which anybody on this machine may ask for


class Door:
    """The host name, the sessions and the invitation of one run.

    `plain` becomes true where a browser does not know the host name and the person goes on without
    one: then the pages are on 127.0.0.1 too, with a cookie that other programs there may get.
    """

    def __init__(
        self, folder: Path, port: int, browse: Callable[[str], object] = webbrowser.open
    ) -> None:
        self.folder, self.port, self._browse = folder, port, browse
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
        """Have the person's own browser go there; the address stands in no command's arguments."""
        write_private(self.redirect_file, _REDIRECT.format(escape(address)).encode())
        if has_screen():
            where = self.redirect_file.resolve().as_uri()
            threading.Thread(target=self._browse, args=(where,), daemon=True).start()

    def open_anew(self, *, plain: bool) -> bool:
        """The same for somebody who asks at the entrance; not more often than now and then."""
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
