"""Serve: what `epicrec serve` does."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicrec.errors import InputError
from epicrec.files import locked
from epicrec.server.rights import close_folder
from epicrec.server.settings import NOTHING, STORE, Settings

if TYPE_CHECKING:
    import uvicorn

_GRACE = 10  # seconds for requests under way when the server is told to stop
_HEALTHY = 60  # seconds until a worker that says nothing is replaced
_FIRST_HANDED_OVER = 3  # the file descriptor at which systemd's begin


def serve(
    config: str | os.PathLike[str] | None = None,
    *,
    check: bool = False,
    backup: str | os.PathLike[str] | None = None,
    restore: str | os.PathLike[str] | None = None,
    purge: int | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Run the server until it is told to stop, or do one of the other things and return.

    `given` are settings from the command line; None means not given. The result says what was done.
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
    """Listen until SIGTERM or SIGINT, then finish what is under way and stop."""
    from epicrec.server.logs import start_logging

    start_logging()
    scheme = "http" if settings.http else "https"
    print(f"epicrec serves {scheme}://{settings.host}:{settings.port}", file=sys.stderr)
    if not settings.admin_key:
        print(f"the admin's key is in {settings.folder / 'admin.key'}", file=sys.stderr)
    if not settings.http:
        from epicrec.server.tls import fingerprint

        shown = fingerprint(Path(_certificate(settings)[0] or ""))
        print(f"its certificate's fingerprint (SHA-256) is {shown}", file=sys.stderr)
    if settings.role:
        from epicrec.collective.keys import verifying_key
        from epicrec.server.collective import signing_key

        own = verifying_key(signing_key(settings)).hex()
        print(f"it is the {settings.role}; its signing key is {own}", file=sys.stderr)
    if not settings.http and not settings.certificate:
        print(f"clients trust {settings.folder / 'tls' / 'ca.pem'}", file=sys.stderr)
    with _alone(settings):
        settings = _with_items(settings)
        listening = _listening(settings)
        if settings.workers > 1:
            from epicrec.server.workers import run_workers

            run_workers(settings, config_of(settings, "epicrec.server.workers:app"), listening)
        else:
            if hasattr(signal, "SIGHUP"):  # certificates are looked at anyway
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            server = make_server(settings)
            gc.freeze()  # what is loaded stays: no collection need look at it while others wait
            server.run([listening])


def make_server(settings: Settings) -> uvicorn.Server:
    """The server, ready to `run`."""
    import uvicorn

    from epicrec.server.api.app import create_app
    from epicrec.server.logs import silence_access_log

    silence_access_log()
    return uvicorn.Server(config_of(settings, create_app(settings)))


def config_of(settings: Settings, app: Any) -> uvicorn.Config:
    """uvicorn's configuration for an application, or for the name of what makes it."""
    import uvicorn

    from epicrec.server.tls import reloading_context

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
    """A server that nobody gave any items begins with those that a client begins with."""
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
    """Of two servers on one SQLite folder each would serve what it remembers of the other's."""
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
    """The socket that systemd hands over, which stays open while we restart, or one of our own."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS", "0") > "0":
        return socket.socket(fileno=_FIRST_HANDED_OVER)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        where = f"{settings.host}, port {settings.port}"
        raise InputError(f"cannot listen on {where}: {error.strerror}; set another") from error


def _check(settings: Settings) -> dict[str, Any]:
    """Everything a start needs, tried without listening; raises where something is wrong.

    The database is looked at and not changed: a running server's tables are no matter of a check.
    """
    import ssl

    from epicrec.data.datasets import load_catalogue
    from epicrec.server.service import Service
    from epicrec.server.store import catalogue, people
    from epicrec.server.store.database import newest_version
    from epicrec.server.tls import fingerprint

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
                found |= people.counts(connection) | {"items": catalogue.count(connection)}
        else:
            found["a start changes them to"] = newest_version()
    finally:
        database.stop()
    where = "sqlite" if database.is_sqlite else "postgresql"
    return {"ok": True, "database": where, "tls": not settings.http, **found}


def _purge(settings: Settings, days: int) -> int:
    from epicrec.server.store import people
    from epicrec.server.store.database import Database
    from epicrec.server.training.folders import scrub

    if days < 1:
        raise InputError(f"purge takes a number of days, at least 1, not {days}")
    database = Database(settings.database_url)
    try:
        database.migrate()
        with database.writing() as connection:
            gone = people.purge(connection, days)
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
    from epicrec.server.tls import development_certificate

    names = [settings.host, "localhost", "127.0.0.1", "::1", *settings.names.split(",")]
    wanted = [name.strip() for name in names if name.strip() and name not in ("0.0.0.0", "::")]
    made = development_certificate(settings.folder / "tls", list(dict.fromkeys(wanted)))
    return str(made[0]), str(made[1])
