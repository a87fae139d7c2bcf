"""Workers: several processes on one socket and one PostgreSQL, kept alive by uvicorn's supervisor.

SIGHUP replaces them one after the other, each by one that answers already: no request is lost.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import socket
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from epicrec.server.settings import Settings

if TYPE_CHECKING:
    import uvicorn

_GIVEN = "EPICREC_WORKER_SETTINGS"


def run_workers(settings: Settings, config: uvicorn.Config, listening: socket.socket) -> None:
    """Until SIGTERM or SIGINT."""
    from uvicorn.supervisors import Multiprocess

    from epicrec.server.service import Service

    ready = Service(settings)  # keys and tables are made once, before anybody needs them
    ready.prepare()
    ready.database.stop()
    metrics = settings.folder / "metrics"  # where the workers add up what each has counted
    shutil.rmtree(metrics, ignore_errors=True)
    metrics.mkdir(mode=0o700)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
    os.environ[_GIVEN] = json.dumps(asdict(settings))
    Multiprocess(config, [listening]).run()


def app() -> Any:
    """A worker's application, with the settings its parent was given."""
    from epicrec.server.api.app import create_app
    from epicrec.server.logs import silence_access_log, start_logging

    start_logging()
    silence_access_log()
    made = create_app(Settings(**json.loads(os.environ[_GIVEN])))
    gc.freeze()  # as in `main.run`
    return made
