"""Device: the person's side of the system in one place; the pages are a thin layer over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec import wire
from epicrec.client.choice import Choice
from epicrec.client.history import History
from epicrec.client.job import Job
from epicrec.client.matching import Matcher
from epicrec.client.ranking import (
    Row,
    blended_scores,
    knows_taste,
    model_scores,
    rows_of,
)
from epicrec.client.releases import Outlook, Releases, Stored
from epicrec.client.remote import Remote, RemoteError, checked_url
from epicrec.client.sources import (
    Import,
    Profile,
    find_profiles,
    read_visits,
    recognise,
)
from epicrec.client.store import Store
from epicrec.client.vault import write_private
from epicrec.data import Catalogue
from epicrec.data.simulate import simulate_table
from epicrec.errors import EpicrecError, InputError
from epicrec.models import Recommender, load
from epicrec.privacy import Ledger

LIMIT = 4.0
"""The limit of the ledger until the person sets another."""
_STALE, _RETRY = 24 * 3600.0, 60.0  # seconds before the server is asked again
_EXAMPLE_SEED = 11

Dial = Callable[..., Remote]


@dataclass(frozen=True)
class ForYou:
    """The rows, and what they were made with."""

    rows: list[Row]
    with_model: bool
    info: wire.ModelInfo | None
    problem: str = ""


class Device:
    """Store, catalogue, history, releases and the line to the server.

    `catalogue` has text ids (`with_text_ids`). `server` and `certificate` (PEM), where given, are
    kept for later starts.
    """

    def __init__(
        self,
        folder: Path,
        catalogue: Catalogue,
        *,
        server: str = "",
        certificate: str = "",
        passphrase: str | None = None,
        dial: Dial = Remote,
    ) -> None:
        self.store = Store(folder, passphrase)
        self.folder, self.catalogue, self._dial = folder, catalogue, dial
        self.history = History(self.store)
        self.job: Job | None = None
        self._matcher: Matcher | None = None
        self._model: tuple[str, Recommender] | None = None
        self._list: list[str] = []
        self._ask_again = 0.0
        self._problem = ""
        self._rows: tuple[tuple[Any, ...], ForYou] | None = None
        self._lock = threading.RLock()
        try:
            if server:
                self.use_server(server, certificate)
            self.releases.recover()
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        self.store.close()

    # ---- what is kept ---------------------------------------------------------------------

    @property
    def matcher(self) -> Matcher:
        with self._lock:
            if self._matcher is None:
                self._matcher = Matcher(self.catalogue)
            return self._matcher

    @property
    def ledger(self) -> Ledger:
        limit = float(self.store.setting("limit", LIMIT))
        return Ledger(self.folder / "ledger.jsonl", limit_epsilon=limit)

    @property
    def releases(self) -> Releases:
        return Releases(self.store, self.ledger)

    @property
    def choice(self) -> Choice:
        kept = self.store.setting("choice")
        return Choice() if kept is None else Choice.from_dict(kept)

    def choose(self, choice: Choice) -> None:
        choice.levels(self.catalogue)
        self.store.set(choice=choice.to_dict())

    def set_limit(self, limit: float) -> None:
        if not 0 < limit <= 100:
            raise InputError("the limit is a number above 0 and at most 100")
        self.store.set(limit=limit)

    # ---- history --------------------------------------------------------------------------

    def example(self) -> int:
        """A made-up viewer's history, for trying things out; how many films were new."""
        stars = _example_viewer()
        known = [item for item in stars if self.catalogue.positions([item])[0] >= 0]
        if not self.has_example:
            raise InputError("the example is about the embedded films; this catalogue has others")
        return self.history.add(known, about="an example history", source="example", ratings=stars)

    @property
    def has_example(self) -> bool:
        return bool((self.catalogue.positions(list(_example_viewer())) >= 0).any())

    def profiles(self) -> list[Profile]:
        """The browsers on this machine; nothing in them is opened."""
        return find_profiles()

    def read_browsers(self, wanted: list[str], *, scan: bool = False) -> int:
        """Read the ticked profiles' new visits and keep the films among them for review.

        `scan` also suggests films from the titles of sites that are not about films.
        """
        ticked = [p for p in self.profiles() if str(p.database) in wanted]
        if not ticked:
            raise InputError("no browser is ticked; tick one, then read it")
        visits, facts = [], dict[str, Any](scanned={})
        for profile in ticked:
            name = str(profile.database)
            found = list(read_visits(profile, self.history.scanned_until(name)))
            if found:
                facts["scanned"][name] = found[-1].when.isoformat()
            visits += found
        facts["read"] = len(visits)
        matches = self.matcher.match_all(visits, self.history.answers(), scan=scan)
        about = ", ".join(profile.source for profile in ticked)
        return self.history.draft(about, zip(visits, matches, strict=True), facts)

    def read_file(self, name: str, data: bytes, answers: dict[str, str]) -> Import | int:
        """A file's films kept for review, or what must be asked first."""
        found = recognise(name, data, answers)
        if found.questions:
            return found
        facts: dict[str, Any] = {"read": len(found.viewings), **(found.dropped or {})}
        matches = self.matcher.match_all(found.viewings, self.history.answers())
        return self.history.draft(found.kind, zip(found.viewings, matches, strict=True), facts)

    # ---- the server -----------------------------------------------------------------------

    @property
    def account(self) -> dict[str, str] | None:
        """Address, certificate, id and secret at the chosen server; id and secret empty before the
        first use."""
        found: dict[str, str] | None = self.store.setting("server")
        return found

    def use_server(self, url: str, certificate: str = "") -> None:
        """Choose a server. Known ones keep their id, and the certificate that was trusted."""
        url = checked_url(url)
        kept = self.store.setting("servers", {})
        new = {"url": url, "certificate": "", "user_id": "", "secret": ""}
        account = kept.get(url, new) | ({"certificate": certificate} if certificate else {})
        self.store.set(server=account, servers=kept | {url: account})
        self._list, self._ask_again = [], 0.0

    def remote(self) -> Remote:
        account = self.account
        if account is None:
            raise InputError("no server is chosen; choose one on the server page")
        return self._dial(account["url"], key=account["secret"], certificate=account["certificate"])

    def registered(self) -> dict[str, str]:
        """The account, with an id: asked for at the first use, telling the server nothing."""
        account = self.account
        if account is None or not account["user_id"]:
            remote = self.remote()
            try:
                given = remote.register()
            finally:
                remote.close()
            assert account is not None
            account = account | {"user_id": given.UserId, "secret": given.Secret}
            kept = self.store.setting("servers", {})
            self.store.set(server=account, servers=kept | {account["url"]: account})
        return account

    def forget_there(self) -> None:
        """Have the server delete everything it holds of this client."""
        account = self.account
        if account is None or not account["user_id"]:
            return
        remote = self.remote()
        try:
            remote.forget(account["user_id"])
        finally:
            remote.close()
        account = account | {"user_id": "", "secret": ""}
        kept = self.store.setting("servers", {})
        self.store.set(server=account, servers=kept | {account["url"]: account})

    def erase(self) -> None:
        """Forget everything here: history, settings, releases, ledger, model."""
        self.store.erase()
        for name in ("ledger.jsonl", "model.npz"):
            (self.folder / name).unlink(missing_ok=True)
        self._model = self._rows = None
        self._list, self._ask_again = [], 0.0

    # ---- releasing ------------------------------------------------------------------------

    def outlook(self) -> Outlook:
        return self.releases.outlook(self.catalogue, self.history.items(), self.choice)

    def draw(self, *, everything: bool = False, scheduled: bool = False) -> Stored:
        """Draw, record, and only then show. See `Releases.draw`.

        One at a time, so that no film enters two draws. Where nothing is new the last release
        stands, except at scheduled times: these do not depend on the history.
        """
        user_id = self.registered()["user_id"]
        with self._lock:
            latest = self.releases.latest()
            if latest and not everything and not scheduled and self.outlook().nothing_new:
                return latest
            items = self.history.items()
            return self.releases.draw(
                self.catalogue, items, self.choice, user_id, everything=everything
            )

    def send(self, identity: str) -> Stored:
        """Send a recorded release, then fetch what the server has for everybody."""
        user_id = self.registered()["user_id"]
        if self.releases.get(identity).user_id not in (None, user_id):
            self.releases.readdress(identity, user_id)
            raise InputError(
                "this release was made out to another account. It is made out to this one now, "
                "with the same films: look at it again, then send it"
            )
        remote = self.remote()
        try:
            sent = self.releases.send(identity, remote)
        finally:
            remote.close()
        self.refresh()
        return sent

    # ---- for you --------------------------------------------------------------------------

    def refresh(self) -> str:
        """Fetch the published model and the server's list; what went wrong, or nothing."""
        try:
            account = self.registered()
            remote = self.remote()
            try:
                self._fetch_model(remote)
                self._list = remote.recommend(account["user_id"])
            finally:
                remote.close()
            self._problem, self._ask_again = "", time.time() + _STALE
        except (RemoteError, InputError) as error:
            self._problem, self._ask_again = str(error), time.time() + _RETRY
        return self._problem

    def _fetch_model(self, remote: Remote) -> None:
        info = remote.model_info()
        kept = self.store.setting("model")
        if info is None:
            self.store.set(model=None)
        elif kept is None or kept["Hash"] != info.Hash or not self._model_path.exists():
            write_private(self._model_path, remote.model(info))
            self.store.set(model=info.model_dump(mode="json"))

    @property
    def _model_path(self) -> Path:
        return self.folder / "model.npz"

    def model(self) -> tuple[Recommender, wire.ModelInfo] | None:
        """The published model as last fetched."""
        kept = self.store.setting("model")
        if kept is None or not self._model_path.exists():
            return None
        info = wire.ModelInfo.model_validate(kept)
        with self._lock:
            if self._model is None or self._model[0] != info.Hash:
                try:
                    self._model = (info.Hash, load(self._model_path))
                except EpicrecError:
                    return None
            return self._model[1], info

    def server_list(self) -> list[str]:
        """The server's own list as last fetched, best first."""
        return self._list

    def unwanted(self) -> list[str]:
        with self.store.reading() as db:
            return [row[0] for row in db.execute("SELECT item_id FROM unwanted")]

    def not_interested(self, item_id: str, wanted: bool = False) -> None:
        verb = "DELETE FROM unwanted WHERE item_id = ?" if wanted else (
            "INSERT OR IGNORE INTO unwanted VALUES (?)"
        )  # fmt: skip
        with self.store.changing() as db:
            db.execute(verb, (item_id,))

    def for_you(self, *, compare: bool = False, n: int = 12) -> ForYou:
        """Rows ranked here by the true history; with `compare`, those without the item model."""
        if self.account and time.time() > self._ask_again:
            self.refresh()
        key = (self.store.changes, self._ask_again, compare, n)
        with self._lock:
            if self._rows is None or self._rows[0] != key:
                self._rows = (key, self._ranked(compare, n))
            found = self._rows[1]
        return replace(found, problem=self._problem if self.account else "")

    def _ranked(self, compare: bool, n: int) -> ForYou:
        items, ratings = self.history.items(), self.history.ratings()
        kept = None if compare else self.model()
        if kept is not None and items and knows_taste(kept[0]):
            scores = model_scores(kept[0], self.catalogue, items, ratings)
            if np.isfinite(scores).any():
                model = kept[0]
                rows = rows_of(self.catalogue, scores, items, self.unwanted(), model=model, n=n)
                return ForYou(rows, True, kept[1])
        scores = blended_scores(self.catalogue, items, self.server_list())
        rows = rows_of(self.catalogue, scores, items, self.unwanted(), n=n)
        return ForYou(rows, False, kept[1] if kept else None)


@lru_cache(maxsize=1)
def _example_viewer() -> dict[str, float]:
    """The ratings of one simulated viewer of the embedded films."""
    viewer = simulate_table(users=1, seed=_EXAMPLE_SEED)
    return dict(zip(viewer["item_id"].to_pylist(), viewer["rating"].to_pylist(), strict=True))


def with_text_ids(catalogue: Catalogue) -> Catalogue:
    """The same catalogue with ids as text, as they are on the wire."""
    if catalogue.item_ids.dtype.kind == "U":
        return catalogue
    table = catalogue.to_table()
    ids = pa.array([str(i) for i in table["item_id"].to_pylist()])
    return Catalogue.from_table(table.set_column(0, "item_id", ids))
