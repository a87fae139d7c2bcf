"""`epicrec service-quality`: nDCG@10 of a service that learns from releases alone.

Every viewer's release takes its real path: the client's code draws and writes it, the server's code
reads, stores, learns from, judges and serves it. Some viewers send over HTTP with a device of their
own; for the others the same functions are called in this process, to save time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pa_parquet

from epicrec import wire
from epicrec.arrays import Integers
from epicrec.client.device import Device
from epicrec.client.ranking.scores import best, blended_scores, model_scores, popularity_of
from epicrec.client.sending.outbox import payload_of
from epicrec.client.sending.privacy_choice import STRENGTHS, Choice
from epicrec.client.sending.remote import LIST_LENGTH
from epicrec.data import EMBEDDED, Catalogue
from epicrec.data.catalogue import with_text_ids
from epicrec.demo.servers import learn_releases, running_for_admin
from epicrec.demo.viewers import N, Viewer, ndcg_rows, train_and_test, unwatched, viewers_of
from epicrec.errors import EpicrecError
from epicrec.models import Recommender
from epicrec.progress import report

OVER_HTTP = 20
"""Viewers whose device speaks to the server over HTTP."""
PUBLIC = "popularity, public"


def service_quality(
    data: str = EMBEDDED, *, viewers: int = 4000, mechanism: str = "d2p", strength: str = "weak",
    seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """nDCG@10, 20 % of each history held out, where everybody releases by this mechanism."""
    choice = Choice(strength=strength, mechanism=mechanism)
    dataset, test = train_and_test(data, simulated=viewers, seed=seed)
    assert dataset.catalogue is not None
    films = with_text_ids(dataset.catalogue)
    people = viewers_of(films, dataset.ratings, test, viewers, seed)
    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        base = Path(folder)
        pa_parquet.write_table(films.to_table(), base / "items.parquet")
        with running_for_admin(base, catalogue=base / "items.parquet") as (url, admin, service):
            devices = [
                Device(base / f"device {k}", films, server=url)
                for k in range(min(OVER_HTTP, len(people)))
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
            model = kept[0] if kept else None
            rows = _table(films, people, served, model, _popular(service))
    epsilon = STRENGTHS[strength][1]
    return {
        "data": data, "viewers": len(people), "mechanism": mechanism,
        "epsilon": choice.epsilon(films) if epsilon is None else epsilon,
        "adopted": last["adopted"], "why": last["why"], "quality": last["quality"],
        "left_out": last["left_out"], "published": last["published"], "table": rows,
        "over http": len(devices),
    }  # fmt: skip


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
    """The list that the server has for a user, as its route gives it."""
    from epicrec.server.store import users as accounts

    with service.database.reading() as connection:
        known = accounts.known(connection, name)
    assert known is not None
    row = service.ranking.lists.row_of(known.key)
    return [item for item, _ in service.ranking.lists.for_user(row, LIST_LENGTH)]


def _popular(service: Any) -> list[str]:
    return [item for item, _ in service.ranking.lists.popular(LIST_LENGTH)]


def _table(
    films: Catalogue,
    people: list[Viewer],
    served: list[list[str]],
    model: Recommender | None,
    popular: list[str],
) -> list[dict[str, Any]]:
    """The nDCG@10 of each kind of list; what was watched is left out on the device."""
    popularity = popularity_of(films)
    lists: dict[str, list[Integers]] = {}

    def note(way: str, positions: Integers) -> None:
        lists.setdefault(way, []).append(positions)

    for k, (viewer, listed) in enumerate(zip(people, served, strict=True)):
        report("clients rank", k, len(people))
        watched = films.positions(viewer.items)
        note(PUBLIC, best(popularity, watched, N))
        note("popularity, from corrected counts", unwatched(films, popular, viewer))
        note("lists served", unwatched(films, listed, viewer))
        hinted = blended_scores(films, viewer.items, listed)
        note("on the device, with the list alone", best(hinted, watched, N))
        if model is not None:
            scores = model_scores(model, films, viewer.items, {})
            note("on the device, with the published model", best(scores, watched, N))
    return ndcg_rows(films, lists, people, baseline=PUBLIC)
