"""The whole service as its users see it: two hundred devices, one of which is to be forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from epicrec.data import Catalogue, Ratings
from epicrec.privacy import Guarantee
from epicrec.server.store import users
from server.conftest import Client, released, running

DEVICES = 200
PROMISE = Guarantee(epsilon=2.0, unit="item", relation="add or remove one")


def test_two_hundred_devices_and_one_that_leaves(
    tmp_path: Path, films: Catalogue, viewers: Ratings
) -> None:
    folder = tmp_path / "server"
    with running(folder, http=False, catalogue="films", factors=16) as serving:
        registered = [serving.register() for _ in range(DEVICES)]  # one order, one held-out part

        def join(number: int) -> tuple[Client, list[str]]:
            device = registered[number]
            seen = [str(item) for item in films.item_ids[viewers.items[viewers.row(number)]]]
            body = released(seen)
            answer = device.put(f"/api/user/{device.user_id}/release", json=body)
            assert answer.json() == {"RowAffected": len(seen)}
            return device, seen

        with ThreadPoolExecutor(8) as pool:
            devices = list(pool.map(join, range(DEVICES)))
            status = serving.admin.train()
            assert status["last"]["users"] == DEVICES
            quality = status["last"]["quality"]
            assert status["last"]["adopted"] == "als", status
            assert quality["recall_at_10"] > 10 / len(films)

            def lists(joined: tuple[Client, list[str]]) -> list[str]:
                device, seen = joined
                found: list[str] = device.get(f"/api/recommend/{device.user_id}?n=30").json()
                drama = device.get(f"/api/recommend/{device.user_id}/Drama?n=30").json()
                assert len(set(found)) == len(set(drama)) == 30
                assert not set(found + drama) & set(seen)
                return found

            answers = list(pool.map(lists, devices))
        assert len({tuple(found) for found in answers}) > DEVICES / 2  # each their own

        leaver, seen = devices[7]
        with serving.service.database.reading() as connection:
            gone = users.known(connection, leaver.user_id)
            assert gone is not None
        assert leaver.user_id.encode() in _bytes_of(folder)
        assert leaver.delete(f"/api/user/{leaver.user_id}").json() == {"RowAffected": 1}
        assert leaver.get(f"/api/recommend/{leaver.user_id}").status_code == 401
        serving.service.database.compact()

        left = _bytes_of(folder)
        assert leaver.user_id.encode() not in left
        assert users.digest(leaver.headers["X-API-Key"]) not in left
        stats = serving.admin.get("/api/dashboard/stats").json()
        assert stats["counts"]["users"] == DEVICES - 1
        assert stats["guarantees"][0]["releases"] == DEVICES - 1
        rows = sum(len(own) for _, own in devices) - len(seen)
        assert stats["counts"]["feedback"] == rows

        # the training on disk holds nothing of theirs either
        models = folder / "models" / "1"
        at = int(np.load(models / "user_keys.npy").searchsorted(gone.key))
        starts = np.load(models / "seen_starts.npy")
        assert (np.load(models / "seen_items.npy")[starts[at] : starts[at + 1]] == -1).all()
        assert (np.load(models / "user_factors.npy")[at] == 0).all()
        assert (np.load(models / "top_items.npy")[at] == -1).all()
        assert (np.load(models / "user_factors.npy")[at - 1] != 0).any()


def _bytes_of(folder: Path) -> bytes:
    """Everything the server has on disk."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())
