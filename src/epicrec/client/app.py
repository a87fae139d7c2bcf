"""The application: which page answers which address, and the server that listens for it."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from epicrec.client.door import Door
from epicrec.client.pages import extension, history, privacy, results, working
from epicrec.client.schedule import Clock
from epicrec.client.security import FOR_EXTENSIONS, Guard, entrance_to
from epicrec.client.web import Handler, State, endpoint, entrance_page, no_such_page

PAGES: tuple[tuple[str, Handler], ...] = (
    ("/", history.start),
    ("/history", history.history),
    ("/history/fix", history.fix),
    ("/sources", history.sources),
    ("/extension", extension.extension),
    ("/working/{job}", working.working),
    ("/working/{job}/progress", working.progress),
    ("/import/{batch}", history.review),
    ("/privacy", privacy.privacy),
    ("/privacy/odds", privacy.odds),
    ("/preview", privacy.preview),
    ("/release/{id}", privacy.payload),
    ("/for-you", results.for_you),
    ("/for-you/{category:path}", results.for_you),
    ("/learned", privacy.learned),
    ("/ledger", privacy.ledger),
    ("/server", results.server),
    ("/server/certificate", results.certificate),
    ("/data", results.data),
    ("/data/history.csv", results.export_csv),
    ("/data/everything.zip", results.export_all),
    ("/unlock", results.unlock_page),
    ("/poster/{item_id:path}.svg", history.poster),
    ("/static/{name}", results.static),
)
CHANGES: tuple[tuple[str, Handler], ...] = (
    ("/example", history.example),
    ("/history/add", history.add),
    ("/history/remove", history.remove),
    ("/history/fix", history.fix),
    ("/history/evidence", history.evidence),
    ("/sources/browsers", history.read_browsers),
    ("/sources/file", history.upload),
    ("/extension/code", extension.new_code),
    ("/extension/revoke", extension.revoke),
    ("/extension/sites", extension.switch),
    ("/import/{batch}/keep", history.keep),
    ("/import/{batch}/undo", history.undo),
    ("/privacy", privacy.choose),
    ("/preview/draw", privacy.draw),
    ("/release/{id}/send", privacy.send),
    ("/for-you/not-interested", results.not_interested),
    ("/for-you/refresh", results.refresh),
    ("/server", results.use_server),
    ("/server/schedule", results.schedule),
    ("/data/everything", results.export_sealed),
    ("/data/forget-there", results.forget_there),
    ("/data/erase", results.erase),
    ("/data/passphrase", results.passphrase),
    ("/unlock", results.unlock),
    ("/begin-anew", results.begin_anew),
)


def create_app(state: State, door: Door) -> ASGIApp:
    """The pages behind their guard."""
    routes = [Route(path, endpoint(state, page), methods=["GET"]) for path, page in PAGES]
    routes += [Route(path, endpoint(state, change), methods=["POST"]) for path, change in CHANGES]
    lost = no_such_page(state)
    app = Starlette(routes=routes, exception_handlers={404: lost, 405: lost})
    shown = HTMLResponse(entrance_page())
    opened = HTMLResponse(entrance_page(door.redirect_file))
    spoken = Starlette(
        routes=[
            Route(path, extension.told(state, path), methods=["POST"]) for path in FOR_EXTENSIONS
        ]
    )
    return Guard(app, door, entrance_to(door, shown, opened), spoken)


class Client(uvicorn.Server):
    """The application on its socket, with its clock, until it is told to stop."""

    def __init__(self, state: State, door: Door, bound: socket.socket) -> None:
        self.state, self.door, self._bound = state, door, bound
        super().__init__(
            uvicorn.Config(
                create_app(state, door), log_config=None, access_log=False, server_header=False,
                ws="none", timeout_graceful_shutdown=5, lifespan="off",
            )
        )  # fmt: skip

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        clock = Clock(self.state)
        try:
            super().run(sockets or [self._bound])
        finally:
            clock.stop()
            self.close()

    def close(self) -> None:
        """Let go of the port and the store; also for a client that never ran."""
        self._bound.close()
        self.door.close()
        if self.state.device is not None:
            self.state.device.close()
