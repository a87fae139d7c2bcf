"""`epicrec serve`: run the server in one process or several, check, back up, restore, purge."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicrec.errors import InputError
from epicrec.files import locked
from epicrec.server.operations.file_permissions import close_folder
from epicrec.server.settings import NOTHING, STORE, Settings

if TYPE_CHECKING:
    import uvicorn

_GRACE = 10  # seconds for requests under way when the server is told to stop
_HEALTHY = 60  # seconds until a worker that does not respond is replaced
_SYSTEMD_SOCKET = 3  # the first file descriptor that systemd passes on
_WORKER_SETTINGS = "EPICREC_WORKER_SETTINGS"


def serve(
    config: str | os.PathLike[str] | None = None,
    *,
    check: bool = False,
    backup: str | os.PathLike[str] | None = None,
    restore: str | os.PathLike[str] | None = None,
    purge: int | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Run the server until it is told to stop, or do one of the other things.

    `given` are settings from the command line, None where not given. Returns what was done.
    """
    if sum(bool(one) for one in (check, backup, restore, purge is not None)) > 1:
        raise InputError("check, backup, restore and purge are one at a time")
    settings = Settings.load(config, **given)
    if check:
        return _check(settings)
    if backup is not None:
        from epicrec.server.store.backup import back_up

        return {"backup": str(backup), "rows": back_up(settings, Path(backup))}
    if restore is not None:
        from epicrec.server.store.backup import restore as bring_back

        return {"restored": str(restore), "rows": bring_back(settings, Path(restore))}
    if purge is not None:
        return {"purged": _purge(settings, purge)}
    run(settings)
    return {"stopped": True}


def run(settings: Settings) -> None:
    """Listen until SIGTERM or SIGINT, then finish the open requests and stop."""
    from epicrec.server.operations.logs import start_logging

    start_logging()
    scheme = "http" if settings.http else "https"
    print(f"epicrec serves {scheme}://{settings.host}:{settings.port}", file=sys.stderr)
    if not settings.admin_key:
        print(f"the admin's key is in {settings.folder / 'admin.key'}", file=sys.stderr)
    if not settings.http:
        from epicrec.server.operations.tls import fingerprint

        shown = fingerprint(Path(_certificate(settings)[0] or ""))
        print(f"its certificate's fingerprint (SHA-256) is {shown}", file=sys.stderr)
    if settings.role:
        from epicrec.collective.keys import verifying_key
        from epicrec.server.shared_model import signing_key

        own = verifying_key(signing_key(settings)).hex()
        print(f"it is the {settings.role}; its signing key is {own}", file=sys.stderr)
    if not settings.http and not settings.certificate:
        print(f"clients trust {settings.folder / 'tls' / 'ca.pem'}", file=sys.stderr)
    with _alone(settings):
        settings = _with_items(settings)
        listening = _listening(settings)
        if settings.workers > 1:
            _run_workers(settings, listening)
        else:
            if hasattr(signal, "SIGHUP"):  # certificates are reloaded without it
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            server = make_server(settings)
            gc.freeze()  # what is loaded stays; no collection need scan it during requests
            server.run([listening])


def make_server(settings: Settings) -> uvicorn.Server:
    """A server in this process, ready to `run`."""
    import uvicorn

    from epicrec.server.api.app import create_app
    from epicrec.server.operations.logs import silence_access_log

    silence_access_log()
    return uvicorn.Server(_config(settings, create_app(settings)))


def _run_workers(settings: Settings, listening: socket.socket) -> None:
    """Run several processes on one socket and one PostgreSQL, kept alive by uvicorn's supervisor.

    SIGHUP replaces them one after the other, each by one that is ready: no request is lost.
    """
    from uvicorn.supervisors import Multiprocess

    from epicrec.server.service import Service

    ready = Service(settings)  # keys and tables are made once, before any worker needs them
    ready.prepare()
    ready.database.stop()
    metrics = settings.folder / "metrics"  # where the workers add up their counts
    shutil.rmtree(metrics, ignore_errors=True)
    metrics.mkdir(mode=0o700)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
    os.environ[_WORKER_SETTINGS] = json.dumps(asdict(settings))
    Multiprocess(_config(settings, "epicrec.server.main:make_worker"), [listening]).run()


def make_worker() -> Any:
    """A worker's application, with the settings that its parent has left in the environment."""
    from epicrec.server.api.app import create_app
    from epicrec.server.operations.logs import silence_access_log, start_logging

    start_logging()
    silence_access_log()
    made = create_app(Settings(**json.loads(os.environ[_WORKER_SETTINGS])))
    gc.freeze()  # as in `run`
    return made


