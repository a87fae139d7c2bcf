"""Job: work that takes longer than a page should, with its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from epicrec.progress import listening


class Job:
    """One piece of work in the background."""

    def __init__(self, about: str, work: Callable[[], Any]) -> None:
        self.about, self._work = about, work
        self.what, self.done, self.total = about, 0, 0
        self.result: Any = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def words(self) -> str:
        """What it does, and how far it is where that is known."""
        return f"{self.what}: {self.done:,} of {self.total:,}" if self.total else self.what

    def wait(self, seconds: float) -> bool:
        """Whether it is over within this time."""
        self._thread.join(seconds)
        return not self.is_running

    def _run(self) -> None:
        try:
            with listening(self._listen):
                self.result = self._work()
        except Exception as error:
            self.error = error

    def _listen(self, what: str, done: int, total: int) -> None:
        self.what, self.done, self.total = what, done, total
