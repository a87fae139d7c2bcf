"""The device: its pages, reading and recognising visits, a hostile title, the package's import.

python benchmarks/client.py                     50,000 films, 10,000 of them seen, 100,000 visits
python benchmarks/client.py --quick             a tenth of everything
python benchmarks/client.py --only pages --out docs/client-pages.json    one part, and its figures

Each beside something plain in the same run: a page beside the health page of the same program,
reading beside SQLite's own, recognising beside comparing every title with every film, importing
beside numpy's import. A page is asked for again and again, and again each time after a change, when
nothing that was computed before may be used; processor time is the program's own, so that what else
the machine does falls on none of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
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
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
from rapidfuzz import fuzz, process

from epicrec import wire
from epicrec.client.device import Device
from epicrec.client.main import make_client
from epicrec.client.matching import Matcher
from epicrec.client.sources import Family, Profile, Visit, read_visits
from epicrec.data import Catalogue, Ratings
from epicrec.demo.servers import running
from epicrec.models import model_class
from epicrec.server import Settings

PAGES = {
    "start": "/",
    "rows": "/for-you",
    "rows without the model": "/for-you?compare=1",
    "search and browse": "/browse",
    "browse, one genre": "/browse?genre=G7&by=year",
    "browse, by title": "/browse?by=title&page=100",
    "search for a title": "/browse?q=film+711",
    "watchlist": "/watchlist",
    "a film": "/film/film-00007",
    "history": "/history",
    "history, by title": "/history?by=title&page=50",
    "history, a search": "/history?q=film+711",
    "fix an entry": "/history/fix?item_id={seen}",
    "bring in more": "/sources",
    "review of an import": "/import/{batch}",
    "browser extension": "/extension",
    "what is shared": "/privacy",
    "odds of a choice": "/privacy/odds?overall=perturbed+release&strength=balanced",
    "preview": "/preview",
    "bytes of a release": "/release/{release}",
    "common model": "/common",
    "what the server can learn": "/learned",
    "odds of a title": "/learned?q=film+12",
    "ledger": "/ledger",
    "server": "/server",
    "my data": "/data",
    "a poster": "/poster/film-00007.svg",
}
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
    kinds = np.where(rng.random(films) < 0.1, "series", "film")
    return Catalogue.from_columns(
        [f"film-{k:05}" for k in range(films)], [f"Film {k}" for k in range(films)], genres,
        year=rng.integers(1950, 2025, films), popularity=rng.pareto(1.2, films), kind=kinds,
        imdb_id=[f"tt{k:07}" for k in range(films)], country=["Elsewhere"] * films,
        original_title=[f"Der Film {k}" for k in range(films)],
        alternatives=[f"Le film {k}|La película {k}" for k in range(films)],
    )  # fmt: skip


# ---- pages ------------------------------------------------------------------------------------


def publish(folder: Path, films: Catalogue, people: int = 2_000) -> None:
    """An item model where the server looks for the one that it publishes."""
    rng = np.random.default_rng(4)
    items = np.concatenate([rng.choice(len(films), 100, False) for _ in range(people)])
    ratings = Ratings.from_columns(
        np.repeat(np.arange(people), 100), films.item_ids[items], np.ones(len(items))
    )
    model = model_class("svd")(feedback="implicit", factors=32)
    model.fit(ratings.with_items(films.item_ids))
    folder.mkdir(parents=True)
    model.save(folder / "item-model-1.npz")
    content = (folder / "item-model-1.npz").read_bytes()
    info = wire.ModelInfo(
        Version=1, Hash=hashlib.sha256(content).hexdigest(), Size=len(content), Method="svd",
        Feedback="implicit", Items=len(films), Created=NOW, Guarantee=model.guarantee.to_dict(),
    )  # fmt: skip
    (folder / "current.json").write_text(info.model_dump_json())


@contextmanager
def serving(films: Catalogue, folder: Path) -> Iterator[tuple[Device, httpx.Client]]:
    """The pages of a client beside a server that publishes a model."""
    listed = folder / "items.parquet"
    pq.write_table(films.to_table(), listed)
    publish(folder / "server" / "published", films)
    settings = Settings(
        data=str(folder / "server"), catalogue=str(listed), http=True, port=0, train_every=0
    )
    with running(settings) as (url, _):
        client, _ = make_client(folder / "client", server=url, catalogue=str(listed))
        thread = threading.Thread(target=client.run, daemon=True)
        thread.start()
        while not client.started:
            time.sleep(0.01)
        own = {"Authorization": f"Bearer {client.door.program}"}
        here = f"http://127.0.0.1:{client.door.port}"
        with httpx.Client(base_url=here, headers=own, follow_redirects=True, timeout=600) as http:
            assert client.state.device is not None
            yield client.state.device, http
        client.should_exit = True
        thread.join()


def live(device: Device, http: httpx.Client, films: Catalogue, seen: int) -> dict[str, str]:
    """A person brings so many films in and sends releases about them; names for the addresses."""
    rng = np.random.default_rng(5)
    chosen = rng.choice(len(films), seen, False)
    lines = [f"{films.titles[k]},{films.years[k]},{rng.integers(1, 6)}" for k in chosen]
    shares = (lines[: seen * 3 // 4], lines[seen * 3 // 4 :])
    batch = ""
    for share in shares:  # a server takes releases of at most 10,000 films
        text = "\n".join(["title,year,rating", *share]).encode()
        review = finished(http, http.post("/sources/file", files={"file": ("h.csv", text)}))
        finished(http, http.post(f"{review.url.path}/keep"))
        finished(http, http.post("/preview/draw"))
        (drawn,) = device.releases.unsent()
        finished(http, http.post(f"/release/{drawn.id}/send"))
    assert device.history.count() == seen
    others = np.setdiff1d(np.arange(len(films)), chosen)[:seen]
    text = "\n".join(["title,year", *(f"{films.titles[k]},{films.years[k]}" for k in others)])
    review = finished(http, http.post("/sources/file", files={"file": ("i.csv", text.encode())}))
    batch = review.url.path.rpartition("/")[2]
    for item in films.item_ids[others[:60]].tolist():
        device.shelf.see_later(item)
    return {"batch": batch, "release": drawn.id, "seen": str(films.item_ids[chosen[0]])}


def finished(http: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """What follows when a job in the background is over."""
    while "<progress" in answer.text:
        time.sleep(0.2)
        answer = http.get(answer.text.partition('data-live="')[2].partition('"')[0])
    assert answer.status_code == 200, answer.text
    return answer


def pages(films: Catalogue, seen: int, times: int) -> dict[str, Any]:
    """Milliseconds of each page: by the clock and of the processor, again and after a change."""
    found: dict[str, dict[str, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(films, Path(folder)) as (device, http),
    ):
        names = live(device, http, films, seen)
        item = str(films.item_ids[7])

        def ask(path: str) -> None:
            assert http.get(path).status_code == 200, path

        def took(path: str, change: bool) -> tuple[float, float]:
            spent = []
            for k in range(times):
                if change:
                    device.history.rate(item, 1.0 + k % 5)
                clock, processor = time.perf_counter(), time.process_time()
                ask(path)
                spent.append((time.perf_counter() - clock, time.process_time() - processor))
            clocks, processors = zip(*spent, strict=True)
            return 1e3 * median(clocks), 1e3 * median(processors)

        for name, path in PAGES.items():
            address = path.format(**names)
            ask(address)
            plain = took("/health", False)
            again, changed = took(address, False), took(address, True)
            found[name] = {
                "address": path, "clock_ms": again[0], "processor_ms": again[1],
                "after_a_change_clock_ms": changed[0], "after_a_change_processor_ms": changed[1],
                "health_clock_ms": plain[0], "health_processor_ms": plain[1],
                "times_health": again[1] / plain[1],
            }  # fmt: skip
            print(f"{name:28}{again[1]:9.1f} ms{again[1] / plain[1]:9.1f} × the health page"
                  f"{changed[1]:10.1f} ms after a change", flush=True)  # fmt: skip
    return {"films": len(films), "seen": seen, "times": times, "pages": found}


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
    parser.add_argument("--only", choices=("pages", "others"), help="a part of it")
    parser.add_argument("--out", type=Path, help="the figures of the pages, as JSON")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    if options.only != "pages":
        package()
        hostile(Catalogue.from_columns(["a"], ["Heat"], [""]))
        imports(made_up(10_000 // part), 100_000 // part)
    if options.only != "others":
        figures = pages(made_up(50_000 // part), 10_000 // part, 9)
        if options.out:
            options.out.write_text(json.dumps(figures, indent=1), "utf-8")


if __name__ == "__main__":
    main()
