"""A site on loopback that looks like one about films, for browsers to visit."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "www.rottentomatoes.com"
"""Browsers may visit it without TLS; others are on their lists of sites that must have it."""
PAGES = {
    "/m/heat": "Heat (1995) | Rotten Tomatoes",
    "/m/alien": "Alien (1979) | Rotten Tomatoes",
    "/m/matrix": "The Matrix (1999) | Rotten Tomatoes",
    "/evil": "A forged page",
}


@contextmanager
def film_site() -> Iterator[int]:
    """The port it listens on."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            title = PAGES.get(self.path, "Nothing")
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<!doctype html><title>{title}</title><p>{title}".encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
