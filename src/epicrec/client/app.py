"""The application: which page answers which address, and the server that listens for it."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from epicrec.client.door import Door
from epicrec.client.pages import (
    common,
    extension,
    films,
    history,
    privacy,
    settings,
    working,
)
from epicrec.client.schedule import Clock
from epicrec.client.security import FOR_EXTENSIONS, LARGE, Guard, entrance_to
from epicrec.client.web import Handler, State, endpoint, entrance_page, no_such_page, receiving

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
    ("/for-you", films.for_you),
    ("/browse", films.browse),
    ("/watchlist", films.watchlist),
    ("/film/{item_id:path}", films.film),
    ("/learned", privacy.learned),
    ("/ledger", privacy.ledger),
    ("/common", common.common),
    ("/common/{number}.json", common.numbers),
    ("/server", settings.server),
    ("/server/certificate", settings.certificate),
    ("/data", settings.data),
    ("/data/history.csv", settings.export_csv),
    ("/data/everything.zip", settings.export_all),
    ("/unlock", settings.unlock_page),
    ("/poster/{item_id:path}.svg", films.poster),
    ("/static/{name}", settings.static),
    ("/health", settings.health),
)
CHANGES: tuple[tuple[str, Handler], ...] = (
    ("/example", history.example),
    ("/film", films.mark),
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
    ("/for-you/refresh", films.refresh),
    ("/common/look", common.look),
    ("/common/join", common.join),
    ("/common/leave", common.leave),
    ("/server", settings.use_server),
    ("/server/schedule", settings.schedule),
    ("/data/everything", settings.export_sealed),
    ("/data/forget-there", settings.forget_there),
    ("/data/erase", settings.erase),
    ("/data/passphrase", settings.passphrase),
    ("/data/catalogue/forget", settings.forget_catalogue),
    ("/lock", settings.lock),
    ("/unlock", settings.unlock),
    ("/begin-anew", settings.begin_anew),
)


def create_app(state: State, door: Door) -> ASGIApp:
    """The pages behind their guard."""
    routes = [Route(path, endpoint(state, page), methods=["GET"]) for path, page in PAGES]
    routes += [Route(path, endpoint(state, change), methods=["POST"]) for path, change in CHANGES]
    large = receiving(state, settings.add_catalogue)
    routes.append(Route(LARGE, large, methods=["POST"]))
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
