"""The application: which page answers which address, and the server that listens for it."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime

import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from epicrec.client.sending.schedule import run_due
from epicrec.client.web import (
    extension_pages,
    film_pages,
    history_pages,
    jobs,
    privacy_pages,
    settings_pages,
    shared_model_pages,
)
from epicrec.client.web.request import (
    Handler,
    State,
    endpoint,
    entrance_page,
    in_plain_words,
    no_such_page,
    receiving,
)
from epicrec.client.web.security import FOR_EXTENSIONS, LARGE, Door, Guard, entrance_to

_LOOK_EVERY = 30.0  # seconds
PAGES: tuple[tuple[str, Handler], ...] = (
    ("/", history_pages.start),
    ("/history", history_pages.history),
    ("/history/fix", history_pages.fix),
    ("/sources", history_pages.sources),
    ("/extension", extension_pages.extension),
    ("/working/{job}", jobs.working),
    ("/working/{job}/progress", jobs.progress),
    ("/import/{batch}", history_pages.review),
    ("/privacy", privacy_pages.privacy),
    ("/privacy/odds", privacy_pages.odds),
    ("/preview", privacy_pages.preview),
    ("/release/{id}", privacy_pages.payload),
    ("/for-you", film_pages.for_you),
    ("/browse", film_pages.browse),
    ("/watchlist", film_pages.watchlist),
    ("/film/{item_id:path}", film_pages.film),
    ("/learned", privacy_pages.learned),
    ("/ledger", privacy_pages.ledger),
    ("/common", shared_model_pages.overview),
    ("/common/{number}.json", shared_model_pages.numbers),
    ("/server", settings_pages.server),
    ("/server/certificate", settings_pages.certificate),
    ("/data", settings_pages.data),
    ("/data/history.csv", settings_pages.export_csv),
    ("/data/everything.zip", settings_pages.export_all),
    ("/unlock", settings_pages.unlock_page),
    ("/poster/{item_id:path}.svg", film_pages.poster),
    ("/static/{name}", settings_pages.static),
    ("/health", settings_pages.health),
)
CHANGES: tuple[tuple[str, Handler], ...] = (
    ("/example", history_pages.example),
    ("/film", film_pages.mark),
    ("/history/remove", history_pages.remove),
    ("/history/fix", history_pages.fix),
    ("/history/evidence", history_pages.evidence),
    ("/sources/browsers", history_pages.read_browsers),
    ("/sources/file", history_pages.upload),
    ("/extension/code", extension_pages.new_code),
    ("/extension/revoke", extension_pages.revoke),
    ("/extension/sites", extension_pages.switch),
    ("/import/{batch}/keep", history_pages.keep),
    ("/import/{batch}/undo", history_pages.undo),
    ("/privacy", privacy_pages.choose),
    ("/preview/draw", privacy_pages.draw),
    ("/release/{id}/send", privacy_pages.send),
    ("/for-you/refresh", film_pages.refresh),
    ("/common/look", shared_model_pages.look),
    ("/common/join", shared_model_pages.join),
    ("/common/leave", shared_model_pages.leave),
    ("/server", settings_pages.use_server),
    ("/server/schedule", settings_pages.schedule),
    ("/data/everything", settings_pages.export_sealed),
    ("/data/forget-there", settings_pages.forget_there),
    ("/data/erase", settings_pages.erase),
    ("/data/passphrase", settings_pages.passphrase),
    ("/data/catalogue/forget", settings_pages.forget_catalogue),
    ("/lock", settings_pages.lock),
    ("/unlock", settings_pages.unlock),
    ("/begin-anew", settings_pages.begin_anew),
)


def create_app(state: State, door: Door) -> ASGIApp:
    """The pages behind their guard."""
    routes = [Route(path, endpoint(state, page), methods=["GET"]) for path, page in PAGES]
    routes += [Route(path, endpoint(state, change), methods=["POST"]) for path, change in CHANGES]
    large = receiving(state, settings_pages.add_catalogue)
    routes.append(Route(LARGE, large, methods=["POST"]))
    lost = no_such_page(state)
    app = Starlette(routes=routes, exception_handlers={404: lost, 405: lost})
    shown = HTMLResponse(entrance_page())
    opened = HTMLResponse(entrance_page(door.redirect_file))
    told = extension_pages.told
    spoken = [Route(path, told(state, path), methods=["POST"]) for path in FOR_EXTENSIONS]
    return Guard(app, door, entrance_to(door, shown, opened), Starlette(routes=spoken))


class Clock:
    """Checks every half minute whether a release or a report for the shared model is due."""

    def __init__(self, state: State) -> None:
        self._state, self._stop = state, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            self.look()

    def look(self) -> None:
        """Check once. The pages show what goes wrong, and the clock goes on."""
        device, moment = self._state.device, datetime.now(UTC)
        if device is None:
            return
        trouble = ""
        for due in (
            lambda: run_due(device, moment),
            lambda: device.shared_model.tick(moment, device.history.items),
        ):
            try:
                due()
            except Exception as error:
                trouble = in_plain_words(error)
        self._state.trouble = trouble


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
