"""Known: who is asking. The admin by one key, users by secrets that are remembered for a while."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from epicrec.server.settings import Settings
from epicrec.server.store import people
from epicrec.server.store.database import BusyError, Database
from epicrec.server.store.people import Known

_MOST_KEYS = 200_000


@dataclass
class _Batch:
    """Secrets that wait to be looked up together, and what came of it."""

    digests: list[bytes] = field(default_factory=list)
    found: dict[bytes, Known] = field(default_factory=dict)
    error: Exception | None = field(default_factory=lambda: BusyError("not looked up; try again"))


class Callers:
    """The users who asked, by their secrets' digests; belongs to the event loop.

    `background` is given what need not be waited for: noting that a user was seen today.
    """

    def __init__(
        self, database: Database, background: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._database, self._background = database, background
        self._users: dict[bytes, Known] = {}
        self._forgotten = 0  # only ever grows: a look-up during which it grew is not remembered
        self._next, self._asking = _Batch(), asyncio.Lock()

    async def whose(self, secret_digest: bytes) -> Known | None:
        """The user with this secret. Each is looked up once and remembered until they leave."""
        user = self._users.get(secret_digest)
        if user is None:
            forgotten = self._forgotten
            user = await self._look_up(secret_digest)
            if user is None:
                return None
            if forgotten == self._forgotten:
                if len(self._users) >= _MOST_KEYS:
                    self._users.clear()
                self._users[secret_digest] = user
        if user.seen_day != (day := people.today()):
            if secret_digest in self._users:
                self._users[secret_digest] = replace(user, seen_day=day)
            self._background(self._database.write(people.seen, user.key, day))
        return user

    async def _look_up(self, secret_digest: bytes) -> Known | None:
        """From the database: whoever comes while it is being asked shares the next question."""
        batch = self._next
        batch.digests.append(secret_digest)
        async with self._asking:
            if batch is self._next:
                self._next = _Batch()
                try:
                    batch.found = await self._database.look_up(people.with_secrets, batch.digests)
                    batch.error = None
                except Exception as error:
                    batch.error = error
        if batch.error is not None:
            raise batch.error
        return batch.found.get(secret_digest)

    def forget(self, user_keys: set[int]) -> None:
        """These were deleted: their secrets open nothing any more."""
        self._forgotten += len(user_keys)
        self._users = {
            secret: user for secret, user in self._users.items() if user.key not in user_keys
        }

    def look_again(self) -> None:
        """Somebody was deleted elsewhere: everybody is looked up once more."""
        self._forgotten += 1
        self._users.clear()


def admin_key(settings: Settings) -> str:
    """The admin's key: the one set, else the one in `admin.key`, made when it is missing."""
    if settings.admin_key:
        return settings.admin_key
    path = settings.folder / "admin.key"
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        key = secrets.token_urlsafe(32)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(key + "\n")
        return key
