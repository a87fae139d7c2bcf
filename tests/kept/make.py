"""Make small files of every kind that users have, and read what is in them.

    python tests/kept/make.py tests/kept/1.0.0

From 1.0.0 on, run it once at each release, with the code that is released, and commit the folder.
`tests/test_kept_files.py` then opens the files with the present code. It compares what it finds
with `expected.json`, which the code that made the files wrote. A kept folder is never made again:
if a later version reads it differently, that version is wrong. Everything is simulated; the keys
and the passphrase open nothing else.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from epicrec import Catalogue, Dataset, Guarantee, Ledger, Ratings, Scale, load, model_class
from epicrec.client.device import Device
from epicrec.client.sending.exposure import category_views, title_odds
from epicrec.client.sending.outbox import Releases
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.sending.remote import Remote, RemoteError
from epicrec.client.sending.schedule import set_schedule
from epicrec.client.store import Store
from epicrec.client.web.request import Ask, State
from epicrec.client.web.settings_pages import export_all
from epicrec.data.datasets import load_catalogue, write_dataset
from epicrec.data.embedded import embedded_items
from epicrec.data.simulate import simulate_table
from epicrec.perturb import MEpicRec, Release, SEpicRec
from epicrec.server import Settings, serve
from epicrec.server.main import make_server

FILMS, VIEWERS = 40, 12
PASSPHRASE = "eight and a half weeks"
LIMIT = 12.0
"""ε of the client's ledger."""
SERVER_LIMIT = {"limit_epsilon": 4.0, "limit_delta": 1e-5}
"""Of the server's ledger: the defaults of its settings."""

MODELS: dict[str, dict[str, Any]] = {
    "bias": {},
    "popularity": {},
    "item-knn": {"k": 5},
    "user-knn": {},
    "pcc": {},
    "svd": {"task": "ratings", "factors": 3},
    "covariance-svd": {"task": "ratings", "epsilon": 50.0, "seed": 1},
    "covariance-knn": {"epsilon": 50.0, "unit": "user", "seed": 1},
    "private-bias": {"epsilon": 1.0, "seed": 1},
    "dpi-avg": {"epsilon": 1.0, "debias": True, "seed": 1},
    "dpi-pcc": {"epsilon": 2.0, "seed": 1},
    "dpi-svd": {"epsilon": 2.0, "seed": 1},
    "d2p": {"epsilon": 3.0, "seed": 1},
    "i-d2p": {"epsilon": 3.0, "seed": 1},
    "d2p-svd": {"epsilon": 3.0, "seed": 1},
}
"""Saved models: method and settings. Those with seeds are repeatable here and so not private."""

OWN_CSV = (
    "title,year,imdb_id,tmdb_id,watched_at,rating,source\r\n"
    "{0},{1},,,2024-05-31T20:15:00+00:00,4.5,own CSV\r\n"
    "A Film That Nobody Made,1999,,,2024-06-01T20:15:00+00:00,,own CSV\r\n"
)


def make(version: Path) -> None:
    version.mkdir(parents=True)
    films = _write_films(version / "films.csv")
    viewers = _viewers(films)
    _make_models(version / "models", viewers, films)
    _make_releases(version / "releases", films)
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(Dataset("viewers", viewers, films), Path(folder))
        options = {"catalogue": str(version / "films.csv"), "train_from": folder, "factors": 4}
        with serving(version / "server", **options) as (url, admin):
            _wait(lambda: admin.get("/api/dashboard/publishing").json()["state"] == "done")
            _release_of_others(url, admin, viewers)
            _make_client(version / "client", films, url)
            admin.post("/api/dashboard/train").raise_for_status()
            _wait(lambda: admin.get("/api/dashboard/training").json()["serving"])
    serve(backup=version / "backup", data=str(version / "server"))
    _make_export(version, films)
    _make_sealed(version)
    for left in [*version.rglob("lock"), *version.rglob("*.lock")]:
        left.unlink()
    (version / "expected.json").write_text(json.dumps(_expected(version)), "utf-8")


def _write_films(path: Path) -> Catalogue:
    """The best known of the embedded films, those with short names."""
    rows = [row for row in embedded_items().to_pylist() if len(row["item_id"]) <= 16]
    rows = sorted(rows, key=lambda row: -row["popularity"])[:FILMS]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return films_of(path.parent)


