"""Quality: what people get through running clients and a running server, as a table.

20 % of each history is held out; the rest is on the device. Every viewer's client draws and sends a
release, fetches what the server publishes, and ranks; nDCG@10 is over what was held out. Then the
viewer gives the stars of the data set, and the client ranks once more: `liked` is nDCG@10 over what
was held out and rated well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec.client.device import Device
from epicrec.client.ranking.for_you import ForYou
from epicrec.client.ranking.scores import HIGH, best, popularity_of
from epicrec.data import EMBEDDED, Catalogue, Dataset, Ratings, load_dataset, split_per_user
from epicrec.data.catalogue import with_text_ids
from epicrec.data.datasets import write_dataset
from epicrec.data.embedded import usual_titles
from epicrec.data.scale import HALF_STARS, STARS
from epicrec.data.simulate import simulate_table
from epicrec.errors import EpicrecError, InputError
from epicrec.evaluate.metrics import list_metrics
from epicrec.progress import report
from epicrec.system.loopback import learn_releases, serving

SIMULATED = 10_000
N = 10
WITHOUT, WITH = "on the device, as shown", "on the device, with stars"
LIBRARY = "the model with the history on the server"


def client_quality(
    data: str = "films", *, viewers: int = 200, epsilon: float = 1.0, unit: str = "user",
    seed: int = 0, titles: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """nDCG@10 of what clients show, over `viewers` people of a data set, 20 % held out.

    The item model is learned from the training part of everybody, with ε and unit as given. Public
    popularity is taken from the same part. With `titles` the devices have the list that a client
    begins with, as it is, whatever the server's is; it knows the embedded films by their ids.
    """
    if titles and data != EMBEDDED:
        raise InputError(f"the client's own list has other ids than {data}; use {EMBEDDED}")
    dataset = load_dataset(data)
    known = dataset.catalogue
    if known is None:
        raise InputError(f"{data} has no catalogue, and clients need one; choose another")
    if data == EMBEDDED:  # more of the same viewers: the item model needs many under its noise
        many = Ratings.from_table(simulate_table(SIMULATED), scale=dataset.ratings.scale)
        dataset = replace(dataset, ratings=many)
    train, test = split_per_user(dataset.ratings, 0.2, seed=seed)
    train, test = train.with_items(known.item_ids), test.with_items(known.item_ids)
    popularity = pa.array(train.item_counts.astype(np.float64))
    table = known.to_table()
    table = table.drop_columns([n for n in table.column_names if n == "popularity"])
    films = Catalogue.from_table(table.append_column("popularity", popularity))
    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        base = Path(folder)
        write_dataset(Dataset("quality", train, films), base / "data")
        with serving(base, epsilon=epsilon, unit=unit) as (url, admin):
            listed = usual_titles() if titles else films
            people = viewers_of(listed, train, test, viewers, seed)
            rows = measure(url, listed, people, train_server=lambda: learn_releases(admin))
            info = admin.get("/api/model/info").json()
    return {
        "data": dataset.name, "people": train.n_users, "viewers": len(people),
        "titles": len(listed), "table": rows,
        "model": info["Method"], "guarantee": info["Guarantee"],
    }  # fmt: skip


@dataclass(frozen=True)
class Viewer:
    """What a device holds, and what it should find."""

    items: list[str]
    wanted: npt.NDArray[np.int64]
    """Positions in the catalogue."""
    liked: npt.NDArray[np.int64]
    """Those of them that were rated well."""
    stars: dict[str, float]
    """Of `items`; none where the data has none."""


def viewers_of(
    catalogue: Catalogue, train: Ratings, test: Ratings, most: int, seed: int
) -> list[Viewer]:
    """At most so many viewers who have something held out, drawn at random."""
    films = with_text_ids(catalogue)
    order = np.random.default_rng(seed).permutation(train.n_users)
    rated = train.scale in (STARS, HALF_STARS)
    found: list[Viewer] = []
    for user in order.tolist():
        own = slice(train.indptr[user], train.indptr[user + 1])
        out = slice(test.indptr[user], test.indptr[user + 1])
        history, held = train.items[own], test.items[out]
        if len(history) and len(held) and len(found) < most:
            wanted = films.positions([str(i) for i in test.item_ids[held].tolist()])
            good = (wanted >= 0) & (test.values[out] >= HIGH) & rated
            items = [str(i) for i in train.item_ids[history].tolist()]
            stars = dict(zip(items, train.values[own].tolist(), strict=True)) if rated else {}
            found.append(Viewer(items, wanted[wanted >= 0], wanted[good], stars))
    return found


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
    lists: dict[str, list[npt.NDArray[np.int64]]] = {}

    def note(way: str, positions: npt.NDArray[np.int64]) -> None:
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
                note("popularity", best(popularity, watched, N))
                note("the server's list alone", _listed(films, device, viewer))
                note("on the device, without a model", _shown(films, device.for_you(compare=True)))
                note(LIBRARY, _on_server(films, kept[0], viewer))
                note(WITHOUT, _shown(films, ranked))
                if viewer.stars:
                    note(WITH, _shown(films, _with_stars(device, viewer)))
        finally:
            for device in devices:
                device.close()
    base = ndcg_of(films, lists["popularity"], viewers)
    liked = [replace(viewer, wanted=viewer.liked) for viewer in viewers]
    rows = []
    for way, found in lists.items():
        value = ndcg_of(films, found, viewers)
        row = {"way": way, "ndcg": value, "over popularity": value / base if base else 0.0}
        rows.append(row | ({"liked": ndcg_of(films, found, liked)} if WITH in lists else {}))
    return rows


def _shown(films: Catalogue, found: ForYou) -> npt.NDArray[np.int64]:
    return films.positions([card.item_id for card in found.rows[0].cards])


def _with_stars(device: Device, viewer: Viewer) -> ForYou:
    with device.store.changing():
        for item, stars in viewer.stars.items():
            device.history.rate(item, stars)
    return device.for_you(n=N)


def _listed(films: Catalogue, device: Device, viewer: Viewer) -> npt.NDArray[np.int64]:
    """The server's own order, without what was watched."""
    watched = set(viewer.items)
    listed = [item for item in device.published.listed if item not in watched]
    at = films.positions(listed) if listed else np.zeros(0, np.int64)
    return at[at >= 0][:N]


def _on_server(films: Catalogue, model: Any, viewer: Viewer) -> npt.NDArray[np.int64]:
    ids = np.array(viewer.items).astype(model.item_ids_.dtype)
    table = pa.table({"user_id": ["me"] * len(ids), "item_id": ids})
    found = model.recommend(table, n=N)["item_id"].to_pylist()
    return films.positions([str(item) for item in found])


def ndcg_of(films: Catalogue, lists: list[npt.NDArray[np.int64]], viewers: list[Viewer]) -> float:
    """nDCG@10 over what was held out."""
    users = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
    items = np.concatenate(lists) if len(users) else np.zeros(0, np.int64)
    ranks = np.concatenate([np.arange(1, len(found) + 1) for found in lists])
    wanted = [(k, int(i)) for k, viewer in enumerate(viewers) for i in viewer.wanted]
    return list_metrics(users, items, ranks, np.array(wanted), N, len(films))["ndcg"]
