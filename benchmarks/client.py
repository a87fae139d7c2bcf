"""The device: its pages, reading and recognising visits, a hostile title, the package's import.

python benchmarks/client.py                     10,000 films, 100,000 visits
python benchmarks/client.py --quick             a tenth of everything

Each beside something plain in the same run: a page beside the style sheet from the same server,
reading beside SQLite's own, recognising beside comparing every title with every film, importing
beside numpy's import.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import pyarrow.parquet as pq
from rapidfuzz import fuzz, process

from epicrec.client.main import make_client
from epicrec.client.matching import Matcher
from epicrec.client.sources import Family, Profile, Visit, read_visits
from epicrec.data import Catalogue

PATHS = (
    "/", "/history", "/history?page=5", "/history?q=film+711", "/sources", "/privacy", "/preview",
    "/for-you", "/browse?genre=G7", "/learned", "/learned?q=film+12", "/ledger", "/data",
)  # fmt: skip
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """The median of some runs."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return median(spent)


def show(what: str, ours: float, beside: str, theirs: float) -> None:
    print(f"{what:36}{1e3 * ours:12.1f} ms {ours / theirs:10.2f} × {beside}", flush=True)


def made_up(films: int) -> Catalogue:
    rng = np.random.default_rng(3)
    genres = ["|".join(f"G{g}" for g in rng.choice(20, rng.integers(1, 4), False))
              for _ in range(films)]  # fmt: skip
    return Catalogue.from_columns(
        [f"film-{k:05}" for k in range(films)], [f"Film {k}" for k in range(films)], genres,
        year=rng.integers(1950, 2025, films), popularity=rng.pareto(1.2, films),
    )  # fmt: skip


# ---- pages ------------------------------------------------------------------------------------


@contextmanager
def serving(films: Catalogue, folder: Path) -> Iterator[httpx.Client]:
    """The pages of a client whose history holds nearly every film."""
    pq.write_table(films.to_table(), folder / "items.parquet")
    client, _ = make_client(folder / "client", catalogue=str(folder / "items.parquet"))
    thread = threading.Thread(target=client.run, daemon=True)
    thread.start()
    device = client.state.device
    assert device is not None
    device.history.add(films.item_ids[: len(films) * 95 // 100].tolist())
    while not client.started:
        time.sleep(0.01)
    url, token = f"http://127.0.0.1:{client.door.port}", f"Bearer {client.door.program}"
    own = {"Authorization": token}
    with httpx.Client(base_url=url, headers=own, follow_redirects=True, timeout=600) as http:
        yield http
    client.should_exit = True
    thread.join()


def pages(films: Catalogue) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(films, Path(folder)) as http:

        def ask(path: str) -> None:
            assert http.get(path).status_code == 200, path

        ask("/static/style.css")
        for path in PATHS:
            ask(path)
            sheet = seconds(lambda: ask("/static/style.css"), 9)
            show(f"page {path}", seconds(lambda p=path: ask(p), 9), "style sheet", sheet)


# ---- visits -----------------------------------------------------------------------------------


def visited(path: Path, films: Catalogue, visits: int) -> None:
    """A history as Chromium keeps it, half of it pages about films."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url, title, hidden)")
        db.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, url, visit_time, transition)")
        for k in range(visits):
            page = (f"https://www.imdb.com/title/tt{k:07}/", f"Filn {k % len(films)}x - IMDb")
            other = (f"https://example.org/{k}", f"Page {k}")
            db.execute("INSERT INTO urls VALUES (?, ?, ?, 0)", (k, *(page if k % 2 else other)))
            at = 13_350_000_000_000_000 + k * 60_000_000
            db.execute("INSERT INTO visits VALUES (?, ?, ?, ?)", (k, k, at, 0x20000000))
        db.commit()


def imports(films: Catalogue, count: int) -> None:
    matcher = Matcher(films)
    titles = [str(title).lower() for title in films.titles]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "History"
        visited(path, films, count)
        profile = Profile("Chrome", "Default", Family.CHROME, path)

        def plainly() -> None:
            with closing(sqlite3.connect(path)) as db:
                db.execute("SELECT * FROM visits v JOIN urls u ON u.id = v.url").fetchall()

        visits: list[Visit] = []
        reading = seconds(lambda: visits.extend(read_visits(profile)))
        show(f"reading {count:,} visits", reading, "SQLite alone", seconds(plainly, 3))
    every = max(1, count // 1000)
    naive = every * seconds(
        lambda: [
            process.extract(v.title.lower(), titles, scorer=fuzz.ratio, limit=5)
            for v in visits[::every]
        ]
    )
    recognising = seconds(lambda: list(matcher.match_all(visits)))
    show(f"recognising {count:,} visits", recognising, "every title with every film", naive)


def hostile(films: Catalogue) -> None:
    """A title of 100,000 letters, made to keep patterns busy, beside an ordinary one."""

    def match(title: str) -> None:
        page = Visit("https://www.imdb.com/title/tt0133093/", title, NOW, "Firefox: x", title)
        Matcher(films).match(page, scan=True)

    plain = seconds(lambda: match("The Matrix (1999) - IMDb"), 9)
    for text in ("(1999", " - ", ", the", "a (b) "):
        long = "x" + text * (100_000 // len(text))
        show(f"title of {text!r} again and again", seconds(lambda t=long: match(t), 9),
             "ordinary title", plain)  # fmt: skip


# ---- the package ------------------------------------------------------------------------------


def package() -> None:
    def importing(name: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {name}"], check=True)

    bare = seconds(importing("sys"), 9)
    ours, numpys = (seconds(importing(name), 9) - bare for name in ("epicrec", "numpy"))
    show("import epicrec", ours, "import numpy", numpys)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    part = 10 if parser.parse_args().quick else 1
    films = made_up(10_000 // part)
    package()
    hostile(Catalogue.from_columns(["a"], ["Heat"], [""]))
    imports(films, 100_000 // part)
    pages(films)


if __name__ == "__main__":
    main()
