"""Item model: what the server publishes for everybody, fetched now and then and kept here.

The item model goes into a file and outlives the program; the server's list is only in memory.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from epicrec import wire
from epicrec.client.sending.accounts import Accounts
from epicrec.client.sending.remote import Remote
from epicrec.client.store import Store
from epicrec.client.vault import write_private
from epicrec.errors import EpicrecError
from epicrec.models import Recommender, load

_STALE, _RETRY = 24 * 3600.0, 60.0  # seconds before the server is asked again
_QUICK = 1.0  # seconds that the first page waits for a server


class FetchedModel:
    """The published model and the server's list as last fetched."""

    def __init__(
        self, store: Store, folder: Path, accounts: Accounts, asks_for_list: Callable[[], bool]
    ) -> None:
        self._store, self._accounts = store, accounts
        self._asks_for_list = asks_for_list
        self._path = folder / "model.npz"
        self.listed: list[str] = []
        """The server's list for what was released, best first."""
        self.problem = ""
        """What went wrong at the last fetching, or nothing."""
        self.ask_again = 0.0
        """When the server is to be asked again, in seconds since 1970."""
        self._model: tuple[str, Recommender] | None = None
        self._loading = threading.Lock()  # a model is large: one thread loads it, others wait
        self._fetching: threading.Thread | None = None

    @property
    def is_due(self) -> bool:
        return time.time() > self.ask_again

    def refresh(self) -> str:
        """Fetch the model, without a name, and the list where a release was sent; what went
        wrong, or nothing."""
        try:
            account = self._accounts.chosen()
            with closing(self._accounts.dial()) as remote:
                found = self._fetch_model(remote)
                asks = account["user_id"] and self._asks_for_list()
                listed = remote.recommend(account["user_id"]) if asks else []
            if self._accounts.chosen()["url"] == account["url"]:  # no other was chosen meanwhile
                self._keep_model(*found)
                self.listed, self.problem, self.ask_again = listed, "", time.time() + _STALE
        except (EpicrecError, OSError, sqlite3.Error) as error:
            self.problem, self.ask_again = str(error), time.time() + _RETRY
        return self.problem

    def refresh_soon(self) -> None:
        """The same in the background, for pages: a server that is quick and was never asked has
        answered when this returns, a slow one keeps nobody waiting."""
        if not self.is_fetching:
            self._fetching = threading.Thread(target=self.refresh, daemon=True)
            self._fetching.start()
            if self.ask_again == 0.0:
                self._fetching.join(_QUICK)

    @property
    def is_fetching(self) -> bool:
        return self._fetching is not None and self._fetching.is_alive()

    def settle(self) -> None:
        """Wait until nothing is being fetched."""
        if self._fetching is not None:
            self._fetching.join()

    def expire(self) -> None:
        """Another server: its list is another, and it is asked at the next occasion."""
        self.listed, self.ask_again = [], 0.0

    def erase(self) -> None:
        """Forget the model too."""
        self._path.unlink(missing_ok=True)
        self._model = None
        self.expire()

    def model(self) -> tuple[Recommender, wire.ModelInfo] | None:
        """The model, and what the server said about it; None where there is none to be used."""
        kept = self._store.setting("model")
        if kept is None or not self._path.exists():
            return None
        info = wire.ModelInfo.model_validate(kept)
        with self._loading:
            if self._model is None or self._model[0] != info.Hash:
                try:
                    self._model = (info.Hash, load(self._path))
                except EpicrecError:
                    return None
            return self._model[1], info

    def _fetch_model(self, remote: Remote) -> tuple[wire.ModelInfo | None, bytes | None]:
        """What is published, and its file where it is not here already."""
        info, kept = remote.model_info(), self._store.setting("model")
        here = info is not None and kept is not None and kept["Hash"] == info.Hash
        if info is None or (here and self._path.exists()):
            return info, None
        return info, remote.model(info)

    def _keep_model(self, info: wire.ModelInfo | None, content: bytes | None) -> None:
        if info is None:
            self._store.set(model=None)
        elif content is not None:
            write_private(self._path, content)
            self._store.set(model=info.model_dump(mode="json"))
