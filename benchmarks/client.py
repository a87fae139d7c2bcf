"""What does the client take on your own computer? Its pages, its imports, and installing.

    epicrec bench client                    pages with 50,000 films, 10,000 of them seen; minutes
    epicrec bench client pages --quick      a tenth of everything
    epicrec bench client pages --out docs/figures/client-pages.json
    epicrec bench client imports [--quick]  100,000 visits read and recognised, hostile titles
    epicrec bench client install            what `pip install .` brings: the base
    epicrec bench client install client     … with an extra

Each beside something plain in the same run: a page beside the health page of the same program,
reading beside SQLite's own, recognising beside comparing every title with every film, importing
beside numpy's import. Installing needs a package index, or wheels that pip finds.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
from _measuring import Parts, seconds, show
from rapidfuzz import fuzz, process

from epicrec import wire
from epicrec.client.device import Device
from epicrec.client.imports.browsers import Family, Profile, read_visits
from epicrec.client.main import make_client
from epicrec.client.matching.matcher import Matcher
from epicrec.client.viewing import Visit
from epicrec.data import Catalogue, Ratings
from epicrec.demo.servers import running
from epicrec.models import model_class
from epicrec.server import Settings

ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def _made_up(films: int) -> Catalogue:
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


# ---- pages --------------------------------------------------------------------------------------

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


def pages(given: Namespace) -> None:
    """Milliseconds of each page of a running client, again and after a change.

    After a change nothing that was computed before may be used. Processor time is the program's
    own, so it leaves out what else the machine does.
    """
    part = 10 if given.quick else 1
    figures = _pages(_made_up(50_000 // part), 10_000 // part, 9)
    if given.out:
        given.out.write_text(json.dumps(figures, indent=1), "utf-8")


def _pages(films: Catalogue, seen: int, times: int) -> dict[str, Any]:
    """Milliseconds of each page: by the clock and of the processor, again and after a change."""
    found: dict[str, dict[str, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        _serving(films, Path(folder)) as (device, http),
    ):
        names = _live(device, http, films, seen)
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


def _publish(folder: Path, films: Catalogue, people: int = 2_000) -> None:
    """An item model at the place from which the server publishes one."""
    rng = np.random.default_rng(4)
    items = np.concatenate([rng.choice(len(films), 100, False) for _ in range(people)])
    ratings = Ratings.from_columns(
        np.repeat(np.arange(people), 100), films.item_ids[items], np.ones(len(items))
    )
    model = model_class("svd")(task="lists", factors=32)
    model.fit(ratings.with_items(films.item_ids))
    folder.mkdir(parents=True)
    model.save(folder / "item-model-1.npz")
    content = (folder / "item-model-1.npz").read_bytes()
    info = wire.ModelInfo(
        Version=1, Hash=hashlib.sha256(content).hexdigest(), Size=len(content), Method="svd",
        Task="lists", Items=len(films), Created=NOW, Guarantee=model.guarantee.to_dict(),
    )  # fmt: skip
    (folder / "current.json").write_text(info.model_dump_json())


@contextmanager
def _serving(films: Catalogue, folder: Path) -> Iterator[tuple[Device, httpx.Client]]:
    """The pages of a client beside a server that publishes a model."""
    listed = folder / "items.parquet"
    pq.write_table(films.to_table(), listed)
    _publish(folder / "server" / "published", films)
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


def _live(device: Device, http: httpx.Client, films: Catalogue, seen: int) -> dict[str, str]:
    """Bring so many films in and send releases about them; names for the addresses."""
    rng = np.random.default_rng(5)
    chosen = rng.choice(len(films), seen, False)
    lines = [f"{films.titles[k]},{films.years[k]},{rng.integers(1, 6)}" for k in chosen]
    shares = (lines[: seen * 3 // 4], lines[seen * 3 // 4 :])
    for share in shares:  # a server takes releases of at most 10,000 films
        text = "\n".join(["title,year,rating", *share]).encode()
        review = _finished(http, http.post("/sources/file", files={"file": ("h.csv", text)}))
        _finished(http, http.post(f"{review.url.path}/keep"))
        _finished(http, http.post("/preview/draw"))
        (drawn,) = device.releases.unsent()
        _finished(http, http.post(f"/release/{drawn.id}/send"))
    assert device.history.count() == seen
    others = np.setdiff1d(np.arange(len(films)), chosen)[:seen]
    text = "\n".join(["title,year", *(f"{films.titles[k]},{films.years[k]}" for k in others)])
    review = _finished(http, http.post("/sources/file", files={"file": ("i.csv", text.encode())}))
    batch = review.url.path.rpartition("/")[2]
    for item in films.item_ids[others[:60]].tolist():
        device.shelf.see_later(item)
    return {"batch": batch, "release": drawn.id, "seen": str(films.item_ids[chosen[0]])}


def _finished(http: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """The answer that follows when the job in the background has ended."""
    while "<progress" in answer.text:
        time.sleep(0.2)
        answer = http.get(answer.text.partition('data-live="')[2].partition('"')[0])
    assert answer.status_code == 200, answer.text
    return answer


# ---- imports ------------------------------------------------------------------------------------


def imports(given: Namespace) -> None:
    """Reading and recognising visits, titles made to be slow, and importing the package."""
    part = 10 if given.quick else 1
    _package()
    _hostile_titles(Catalogue.from_columns(["a"], ["Heat"], [""]))
    _visits(_made_up(10_000 // part), 100_000 // part)


def _clock(work: Callable[[], object], times: int = 1) -> float:
    return median(seconds(work, times, time.perf_counter))


def _beside(what: str, ours: float, beside: str, theirs: float) -> None:
    print(f"{what:36}{1e3 * ours:12.1f} ms {ours / theirs:10.2f} × {beside}", flush=True)


def _package() -> None:
    def importing(name: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {name}"], check=True)

    bare = _clock(importing("sys"), 9)
    ours, numpys = (_clock(importing(name), 9) - bare for name in ("epicrec", "numpy"))
    _beside("import epicrec", ours, "import numpy", numpys)


def _hostile_titles(films: Catalogue) -> None:
    """A title of 100,000 letters, made to keep patterns busy, beside an ordinary one."""

    def match(title: str) -> None:
        page = Visit("https://www.imdb.com/title/tt0133093/", title, NOW, "Firefox: x", title)
        Matcher(films).match(page, scan=True)

    plain = _clock(lambda: match("The Matrix (1999) - IMDb"), 9)
    for text in ("(1999", " - ", ", the", "a (b) "):
        long = "x" + text * (100_000 // len(text))
        _beside(f"title of {text!r} again and again", _clock(lambda t=long: match(t), 9),
                "ordinary title", plain)  # fmt: skip


def _visits(films: Catalogue, count: int) -> None:
    matcher = Matcher(films)
    titles = [str(title).lower() for title in films.titles]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "History"
        _visited(path, films, count)
        profile = Profile("Chrome", "Default", Family.CHROME, path)

        def plainly() -> None:
            with closing(sqlite3.connect(path)) as db:
                db.execute("SELECT * FROM visits v JOIN urls u ON u.id = v.url").fetchall()

        visits: list[Visit] = []
        reading = _clock(lambda: visits.extend(read_visits(profile)))
        _beside(f"reading {count:,} visits", reading, "SQLite alone", _clock(plainly, 3))
    every = max(1, count // 1000)
    naive = every * _clock(
        lambda: [
            process.extract(v.title.lower(), titles, scorer=fuzz.ratio, limit=5)
            for v in visits[::every]
        ]
    )
    recognising = _clock(lambda: list(matcher.match_all(visits)))
    _beside(f"recognising {count:,} visits", recognising, "every title with every film", naive)


def _visited(path: Path, films: Catalogue, visits: int) -> None:
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


# ---- installing ---------------------------------------------------------------------------------

IMPORT = "import time; t = time.perf_counter(); import epicrec; print(time.perf_counter() - t)"


def install(given: Namespace) -> None:
    """Packages, megabytes and seconds to import, after `pip install .` into a clean environment."""
    with tempfile.TemporaryDirectory(prefix="epicrec-install-") as name:
        folder = Path(name)
        _run(sys.executable, "-m", "venv", str(folder))
        python = str(folder / "bin" / "python")
        wanted = f"{ROOT}[{','.join(given.extras)}]" if given.extras else str(ROOT)
        _run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), wanted)
        listed = json.loads(_run(python, "-m", "pip", "list", "--format=json"))
        show(
            {
                "python": ".".join(map(str, sys.version_info[:3])),
                "extras": given.extras,
                "packages": len({row["name"] for row in listed} - {"pip"}),
                "mb": round(_size(folder) / 2**20),
                "import_seconds": round(
                    median(_import_seconds(python, folder) for _ in range(9)), 3
                ),
            }
        )


def _import_seconds(python: str, folder: Path) -> float:
    return float(_run(python, "-c", IMPORT, cwd=folder))


def _size(folder: Path) -> int:
    """Bytes on the disk, as `du` counts them."""
    return sum(512 * path.lstat().st_blocks for path in folder.rglob("*"))


def _run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("pages", pages)
    part.add_argument("--quick", action="store_true", help="a tenth of everything")
    part.add_argument("--out", type=Path, help="the figures as JSON")
    part = found.add("imports", imports)
    part.add_argument("--quick", action="store_true", help="a tenth of everything")
    part = found.add("install", install)
    part.add_argument("extras", nargs="*", help="such as client, server")
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
