"""What a service that learns from releases gives to people: lists served, and on the device.

Every viewer's release goes the way it really goes: drawn and written by the client's code, read by
the server's, stored, learned from, judged and served. Some viewers do so over HTTP with a device of
their own; for the others the same functions are called in this process, for time's sake.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from epicrec import wire
from epicrec.client.device import Device
from epicrec.client.ranking.scores import best, blended_scores, model_scores, popularity_of
from epicrec.client.sending.outbox import payload_of
from epicrec.client.sending.privacy_choice import STRENGTHS, Choice
from epicrec.client.sending.remote import LIST_LENGTH
from epicrec.data import EMBEDDED, Catalogue, Ratings, load_dataset, split_per_user
from epicrec.data.catalogue import with_text_ids
from epicrec.data.simulate import simulate_table
from epicrec.errors import EpicrecError, InputError
from epicrec.models import Recommender
from epicrec.progress import report
from epicrec.server import Settings
from epicrec.server.service import Service
from epicrec.system.loopback import ADMIN_KEY, admin_of, learn_releases, running
from epicrec.system.quality import N, Viewer, ndcg_of, viewers_of

SAMPLE = 20
"""Viewers whose device speaks to the server over HTTP."""


def service_quality(
    data: str = EMBEDDED, *, viewers: int = 4000, mechanism: str = "d2p", strength: str = "weak",
    seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """nDCG@10, 20 % of each history held out, where everybody releases by this mechanism.

    Public popularity, in the catalogue of devices and server, is that of the training part.
    """
    choice = Choice(strength=strength, mechanism=mechanism)
    films, people = _people(data, viewers, seed)
    with (
        tempfile.TemporaryDirectory(prefix="epicrec-") as folder,
        _learning(Path(folder), films) as (url, admin, service),
    ):
        devices = [
            Device(Path(folder) / f"device {k}", films, server=url)
            for k in range(min(SAMPLE, len(people)))
        ]
        try:
            names = _send_over_http(devices, people, choice)
            names += _send(service, films, people[len(devices) :], choice)
            learn_releases(admin)
            last = admin.get("/api/dashboard/training").json()["last"]
            served = [_listed(service, name) for name in names]
            for device, listed in zip(devices, served, strict=False):
                device.refresh()
                if device.published.listed != listed:
                    raise EpicrecError("a list over HTTP differs from the same list in process")
            kept = devices[0].published.model()
        finally:
            for device in devices:
                device.close()
        rows = _table(films, people, served, kept[0] if kept else None, _popular(service))
    epsilon = STRENGTHS[strength][1]
    return {
        "data": data, "viewers": len(people), "mechanism": mechanism,
        "epsilon": choice.epsilon(films) if epsilon is None else epsilon,
        "adopted": last["adopted"], "why": last["why"], "quality": last["quality"],
        "left_out": last["left_out"], "published": last["published"], "table": rows,
        "over http": len(devices),
    }  # fmt: skip


@contextmanager
def _learning(base: Path, films: Catalogue) -> Iterator[tuple[str, httpx.Client, Service]]:
    """A server over these films that learns from releases alone: its address, an admin's way in,
    and its inside."""
    pa_parquet.write_table(films.to_table(), base / "items.parquet")
    settings = Settings(
        data=str(base / "server"), catalogue=str(base / "items.parquet"), http=True, port=0,
        admin_key=ADMIN_KEY, train_every=0, registrations_per_hour=10**6,
        requests_per_minute=10**6, training_nice=0,
    )  # fmt: skip
    with running(settings) as (url, service), admin_of(url) as admin:
        yield url, admin, service


def _people(data: str, most: int, seed: int) -> tuple[Catalogue, list[Viewer]]:
    dataset = load_dataset(data)
    known, ratings = dataset.catalogue, dataset.ratings
    if known is None:
        raise InputError(f"{data} has no catalogue, and clients need one; choose another")
    if data == EMBEDDED:
        ratings = Ratings.from_table(simulate_table(most), scale=ratings.scale)
    train, test = split_per_user(ratings, 0.2, seed=seed)
    train, test = train.with_items(known.item_ids), test.with_items(known.item_ids)
    table = known.to_table()
    table = table.drop_columns([n for n in table.column_names if n == "popularity"])
    counts = pa.array(train.item_counts.astype(np.float64))
    films = with_text_ids(Catalogue.from_table(table.append_column("popularity", counts)))
    return films, viewers_of(films, train, test, most, seed)


# ---- sending ----------------------------------------------------------------------------------


def _send_over_http(devices: list[Device], people: list[Viewer], choice: Choice) -> list[str]:
    names = []
    for device, viewer in zip(devices, people, strict=False):
        device.choose(choice)
        device.history.add(viewer.items)
        device.send(device.draw().id)
        names.append(device.accounts.chosen()["user_id"])
    return names


def _send(service: Any, films: Catalogue, people: list[Viewer], choice: Choice) -> list[str]:
    """As a device and the server's route do it, without the network between them."""
    from epicrec.server.store import feedback
    from epicrec.server.store import users as accounts

    perturber, levels = choice.perturber(films), choice.levels(films)
    names = []
    for start in range(0, len(people), 200):
        report("clients send their releases", start, len(people))
        with service.database.writing() as connection:
            for k, viewer in enumerate(people[start : start + 200]):
                name = accounts.register(connection).UserId
                drawn = perturber.release(viewer.items, levels)
                message = payload_of(drawn, f"release {start + k}", name)
                known = accounts.known(connection, name)
                assert known is not None
                feedback.receive(connection, known, wire.Released.model_validate_json(message))
                names.append(name)
    return names


