"""Pages with thousands of films in history and catalogue, and tens of thousands of visits."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from client.conftest import Pages, serving, showing
from epicrec.client.matching.matcher import Matcher
from epicrec.client.ranking import for_you
from epicrec.client.web import jobs
from epicrec.data import Catalogue, Ratings
from loopback import PATIENCE

FILMS = 4_000
PATHS = (
    "/", "/history", "/history?page=5", "/history?q=film+711", "/sources", "/privacy", "/preview",
    "/for-you", "/browse?genre=G7", "/film/film-00007",
    "/learned", "/learned?q=film+12", "/ledger", "/server", "/data",
)  # fmt: skip


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
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
            yield pages


class Work:
    """What is asked of the database: statements, and steps of its machine by the hundred."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.statements = self.steps = 0
        db.set_trace_callback(self._statement)
        db.set_progress_handler(self._step, 100)

    def _statement(self, _: str) -> None:
        self.statements += 1

    def _step(self) -> int:
        self.steps += 1
        return 0


def visited(path: Path, visits: int) -> None:
    """A history of Chromium, half of it pages about films."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url, title, hidden)")
        db.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, url, visit_time, transition)")
        for k in range(visits):
            page = (f"https://www.imdb.com/title/tt{k:07}/", f"Film {k % FILMS} - IMDb")
            other = (f"https://example.org/{k}", f"Page {k}")
            db.execute("INSERT INTO urls VALUES (?, ?, ?, 0)", (k, *(page if k % 2 else other)))
            at = 13_350_000_000_000_000 + k * 60_000_000
            db.execute("INSERT INTO visits VALUES (?, ?, ?, ?)", (k, k, at, 0x20000000))
        db.commit()


def test_many_visits_are_imported_beside_the_pages(
    large: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages say how far it is while it goes on, and lead to the review when it is over."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    history = tmp_path / ".config/chromium/Default/History"
    visited(history, 30_000)
    seen, go_on = threading.Event(), threading.Event()
    match_all = Matcher.match_all

    def waiting(self: Matcher, things: Any, *given: Any, **named: Any) -> Iterator[Any]:
        for done, match in enumerate(match_all(self, things, *given, **named)):
            if done == 12_000:
                seen.set()
                assert go_on.wait(PATIENCE)
            yield match

    monkeypatch.setattr(Matcher, "match_all", waiting)
    monkeypatch.setattr(jobs, "PATIENCE", 0.05)
    asked = large.http.post("/sources/browsers", data={"profile": str(history)})
    assert seen.wait(PATIENCE)
    assert "<progress" in asked.text, "it does not keep the page waiting"
    assert "recognising films: 10,000 of 30,000" in large.http.get("/working/browsers").text
    assert large.http.get("/history").status_code == 200
    go_on.set()
    assert large.state.jobs["browsers"].wait(PATIENCE)
    review = large.http.get("/working/browsers")
    assert review.url.path.startswith("/import/")
    work = Work(large.device.store._db)
    assert "2000 new entries" in large.http.post(review.url.path + "/keep").text
    assert work.statements < 100, "entered together, not one by one"
    large.device.imports.undo(large.device.imports.batches()[0].id)


def test_pages_of_a_long_history_ask_as_little_as_of_a_short_one(large: Pages) -> None:
    """Four times the films: as many statements, as long a page, at most linear work."""
    work = Work(large.device.store._db)
    asked: dict[str, list[tuple[int, int, int]]] = {path: [] for path in PATHS}
    for known in (FILMS // 5, 4 * FILMS // 5):
        large.device.history.add([f"film-{k:05}" for k in range(known)])
        large.http.post("/preview/draw")
        (stored,) = large.device.releases.unsent()
        assert large.http.post(f"/release/{stored.id}/send").url.path == "/for-you"
        for path in PATHS:
            large.http.get(path)  # what is kept from then on
            work.statements = work.steps = 0
            answer = large.http.get(path)
            assert answer.status_code == 200, path
            asked[path].append((work.statements, work.steps, len(answer.content)))
    for path, (few, many) in asked.items():
        assert many[0] <= few[0] + 5, (path, few, many)
        assert many[0] < 60, (path, many)
        assert many[1] <= 5 * few[1] + 100, (path, few, many)
        assert many[2] <= 1.5 * few[2] + 2_000, (path, few, many)


def test_rows_are_ranked_anew_only_after_a_change(
    large: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked: list[int] = []
    scored = for_you.model_scores

    def counting(*given: Any, **named: Any) -> Any:
        ranked.append(1)
        return scored(*given, **named)

    monkeypatch.setattr(for_you, "model_scores", counting)
    large.device.shelf.not_interested("film-03990")
    for _ in range(3):
        assert large.http.get("/for-you").status_code == 200
    assert len(ranked) == 1
    large.device.shelf.not_interested("film-03991")
    large.http.get("/for-you")
    assert len(ranked) == 2
