"""Serve: what `epicrec serve` does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicrec.errors import InputError
from epicrec.server.rights import close_folder
from epicrec.server.settings import STORE, Settings

if TYPE_CHECKING:
    import uvicorn

_GRACE = 10  # seconds for requests under way when the server is told to stop


def serve(
    config: Path | None = None,
    *,
    check: bool = False,
    backup: Path | None = None,
    restore: Path | None = None,
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

        return {"backup": str(backup), "rows": back_up(settings, backup)}
    if restore is not None:
        from epicrec.server.store.backup import restore as bring_back

        return {"restored": str(restore), "rows": bring_back(settings, restore)}
    if purge is not None:
        return {"purged": _purge(settings, purge)}
    run(settings)
    return {"stopped": True}


def run(settings: Settings) -> None:
    """Listen until SIGTERM or SIGINT, then finish what is under way and stop."""
    from epicrec.server.logs import start_logging

    start_logging()
    server = make_server(settings)
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
    server.run()


def make_server(settings: Settings) -> uvicorn.Server:
    """The server, ready to `run`."""
    import uvicorn

    from epicrec.server.api.app import create_app
    from epicrec.server.logs import silence_access_log

    silence_access_log()
    certificate, key = _certificate(settings)

    return uvicorn.Server(
        uvicorn.Config(
            create_app(settings),
            host=settings.host,
            port=settings.port,
            http="epicrec.server.api.connections:Connection",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.forwarded_from),
            forwarded_allow_ips=settings.forwarded_from or None,
            timeout_graceful_shutdown=_GRACE,
            ws="none",
        )
    )


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
    if settings.catalogue:
        found["catalogue"] = len(load_catalogue(settings.catalogue))
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
    from epicrec.server.training.lists import scrub

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
