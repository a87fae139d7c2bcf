"""Connections: how many there may be, and how long one may take to send a request.

uvicorn waits for ever for the rest of a request and accepts any number of connections.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from epicrec.server.settings import Settings

_MOST_HEAD = 65_536  # bytes of a request line with all headers
_GOODBYE = 2.0  # seconds until an idle connection is cut when the server stops


class Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """uvicorn's connection, limited by the settings that the application's lifespan passes."""

    _timer: asyncio.TimerHandle | None = None
    _unread = 0
    _refused = _leaving = False

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered: none has arrived with all its headers."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self._is_one_too_many(self.app_state["settings"]):
            self._refuse()
        else:
            self._wait(self.app_state["settings"].read_timeout)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if not self._is_idle:
            self._stop_waiting()
            self._unread = 0
            if self._leaving:
                self.cycle.keep_alive = False
            return
        self._unread += len(data)
        if self._unread > _MOST_HEAD:
            self.transport.abort()
        elif self._timer is None:
            self._wait(self.app_state["settings"].read_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Answer a request that is on its way, and cut a connection that stays idle: TLS would wait
        for a goodbye that idle clients never send."""
        self._leaving = True
        if self._is_idle:
            self._stop_waiting()
            self._wait(_GOODBYE)
        else:
            super().shutdown()

    def _is_one_too_many(self, settings: Settings) -> bool:
        if len(self.connections) > settings.connections:
            return True
        address = self.client[0] if self.client else ""
        if not address or address in settings.forwarded_from.split(","):
            return False
        same = sum(1 for one in self.connections if one.client and one.client[0] == address)
        return same > settings.connections_per_address

    def _refuse(self) -> None:
        self._refused = True
        body = json.dumps({"detail": "too many connections; try again in a moment"}).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nretry-after: 1"
        answer = f"HTTP/1.1 503 Service Unavailable\r\n{head}\r\nconnection: close\r\n\r\n"
        self.transport.write(answer.encode() + body)
        self.transport.close()
        self._wait(1.0)

    def _wait(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._is_idle:
            self.transport.abort()