def _listed(service: Any, name: str) -> list[str]:
    """The list that the server has for somebody, as its route gives it."""
    from epicrec.server.store import users as accounts

    with service.database.reading() as connection:
        known = accounts.known(connection, name)
    assert known is not None
    row = service.ranking.lists.row_of(known.key)
    return [item for item, _ in service.ranking.lists.for_user(row, LIST_LENGTH)]


def _popular(service: Any) -> list[str]:
    return [item for item, _ in service.ranking.lists.popular(LIST_LENGTH)]


# ---- measuring --------------------------------------------------------------------------------


def _table(
    films: Catalogue,
    people: list[Viewer],
    served: list[list[str]],
    model: Recommender | None,
    popular: list[str],
) -> list[dict[str, Any]]:
    """Each way's nDCG@10; what was watched is taken out on the device."""
    public = popularity_of(films)
    found: dict[str, list[npt.NDArray[np.int64]]] = {}
    for k, (viewer, listed) in enumerate(zip(people, served, strict=True)):
        report("clients rank", k, len(people))
        watched = films.positions(viewer.items)
        for way, positions in _ways(films, viewer, listed, model):
            found.setdefault(way, []).append(positions)
        found.setdefault("popularity, public", []).append(best(public, watched, N))
        corrected = _first(films, popular, set(viewer.items))
        found.setdefault("popularity, from corrected counts", []).append(corrected)
    base = ndcg_of(films, found["popularity, public"], people)
    values = {way: ndcg_of(films, lists, people) for way, lists in found.items()}
    return [
        {"way": way, "ndcg": value, "over popularity": value / base if base else 0.0}
        for way, value in sorted(values.items(), key=lambda one: one[0][:10] != "popularity")
    ]


def _ways(
    films: Catalogue, viewer: Viewer, listed: list[str], model: Recommender | None
) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    watched = films.positions(viewer.items)
    yield "lists served", _first(films, listed, set(viewer.items))
    hinted = blended_scores(films, viewer.items, listed)
    yield "on the device, with the list alone", best(hinted, watched, N)
    if model is not None:
        scores = model_scores(model, films, viewer.items, {})
        yield "on the device, with the published model", best(scores, watched, N)


def _first(films: Catalogue, listed: list[str], watched: set[str]) -> npt.NDArray[np.int64]:
    rest = [item for item in listed if item not in watched][:N]
    return films.positions(rest) if rest else np.zeros(0, np.int64)