def _viewers(films: Catalogue) -> Ratings:
    """Simulated viewers with what they said about these films."""
    everybody = Ratings.from_table(simulate_table(users=200, seed=3), scale=Scale(1, 5, 1))
    own = everybody.select(np.isin(everybody.item_ids[everybody.items], films.item_ids))
    busy = np.argsort(-own.user_counts, kind="stable")[:VIEWERS]
    table = own.users_at(np.sort(busy)).to_table()
    return Ratings.from_table(table, scale=Scale(1, 5, 1)).with_items(np.sort(films.item_ids))


def _make_models(folder: Path, viewers: Ratings, films: Catalogue) -> None:
    folder.mkdir()
    for method, settings in MODELS.items():
        given = {"catalogue": films} if "d2p" in method else {}
        make_one: Any = model_class(method)
        make_one(**settings, **given).fit(viewers).save(folder / f"{method}.npz")


def _make_releases(folder: Path, films: Catalogue) -> None:
    folder.mkdir()
    history, levels = sorted(films.item_ids)[:12], _mixed(films).levels(films)
    one, several = SEpicRec(films, epsilon=0.5), MEpicRec(films, epsilon=0.5)
    (folder / "s-epicrec.json").write_text(one.release(history).to_json(), "utf-8")
    (folder / "m-epicrec.json").write_text(several.release(history, levels).to_json(), "utf-8")


def _release_of_others(url: str, admin: httpx.Client, viewers: Ratings) -> None:
    """Other people at the server: some state a guarantee, some rate, one has labels."""
    promise = Guarantee(epsilon=1.0, unit="item", relation="add or remove one")
    one_by_one = httpx.Limits(max_keepalive_connections=0)  # the server closes idle ones
    others = httpx.Client(base_url=url, timeout=600, limits=one_by_one)
    for at in range(viewers.n_users - 1):
        own = viewers.users_at(np.array([at])).to_table().to_pylist()
        given = others.post("/api/register").json()
        key = {"X-API-Key": given["Secret"]}
        release = Release(
            method="s-epicrec", items=tuple(row["item_id"] for row in own),
            guarantee=promise if at % 2 else Guarantee.none(unit="item"),
        )  # fmt: skip
        body = {"Release": release.to_dict()}
        place = f"/api/user/{given['UserId']}/release"
        others.put(place, json=body, headers=key).raise_for_status()
        rated = [
            {"FeedbackType": "rating", "UserId": given["UserId"], "ItemId": row["item_id"],
             "Value": row["rating"], "Timestamp": "2000-01-01T00:00:00Z"}
            for row in own[: at % 3]
        ]  # fmt: skip
        others.put("/api/feedback", json=rated, headers=key).raise_for_status()
    others.close()
    labelled = {"UserId": "named by the admin", "Labels": {"country": "NL"}, "Comment": "a remark"}
    admin.post("/api/user", json=labelled).raise_for_status()


def _make_client(folder: Path, films: Catalogue, url: str) -> None:
    """A person's device: imports, marks, settings, and releases in all their states."""
    ids = sorted(films.item_ids.tolist())
    with closing(Device(folder, films, server=url)) as device:
        device.set_limit(LIMIT)
        set_schedule(device, "monthly")
        _import_files(device, ids)
        stars = {item: 1.0 + at % 5 for at, item in enumerate(ids[:10:2])}
        device.history.add(ids[:10], ratings=stars)
        device.choose(Choice(strength="balanced", mechanism="epicrec"))
        device.send(device.draw().id)
        device.history.add(ids[10:18])
        device.choose(_mixed(films))
        device.send(device.draw().id)
        device.history.add(ids[18:24])
        device.choose(Choice(strength="weak", mechanism="d2p"))
        device.draw()
        device.choose(Choice(strength="strongest"))
        device.draw(everything=True)
        device.history.add(ids[24:28])
        device.shelf.not_interested(ids[-1])
        device.shelf.not_interested(ids[-2])
        _draw_and_stop(device)
        device.history.add(ids[28:30])
        device.choose(_mixed(films))


def _import_files(device: Device, ids: list[str]) -> None:
    """One import kept with an answer, one waiting, one undone."""
    films = device.catalogue
    for at, item in enumerate(ids[30:33]):
        year = int(films.years[films.positions([item])[0]])
        text = OWN_CSV.format(films.title_of(item), year)
        batch = device.reading.file("mine.csv", text.encode(), {})
        assert isinstance(batch, int)
        if at == 0:
            open_rows = [d.row for d in device.imports.drafts(batch) if d.item_id is None]
            device.imports.keep(batch, dict.fromkeys(open_rows, ids[39]))
        elif at == 1:
            device.imports.undo(batch)


