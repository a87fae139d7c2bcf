"""The whole system once on loopback, with the embedded films: server, device, recommendations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from epicrec.client import make_client
from epicrec.data import Catalogue, Dataset, Ratings, Scale
from epicrec.data.datasets import write_dataset
from epicrec.data.simulate import embedded_items, simulate_table
from epicrec.privacy import Guarantee
from epicrec.progress import report
from epicrec.system.loopback import learn_releases, serving

VIEWERS = 10_000
EPSILON = 2.0


@contextmanager
def one_round() -> Iterator[tuple[dict[str, Any], str, Callable[[], None]]]:
    """Other people's histories, learned from privately; then one person's own round.

    Gives what happened, the address of the person's pages, and what serves them until stopped.
    """
    films = Catalogue.from_table(embedded_items())
    with tempfile.TemporaryDirectory(prefix="epicrec-demo-") as folder:
        base = Path(folder)
        report("simulating viewers", 0, 1)
        others = Ratings.from_table(simulate_table(VIEWERS), scale=Scale(1, 5, 1))
        write_dataset(Dataset("demo", others.with_items(films.item_ids), films), base / "data")
        report("simulating viewers", 1, 1)
        with ExitStack() as stack:
            url, admin = stack.enter_context(serving(base, epsilon=EPSILON, unit="user"))
            client, address = make_client(base / "device", server=url)
            stack.callback(client.close)
            device = client.state.device
            assert device is not None  # a new folder has no passphrase
            device.example()
            drawn = device.draw()
            device.send(drawn.id)
            report("the server learns from the release", 0, 1)
            learn_releases(admin)
            report("the server learns from the release", 1, 1)
            device.refresh()
            rows = device.for_you().rows
            info = admin.get("/api/model/info").json()
            yield (
                {
                    "history": [_film(films, item) for item in device.history.items()],
                    "release": {
                        "items": [_film(films, item) for item in drawn.release.items],
                        "bytes": len(drawn.payload),
                        "guarantee": drawn.release.guarantee.to_dict(),
                        "promise": str(drawn.release.guarantee),
                    },
                    "recommendations": [_film(films, card.item_id) for card in rows[0].cards],
                    "rows": {
                        row.category or "For you": [
                            films.title_of(card.item_id) for card in row.cards[:4]
                        ]
                        for row in rows
                    },
                    "model": {
                        "guarantee": info["Guarantee"],
                        "promise": str(Guarantee.from_dict(info["Guarantee"])),
                    },
                },
                address,
                client.run,
            )


def _film(films: Catalogue, item_id: Any) -> dict[str, Any]:
    at = int(films.positions([item_id])[0])
    return {
        "title": str(films.titles[at]),
        "year": int(films.years[at]),
        "genres": ", ".join(films.categories_of(at)),
    }
