"""`epicrec client-quality`: nDCG@10 of what running clients show with a running server.

20 % of each history is held out; the rest is on the device. Every viewer's client draws and sends a
release, fetches what the server publishes, and ranks; nDCG@10 is over what was held out. Then the
viewer gives the stars of the data set, and the client ranks once more: `liked` is nDCG@10 over what
was held out and rated well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.arrays import Integers
from epicrec.client.device import Device
from epicrec.client.ranking.for_you import ForYou
from epicrec.client.ranking.scores import best, popularity_of
from epicrec.data import EMBEDDED, Catalogue
from epicrec.data.catalogue import with_text_ids
from epicrec.data.datasets import write_dataset
from epicrec.data.embedded import usual_titles
from epicrec.demo.servers import learn_releases, running_for_admin, wait_until_published
from epicrec.demo.viewers import (
    N,
    Viewer,
    ndcg_of,
    ndcg_rows,
    train_and_test,
    unwatched,
    viewers_of,
)
from epicrec.errors import EpicrecError, InputError
from epicrec.progress import report

SIMULATED = 10_000
POPULARITY = "popularity"
WITHOUT, WITH = "on the device, as shown", "on the device, with stars"
LIBRARY = "the model with the history on the server"


def client_quality(
    data: str = "films", *, viewers: int = 200, epsilon: float = 1.0, unit: str = "user",
    seed: int = 0, titles: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """nDCG@10 of what clients show, over `viewers` people of a data set.

    The item model is learned from everybody's training part, with ε and unit as given. With
    `titles` the devices have the list that a client begins with, whatever list the server has; it
    knows the embedded films by their ids.
    """
    if titles and data != EMBEDDED:
        raise InputError(f"the client's own list has other ids than {data}; use {EMBEDDED}")
    dataset, test = train_and_test(data, simulated=SIMULATED, seed=seed)
    train, films = dataset.ratings, dataset.catalogue
    assert films is not None
    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        base = Path(folder)
        write_dataset(replace(dataset, name="quality"), base / "data")
        with running_for_admin(
            base, catalogue=base / "data", train_from=str(base / "data"), publish_epsilon=epsilon,
            publish_unit=unit, limit_epsilon=max(4.0, epsilon),
        ) as (url, admin, _):  # fmt: skip
            wait_until_published(admin)
            listed = usual_titles() if titles else films
            people = viewers_of(listed, train, test, viewers, seed)
            rows = measure(url, listed, people, train_server=lambda: learn_releases(admin))
            info = admin.get("/api/model/info").json()
    return {
        "data": dataset.name, "people": train.n_users, "viewers": len(people),
        "titles": len(listed), "table": rows,
        "model": info["Method"], "guarantee": info["Guarantee"],
    }  # fmt: skip


def measure(
    url: str,
    catalogue: Catalogue,
    viewers: list[Viewer],
    *,
    train_server: Callable[[], None],
    certificate: str = "",
) -> list[dict[str, Any]]:
    """A table of nDCG@10: popularity, rows without and with the model, the same model with the
    true history on the server, and rows after the viewer gave their stars. `train_server` makes the
    server learn from what clients sent."""
    films = with_text_ids(catalogue)
    popularity = popularity_of(films)
    lists: dict[str, list[Integers]] = {}

    def note(way: str, positions: Integers) -> None:
        lists.setdefault(way, []).append(positions)

    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        devices: list[Device] = []
        try:
            for k, viewer in enumerate(viewers):
                report("clients send their releases", k, len(viewers))
                device = Device(Path(folder) / str(k), films, server=url, certificate=certificate)
                devices.append(device)
                device.history.add(viewer.items)
                device.send(device.draw().id)
            train_server()
            for k, (device, viewer) in enumerate(zip(devices, viewers, strict=True)):
                report("clients rank", k, len(viewers))
                watched = films.positions(viewer.items)
                problem = device.refresh()
                ranked, kept = device.for_you(n=N), device.published.model()
                if kept is None:
                    raise EpicrecError(f"the server publishes no item model. {problem}")
                note(POPULARITY, best(popularity, watched, N))
                note("the server's list alone", unwatched(films, device.published.listed, viewer))
                note("on the device, without a model", _shown(films, device.for_you(compare=True)))
                note(LIBRARY, _on_server(films, kept[0], viewer))
                note(WITHOUT, _shown(films, ranked))
                if viewer.stars:
                    note(WITH, _shown(films, _with_stars(device, viewer)))
        finally:
            for device in devices:
                device.close()
    rows = ndcg_rows(films, lists, viewers, baseline=POPULARITY)
    if WITH in lists:
        liked = [replace(viewer, wanted=viewer.liked) for viewer in viewers]
        for row in rows:
            row["liked"] = ndcg_of(films, lists[row["way"]], liked)
    return rows


def _shown(films: Catalogue, found: ForYou) -> Integers:
    return films.positions([card.item_id for card in found.rows[0].cards])


def _with_stars(device: Device, viewer: Viewer) -> ForYou:
    with device.store.changing():
        for item, stars in viewer.stars.items():
            device.history.rate(item, stars)
    return device.for_you(n=N)


def _on_server(films: Catalogue, model: Any, viewer: Viewer) -> Integers:
    ids = np.array(viewer.items).astype(model.item_ids_.dtype)
    table = pa.table({"user_id": ["me"] * len(ids), "item_id": ids})
    found = model.recommend(table, n=N)["item_id"].to_pylist()
    return films.positions([str(item) for item in found])
