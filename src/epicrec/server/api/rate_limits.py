"""Rate limits: how often a user or an address may do something; kept in memory, never logged."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST_REMEMBERED = 100_000


class RateLimit:
    """A bucket of `number` tokens for each key, refilled evenly over `seconds`."""

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
        if len(self._buckets) > _MOST_REMEMBERED:
            self._buckets.popitem(last=False)
