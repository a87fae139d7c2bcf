"""Authentication: the admin's key, users by their secrets, and how often each may ask."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import replace
from typing import Any

from epicrec.server.operations.file_permissions import write_new
from epicrec.server.settings import Settings
from epicrec.server.store import users
from epicrec.server.store.database import Database
from epicrec.server.store.users import StoredUser

_MOST_CACHED = 200_000
_MOST_LIMITED = 100_000


class Callers:
    """A cache of users by the digests of their secrets. Belongs to the event loop.

    `background` runs what need not be waited for: recording that a user was seen today.
    """

    def __init__(
        self, database: Database, background: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._database, self._background = database, background
        self._users: dict[bytes, StoredUser] = {}
        self._forgotten = 0  # only grows; a look-up during which it grew is not cached
        self._waiting: list[tuple[bytes, asyncio.Future[StoredUser | None]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def whose(self, secret_digest: bytes) -> StoredUser | None:
        """The user with this secret; looked up once and cached until they leave."""
        user = self._users.get(secret_digest)
        if user is None:
            forgotten = self._forgotten
            user = await self._look_up(secret_digest)
            if user is None:
                return None
            if forgotten == self._forgotten:
                if len(self._users) >= _MOST_CACHED:
                    self._users.clear()
                self._users[secret_digest] = user
        if user.seen_day != (day := users.today()):
            if secret_digest in self._users:
                self._users[secret_digest] = replace(user, seen_day=day)
            self._background(self._database.write(users.seen, user.key, day))
        return user

    async def _look_up(self, secret_digest: bytes) -> StoredUser | None:
        """Ask the database; requests that arrive during a query share the next one."""
        found: asyncio.Future[StoredUser | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((secret_digest, found))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        return await found

    async def _ask(self) -> None:
        """Look up all who wait, until nobody does; callers who are gone get no answer."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                known = await self._database.look_up(users.with_secrets, [one for one, _ in batch])
            except Exception as error:
                for _, found in batch:
                    if not found.done():
                        found.set_exception(error)
            else:
                for secret_digest, found in batch:
                    if not found.done():
                        found.set_result(known.get(secret_digest))
        self._asking = None

    def forget(self, user_keys: set[int]) -> None:
        """These users were deleted: their secrets are no longer valid."""
        self._forgotten += len(user_keys)
        self._users = {
            secret: user for secret, user in self._users.items() if user.key not in user_keys
        }

    def forget_cached(self) -> None:
        """A user was deleted by another process: look everybody up again."""
        self._forgotten += 1
        self._users.clear()


class RateLimit:
    """A bucket of `number` tokens for each key, refilled evenly over `seconds`. Kept in memory,
    never logged."""

    def __init__(
        self, number: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.number, self.rate, self.clock = number, number / seconds, clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> bool:
        """Take one token; False where none is left."""
        left = self._left(key)
        allowed = left >= 1
        self._keep(key, left - 1 if allowed else left)
        return allowed

    def wait(self, key: Hashable) -> int:
        """Seconds until there is a token again."""
        return max(1, int((1 - self._left(key)) / self.rate) + 1) if self.rate else 3600

    def _left(self, key: Hashable) -> float:
        left, at = self._buckets.get(key, (float(self.number), self.clock()))
        return min(float(self.number), left + (self.clock() - at) * self.rate)

    def _keep(self, key: Hashable, left: float) -> None:
        self._buckets[key] = (left, self.clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST_LIMITED:
            self._buckets.popitem(last=False)


def admin_key(settings: Settings) -> str:
    """The admin's key: the one in the settings, else that in `admin.key`, made where missing."""
    if settings.admin_key:
        return settings.admin_key
    path = settings.folder / "admin.key"
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        key = secrets.token_urlsafe(32)
        write_new(path, f"{key}\n".encode())
        return key