def _config(settings: Settings, app: Any) -> uvicorn.Config:
    """uvicorn's configuration for an application, or for the name of a function that makes it."""
    import uvicorn

    from epicrec.server.operations.tls import reloading_context

    certificate, key = _certificate(settings)
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=settings.host,
        port=settings.port,
        http="epicrec.server.api.connections:Connection",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_context_factory=reloading_context if certificate else None,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.forwarded_from),
        forwarded_allow_ips=settings.forwarded_from or None,
        timeout_graceful_shutdown=_GRACE,
        timeout_worker_healthcheck=_HEALTHY,
        workers=settings.workers,
        ws="none",
    )


def _with_items(settings: Settings) -> Settings:
    """The settings; a server without items starts with the titles that clients start with."""
    from epicrec.data.embedded import TITLES
    from epicrec.server.store import catalogue
    from epicrec.server.store.database import Database

    if settings.catalogue:
        return settings
    database = Database(settings.database_url)
    try:
        database.migrate()
        with database.reading() as connection:
            if catalogue.count(connection):
                return settings
    finally:
        database.stop()
    print(
        f"no catalogue is set, so it begins with our own {TITLES}; set catalogue to a list of "
        f"yours, or to {NOTHING!r} to add items by POST /api/items",
        file=sys.stderr,
    )
    return replace(settings, catalogue=TITLES)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Hold a lock: two servers on one SQLite folder would not see each other's changes."""
    if not settings.database_url.startswith("sqlite"):
        yield
        return
    close_folder(settings.folder)
    with ExitStack() as held:
        try:
            held.enter_context(locked(settings.folder / "server.lock", wait=False))
        except BlockingIOError:
            raise InputError(
                f"another server works in {settings.folder}; stop it first, give this one another "
                "folder (data), or use PostgreSQL (database), which many can share"
            ) from None
        yield


def _listening(settings: Settings) -> socket.socket:
    """systemd's socket, which stays open while we restart, or one of our own."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS", "0") > "0":
        return socket.socket(fileno=_SYSTEMD_SOCKET)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        where = f"{settings.host}, port {settings.port}"
        raise InputError(f"cannot listen on {where}: {error.strerror}; set another") from error


def _check(settings: Settings) -> dict[str, Any]:
    """Try everything that a start needs, without listening; raises where something is wrong.

    The database is read and not changed: it may be a running server's.
    """
    import ssl

    from epicrec.data.datasets import load_catalogue
    from epicrec.server.operations.tls import fingerprint
    from epicrec.server.service import Service
    from epicrec.server.store import catalogue, users
    from epicrec.server.store.database import newest_version

    certificate, key = _certificate(settings)
    found: dict[str, Any] = {}
    if certificate and key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
            found = {"fingerprint": fingerprint(Path(certificate))}
        except (OSError, ValueError) as error:
            raise InputError(f"the certificate {certificate} cannot be used: {error}") from error
    if settings.train_from and settings.train_from != STORE:
        from epicrec.server.training.publish import rating_set

        rating_set(settings)
    if settings.listed:
        found["catalogue"] = len(load_catalogue(settings.listed))
    database = Service(settings).database
    try:
        found["tables"] = database.version()
        if found["tables"] == newest_version():
            with database.reading() as connection:
                found |= users.counts(connection) | {"items": catalogue.count(connection)}
        else:
            found["a start changes them to"] = newest_version()
    finally:
        database.stop()
    where = "sqlite" if database.is_sqlite else "postgresql"
    return {"ok": True, "database": where, "tls": not settings.http, **found}


def _purge(settings: Settings, days: int) -> int:
    from epicrec.server.store import users
    from epicrec.server.store.database import Database
    from epicrec.server.training.folders import scrub

    if days < 1:
        raise InputError(f"purge takes a number of days, at least 1, not {days}")
    database = Database(settings.database_url)
    try:
        database.migrate()
        with database.writing() as connection:
            gone = users.purge(connection, days)
        scrub(settings.folder / "models", gone)
        database.compact()
    finally:
        database.stop()
    return len(gone)


def _certificate(settings: Settings) -> tuple[str | None, str | None]:
    close_folder(settings.folder)
    if settings.http:
        return None, None
    if settings.certificate:
        for file in (settings.certificate, settings.private_key):
            if not os.access(file, os.R_OK):
                raise InputError(f"cannot read {file}; name a PEM file this user may read")
        return settings.certificate, settings.private_key
    from epicrec.server.operations.tls import development_certificate

    names = [settings.host, "localhost", "127.0.0.1", "::1", *settings.names.split(",")]
    wanted = [name.strip() for name in names if name.strip() and name not in ("0.0.0.0", "::")]
    made = development_certificate(settings.folder / "tls", list(dict.fromkeys(wanted)))
    return str(made[0]), str(made[1])
