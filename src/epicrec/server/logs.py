"""Logs: one JSON object a line on stderr, with route templates instead of paths and no values.

The texts of exceptions are left out: they may quote what somebody sent. Their kind and place stay.
Lines are written by a thread of their own: a reader that stalls costs lines, never an answer.
"""

from __future__ import annotations

import atexit
import json
import logging
import queue
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

log = logging.getLogger("epicrec.server")

_WAITING = 10_000  # lines; beyond, they are dropped and counted
_LAST_WORDS = 2.0  # seconds for what is left when the process ends


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


class Aside(logging.Handler):
    """Hands lines to a thread that writes them to a stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.dropped = 0
        self._stream = stream
        self._lines: queue.Queue[str] = queue.Queue(_WAITING)
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record) + "\n")
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Wait a moment for what is left; a reader that has stalled is not waited for."""
        end = time.monotonic() + _LAST_WORDS
        while self._lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)
        super().close()

    def _write(self) -> None:
        while True:
            try:
                self._stream.write(self._lines.get())
                self._stream.flush()
            except (OSError, ValueError):  # whoever read it has gone
                self.dropped += 1
            finally:
                self._lines.task_done()


def dropped() -> int:
    """How many lines were lost because nobody read them."""
    return sum(one.dropped for one in logging.getLogger().handlers if isinstance(one, Aside))


def start_logging(level: int = logging.INFO) -> None:
    """Everything this process logs goes out as JSON lines."""
    handler = Aside(sys.stderr)
    handler.setFormatter(JsonLines())
    atexit.register(handler.close)
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
