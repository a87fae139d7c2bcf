"""Logs: one JSON object a line on stderr, with route templates instead of paths and no values.

The texts of exceptions are left out: they may quote what somebody sent. Their kind and place stay.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger("epicrec.server")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            line["trace"] = [
                f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)[-8:]
            ]
        return json.dumps(line, ensure_ascii=False)


def start_logging(level: int = logging.INFO) -> None:
    """Everything this process logs goes out as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(level)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def silence_access_log() -> None:
    """uvicorn's own line for each request holds paths, and paths hold ids; `Guard` logs instead."""
    logging.getLogger("uvicorn.access").disabled = True


def event(name: str, **fields: object) -> None:
    """Log something that happened, with its figures."""
    log.info(name, extra={"fields": fields})
