"""Pages of results: rows for you, the server, and what to do with one's own data."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import datetime
from pathlib import Path

from starlette.responses import Response

from epicrec.client.pages.history import about, known
from epicrec.client.remote import UntrustedError, shown_certificate
from epicrec.client.schedule import EVERY, set_schedule
from epicrec.client.sources import Evidence, Viewing, write_own
from epicrec.client.store import PLAIN
from epicrec.client.vault import WrongPassphraseError
from epicrec.client.web import Ask, to
from epicrec.errors import InputError

_MORE = 60


def for_you(ask: Ask) -> Response:
    device = ask.device
    category = ask.path.get("category")
    if category is not None and category not in device.catalogue.categories:
        raise InputError("the catalogue has no such category; go back to For you")
    compare = "compare" in ask.query
    found = device.for_you(compare=compare, n=_MORE if category is not None else 12)
    rows = [row for row in found.rows if category is None or row.category == category]
    shown = {card.item_id: about(device, card.item_id) for row in rows for card in row.cards}
    return ask.page(
        "for_you.html", found=found, rows=rows, films=shown, compare=compare, category=category,
        watched=len(device.history.items()), account=device.account,
        unwanted=[about(device, item) for item in device.shelf.unwanted()],
    )  # fmt: skip


def not_interested(ask: Ask) -> Response:
    device, item = ask.device, ask.field("item_id")
    known(device, item)
    device.shelf.not_interested(item, wanted=bool(ask.field("again")))
    ask.say(f"{device.catalogue.title_of(item)}: noted, on this device only.")
    return to("/for-you")


def refresh(ask: Ask) -> Response:
    ask.say(ask.device.refresh() or "Fetched what the server has for everybody.")
    return to("/for-you")


# ---- the server ---------------------------------------------------------------------------


def server(ask: Ask) -> Response:
    plan = ask.device.store.setting("schedule")
    return ask.page(
        "server.html", account=ask.device.account, url="", fingerprint="", pem="",
        every=list(EVERY), plan=plan,
    )  # fmt: skip


def use_server(ask: Ask) -> Response:
    """Try the server; where nobody vouches for it, ask whether to trust what it shows."""
    device, url, pem = ask.device, ask.field("url"), ask.field("certificate")
    device.use_server(url, pem)
    remote = device.accounts.dial()
    try:
        remote.model_info()
    except UntrustedError:
        pem, fingerprint = shown_certificate(url)
        return ask.page(
            "server.html", account=device.account, url=url, fingerprint=fingerprint, pem=pem,
            every=list(EVERY), plan=device.store.setting("schedule"),
        )  # fmt: skip
    finally:
        remote.close()
    ask.say("The server answers.")
    return to("/server")


def schedule(ask: Ask) -> Response:
    set_schedule(ask.device, ask.field("every"))
    ask.say("Saved the schedule.")
    return to("/server")


# ---- my data ------------------------------------------------------------------------------


def data(ask: Ask) -> Response:
    device = ask.device
    return ask.page(
        "data.html", films=device.history.count(), account=device.account, folder=device.folder,
        under_passphrase=device.store.is_sealed,
    )  # fmt: skip


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
    return _download("epicrec-history.csv", write_own(viewings).encode(), "text/csv")


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
    return _download("epicrec-everything.zip", packed.getvalue(), "application/zip")


def forget_there(ask: Ask) -> Response:
    ask.device.accounts.forget()
    ask.say("The server was told to delete everything it holds of you, and confirmed it.")
    return to("/data")


def erase(ask: Ask) -> Response:
    if ask.field("sure") != "yes":
        raise InputError("tick the box to say that you are sure; nothing was deleted")
    ask.device.erase()
    ask.say("Everything on this device is deleted.")
    return to("/")


def passphrase(ask: Ask) -> Response:
    store, first = ask.device.store, ask.field("passphrase")
    if store.is_sealed:
        store.unseal()
        ask.say("The history is no longer under a passphrase.")
    elif first != ask.field("again"):
        raise InputError("the two passphrases differ; type the same twice")
    else:
        store.seal(first)
        ask.say("The history is under the passphrase now. Without it nobody can open it.")
    return to("/data")


def unlock_page(ask: Ask) -> Response:
    return to("/") if ask.state.device else ask.page("unlock.html", wrong=False)


def unlock(ask: Ask) -> Response:
    try:
        if ask.state.device is None:
            ask.state.device = ask.state.open_device(ask.field("passphrase"))
    except WrongPassphraseError:
        return ask.page("unlock.html", 403, wrong=True)
    return to("/")


_STATIC = {"style.css": "text/css", "client.js": "text/javascript", "icon.svg": "image/svg+xml"}


def static(ask: Ask) -> Response:
    kind = _STATIC.get(ask.path["name"])
    if kind is None:
        return Response("there is no such file", 404)
    content = (Path(__file__).parents[1] / "static" / ask.path["name"]).read_bytes()
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=300"})


def _download(name: str, content: bytes, kind: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)