def _mixed(films: Catalogue) -> Choice:
    """A category withheld, all that go with some films in clear, the rest with noise."""
    clear = set(films.categories_of(int(films.positions([sorted(films.item_ids)[11]])[0])))
    withheld = next(name for name in films.categories if name not in clear)
    return Choice(
        exceptions={withheld: "no release"} | dict.fromkeys(clear, "all release"),
        strength="balanced",
    )


def _draw_and_stop(device: Device) -> None:
    """A release that was drawn when the machine stopped: it is in no ledger yet."""

    class Stopped(Exception):
        pass

    class Stopping(Ledger):
        def spend(self, *_: Any, **__: Any) -> Any:
            raise Stopped

    releases = Releases(device.store, Stopping(device.ledger.path, limit_epsilon=LIMIT))
    account = device.account
    assert account is not None
    try:
        releases.draw(device.catalogue, device.history.items(), device.choice, account["user_id"])
    except Stopped:
        return
    raise AssertionError("the draw was recorded")


def _make_export(version: Path, films: Catalogue) -> None:
    """Everything in one file, as the page 'My data' gives it; of a copy, which is then opened."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(version / "client", Path(folder) / "client")
        with closing(Device(copy, films, dial=nobody_there)) as device:
            packed = export_all(Ask(State(lambda _: device, device), {}, {}, {}, []))
            (version / "everything.zip").write_bytes(bytes(packed.body))


def _make_sealed(version: Path) -> None:
    shutil.copytree(version / "client", version / "sealed")
    with closing(Store(version / "sealed")) as store:
        store.seal(PASSPHRASE)


def _expected(version: Path) -> dict[str, Any]:
    """What is in the files, seen in copies of them: opening may write."""
    films = films_of(version)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(version, Path(folder) / "copy")
        models, releases = sorted((copy / "models").iterdir()), (copy / "releases").iterdir()
        return {
            "ledger": ledger_contents(copy / "client" / "ledger.jsonl", limit_epsilon=LIMIT),
            "client": client_contents(copy / "client", films),
            "server": server_contents(copy / "server", films),
            "releases": {path.stem: release_contents(path) for path in sorted(releases)},
            "models": {path.stem: model_contents(path) for path in models},
        }


# ---- what is in the files: plain values, as users of the code see them ------------------


def films_of(version: Path) -> Catalogue:
    return load_catalogue(version / "films.csv")


def nobody_there(url: str, **_: Any) -> Remote:
    """A line to a server that is not there."""
    raise RemoteError(f"{url} does not answer")


def client_contents(
    folder: Path, films: Catalogue, passphrase: str | None = None
) -> dict[str, Any]:
    """A device's folder; opening it finishes what was interrupted, which enters the ledger now."""
    with closing(Device(folder, films, passphrase=passphrase, dial=nobody_there)) as device:
        history, imports, sent = device.history, device.imports, device.releases.all()
        items = history.items()
        fetched = device.published.model()
        spent = ledger_contents(folder / "ledger.jsonl", limit_epsilon=device.ledger.limit_epsilon)
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


def ledger_contents(path: Path, **limits: float) -> dict[str, Any]:
    found = Ledger(path, **limits)
    return {
        "entries": [
            asdict(entry) | {"guarantee": entry.guarantee.to_dict()} for entry in found.entries()
        ],
        "total": {unit: guarantee.to_dict() for unit, guarantee in found.total().items()},
    }


def release_contents(path: Path) -> dict[str, Any]:
    """A release as `epicrec perturb --json` printed it."""
    found = Release.from_json(path.read_text("utf-8"))
    return {"items": list(found.items), "guarantee": found.guarantee.to_dict()}


def model_contents(path: Path) -> dict[str, Any]:
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
        "task": loaded.task,
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


def server_contents(folder: Path, films: Catalogue) -> dict[str, Any]:
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
            "ledger": ledger_contents(folder / "ledger.jsonl", **SERVER_LIMIT),
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


def _wait(over: Callable[[], Any]) -> None:
    while not over():
        time.sleep(0.1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give the folder to make, such as tests/kept/1.0.0")
    make(Path(sys.argv[1]))
