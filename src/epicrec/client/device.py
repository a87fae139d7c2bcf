"""Device: the person's side of the system in one place; the pages are a thin layer over it."""

from __future__ import annotations

import io
import shutil
import threading
from contextlib import closing
from pathlib import Path

from pyarrow import parquet

from epicrec.client.history import History
from epicrec.client.imports.extension import Extension
from epicrec.client.imports.reading import Reading
from epicrec.client.imports.review import Imports
from epicrec.client.matching.catalogues import ADDED, merged
from epicrec.client.ranking.for_you import ForYou, Shelf
from epicrec.client.ranking.item_model import FetchedModel
from epicrec.client.sending.accounts import Account, Accounts, Dial
from epicrec.client.sending.outbox import CountedFilms, Outlook, Releases, StoredRelease
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.sending.remote import Remote
from epicrec.client.sending.shared_model_reports import SharedModelReports
from epicrec.client.sending.shared_model_results import SharedModelResults
from epicrec.client.store import Store
from epicrec.client.vault import write_private
from epicrec.data import EMBEDDED, Catalogue
from epicrec.data.datasets import load_catalogue
from epicrec.data.embedded import among
from epicrec.errors import EpicrecError, InputError
from epicrec.privacy import Ledger

UPLOADS = "uploads"
"""The folder for files that a page received, until they are read."""
LIMIT, LIMIT_DELTA = 4.0, 1e-5
"""The ledger's limit until the person sets another, and the δ at which rounds of a shared model are
added up; releases have none."""


