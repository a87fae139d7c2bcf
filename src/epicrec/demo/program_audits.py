"""Audits of the running programs: what a device sends, and what a stranger gets from a server."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from epicrec import wire
from epicrec.arrays import Bools, Floats
from epicrec.data import Catalogue
from epicrec.evaluate.audits.game import Game
from epicrec.evaluate.audits.methods import method_rows
from epicrec.privacy import Guarantee

_MEMORY = Path("/dev/shm")
"""Used where it exists: a device writes to the disk, and waits for it, before it shows anything."""
_VICTIMS = 400
_ADMIN = "the operator of the audit"


def all_rows() -> dict[str, Callable[[], list[Game]]]:
    """The games of all methods, devices and the server, by the names of their rows."""
    return method_rows() | {
        "device, epicrec": lambda: device_games("epicrec", 3),
        "device, d2p": lambda: device_games("d2p", 1),
        "server, from its store": server_games,
    }


# ---- the device -----------------------------------------------------------------------------


def device_games(mechanism: str, seen: int) -> list[Game]:
    """A device sends by its schedule twice; between the two, one more film or another is watched.

    The observer sees everything it sends, and whether it sends a second time.
    """
    items = [f"film {i:02}" for i in range(2 * seen if mechanism == "epicrec" else 20)]
    films = Catalogue.from_columns(items, items, ["War"] * len(items))
    if mechanism == "epicrec":
        worlds = items[:seen], items[: seen + 1]
        said = f"{seen} of {len(items)} films of one category are new, or one more"
    else:
        worlds = items[:1], items[1:2]
        said = f"the only new film is the first or the second of {len(items)}"

    def play(bits: Bools) -> Floats:
        return np.array([score(worlds[int(bit)])[0] for bit in bits.tolist()])

    def score(watched: list[str]) -> tuple[float, Guarantee]:
        with _device(films, mechanism) as device:
            before = device.draw(scheduled=True)
            device.history.add(watched)
            after = device.draw(scheduled=True)
            if after.id == before.id:
                return -1e6, after.release.guarantee
            sent = [*after.release.items]
            told = len(sent) if mechanism == "epicrec" else (items[1] in sent) - (items[0] in sent)
            return float(told), after.release.guarantee

    return [Game(claim=score(worlds[1])[1], neighbours=said, play=play, rounds=800, at_once=50)]


@contextmanager
def _device(films: Catalogue, mechanism: str) -> Iterator[Any]:
    from epicrec.client.device import Device
    from epicrec.client.sending.privacy_choice import Choice

    with _folder() as folder, closing(Device(folder, films, server="http://127.0.0.1:9")) as device:
        device.choose(Choice(strength="weak", mechanism=mechanism))
        yield device


# ---- the server -----------------------------------------------------------------------------


def server_games() -> list[Game]:
    """A server publishes from its store; each user has watched one film alone, or is absent.

    A stranger registers and fetches the model and a list. The observer sees each film's popularity
    in the model and its place in the list, and learns from a first publication which tells more.
    """
    first = np.arange(_VICTIMS) % 2 == 1
    claim, known = _seen_by_stranger(first)
    spread = known.std(axis=0) + 1e-9
    best = (known[first].mean(axis=0) - known[~first].mean(axis=0)) / spread**2
    if np.allclose(best, 0):
        best = np.ones(known.shape[1])

    def play(bits: Bools) -> Floats:
        coins = np.zeros(_VICTIMS, bool)
        coins[: len(bits)] = bits
        return np.asarray((_seen_by_stranger(coins)[1] @ best)[: len(bits)])

    return [
        Game(
            claim=claim,
            neighbours="a user who watched a film that nobody else did is there or not",
            play=play,
            rounds=12_000,
            at_once=_VICTIMS,
        )
    ]


def _seen_by_stranger(there: Bools) -> tuple[Guarantee, Floats]:
    """What a stranger sees of each film: its popularity in the model, its place in a list."""
    from epicrec.models import load

    with _folder() as folder:
        films = [f"film-{i:03}" for i in range(len(there))]
        settings = _publish(folder, films, np.flatnonzero(there))
        promise, listed, content = asyncio.run(_fetch(settings, len(films)))
        (folder / "fetched.npz").write_bytes(content)
        model: Any = load(folder / "fetched.npz")
    place = {item: at for at, item in enumerate(listed)}
    places = [-place.get(item, len(films)) for item in films]
    seen = np.column_stack([np.asarray(model.offsets_, np.float64), places])
    return promise, (seen - seen.mean(axis=0)) / (seen.std(axis=0) + 1e-9)


async def _fetch(settings: Any, n: int) -> tuple[Guarantee, list[str], bytes]:
    """Fetch a server's promise, its list for a new user, and its model's file."""
    from epicrec.server.api.app import create_app

    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        info = wire.ModelInfo.model_validate((await client.get("/api/model/info")).json())
        own = (await client.post("/api/register")).json()
        listed = await client.get(
            f"/api/recommend/{own['UserId']}",
            params={"n": n},
            headers={"X-API-Key": own["Secret"]},
        )
        model = await client.get("/api/model")
    return Guarantee.from_dict(info.Guarantee), listed.json(), model.content


def _publish(folder: Path, films: list[str], there: Any) -> Any:
    """Have a server publish from its store; return its settings."""
    from epicrec.server import Settings
    from epicrec.server.service import Service
    from epicrec.server.store import feedback
    from epicrec.server.training.publish import publish

    listed = folder / "films.csv"
    rows = [f"{film},{film},War" for film in films]
    listed.write_text("\n".join(["item_id,title,genres", *rows]), "utf-8")
    settings = Settings(
        data=str(folder / "server"), catalogue=str(listed), train_from="store", http=True,
        train_every=0, admin_key=_ADMIN,
    )  # fmt: skip
    (folder / "server").mkdir(mode=0o700)
    service = Service(settings)
    service.prepare()
    try:
        with service.database.writing() as connection:
            given = [
                wire.Feedback(
                    FeedbackType=settings.rating_type, UserId=f"user {i}", ItemId=films[i], Value=5
                )
                for i in there.tolist()
            ]
            feedback.put(connection, given, make=True)
        publish(settings, service.database)
    finally:
        service.database.stop()
    return settings


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
