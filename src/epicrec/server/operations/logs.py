"""Logs: one JSON object a line on stderr, with route templates instead of paths and no values.

The texts of exceptions are left out, as they may quote what somebody sent; type and place stay.
A thread of its own writes the lines: a reader that stalls costs lines, never an answer.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

log = logging.getLogger("epicrec.server")

_WAITING = 10_000  # lines; more are dropped and counted
_WRITE_EVERY = 0.1  # seconds
_encode = json.JSONEncoder(ensure_ascii=False).encode
_FLUSH_SECONDS = 2.0  # for the lines that are left when the process ends


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
        return _encode(line)


class BackgroundHandler(logging.Handler):
    """Hands lines to a thread that writes them to a stream at intervals: woken for each line, it
    would take the interpreter away from the requests."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.dropped = 0
        self._stream = stream
        self._lines: deque[str] = deque()
        self._busy = False
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._lines) >= _WAITING:
            self.dropped += 1
        else:
            self._lines.append(self.format(record) + "\n")

    def flush(self) -> None:
        """Wait a moment for the lines that are left, but not for a reader that has stalled."""
        end = time.monotonic() + _FLUSH_SECONDS
        while (self._lines or self._busy) and time.monotonic() < end:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            time.sleep(_WRITE_EVERY)
            self._busy = True
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            try:
                self._stream.write("".join(lines))
                self._stream.flush()
            except (OSError, ValueError):  # the reader is gone
                self.dropped += len(lines)
            self._busy = False


def dropped() -> int:
    """How many lines were dropped because nobody read them."""
    return sum(
        one.dropped for one in logging.getLogger().handlers if isinstance(one, BackgroundHandler)
    )


def flush_logs() -> None:
    """Write what is left: a process that ends by a signal writes nothing more."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def start_logging() -> None:
    """Write everything that this process logs as JSON lines."""
    # do not collect for each line what no line shows (see the logging cookbook)
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = BackgroundHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def silence_access_log() -> None:
    """uvicorn's line for each request holds the path, and paths hold ids; `Guard` logs instead."""
    logging.getLogger("uvicorn.access").disabled = True


def event(name: str, **fields: object) -> None:
    """Log an event with its fields."""
    log.info(name, extra={"fields": fields})
