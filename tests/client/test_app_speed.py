"""Speed: pages with 10,000 films in history and catalogue, and 100,000 visits."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from client.conftest import Pages, Served, serving, showing
from epicrec.data import Catalogue, Ratings

FILMS = 10_000
PAGE_SECONDS = 0.2
PATHS = (
    "/", "/history", "/history?page=50", "/history?q=film+4711", "/sources", "/privacy", "/preview",
    "/for-you", "/for-you/G7", "/learned", "/learned?q=film+12", "/ledger", "/server", "/data",
)  # fmt: skip


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pages, Served]]:
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(3)
    genres = ["|".join(f"G{g}" for g in rng.choice(20, rng.integers(1, 4), False))
              for _ in range(FILMS)]  # fmt: skip
    films = Catalogue.from_columns(
        [f"film-{k:05}" for k in range(FILMS)], [f"Film {k}" for k in range(FILMS)], genres,
        year=rng.integers(1950, 2025, FILMS), popularity=rng.pareto(1.2, FILMS),
    )  # fmt: skip
    path = folder / "items.parquet"
    pq.write_table(films.to_table(), path)
    users = np.repeat(np.arange(400), 60)
    items = np.concatenate([rng.choice(FILMS, 60, False) for _ in range(400)])
    ratings = Ratings.from_columns(users, films.item_ids[items], np.ones(len(items)))
    with serving(folder / "server", catalogue=str(path)) as served:
        served.publish(ratings.with_items(films.item_ids))
        with showing(folder / "client", server=served.url, catalogue=str(path)) as pages:
            yield pages, served


def test_a_hundred_thousand_visits(
    large: tuple[Pages, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, _ = large
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    history = tmp_path / ".config/chromium/Default/History"
    history.parent.mkdir(parents=True)
    with closing(sqlite3.connect(history)) as db:
        db.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url, title, hidden)")
        db.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, url, visit_time, transition)")
        for k in range(100_000):
            page = (f"https://www.imdb.com/title/tt{k:07}/", f"Film {k % FILMS} - IMDb")
            other = (f"https://example.org/{k}", f"Page {k}")
            db.execute("INSERT INTO urls VALUES (?, ?, ?, 0)", (k, *(page if k % 2 else other)))
            at = 13_350_000_000_000_000 + k * 60_000_000
            db.execute("INSERT INTO visits VALUES (?, ?, ?, ?)", (k, k, at, 0x20000000))
        db.commit()
    started, looked = time.perf_counter(), 0
    answer = pages.http.post("/sources/browsers", data={"profile": str(history)})
    while answer.url.path != "/working" or "<progress" in answer.text:
        if answer.url.path.startswith("/import/"):
            break
        looked += 1
        assert " of 100,000" in answer.text or answer.url.path == "/sources/browsers"
        time.sleep(0.2)
        answer = pages.http.get("/working")
    kept = pages.http.post(answer.url.path + "/keep")
    seconds = time.perf_counter() - started
    print(f"100,000 visits imported in {seconds:.1f} s")
    assert "5000 new entries" in kept.text
    assert looked, "progress was shown"
    assert seconds < 20
    pages.device.history.undo(pages.device.history.batches()[0].id)


def test_pages_are_quick(large: tuple[Pages, Served]) -> None:
    pages, _ = large
    pages.device.history.add([f"film-{k:05}" for k in range(FILMS - 500)])
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    assert pages.http.post(f"/release/{stored.id}/send").url.path == "/for-you"
    took: dict[str, float] = {}
    for path in PATHS:
        times = []
        for _ in range(3):
            started = time.perf_counter()
            assert pages.http.get(path).status_code == 200, path
            times.append(time.perf_counter() - started)
        took[path] = min(times)
    times = []
    for k in range(3):
        started = time.perf_counter()
        pages.device.not_interested(f"film-0999{k}")
        assert pages.http.get("/for-you").status_code == 200
        times.append(time.perf_counter() - started)
    took["/for-you after a change"] = min(times)
    print({path: f"{1000 * seconds:.0f} ms" for path, seconds in took.items()})
    assert {path: seconds for path, seconds in took.items() if seconds > PAGE_SECONDS} == {}