class Device:
    """What holds the parts together: each of them knows the store and as few others as it can.

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
        self.folder = folder
        self.store = store = Store(folder, passphrase)
        self.uploads = folder / UPLOADS
        shutil.rmtree(self.uploads, ignore_errors=True)  # left by a program that was killed
        self.history, self.imports = History(store), Imports(store)
        self.accounts, self._counted = Accounts(store, dial), CountedFilms(store)
        self.published = FetchedModel(store, folder, self.accounts, self._takes_part)
        self.shared_results = SharedModelResults(store, folder, self.accounts)
        self._know(catalogue)
        self._drawing, self._adding = threading.Lock(), threading.Lock()
        try:
            if server:
                self.use_server(server, certificate)
            self.releases.recover()
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        self.store.close()

    def _know(self, catalogue: Catalogue) -> None:
        self.catalogue, self._sendable = catalogue, ("", catalogue)
        self.reading = Reading(self.history, self.imports, catalogue)
        self.extension = Extension(self.store, self.imports, self.reading)
        self.shelf = Shelf(
            self.store, catalogue, self.history, self.accounts, self.published, self.shared_results
        )

    def use_catalogue(self, catalogue: Catalogue) -> int:
        """Another list of films from now on. What earlier imports named and the list before did not
        have is looked for again; how many entries came of it."""
        self._know(catalogue)
        return self.reading.match_again()

    def add_catalogue(self, other: Catalogue) -> tuple[int, int]:
        """The titles of another list beside those there are, also at later starts; how many are
        new, and how many lines of earlier imports were found among them."""
        with self._adding:
            before = len(self.catalogue)
            films, packed = merged(self.catalogue, other), io.BytesIO()
            parquet.write_table(films.to_table(), packed)
            write_private(self.folder / ADDED, packed.getvalue())
            return len(films) - before, self.use_catalogue(films)

    def erase(self, *, ledger: bool = False) -> None:
        """Forget history, settings, releases and model; the ledger, which has no titles, only
        where told: what was spent stays spent."""
        self.store.erase()
        if ledger:
            (self.folder / "ledger.jsonl").unlink(missing_ok=True)
        self.published.erase()
        self.shared_results.forget()
        self.shelf.forget()

    # ---- what the person chose ------------------------------------------------------------

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

    @property
    def account(self) -> Account | None:
        """The account at the chosen server."""
        return self.accounts.current

    def use_server(self, url: str, certificate: str = "") -> None:
        """Choose a server. See `Accounts.use`."""
        self.accounts.use(url, certificate)
        self.published.expire()

    # ---- releasing ------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        limit = float(self.store.setting("limit", LIMIT))
        return Ledger(self.folder / "ledger.jsonl", limit_epsilon=limit, limit_delta=LIMIT_DELTA)

    @property
    def shared_model(self) -> SharedModelReports:
        """This device's part in a shared model."""
        return SharedModelReports(self.store, self.ledger, self.accounts, self.shared_results)

    @property
    def releases(self) -> Releases:
        return Releases(self.store, self.ledger, self._counted)

    @property
    def sendable(self) -> Catalogue:
        """The films that a release may be about, as a server takes only what it lists: those of the
        catalogue that its published model has; without a model, those of `films`; all where none
        of these are known here. Nothing of the history decides it."""
        kept = self.published.model()
        mark = kept[1].Hash if kept else EMBEDDED
        if self._sendable[0] != mark:
            listed = kept[0].item_ids_ if kept else load_catalogue(EMBEDDED).item_ids
            self._sendable = (mark, among(self.catalogue, listed))
        return self._sendable[1]

    def outlook(self) -> Outlook:
        return self.releases.outlook(self.sendable, self.history.items(), self.choice)

    def draw(self, *, everything: bool = False, scheduled: bool = False) -> StoredRelease:
        """Draw, record, and only then show. See `Releases.draw`. Nothing is asked of the server.

        One at a time, so that no film enters two draws. It draws also where nothing is new, so
        that what is sent does not tell whether something was watched. Unless it is `scheduled`, the
        guarantee says that the person chose the moment.
        """
        account = self.accounts.chosen()
        with self._drawing:
            films = self.sendable
            if not self.choice.sends(films):
                raise InputError(
                    "you keep all of it to yourself, so there is nothing to draw or send; choose "
                    "another level on the privacy page"
                )
            return self.releases.draw(
                films, self.history.items(), self.choice, account["user_id"],
                everything=everything, chosen_moment=not scheduled,
            )  # fmt: skip

    def send(self, identity: str, *, scheduled: bool = False) -> StoredRelease:
        """Send a recorded release, then fetch what the server has for everybody.

        The server gives this device its name at the first sending, and the release is made out to
        it then. One that arrived is not sent there again.
        """
        made_out_to, known = self.releases.get(identity).user_id, self.accounts.chosen()["user_id"]
        if made_out_to and made_out_to != known:
            self.releases.readdress(identity, known)
            raise InputError(
                "this release was made out to another account. It is made out to this one now, "
                "with the same films: look at it again, then send it"
            )
        if self.releases.get(identity).state == "sent":
            raise InputError("this release arrived; there is nothing to send again")
        user_id = self.accounts.registered()["user_id"]
        if made_out_to == "":
            self.releases.readdress(identity, user_id)
        with closing(self.accounts.dial()) as remote:
            sent = self.releases.send(identity, remote, chosen_moment=not scheduled)
        self.published.refresh()
        return sent

    def _takes_part(self) -> bool:
        """Whether the server may be asked for this device's own list: it sends, and has sent."""
        return self.choice.sends(self.catalogue) and self.releases.any_sent()

    # ---- what is asked of it most ---------------------------------------------------------

    def example(self) -> int:
        """See `Reading.example`."""
        return self.reading.example()

    def refresh(self) -> str:
        """Fetch what the server has for everybody; what went wrong, or nothing."""
        problem = self.published.refresh()
        try:
            self.shared_results.refresh()
        except EpicrecError as error:
            problem = problem or str(error)
        return problem

    def for_you(self, *, compare: bool = False, n: int = 12, wait: bool = True) -> ForYou:
        """See `Shelf.rows`. What the server has is fetched where it is time; pages do not `wait`
        for it."""
        if not wait:
            self.refresh_soon()
        elif self.account is not None and self.published.is_due:
            self.published.refresh()
        return self.shelf.rows(compare=compare, n=n)

    def refresh_soon(self) -> None:
        """Fetch what the server has for everybody, in the background, where it is time."""
        if self.account is not None and self.published.is_due:
            self.published.refresh_soon()
