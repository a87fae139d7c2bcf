"""Start: what `epicrec client` does."""

from __future__ import annotations

import io
import os
import socket
import sys
import tempfile
import webbrowser
import zipfile
from collections.abc import Callable
from contextlib import suppress
from getpass import getpass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicrec.errors import InputError

if TYPE_CHECKING:
    from epicrec.client.device import Device
    from epicrec.client.ranking.scores import Card
    from epicrec.client.web.app import Client
    from epicrec.client.web.request import State
    from epicrec.data import Catalogue
    from epicrec.privacy.ledger import Entry

PORT = 8377


def default_folder() -> Path:
    """Where the history is kept unless said otherwise."""
    from platformdirs import user_data_path

    return user_data_path("epicrec", appauthor=False)


def run_client(
    *,
    folder: Path | None = None,
    server: str = "",
    certificate: Path | None = None,
    catalogue: str = "titles",
    port: int = PORT,
    restore: Path | None = None,
    browser: bool = True,
) -> None:
    """Serve the pages on 127.0.0.1 until interrupted, and open them in a browser.

    Where the program runs already, its entrance is opened instead.
    """
    from epicrec.client.store import InUseError
    from epicrec.client.web.security import has_screen

    folder = folder or default_folder()
    if restore is not None:
        bring(folder, restore)
    try:
        client, address = make_client(
            folder, server=server, certificate=certificate, catalogue=catalogue, port=port
        )
    except InUseError:
        if not (browser and has_screen()):
            raise
        webbrowser.open(f"http://127.0.0.1:{port}/")
        return
    with suppress(KeyboardInterrupt):  # that is how one ends it
        print(f"epicrec client: open {address}", file=sys.stderr, flush=True)
        if browser:
            client.door.open(address)
        client.run()


def make_client(
    folder: Path,
    *,
    server: str = "",
    certificate: Path | None = None,
    catalogue: str = "films",
    port: int = 0,
) -> tuple[Client, str]:
    """The web application, ready to `run`, and the address that lets a browser in, once.

    The socket is bound already, so that the address holds; port 0 takes a free one. The device
    behind the pages is `client.state.device`, None while a passphrase is missing.
    """
    from epicrec.client.web.app import Client
    from epicrec.client.web.security import Door

    state = open_state(folder, server=server, certificate=certificate, catalogue=catalogue)
    try:
        bound = _bound(port)
    except BaseException:
        if state.device is not None:
            state.device.close()
        raise
    door = Door(folder, bound.getsockname()[1])
    return Client(state, door, bound), door.invite()


def _bound(port: int) -> socket.socket:
    # named as TCP, else asyncio leaves small answers waiting for one another
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name != "nt":  # there it would let two programs take one port
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
        bound.listen()  # a browser that is quicker than the application waits
    except OSError as error:
        bound.close()
        raise InputError(f"port {port} is taken ({error}); give another with --port") from error
    return bound


def open_state(
    folder: Path, *, server: str = "", certificate: Path | None = None, catalogue: str = "films"
) -> State:
    """The device, or, where its history is under a passphrase, the way to open it."""
    from epicrec.client.device import Device
    from epicrec.client.store import LockedError
    from epicrec.client.vault import DamagedError
    from epicrec.client.web.request import State
    from epicrec.privacy import LedgerDamagedError

    try:
        trusted = certificate.read_text("utf-8") if certificate else ""
    except OSError as error:
        raise InputError(f"cannot read the certificate {certificate}: {error}") from error

    def open_device(passphrase: str | None) -> Device:
        films = catalogue_of(folder, catalogue)
        return Device(folder, films, server=server, certificate=trusted, passphrase=passphrase)

    state = State(open_device, folder=folder)
    try:
        state.device = open_device(None)
    except LockedError:
        state.device = None
    except (DamagedError, LedgerDamagedError) as error:
        state.damage = error
    return state


def catalogue_of(folder: Path, name: str) -> Catalogue:
    """The list of films to begin with; the client's own with what was added to it in the pages."""
    from epicrec.client.matching.catalogues import ADDED, read_catalogue
    from epicrec.data import EMBEDDED
    from epicrec.data.catalogue import with_text_ids
    from epicrec.data.datasets import load_catalogue
    from epicrec.data.embedded import TITLES, titles_catalogue

    if name == TITLES:
        added = folder / ADDED
        return with_text_ids(read_catalogue(added)) if added.exists() else titles_catalogue()
    return with_text_ids(load_catalogue(EMBEDDED) if name == EMBEDDED else read_catalogue(name))


def rows_of_file(path: Path, n: int) -> dict[str, Any]:
    """What the pages would show somebody who has this history and no server.

    Lines that leave open which title they mean are not used; `unmatched` has them, and those whose
    title is not in the list.
    """
    from epicrec.client.device import Device
    from epicrec.data.embedded import titles_catalogue

    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        device = Device(Path(folder), titles_catalogue())
        try:
            batch = device.reading.file(path.name, path.read_bytes(), {})
            if not isinstance(batch, int):
                asked = " ".join(question.text for question in batch.questions)
                raise InputError(f"{path} leaves something open: {asked} Import it in the pages")
            device.imports.keep(batch, {})
            rows = device.shelf.rows(n=n).rows
            films = device.catalogue
            return {
                "rows": [
                    {"title": row.title, "films": [_shown(films, card) for card in row.cards]}
                    for row in rows
                ],
                "unmatched": [line.title for line in device.imports.drafts(batch)],
            }
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        finally:
            device.close()


def _shown(films: Catalogue, card: Card) -> dict[str, Any]:
    at = int(films.positions([card.item_id])[0])
    why = " and ".join(card.why)
    return {
        "title": str(films.titles[at]), "year": int(films.years[at]),
        "why": f"{why}: {', '.join(card.facts)}" if card.facts else why,
    }  # fmt: skip


def bring(folder: Path, packed: Path, ask: Callable[[str], str] = getpass) -> None:
    """Everything from another machine, as its page 'My data' exported it, into an empty folder.

    `ask` is asked for the passphrase of a sealed export, which is then the store's. What a ledger
    in the folder holds stays: the other's entries are added to it.
    """
    from epicrec.client.store import PLAIN, restore
    from epicrec.client.vault import Vault, is_sealed
    from epicrec.privacy import Ledger

    passphrase = None
    try:
        if is_sealed(packed):
            passphrase = ask("Passphrase of the export: ")
            content = Vault.open(packed, passphrase)[1]
        else:
            content = packed.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            store, ledger = archive.read(PLAIN), archive.read("ledger.jsonl")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{packed} is no export of everything: {error}") from error
    entries = _entries(ledger)
    restore(folder, store, passphrase)
    own = Ledger(folder / "ledger.jsonl", limit_epsilon=inf)
    there = {entry.about for entry in own.entries()}
    for entry in entries:
        if entry.about not in there:
            own.spend(
                entry.guarantee, about=entry.about, group=entry.group, disclosure=entry.disclosure
            )


def _entries(ledger: bytes) -> tuple[Entry, ...]:
    """The entries of a ledger's file."""
    from epicrec.privacy import Ledger

    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(ledger)
        return Ledger(path, limit_epsilon=inf).entries()
