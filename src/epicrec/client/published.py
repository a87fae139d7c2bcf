"""Published: what the server has for everybody, fetched now and then and kept on the device.

The item model goes into a file and outlives the program; the server's list is only in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from epicrec import wire
from epicrec.client.account import Accounts
from epicrec.client.remote import Remote, RemoteError
from epicrec.client.store import Store
from epicrec.client.vault import write_private
from epicrec.errors import EpicrecError, InputError
from epicrec.models import Recommender, load

_STALE, _RETRY = 24 * 3600.0, 60.0  # seconds before the server is asked again


class Published:
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

    @property
    def is_due(self) -> bool:
        return time.time() > self.ask_again

    def refresh(self) -> str:
        """Fetch the model, without a name, and the list where a release was sent; what went
        wrong, or nothing."""
        try:
            account = self._accounts.chosen()
            with closing(self._accounts.dial()) as remote:
                self._fetch_model(remote)
                asks = account["user_id"] and self._asks_for_list()
                self.listed = remote.recommend(account["user_id"]) if asks else []
            self.problem, self.ask_again = "", time.time() + _STALE
        except (RemoteError, InputError) as error:
            self.problem, self.ask_again = str(error), time.time() + _RETRY
        return self.problem

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

    def _fetch_model(self, remote: Remote) -> None:
        info = remote.model_info()
        kept = self._store.setting("model")
        if info is None:
            self._store.set(model=None)
        elif kept is None or kept["Hash"] != info.Hash or not self._path.exists():
            write_private(self._path, remote.model(info))
            self._store.set(model=info.model_dump(mode="json"))
