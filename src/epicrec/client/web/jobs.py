"""Jobs: what takes longer than a page should, such as a large file, a browser or a slow server.

A job runs in the background; a page shows its progress, then goes on to what came of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse, Response

from epicrec.client.web.request import Ask, Handler, to
from epicrec.progress import listening

PATIENCE = 1.5
"""Seconds before the page of progress is shown."""
_KEPT = 8
_BEGINNING = threading.Lock()
"""So that of presses at the same time one begins a job and the others wait for it."""


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


def in_background(ask: Ask, name: str, about: str, work: Callable[[], Handler]) -> Response:
    """Do something, and go on to the page it returns. Two presses of one button, in one tab or
    two, are one job: `name` says which button, and what it is about."""
    jobs = ask.state.jobs
    name = "".join(c for c in name if c.isascii() and (c.isalnum() or c == "-"))
    with _BEGINNING:
        if name not in jobs or not jobs[name].is_running:
            jobs.pop(name, None)
            jobs[name] = Job(about, work)
            for old in [key for key, job in jobs.items() if not job.is_running][:-_KEPT]:
                del jobs[old]
        job = jobs[name]
    job.wait(PATIENCE)
    return _shown(ask, name)


def onward(path: str, *sayings: str) -> Handler:
    """On to another page, which says so."""

    def go(ask: Ask) -> Response:
        for text in sayings:
            ask.say(text)
        return to(path)

    return go


def working(ask: Ask) -> Response:
    return _shown(ask, ask.path["job"])


def _shown(ask: Ask, name: str) -> Response:
    job = ask.state.jobs.get(name)
    if job is None:
        return to("/")
    if job.is_running:
        return ask.page("working.html", job=job, address=f"/working/{name}")
    if job.error is not None:
        raise job.error
    following: Handler = job.result
    return following(ask)


def progress(ask: Ask) -> Response:
    """How far the work is, for the page's script; nothing once it is over."""
    job = ask.state.jobs.get(ask.path["job"])
    if job is None or not job.is_running:
        return Response(status_code=204)
    return JSONResponse({"words": job.words, "done": job.done, "total": job.total})
