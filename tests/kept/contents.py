"""What the files of a version hold, as whoever uses them sees it: plain values, to be compared."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from epicrec import Catalogue, Ledger, load
from epicrec.client.device import Device
from epicrec.client.sending.exposure import category_views, title_odds
from epicrec.client.sending.remote import Remote, RemoteError
from epicrec.data import Ratings
from epicrec.data.datasets import load_catalogue
from epicrec.perturb import Release
from epicrec.server import Settings
from epicrec.server.main import make_server

PASSPHRASE = "eight and a half weeks"
LIMIT = 4.0, 1e-5
"""Of the server's ledger: ε and δ, as its settings have them unless told otherwise."""


def films_of(version: Path) -> Catalogue:
    return load_catalogue(version / "films.csv")


def nobody_there(url: str, **_: Any) -> Remote:
    """A line to a server that is not there."""
    raise RemoteError(f"{url} does not answer")


def client(folder: Path, films: Catalogue, passphrase: str | None = None) -> dict[str, Any]:
    """A device's folder; opening it finishes what was interrupted, which enters the ledger now."""
    with closing(Device(folder, films, passphrase=passphrase, dial=nobody_there)) as device:
        history, imports, sent = device.history, device.imports, device.releases.all()
        items = history.items()
        fetched = device.published.model()
        spent = ledger(folder / "ledger.jsonl", limit_epsilon=device.ledger.limit_epsilon)
        return {
            "items": items,
            "ratings": history.ratings(),
            "films": [asdict(film) for film in history.films()],
            "viewings": history.viewings(),
            "batches": [asdict(batch) for batch in imports.batches()],
            "drafts": [asdict(d) for batch in imports.batches() for d in imports.drafts(batch.id)],
            "answers": imports.answers(),
            "evidence": list(history.evidence),
            "unwanted": sorted(device.shelf.unwanted()),
            "choice": device.choice.to_dict(),
            "limit": device.ledger.limit_epsilon,
            "schedule": device.store.setting("schedule"),
            "account": device.account,
            "outlook": asdict(device.outlook()),
            "releases": [
                {
                    "id": stored.id, "created": stored.created, "state": stored.state,
                    "choice": stored.choice.to_dict(), "everything": stored.everything,
                    "sent_at": stored.sent_at, "payload": stored.payload.decode(),
                    "items": list(stored.release.items),
                    "guarantee": stored.release.guarantee.to_dict(),
                }
                for stored in sent
            ],
            "entries": [(e["about"], e["group"], e["guarantee"]) for e in spent["entries"]],
            "total": spent["total"],
            "odds": [asdict(title_odds(films, sent, item)) for item in films.item_ids.tolist()],
            "learned": [
                asdict(view)
                for view in category_views(films, sent, items, device.choice.levels(films))
            ],
            "model": fetched and fetched[1].model_dump(mode="json"),
        }  # fmt: skip


def ledger(path: Path, **limits: float) -> dict[str, Any]:
    found = Ledger(path, **limits)
    return {
        "entries": [
            asdict(entry) | {"guarantee": entry.guarantee.to_dict()} for entry in found.entries()
        ],
        "total": {unit: guarantee.to_dict() for unit, guarantee in found.total().items()},
    }


def release(path: Path) -> dict[str, Any]:
    """A release as `epicrec perturb --json` printed it."""
    found = Release.from_json(path.read_text("utf-8"))
    return {"items": list(found.items), "guarantee": found.guarantee.to_dict()}


def model(path: Path) -> dict[str, Any]:
    """What a saved model is, and what it says about every item to a newcomer and to its users."""
    loaded = load(path)
    promise = loaded.guarantee.to_dict()
    items = loaded.item_ids_.tolist()
    rated = pa.table({"user_id": ["new"] * 4, "item_id": items[:4], "rating": [5.0, 4.0, 2.0, 1.0]})
    newcomer = loaded.released(Ratings.from_table(rated, scale=loaded.scale_))
    known = [] if loaded.histories_ is None else loaded.histories_.user_ids.tolist()
    best = loaded.recommend(newcomer, n=5)
    return {
        "method": loaded.method,
        "feedback": loaded.feedback,
        "guarantee": {name: promise[name] for name in promise if name != "assumes"},
        "items": items,
        "users": known,
        "newcomer": _scores(loaded.predict(_pairs(["new"], items), histories=newcomer)),
        "known": _scores(loaded.predict(_pairs(known[:1], items))) if known else [],
        "best": _scores(best),
    }


def _pairs(users: list[Any], items: list[Any]) -> pa.Table:
    return pa.table({"user_id": [u for u in users for _ in items], "item_id": items * len(users)})


def _scores(table: pa.Table) -> list[float]:
    return [float(score) for score in table["score"].to_pylist()]


def server(folder: Path, films: Catalogue) -> dict[str, Any]:
    """A server's data folder, through the server that runs on it."""
    with serving(folder) as (_, admin):
        stats = admin.get("/api/dashboard/stats").json()
        stats["counts"].pop("users_seen_in_7_days")  # these become fewer by themselves
        users = [user["UserId"] for user in _all(admin, "/api/users", "Users")]
        published = admin.get("/api/model").content
        return {
            "counts": stats["counts"],
            "feedback_by_type": stats["feedback_by_type"],
            "guarantees": stats["guarantees"],
            "users": _all(admin, "/api/users", "Users"),
            "items": _all(admin, "/api/items", "Items"),
            "feedback": [[*row.values()] for row in _all(admin, "/api/feedback", "Feedback")],
            "training": admin.get("/api/dashboard/training").json()["serving"],
            "lists": {user: admin.get(f"/api/recommend/{user}?n=5").json() for user in users},
            "category": admin.get(f"/api/recommend/{users[0]}/{films.categories[0]}").json(),
            "model": admin.get("/api/model/info").json(),
            "model_hash": hashlib.sha256(published).hexdigest(),
            "ledger": ledger(folder / "ledger.jsonl", limit_epsilon=LIMIT[0], limit_delta=LIMIT[1]),
        }


def _all(admin: httpx.Client, path: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = admin.get(path, params={"n": 100, "cursor": cursor}).raise_for_status().json()
        found += page[name]
        cursor = page["Cursor"]
        if not cursor:
            return found


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[tuple[str, httpx.Client]]:
    """A server on a data folder, until the block ends: its address and the admin's way in."""
    plain: dict[str, Any] = {
        "data": str(folder), "http": True, "port": 0, "train_every": 0, "training_nice": 0,
    }  # fmt: skip
    made = make_server(Settings(**plain | settings))
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    while not made.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    url = f"http://127.0.0.1:{made.servers[0].sockets[0].getsockname()[1]}"
    key = (folder / "admin.key").read_text("utf-8").strip()
    try:
        with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=600) as admin:
            yield url, admin
    finally:
        made.should_exit = True
        thread.join(600)
