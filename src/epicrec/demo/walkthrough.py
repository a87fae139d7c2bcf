"""The demo: the whole system once on loopback, with the embedded films."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.client.device import Device
from epicrec.client.main import make_client
from epicrec.collective.task import NAME
from epicrec.data import Catalogue, Ratings
from epicrec.data.datasets import load_catalogue
from epicrec.data.scale import STARS
from epicrec.data.simulate import simulate_table
from epicrec.demo.servers import (
    ADMIN_KEY,
    VOID,
    RunningLeader,
    admin_of,
    leader_and_helper,
    learn_releases,
    train_shared_model,
)
from epicrec.perturb import Release
from epicrec.perturb.randomised_response import answers_about
from epicrec.progress import report

IN_PROCESS, OVER_HTTPS = 4000, 20
"""Devices that train the shared model beside the person's own."""
EPSILON, DELTA = 1.0, 1e-5


@contextmanager
def one_round() -> Iterator[tuple[dict[str, Any], str, Callable[[], None]]]:
    """Send one person's release, then train a shared model with other people's devices.

    Gives a summary, the address of the person's pages, and a function that serves them until
    stopped.
    """
    films = load_catalogue("films")
    with tempfile.TemporaryDirectory(prefix="epicrec-demo-") as folder, ExitStack() as stack:
        base = Path(folder)
        report("leader and helper start", 0, 1)
        leader = stack.enter_context(
            leader_and_helper(base, catalogue="films", admin_key=ADMIN_KEY)
        )
        report("leader and helper start", 1, 1)
        client, address = make_client(
            base / "device", server=leader.url, certificate=leader.certificate
        )
        stack.callback(client.close)
        device = client.state.device
        assert device is not None  # a new folder has no passphrase
        device.example()
        drawn, listed = device.draw(), device.sendable
        device.send(drawn.id)
        with admin_of(leader.url, leader.certificate) as admin:
            report("the server learns from the release", 0, 1)
            learn_releases(admin)
            report("the server learns from the release", 1, 1)
        rounds = _train(leader, device, base, films)
        device.refresh()
        found = device.for_you()
        shared = device.shared_results.model()
        assert shared is not None
        yield (
            {
                "history": [_film(films, item) for item in device.history.items()],
                "release": {
                    **_answers(listed, device.history.items(), drawn.release),
                    "bytes": len(drawn.payload),
                    "guarantee": drawn.release.guarantee.to_dict(),
                    "promise": str(drawn.release.guarantee),
                },
                "rounds": [
                    {name: one[name] for name in ("round", "statistic", "people")} for one in rounds
                ],
                "recommendations": [_film(films, card.item_id) for card in found.rows[0].cards],
                "rows": {
                    row.title: [films.title_of(card.item_id) for card in row.cards[:4]]
                    for row in found.rows
                },
                "with": "the common model" if found.shared_model else "no model",
                "model": {
                    "guarantee": shared.guarantee.to_dict(),
                    "promise": str(shared.guarantee),
                    "void": VOID,
                },
            },
            address,
            client.run,
        )


def _train(
    leader: RunningLeader, own: Device, base: Path, films: Catalogue
) -> list[dict[str, Any]]:
    """Train the shared model, with the person's own device among the others."""
    report("simulating viewers", 0, 1)
    table = simulate_table(IN_PROCESS + OVER_HTTPS)
    everyone = Ratings.from_table(table, scale=STARS).as_history().with_items(films.item_ids)
    report("simulating viewers", 1, 1)
    certificate = leader.certificate.read_text("utf-8")
    with ExitStack() as stack:
        devices: list[tuple[Device, Callable[[], list[str]]]] = []
        for user in range(IN_PROCESS, IN_PROCESS + OVER_HTTPS):
            one = Device(base / f"viewer {user}", films, server=leader.url, certificate=certificate)
            stack.callback(one.close)
            at = everyone.items[everyone.indptr[user] : everyone.indptr[user + 1]]
            devices.append((one, partial(list, everyone.item_ids[at].tolist())))
        return train_shared_model(
            leader, NAME, everyone.users_at(np.arange(IN_PROCESS)),
            [(own, own.history.items), *devices], epsilon=EPSILON, delta=DELTA,
        )  # fmt: skip


def _answers(films: Catalogue, watched: list[str], release: Release) -> dict[str, Any]:
    """What the answers say: of the films that were watched, and of the others."""
    said = set(films.item_ids[answers_about(release, films)].tolist())
    return {
        "titles": len(films),
        "reported": [_film(films, item) for item in watched if item in said],
        "denied": len([item for item in watched if item not in said]),
        "claimed": len(said - set(watched)),
    }


def _film(films: Catalogue, item_id: Any) -> dict[str, Any]:
    at = int(films.positions([item_id])[0])
    return {
        "title": str(films.titles[at]),
        "year": int(films.years[at]),
        "genres": ", ".join(films.categories_of(at)),
    }
