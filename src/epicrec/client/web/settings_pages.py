"""Pages of settings: the server, the schedule, and what to do with one's own data."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from epicrec.client.device import Device
from epicrec.client.imports.csv_history import write_history
from epicrec.client.matching.catalogues import ADDED, read_catalogue
from epicrec.client.sending.accounts import Account
from epicrec.client.sending.outbox import CHOSEN_MOMENT
from epicrec.client.sending.remote import (
    RemoteError,
    UntrustedError,
    fingerprint,
    shown_certificate,
)
from epicrec.client.sending.schedule import DEFAULT, EVERY, next_moment, next_try, set_schedule
from epicrec.client.store import PLAIN, set_aside
from epicrec.client.vault import LEAST, DamagedError, Vault, WrongPassphraseError
from epicrec.client.viewing import Evidence, Viewing
from epicrec.client.web.film_pages import about
from epicrec.client.web.jobs import in_background, onward
from epicrec.client.web.promises import said
from epicrec.client.web.request import Ask, Handler, download, to
from epicrec.data.catalogue import with_text_ids
from epicrec.data.embedded import titles_catalogue
from epicrec.errors import InputError

# ---- the server ---------------------------------------------------------------------------


def server(
    ask: Ask, url: str = "", shown: tuple[str, str] = ("", ""), problem: str = ""
) -> Response:
    plan = ask.device.store.setting("schedule")
    return ask.page(
        "server.html", 400 if problem else 200, account=ask.device.account, url=url, pem=shown[0],
        fingerprint=shown[1], problem=problem, every=list(EVERY), usual=DEFAULT, plan=plan,
        due=next_moment(plan), again=next_try(plan), chosen_moment=CHOSEN_MOMENT,
    )  # fmt: skip


def use_server(ask: Ask) -> Response:
    """Try the server, and use it if it answers; where nobody vouches for it, ask whether to trust
    what it shows.

    One that was trusted before and shows another certificate is refused, unless the person says in
    so many words that they trust the new one.
    """
    device, url, pem = ask.device, ask.field("url"), ask.field("certificate")
    try:
        account = device.accounts.at(url, pem)
    except InputError as error:
        return server(ask, url, problem=str(error))
    before = device.accounts.known(url)
    used = before is not None and bool(before["certificate"] or before["user_id"])
    if used and pem and ask.field("compared") != "yes":
        raise InputError("compare the two fingerprints and tick the box; nothing was changed")

    def trying() -> Handler:
        refusal = _refusal(device, account, used)
        if refusal is not None:
            return refusal
        device.use_server(url, pem)
        return onward("/server", "The server answers and is trusted. It is used from now on.")

    return in_background(ask, f"try-{url}-{bool(pem)}", f"asking {account['url']}", trying)


def certificate(ask: Ask) -> Response:
    """Whether the chosen server still shows what was trusted."""
    device, account = ask.device, ask.device.accounts.chosen()
    answers = "The server answers, and its certificate is trusted."
    return in_background(
        ask, "certificate", f"asking {account['url']}",
        lambda: _refusal(device, account, True) or onward("/server", answers),
    )  # fmt: skip


def _refusal(device: Device, account: Account, used: bool) -> Handler | None:
    """The page that says why a server cannot be used as it is, or None: it can."""
    url, trusted = account["url"], account["certificate"]
    with closing(device.accounts.dial(account)) as remote:
        try:
            remote.model_info()
        except UntrustedError:
            pem, new = shown_certificate(url)
            if not used:
                return partial(server, url=url, shown=(pem, new))
            old = fingerprint(trusted) if trusted else ""
            return partial(
                Ask.page, name="certificate.html", status=409, url=url, old=old, new=new, pem=pem
            )
        except RemoteError as error:
            return partial(server, url=url, problem=f"{error}. Nothing was changed")
    return None


def schedule(ask: Ask) -> Response:
    set_schedule(ask.device, ask.field("every"))
    ask.say("Saved the schedule.")
    return to("/server")


# ---- my data ------------------------------------------------------------------------------


def data(ask: Ask) -> Response:
    device = ask.device
    return ask.page(
        "data.html", films=device.history.count(), folder=device.folder,
        titles=len(device.catalogue), added=(device.folder / ADDED).exists(),
        servers=_servers(device), under_passphrase=device.store.is_sealed, least=LEAST,
    )  # fmt: skip


def add_catalogue(ask: Ask) -> Response:
    """Add a list of films; what it has is looked for in earlier imports."""
    device, folder = ask.device, ask.received
    if folder is None:
        raise InputError("no file was chosen; choose one first")

    def adding() -> Handler:
        try:
            new, found = device.add_catalogue(with_text_ids(read_catalogue(_chosen_in(folder))))
        except InputError as error:  # where the files lie meanwhile is nobody's concern
            words = str(error).replace(f"{folder}/", "").replace(str(folder), "it")
            raise InputError(words) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return onward(
            "/data",
            f"{new:,} {'title was' if new == 1 else 'titles were'} added, and {found:,} "
            f"{'line' if found == 1 else 'lines'} of earlier imports found in the list.",
        )

    return in_background(ask, f"catalogue-{folder.name}", "reading the list", adding)


def _chosen_in(folder: Path) -> Path:
    """The file that was chosen, or the folder where there are several that belong together."""
    files = list(folder.iterdir())
    if not files:
        raise InputError("no file was chosen; choose one first")
    return files[0] if len(files) == 1 else folder


def forget_catalogue(ask: Ask) -> Response:
    """Back to the list that the program brings."""
    device = ask.device
    (device.folder / ADDED).unlink(missing_ok=True)
    device.use_catalogue(titles_catalogue())
    ask.say("The list is again the one that this program brings.")
    return to("/data")


def _servers(device: Device) -> str:
    """The servers that know this device by a name, for a sentence."""
    return " and ".join(account["url"] for account in device.accounts.named)


def export_csv(ask: Ask) -> Response:
    device = ask.device
    viewings = (
        Viewing(
            title=film["title"], year=film["year"] or None, source=row["source"],
            evidence=Evidence(row["evidence"]), rating=row["rating"],
            watched_at=row["watched_at"] and datetime.fromisoformat(row["watched_at"]),
        )
        for row in device.history.viewings()
        for film in (about(device, row["item_id"]),)
    )  # fmt: skip
    return download("epicrec-history.csv", write_history(viewings).encode(), "text/csv")


def export_all(ask: Ask) -> Response:
    """Everything in one zip: the store as it is for another machine, and readable copies."""
    device, packed = ask.device, io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(PLAIN, device.store.copy())
        ledger = device.folder / "ledger.jsonl"
        archive.writestr("ledger.jsonl", ledger.read_bytes() if ledger.exists() else b"")
        archive.writestr("history.csv", bytes(export_csv(ask).body))
        archive.writestr("viewings.json", json.dumps(device.history.viewings(), indent=1))
        for stored in device.releases.all():
            archive.writestr(f"releases/{stored.id}.json", stored.payload)
    return download("epicrec-everything.zip", packed.getvalue(), "application/zip")


def export_sealed(ask: Ask) -> Response:
    """The same under a passphrase; `--restore` asks for it."""
    vault = Vault.new(Path("export"), _new_passphrase(ask))
    content = vault.sealed(bytes(export_all(ask).body))
    return download("epicrec-everything.sealed", content, "application/octet-stream")


def forget_there(ask: Ask) -> Response:
    device = ask.device
    _check_sure(ask)

    def forgetting() -> Handler:
        _forget_there(device)
        return onward("/data", said("deleted there"))

    return in_background(ask, "forget", "asking the server to delete", forgetting)


def _forget_there(device: Device) -> None:
    """Nothing goes out by itself afterwards: the server would have to make a new name for it."""
    device.accounts.forget()
    device.shared_model.leave()
    set_schedule(device, "never")


def erase(ask: Ask) -> Response:
    """Delete here; with `there`, first on the servers, and only if they confirm it."""
    device, there, ledger = ask.device, bool(ask.field("there")), bool(ask.field("ledger"))
    _check_sure(ask)

    def erasing() -> Handler:
        if there:
            _forget_there(device)
        servers, spent = _servers(device), device.ledger.total().get("item")
        device.erase(ledger=ledger)
        told = [said("deleted there")] if there else []
        told.append(said("deleted here"))
        if spent is not None:
            epsilon = f"{spent.epsilon:.3g}"
            told.append(said("ledger gone" if ledger else "ledger kept", epsilon=epsilon))
        if servers:
            told.append(said("still there", servers=servers))
        return onward("/", *told)

    return in_background(ask, "erase", "deleting", erasing)


def _check_sure(ask: Ask) -> None:
    if ask.field("sure") != "yes":
        raise InputError("tick the box to say that you are sure; nothing was deleted")


def _new_passphrase(ask: Ask) -> str:
    if ask.field("passphrase") != ask.field("again"):
        raise InputError("the two passphrases differ; type the same twice")
    return ask.field("passphrase")


def passphrase(ask: Ask) -> Response:
    """Put the store under a passphrase, under another, or under none; who changes it knows it."""
    store, remove = ask.device.store, ask.field("act") == "remove"
    if store.is_sealed and not store.opens(ask.field("current")):
        raise InputError("this is not the passphrase that it is under now; nothing was changed")
    if remove:
        store.unseal()
        ask.say("The history is no longer under a passphrase.")
    else:
        store.seal(_new_passphrase(ask))
        ask.say("The history is under the new passphrase now. Without it nobody can open it.")
    return to("/data")


def lock(ask: Ask) -> Response:
    """Close a store that is under a passphrase, until somebody gives it."""
    device = ask.device
    if not device.store.is_sealed:
        raise InputError("put the history under a passphrase first; then it can be locked")
    ask.state.device = None
    device.published.settle()
    device.close()
    ask.state.jobs.clear()
    ask.state.uploads.clear()
    ask.state.said.clear()
    ask.say("Locked.")
    return to("/unlock")


def unlock_page(ask: Ask) -> Response:
    return to("/") if ask.state.device else ask.page("unlock.html", wrong=False)


def unlock(ask: Ask) -> Response:
    try:
        if ask.state.device is None:
            ask.state.device = ask.state.open_device(ask.field("passphrase"))
    except WrongPassphraseError:
        return ask.page("unlock.html", 403, wrong=True)
    except DamagedError as error:
        ask.state.damage = error
        raise
    return to("/")


def begin_anew(ask: Ask) -> Response:
    """Where the store cannot be read: put it aside, and begin with an empty one."""
    state = ask.state
    if not isinstance(state.damage, DamagedError) or state.folder is None:
        return to("/")
    aside = set_aside(state.folder)
    state.damage = None
    state.device = state.open_device(None)
    ask.say(f"The damaged file is in {aside} now. Your history begins anew; the ledger is kept.")
    return to("/")


def health(ask: Ask) -> Response:
    """Whether the program runs, and has its history open, for programs that look after it."""
    return PlainTextResponse("locked" if ask.state.device is None else "open")


_STATIC = {"style.css": "text/css", "client.js": "text/javascript", "icon.svg": "image/svg+xml"}


def static(ask: Ask) -> Response:
    kind = _STATIC.get(ask.path["name"])
    if kind is None:
        return Response("there is no such file", 404)
    content = (Path(__file__).parent / "static" / ask.path["name"]).read_bytes()
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=300"})
