"""Browser histories: found without opening, read while the browser runs, refused when broken."""

import contextlib
import http.server
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from epicrec.client.imports import browsers
from epicrec.client.imports.browsers import Family, Profile, find_profiles, read_visits
from epicrec.client.matching.matcher import Matcher
from epicrec.client.viewing import Visit
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.progress import listening
from loopback import PATIENCE

WHEN = datetime(2026, 5, 1, 20, 15, 30, 123456, tzinfo=UTC)
UNIX = datetime(1970, 1, 1, tzinfo=UTC)
CHAIN_END = 0x20000000


def microseconds(when: datetime) -> int:
    return (when - UNIX) // timedelta(microseconds=1)


def chrome(path: Path, visits: list[tuple[str, str, datetime]]) -> Profile:
    """A history as Chrome writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(
            """CREATE TABLE urls(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR,
                   visit_count INTEGER, last_visit_time INTEGER, hidden INTEGER DEFAULT 0);
               CREATE TABLE visits(id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER,
                   transition INTEGER, visit_duration INTEGER DEFAULT 0);"""
        )
        for k, (url, title, when) in enumerate(visits):
            at = microseconds(when) + 11_644_473_600_000_000
            db.execute("INSERT INTO urls VALUES (?, ?, ?, 1, ?, 0)", (k, url, title, at))
            db.execute("INSERT INTO visits VALUES (?, ?, ?, ?, 0)", (k, k, at, CHAIN_END))
    return Profile("Chrome", "Default", Family.CHROME, path)


def firefox(path: Path, visits: list[tuple[str, str, int, int]], described: bool) -> Profile:
    """A history as Firefox writes it; older versions have no descriptions."""
    more = ", description TEXT, site_name TEXT" if described else ""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(
            f"""CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR,
                    title LONGVARCHAR, hidden INTEGER DEFAULT 0{more});
                CREATE TABLE moz_historyvisits(id INTEGER PRIMARY KEY, place_id INTEGER,
                    visit_date INTEGER, visit_type INTEGER);"""
        )
        for k, (url, title, at, kind) in enumerate(visits):
            db.execute("INSERT INTO moz_places(id, url, title) VALUES (?, ?, ?)", (k, url, title))
            db.execute("INSERT INTO moz_historyvisits VALUES (?, ?, ?, ?)", (k, k, at, kind))
        if described:
            db.execute("UPDATE moz_places SET description = 'about', site_name = 'Site'")
    return Profile("Firefox", "default", Family.FIREFOX, path)


class TestFinding:
    places = {
        "linux": [
            ".config/google-chrome/Default/History",
            ".config/google-chrome/Profile 1/History",
            ".config/chromium/Default/History",
            "snap/chromium/common/chromium/Default/History",
            ".config/BraveSoftware/Brave-Browser/Default/History",
            ".config/microsoft-edge/Default/History",
            ".config/vivaldi/Default/History",
            ".var/app/com.google.Chrome/config/google-chrome/Default/History",
            ".mozilla/firefox/abc.default-release/places.sqlite",
            ".config/mozilla/firefox/abc.default/places.sqlite",
            "snap/firefox/common/.mozilla/firefox/abc.default/places.sqlite",
            ".var/app/org.mozilla.firefox/.mozilla/firefox/abc.default/places.sqlite",
        ],
        "darwin": [
            "Library/Application Support/Google/Chrome/Default/History",
            "Library/Application Support/Chromium/Default/History",
            "Library/Application Support/BraveSoftware/Brave-Browser/Default/History",
            "Library/Application Support/Microsoft Edge/Default/History",
            "Library/Application Support/Vivaldi/Default/History",
            "Library/Application Support/Firefox/Profiles/abc.default/places.sqlite",
            "Library/Safari/History.db",
        ],
        "win32": [
            "AppData/Local/Google/Chrome/User Data/Default/History",
            "AppData/Local/Chromium/User Data/Default/History",
            "AppData/Local/BraveSoftware/Brave-Browser/User Data/Default/History",
            "AppData/Local/Microsoft/Edge/User Data/Default/History",
            "AppData/Local/Vivaldi/User Data/Default/History",
            "AppData/Roaming/Mozilla/Firefox/Profiles/abc.default/places.sqlite",
        ],
    }

    @pytest.mark.parametrize("platform", list(places))
    def test_every_place_is_found_and_nothing_opened(
        self, tmp_path: Path, platform: str, monkeypatch
    ) -> None:
        for place in self.places[platform]:
            (tmp_path / place).parent.mkdir(parents=True)
            (tmp_path / place).write_bytes(b"not a database")
        monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("a file was opened"))
        monkeypatch.setattr(sqlite3, "connect", lambda *_: pytest.fail("a database was opened"))
        found = find_profiles(tmp_path, platform, {})
        assert {p.database.relative_to(tmp_path).as_posix() for p in found} == set(
            self.places[platform]
        )

    def test_system_and_guest_are_nobodys_history(self, tmp_path: Path) -> None:
        for name in ("System Profile", "Guest Profile", "Profile 2"):
            folder = tmp_path / ".config/chromium" / name
            folder.mkdir(parents=True)
            (folder / "History").touch()
        (tmp_path / ".config/chromium/Crashpad").mkdir()
        (profile,) = find_profiles(tmp_path, "linux", {})
        assert (profile.source, profile.family) == ("Chromium: Profile 2", Family.CHROME)

    def test_folders_named_by_the_system(self, tmp_path: Path) -> None:
        history = tmp_path / "elsewhere/mozilla/firefox/x/places.sqlite"
        history.parent.mkdir(parents=True)
        history.touch()
        found = find_profiles(tmp_path, "linux", {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")})
        assert [p.database for p in found] == [history]
        windows = tmp_path / "D/Google/Chrome/User Data/Default/History"
        windows.parent.mkdir(parents=True)
        windows.touch()
        found = find_profiles(tmp_path, "win32", {"LOCALAPPDATA": str(tmp_path / "D")})
        assert [p.database for p in found] == [windows]

    def test_no_browser_no_profile(self, tmp_path: Path) -> None:
        assert find_profiles(tmp_path / "nobody", "linux", {}) == []


class TestReading:
    def test_chrome(self, tmp_path: Path) -> None:
        profile = chrome(
            tmp_path / "History",
            [
                ("https://a.example/", "A", WHEN),
                ("https://b.example/", "B", WHEN + timedelta(days=1)),
                ("chrome://settings", "Settings", WHEN),
                ("https://hidden.example/", "hidden", WHEN),
                ("https://redirect.example/", "redirect", WHEN),
                ("https://notitle.example/", None, WHEN + timedelta(days=2)),
            ],
        )  # fmt: skip
        with contextlib.closing(sqlite3.connect(profile.database)) as db, db:
            db.execute("UPDATE urls SET hidden = 1 WHERE id = 3")
            db.execute("UPDATE visits SET transition = 1 WHERE id = 4")
            twice = microseconds(WHEN) + 11_644_473_600_000_000 + 300_000
            db.execute("INSERT INTO visits VALUES (99, 0, ?, ?, 0)", (twice, CHAIN_END | 8))
        visits = list(read_visits(profile))
        assert visits == [
            Visit("https://a.example/", "A", WHEN, "Chrome: Default"),
            Visit("https://b.example/", "B", WHEN + timedelta(days=1), "Chrome: Default"),
            Visit("https://notitle.example/", "", WHEN + timedelta(days=2), "Chrome: Default"),
        ]
        assert list(read_visits(profile, since=WHEN + timedelta(days=1))) == visits[1:]
        later = WHEN + timedelta(days=2, microseconds=1)
        assert list(read_visits(profile, since=later)) == []

    @pytest.mark.parametrize("described", [True, False])
    def test_firefox(self, tmp_path: Path, described: bool) -> None:
        at = microseconds(WHEN)
        visits = [
            ("https://a.example/", "A", at, 1),
            ("https://phone.example/", "P", at // 1000, 2),
        ]
        embedded = [(f"https://{kind}.example/", "x", at, kind) for kind in (4, 5, 6, 7, 8)]
        profile = firefox(tmp_path / "places.sqlite", visits + embedded, described)
        phone, desk = read_visits(profile)
        assert (desk.url, desk.when) == ("https://a.example/", WHEN)
        assert phone.when == WHEN.replace(microsecond=123000)
        assert (desk.description, desk.site) == (("about", "Site") if described else ("", ""))

    def test_safari(self, tmp_path: Path) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "History.db")) as db, db:
            db.executescript(
                """CREATE TABLE history_items(id INTEGER PRIMARY KEY, url TEXT);
                   CREATE TABLE history_visits(id INTEGER PRIMARY KEY, history_item INTEGER,
                       visit_time REAL, title TEXT);
                   INSERT INTO history_items VALUES (1, 'https://a.example/');
                   INSERT INTO history_visits VALUES (1, 1, 799359330.5, 'A');"""
            )
        (visit,) = read_visits(Profile("Safari", "Safari", Family.SAFARI, tmp_path / "History.db"))
        assert (visit.title, visit.when) == ("A", datetime(2026, 5, 1, 20, 15, 30, 500000, UTC))

    def test_a_locked_database_with_a_log_is_read_and_left_alone(self, tmp_path: Path) -> None:
        profile = firefox(tmp_path / "places.sqlite", [], described=True)
        with contextlib.closing(sqlite3.connect(profile.database, isolation_level=None)) as db:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("INSERT INTO moz_places VALUES (1, 'https://new.example/', 'N', 0, '', '')")
            at = microseconds(WHEN)
            db.execute("INSERT INTO moz_historyvisits VALUES (1, 1, ?, 1)", (at,))
            before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
            assert "places.sqlite-wal" in before
            assert [v.url for v in read_visits(profile)] == ["https://new.example/"]
            assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before

    def test_a_copy_caught_in_a_write_is_taken_again(self, tmp_path: Path, monkeypatch) -> None:
        profile = chrome(tmp_path / "History", [("https://a.example/", "A", WHEN)])
        copyfile, copies = shutil.copyfile, []

        def interrupted(source: Path, target: Path) -> None:
            copyfile(source, target)
            copies.append(source)
            if len(copies) == 1:
                os.utime(source, ns=(1, 1))

        monkeypatch.setattr(shutil, "copyfile", interrupted)
        assert len(list(read_visits(profile))) == 1
        assert len(copies) == 2


class TestBroken:
    def refuse(self, profile: Profile, message: str) -> None:
        folder = profile.database.parent
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        with pytest.raises(InputError, match=message):
            list(read_visits(profile))
        assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch) -> None:
        monkeypatch.setattr(browsers.time, "sleep", lambda _: None)

    def test_not_a_database(self, tmp_path: Path) -> None:
        (tmp_path / "History").write_bytes(b"this is no database" * 100)
        self.refuse(Profile("Chrome", "x", Family.CHROME, tmp_path / "History"), "not a database")

    def test_another_database(self, tmp_path: Path) -> None:
        profile = firefox(tmp_path / "History", [], described=True)
        wrong = Profile("Chrome", "x", Family.CHROME, profile.database)
        self.refuse(wrong, "not as expected: no such table")

    def test_a_torn_database(self, tmp_path: Path) -> None:
        rows = [(f"https://a.example/{k}", "x" * 200, WHEN) for k in range(500)]
        profile = chrome(tmp_path / "History", rows)
        whole = profile.database.read_bytes()
        profile.database.write_bytes(whole[: len(whole) // 2])
        self.refuse(profile, "cannot be read")
        noise = random.Random(1).randbytes(8192)
        profile.database.write_bytes(whole[:8192] + noise + whole[16384:])
        self.refuse(profile, "cannot be read")

    def test_gone(self, tmp_path: Path) -> None:
        self.refuse(Profile("Chrome", "x", Family.CHROME, tmp_path / "History"), "no history at")

    @pytest.mark.parametrize(
        ("family", "remedy"), [(Family.CHROME, "Close the browser"), (Family.SAFARI, "Full Disk")]
    )
    def test_closed_to_us(self, tmp_path: Path, monkeypatch, family: Family, remedy: str) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        chrome(tmp_path / "History", [])
        monkeypatch.setattr(shutil, "copyfile", refuse)
        self.refuse(Profile("B", "x", family, tmp_path / "History"), remedy)

    def test_always_changing(self, tmp_path: Path, monkeypatch) -> None:
        profile = chrome(tmp_path / "History", [])
        states = iter(range(100))
        monkeypatch.setattr(
            browsers, "_state", lambda _: {"": (next(states), 0), "-wal": None, "-journal": None}
        )
        self.refuse(profile, "kept changing")

    def test_absurd_times(self, tmp_path: Path) -> None:
        profile = chrome(tmp_path / "History", [("https://a.example/", "A", WHEN)])
        with contextlib.closing(sqlite3.connect(profile.database)) as db, db:
            db.execute("UPDATE visits SET visit_time = 9223372036854775807")
        self.refuse(profile, "not as expected")

    def test_no_copy_stays_behind(self, tmp_path: Path, monkeypatch) -> None:
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        profile = chrome(tmp_path / "b/History", [("https://a.example/", "A", WHEN)] * 3)
        visits = read_visits(profile)
        next(visits)
        (copy,) = (tmp_path / "tmp").iterdir()
        assert copy.stat().st_mode & 0o077 == 0
        visits.close()
        profile.database.write_bytes(b"broken")
        with pytest.raises(InputError):
            list(read_visits(profile))
        assert list((tmp_path / "tmp").iterdir()) == []


def test_many_visits_read_and_matched(tmp_path: Path, films: Catalogue) -> None:
    titles = [f"{t} ({y}) - IMDb" for t, y in zip(films.titles, films.years, strict=True)]
    visits = [
        (
            f"https://www.imdb.com/title/tt{k:07}/",
            titles[k % len(titles)],
            WHEN + timedelta(hours=k),
        )
        if k % 2
        else (f"https://example.org/page/{k}", f"Page {k}", WHEN + timedelta(hours=k))
        for k in range(20_000)
    ]
    profile = chrome(tmp_path / "History", visits)
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *step: heard.append(step)):
        found = list(Matcher(films).match_all(read_visits(profile)))
    assert sum(match.item_id is not None for match in found) == 10_000
    for what in ("reading Chrome: Default", "recognising films"):
        steps = [done for name, done, _ in heard if name == what]
        assert steps == list(range(0, 20_001, 5_000))


PAGES = {
    "/one": ("The Matrix (1999) - IMDb", "A hacker learns the truth"),
    "/two": ("Heat (1995) - IMDb", "Two men on either side of the law"),
    "/three": ("An ordinary page", "of no importance"),
}


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """A site on loopback with some titles."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            title, about = PAGES.get(self.path, ("", ""))
            self.send_response(200 if title else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            html = (
                f"<!doctype html><title>{title}</title><meta name=description content='{about}'>"
                f"<meta property=og:description content='{about}'>"
                f"<meta property=og:site_name content='Films'><p>{title}"
            )
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def wait_for_pages(profile: Profile, site: str) -> list[Visit]:
    """The visits to this site, once the browser has written them all, with their titles."""
    end = time.monotonic() + PATIENCE
    while True:
        visits: list[Visit] = []
        with contextlib.suppress(InputError):  # the tables of a new profile come in a while
            visits = [visit for visit in read_visits(profile) if visit.url.startswith(site)]
        titled = {visit.url for visit in visits if visit.title}
        if len(titled) == len(PAGES) or time.monotonic() > end:
            return visits
        time.sleep(0.3)


def test_chromium_while_it_runs(tmp_path: Path, pages: str) -> None:
    program = shutil.which("chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if program is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    home = tmp_path / ".config/chromium"
    with playwright.sync_playwright() as started:
        context = started.chromium.launch_persistent_context(
            str(home),
            executable_path=program,
            headless=False,  # the old headless mode keeps no history
            args=[
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync",
            ],
            timeout=PATIENCE * 1000,
        )  # fmt: skip
        context.set_default_timeout(PATIENCE * 1000)
        try:
            tab = context.new_page()
            begun = datetime.now(UTC) - timedelta(seconds=1)
            for path in PAGES:
                tab.goto(pages + path)
            (profile,) = find_profiles(tmp_path, "linux", {})
            visits = wait_for_pages(profile, pages)
            assert context.pages, "the browser is still open"
            assert [(v.url, v.title) for v in visits] == [
                (pages + path, title) for path, (title, _) in PAGES.items()
            ]
            assert all(begun <= v.when <= datetime.now(UTC) for v in visits)
            assert list(read_visits(profile, since=visits[-1].when)) == visits[-1:]
        finally:
            context.close()
    assert list(read_visits(profile)) == visits


def test_firefox_while_it_runs(tmp_path: Path, pages: str) -> None:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("firefox is not installed (apt-get install firefox-esr)")
    home = tmp_path / ".mozilla/firefox/test.default"
    home.mkdir(parents=True)
    (home / "user.js").write_text(
        'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
        'user_pref("app.update.enabled", false);\n'
        'user_pref("browser.shell.checkDefaultBrowser", false);\n'
        'user_pref("browser.startup.homepage_override.mstone", "ignore");\n'
        'user_pref("browser.aboutwelcome.enabled", false);\n'
        'user_pref("network.captive-portal-service.enabled", false);\n'
        'user_pref("network.connectivity-service.enabled", false);\n'
        'user_pref("services.settings.server", "http://127.0.0.1:9/");\n'
    )
    addresses = [pages + path for path in PAGES]
    running = subprocess.Popen(
        [program, "--headless", "--no-remote", "--profile", str(home), *addresses],
        env={**os.environ, "HOME": str(tmp_path), "MOZ_CRASHREPORTER_DISABLE": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE
        while not (home / "places.sqlite").exists() and time.monotonic() < end:
            time.sleep(0.2)
        (profile,) = find_profiles(tmp_path, "linux", {})
        visits = wait_for_pages(profile, pages)
        assert running.poll() is None, "the browser is still open"
        assert {(v.url, v.title) for v in visits} == {
            (pages + path, title) for path, (title, _) in PAGES.items()
        }
        # only Firefox keeps what a page says of itself, and writes it later than the title
        assert {v.site for v in visits} <= {"", "Films"}
        assert (home / "places.sqlite-wal").stat().st_size > 0
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
