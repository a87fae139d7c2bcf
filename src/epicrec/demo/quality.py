"""What people get from running programs: `epicrec client-quality` and `epicrec service-quality`.

20 % of each viewer's history is held out; the rest is on the device. nDCG@10 is over what was held
out.

`client_quality`: every viewer's client draws and sends a release, fetches what the server
publishes, and ranks. Then the viewer gives the stars of the data set, and the client ranks once
more: `liked` is nDCG@10 over what was held out and rated well.

`service_quality`: a service learns from releases alone. Every release takes its real path: the
client's code draws and writes it, the server's code reads, stores, learns from, judges and serves
it. Some viewers send over HTTP with a device of their own; for the others the same functions are
called in this process, to save time.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from epicrec import wire
from epicrec.arrays import Integers
from epicrec.client.device import Device
from epicrec.client.ranking.for_you import ForYou
from epicrec.client.ranking.scores import (
    HIGH,
    best,
    blended_scores,
    model_scores,
    popularity_of,
)
from epicrec.client.sending.outbox import payload_of
from epicrec.client.sending.privacy_choice import RESPONSE, Choice
from epicrec.client.sending.remote import LIST_LENGTH
from epicrec.data import EMBEDDED, Catalogue, Dataset, Ratings, load_dataset, split_per_user
from epicrec.data.catalogue import with_text_ids
from epicrec.data.datasets import write_dataset
from epicrec.data.embedded import titles_catalogue
from epicrec.data.scale import HALF_STARS, STARS
from epicrec.data.simulate import simulate_table
from epicrec.demo.servers import learn_releases, running_for_admin, wait_until_published
from epicrec.errors import EpicrecError, InputError
from epicrec.evaluate.metrics import list_metrics
from epicrec.models import Recommender
from epicrec.progress import report

N = 10
Lists = dict[str, list[Integers]]
"""By where a list comes from: every viewer's list, as positions in the catalogue."""


@dataclass(frozen=True)
class Viewer:
    """What a device holds, and what it should find."""

    items: list[str]
    wanted: Integers
    """Positions in the catalogue."""
    liked: Integers
    """Those of them that were rated well."""
    stars: dict[str, float]
    """Of `items`; empty where the data has none."""


def train_and_test(data: str, *, simulated: int, seed: int) -> tuple[Dataset, Ratings]:
    """A data set's training part, and the 20 % of each history that is held out.

    Public popularity, in the catalogue, is that of the training part. Of the embedded films so many
    viewers are simulated: an item model needs many to be learned under its noise.
    """
    dataset = load_dataset(data)
    known, ratings = dataset.catalogue, dataset.ratings
    if known is None:
        raise InputError(f"{data} has no catalogue, and clients need one; choose another")
    if data == EMBEDDED:
        ratings = Ratings.from_table(simulate_table(simulated), scale=ratings.scale)
    train, test = split_per_user(ratings, 0.2, seed=seed)
    train, test = train.with_items(known.item_ids), test.with_items(known.item_ids)
    table = known.to_table()
    table = table.drop_columns([n for n in table.column_names if n == "popularity"])
    popularity = pa.array(train.item_counts.astype(np.float64))
    films = Catalogue.from_table(table.append_column("popularity", popularity))
    return Dataset(dataset.name, train, films), test


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


def unwatched(films: Catalogue, listed: list[str], viewer: Viewer) -> Integers:
    """The first items of a server's list that the viewer has not watched, as positions."""
    watched = set(viewer.items)
    rest = [item for item in listed if item not in watched]
    at = films.positions(rest) if rest else np.zeros(0, np.int64)
    return at[at >= 0][:N]


def ndcg_rows(
    films: Catalogue, lists: Lists, viewers: list[Viewer], *, baseline: str
) -> list[dict[str, Any]]:
    """A row for each kind of list: its nDCG@10, and how that compares with the baseline's."""
    base = ndcg_of(films, lists[baseline], viewers)
    values = {way: ndcg_of(films, found, viewers) for way, found in lists.items()}
    return [
        {"way": way, "ndcg": value, "over popularity": value / base if base else 0.0}
        for way, value in values.items()
    ]


def ndcg_of(films: Catalogue, lists: list[Integers], viewers: list[Viewer]) -> float:
    """nDCG@10 over what was held out."""
    users = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
    items = np.concatenate(lists) if len(users) else np.zeros(0, np.int64)
    ranks = np.concatenate([np.arange(1, len(found) + 1) for found in lists])
    wanted = [(k, int(i)) for k, viewer in enumerate(viewers) for i in viewer.wanted]
    return list_metrics(users, items, ranks, np.array(wanted), N, len(films))["ndcg"]


# ---- clients ---------------------------------------------------------------------------------

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
            listed = titles_catalogue() if titles else films
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
    lists: Lists = defaultdict(list)
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
                lists[POPULARITY].append(best(popularity, watched, N))
                lists["the server's list alone"].append(
                    unwatched(films, device.published.listed, viewer)
                )
                lists["on the device, without a model"].append(
                    _shown(films, device.for_you(compare=True))
                )
                lists[LIBRARY].append(_on_server(films, kept[0], viewer))
                lists[WITHOUT].append(_shown(films, ranked))
                if viewer.stars:
                    lists[WITH].append(_shown(films, _with_stars(device, viewer)))
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


# ---- a service that learns from releases -----------------------------------------------------

OVER_HTTP = 20
"""Viewers whose device speaks to the server over HTTP."""
PUBLIC = "popularity, public"


def service_quality(
    data: str = EMBEDDED, *, viewers: int = 4000, mechanism: str = RESPONSE,
    strength: str = "weak", seed: int = 0,
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
            trained: Any = service.ranking.lists
            popular = [item for item, _ in trained.popular(LIST_LENGTH)]
            rows = _table(films, people, served, model, popular)
    return {
        "data": data, "viewers": len(people), "mechanism": mechanism,
        "epsilon": choice.epsilon(films),
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


def _table(
    films: Catalogue,
    people: list[Viewer],
    served: list[list[str]],
    model: Recommender | None,
    popular: list[str],
) -> list[dict[str, Any]]:
    """The nDCG@10 of each kind of list; what was watched is left out on the device."""
    popularity = popularity_of(films)
    lists: Lists = defaultdict(list)
    for k, (viewer, listed) in enumerate(zip(people, served, strict=True)):
        report("clients rank", k, len(people))
        watched = films.positions(viewer.items)
        lists[PUBLIC].append(best(popularity, watched, N))
        lists["popularity, from corrected counts"].append(unwatched(films, popular, viewer))
        lists["lists served"].append(unwatched(films, listed, viewer))
        hinted = blended_scores(films, viewer.items, listed)
        lists["on the device, with the list alone"].append(best(hinted, watched, N))
        if model is not None:
            scores = model_scores(model, films, viewer.items, {})
            lists["on the device, with the published model"].append(best(scores, watched, N))
    return ndcg_rows(films, lists, people, baseline=PUBLIC)
