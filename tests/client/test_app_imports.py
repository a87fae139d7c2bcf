"""Imports through the pages: recognise, review, keep, undo; and by hand."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from client.conftest import Pages, showing
from client.film_site import NAME, film_site
from loopback import PATIENCE

NETFLIX = (
    "Title,Date\n"
    '"The Matrix","5/31/2024"\n'
    '"Heat","6/13/2024"\n'
    '"Stranger Things: Season 2: Chapter One","6/14/2024"\n'
    '"A Film Nobody Lists","6/15/2024"\n'
)


def put_file(pages: Pages, name: str, text: str) -> httpx.Response:
    return pages.http.post("/sources/file", files={"file": (name, text.encode(), "text/csv")})


@pytest.fixture
def alone(tmp_path: Path) -> object:
    """Pages without a server."""
    with showing(tmp_path / "client") as running:
        yield running


def test_a_file_is_reviewed_kept_and_undone(alone: Pages) -> None:
    found = put_file(alone, "NetflixViewingHistory.csv", NETFLIX)
    assert found.url.path.startswith("/import/")
    assert "A Film Nobody Lists" in found.text
    assert alone.device.history.count() == 0, "nothing counts before it is kept"
    batch = found.url.path.rpartition("/")[2]
    kept = alone.http.post(f"/import/{batch}/keep")
    assert "2 new entries" in kept.text
    assert sorted(alone.device.history.items()) == ["heat-1995", "the-matrix-1999"]
    again = put_file(alone, "NetflixViewingHistory.csv", NETFLIX)
    assert "<strong>2</strong> in the history already" in again.text
    alone.http.post(f"/import/{again.url.path.rpartition('/')[2]}/keep")
    assert alone.device.history.count() == 2, "uploading again changes nothing"
    alone.http.post(f"/import/{batch}/undo")
    assert alone.device.history.count() == 0


def answers_to(page: str) -> dict[str, str]:
    """The form of a question, with the first choice."""
    name = page.partition('name="answer-')[2].partition('"')[0]
    value = page.partition(f'name="answer-{name}" value="')[2].partition('"')[0]
    which = page.partition('name="upload" value="')[2].partition('"')[0]
    return {"upload": which, f"answer-{name}": value}


def test_questions_are_asked_and_answered(alone: Pages) -> None:
    text = 'Title,Date\n"Heat","05/06/2024"\n"Alien","03/04/2024"\n'
    asked = put_file(alone, "history.csv", text)
    assert "<legend>" in asked.text
    answered = alone.http.post("/sources/file", data=answers_to(asked.text))
    assert answered.url.path.startswith("/import/")


def test_two_tabs_do_not_mix(alone: Pages) -> None:
    """Two files with a question each, answered in the other order."""
    one, two = (
        put_file(alone, "history.csv", f'Title,Date\n"{title}","05/06/2024"\n')
        for title in ("Heat", "Alien")
    )
    for asked, title, other in ((one, "Heat", "Alien"), (two, "Alien", "Heat")):
        review = alone.http.post("/sources/file", data=answers_to(asked.text)).text
        assert title in review
        assert other not in review


def test_ambiguous_lines_are_decided_and_remembered(alone: Pages) -> None:
    text = "title,year,imdb_id,tmdb_id,watched_at,rating,source\nTitanic,,,,,,mine\n"
    found = put_file(alone, "own.csv", text)
    batch = found.url.path.rpartition("/")[2]
    assert 'name="pick-0"' in found.text
    assert alone.http.post(f"/import/{batch}/keep").status_code == 200
    assert alone.device.history.count() == 0, "what is not decided waits"
    alone.http.post(f"/import/{batch}/keep", data={"pick-0": "titanic-1997"})
    assert alone.device.history.items() == ["titanic-1997"]
    alone.http.post("/history/remove", data={"item_id": "titanic-1997"})
    again = put_file(alone, "own.csv", text)
    assert 'name="pick-0"' not in again.text, "the answer is remembered"


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", "nonsense"), ("x.zip", "PK\x03\x04broken"), ("empty.csv", "")]
)
def test_files_that_cannot_be_read(alone: Pages, name: str, content: str) -> None:
    answer = put_file(alone, name, content)
    assert answer.status_code == 400
    assert "That did not work" in answer.text


def test_by_hand(alone: Pages) -> None:
    found = alone.http.get("/history", params={"q": "seven samurai"})
    assert 'value="seven-samurai-1954"' in found.text
    alone.http.post("/film", data={"item_id": "seven-samurai-1954", "act": "seen"})
    assert alone.device.history.items() == ["seven-samurai-1954"]
    assert alone.http.post("/film", data={"item_id": "nothing", "act": "seen"}).status_code == 400
    fixed = alone.http.post(
        "/history/fix", data={"item_id": "seven-samurai-1954", "right": "alien-1979"}
    )
    assert fixed.status_code == 200
    assert alone.device.history.items() == ["alien-1979"]
    alone.http.post("/history/remove", data={"item_id": "alien-1979"})
    assert alone.device.history.count() == 0


def test_what_counts_is_chosen(alone: Pages) -> None:
    alone.http.post("/film", data={"item_id": "alien-1979", "act": "seen"})
    alone.http.post("/history/evidence", data={"evidence": "looked up"})
    assert alone.device.history.items() == []
    assert "does not count" in alone.http.get("/history").text
    alone.http.post("/history/evidence", data={"evidence": ["looked up", "watched"]})
    assert alone.device.history.items() == ["alien-1979"]


def test_export_comes_back_unchanged(alone: Pages, tmp_path: Path) -> None:
    alone.http.post("/example")
    before = alone.device.history.items()
    exported = alone.http.get("/data/history.csv").text
    with showing(tmp_path / "other") as other:
        found = put_file(other, "epicrec-history.csv", exported)
        other.http.post(found.url.path + "/keep")
        assert other.device.history.items() == before


def test_everything_moves_to_another_machine(alone: Pages, tmp_path: Path) -> None:
    from epicrec.client.main import bring

    alone.http.post("/example")
    packed = tmp_path / "all.zip"
    packed.write_bytes(alone.http.get("/data/everything.zip").content)
    bring(tmp_path / "moved", packed)
    with showing(tmp_path / "moved") as other:
        assert other.device.history.items() == alone.device.history.items()


def test_passphrase_pages(tmp_path: Path) -> None:
    words = {"passphrase": "four words are better", "again": "four words are better"}
    with showing(tmp_path / "client") as pages:
        pages.http.post("/example")
        assert pages.http.post("/data/passphrase", data=words | {"again": "x"}).status_code == 400
        assert "under the new passphrase" in pages.http.post("/data/passphrase", data=words).text
    with showing(tmp_path / "client") as pages:
        assert pages.http.get("/history").url.path == "/unlock"
        assert pages.http.post("/unlock", data={"passphrase": "wrong one"}).status_code == 403
        opened = pages.http.post("/unlock", data=words)
        assert opened.status_code == 200
        assert "24 films" in pages.http.get("/history").text
        pages.http.post("/data/passphrase", data={"current": words["again"], "act": "remove"})
    with showing(tmp_path / "client") as pages:
        assert pages.device.history.count() == 24


def test_erasing_needs_to_be_sure(alone: Pages) -> None:
    alone.http.post("/example")
    assert alone.http.post("/data/erase").status_code == 400
    assert alone.device.history.count() == 24
    alone.http.post("/data/erase", data={"sure": "yes", "ledger": "yes"})
    assert alone.device.history.count() == 0
    assert not list(alone.device.folder.glob("ledger*"))


# ---- browsers -----------------------------------------------------------------------------


def test_nothing_is_read_until_ticked(
    alone: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    history = tmp_path / ".config/chromium/Default/History"
    history.parent.mkdir(parents=True)
    with closing(sqlite3.connect(history)) as db:
        db.executescript(
            "CREATE TABLE urls (id INTEGER, url TEXT, title TEXT, hidden INTEGER);"
            "CREATE TABLE visits (id INTEGER, url INTEGER, visit_time INTEGER, transition INTEGER);"
            "INSERT INTO urls VALUES (1, 'https://www.imdb.com/title/tt0113277/', "
            "'Heat (1995) - IMDb', 0), (2, 'https://blog.example/', 'Blade Runner (1982) | Me', 0);"
            f"INSERT INTO visits VALUES (1, 1, 13370000000000000, {0x20000000}), "
            f"(2, 2, 13360000000000000, {0x20000000});"
        )
    os.utime(history, ns=(10**18, history.stat().st_mtime_ns))
    page = alone.http.get("/sources")
    assert "Chromium: Default" in page.text
    assert 'type="checkbox" name="profile"' in page.text
    assert "checked" not in page.text
    assert history.stat().st_atime_ns == 10**18, "looking at the page opens nothing"
    assert alone.http.post("/sources/browsers").status_code == 400
    found = alone.http.post("/sources/browsers", data={"profile": str(history)})
    assert "Heat" in found.text
    assert "Blade Runner" not in found.text, "other sites only when asked to"
    alone.http.post(found.url.path + "/undo")
    found = alone.http.post("/sources/browsers", data={"profile": str(history), "scan": "1"})
    assert "Blade Runner" in found.text
    alone.http.post(found.url.path + "/keep")
    assert [film.item_id for film in alone.device.history.films()] == ["heat-1995"]
    assert alone.device.history.items() == [], "looking a film up does not count as watching"
    again = alone.http.post("/sources/browsers", data={"profile": str(history)})
    assert "<strong>1</strong> in the history already" in again.text
    other = alone.http.post("/sources/browsers", data={"profile": "/etc/passwd"})
    assert other.status_code == 400, "only what was found can be read"


def test_firefox_while_it_is_open(
    alone: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("firefox is not installed (apt-get install firefox-esr)")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    home = tmp_path / ".mozilla/firefox/test.default"
    home.mkdir(parents=True)
    (home / "user.js").write_text(
        f'user_pref("network.dns.localDomains", "{NAME}");\n'
        'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
        'user_pref("browser.aboutwelcome.enabled", false);\n'
        'user_pref("network.captive-portal-service.enabled", false);\n'
        'user_pref("network.connectivity-service.enabled", false);\n'
        'user_pref("services.settings.server", "http://127.0.0.1:9/");\n'
        'user_pref("dom.security.https_first", false);\n'
        'user_pref("network.proxy.type", 0);\n'
    )
    with film_site() as port:
        running = subprocess.Popen(
            [program, "--headless", "--no-remote", "--profile", str(home),
             f"http://{NAME}:{port}/m/heat", f"http://{NAME}:{port}/m/alien"],
            env={**os.environ, "MOZ_CRASHREPORTER_DISABLE": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            database = home / "places.sqlite"
            end = time.monotonic() + PATIENCE
            films: list[str] = []
            while len(films) < 2 and time.monotonic() < end:
                time.sleep(0.5)
                if not database.exists():
                    continue
                found = alone.http.post("/sources/browsers", data={"profile": str(database)})
                if found.status_code == 200 and found.url.path.startswith("/import/"):
                    alone.http.post(found.url.path + "/keep")
                    films = [film.item_id for film in alone.device.history.films()]
                    if len(films) < 2:  # the titles come a moment after the visits
                        alone.http.post(found.url.path + "/undo")
            assert running.poll() is None, "the browser is still open"
            assert sorted(films) == ["alien-1979", "heat-1995"]
        finally:
            os.killpg(running.pid, signal.SIGTERM)
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait(PATIENCE)
