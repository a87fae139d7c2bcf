"""Browsers: which ones this machine has, and the visits in a copy of a browser's history.

Finding profiles looks only at the names of folders. A running browser locks its database, so it is
copied with its write-ahead log and journal, and the copy is checked before use: a copy taken in the
middle of a write is thrown away and taken again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from epicrec.client.viewing import Visit
from epicrec.errors import InputError
from epicrec.progress import report

_COMPANIONS = ("-wal", "-journal")
_TRIES = 6
_REPORT_EVERY = 5_000
_SAME_LOAD = timedelta(seconds=1)  # one page load may be recorded twice
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_BELOW = 300_000_000_000_000  # Firefox on Android counts milliseconds


# ---- profiles -----------------------------------------------------------------------------


class Family(Enum):
    """Browsers that keep their history in the same form; the value is the database's name."""

    CHROME = "History"
    FIREFOX = "places.sqlite"
    SAFARI = "History.db"


@dataclass(frozen=True, slots=True)
class Profile:
    """One browser profile whose history could be read, if the person ticks it."""

    browser: str
    name: str
    family: Family
    database: Path

    @property
    def source(self) -> str:
        """The name its visits carry."""
        return f"{self.browser}: {self.name}"


_NO_PERSON = frozenset({"System Profile", "Guest Profile"})

_LINUX = (
    ("Chrome", ".config/google-chrome"),
    ("Chrome", ".config/google-chrome-beta"),
    ("Chrome", ".config/google-chrome-unstable"),
    ("Chrome", ".var/app/com.google.Chrome/config/google-chrome"),
    ("Chromium", ".config/chromium"),
    ("Chromium", "snap/chromium/common/chromium"),
    ("Chromium", ".var/app/org.chromium.Chromium/config/chromium"),
    ("Brave", ".config/BraveSoftware/Brave-Browser"),
    ("Brave", "snap/brave/current/.config/BraveSoftware/Brave-Browser"),
    ("Brave", ".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser"),
    ("Edge", ".config/microsoft-edge"),
    ("Edge", ".var/app/com.microsoft.Edge/config/microsoft-edge"),
    ("Vivaldi", ".config/vivaldi"),
    ("Vivaldi", ".var/app/com.vivaldi.Vivaldi/config/vivaldi"),
    ("Firefox", ".mozilla/firefox"),
    ("Firefox", ".config/mozilla/firefox"),
    ("Firefox", "snap/firefox/common/.mozilla/firefox"),
    ("Firefox", ".var/app/org.mozilla.firefox/.mozilla/firefox"),
    ("Firefox", ".var/app/org.mozilla.firefox/config/mozilla/firefox"),
)
_MACOS = (
    ("Chrome", "Library/Application Support/Google/Chrome"),
    ("Chromium", "Library/Application Support/Chromium"),
    ("Brave", "Library/Application Support/BraveSoftware/Brave-Browser"),
    ("Edge", "Library/Application Support/Microsoft Edge"),
    ("Vivaldi", "Library/Application Support/Vivaldi"),
    ("Firefox", "Library/Application Support/Firefox/Profiles"),
    ("Safari", "Library/Safari"),
)
_WINDOWS = (
    ("Chrome", "%LOCALAPPDATA%/Google/Chrome/User Data"),
    ("Chromium", "%LOCALAPPDATA%/Chromium/User Data"),
    ("Brave", "%LOCALAPPDATA%/BraveSoftware/Brave-Browser/User Data"),
    ("Edge", "%LOCALAPPDATA%/Microsoft/Edge/User Data"),
    ("Vivaldi", "%LOCALAPPDATA%/Vivaldi/User Data"),
    ("Firefox", "%APPDATA%/Mozilla/Firefox/Profiles"),
)


def find_profiles(
    home: Path | None = None,
    platform: str = sys.platform,
    environ: Mapping[str, str] | None = None,
) -> list[Profile]:
    """Every profile with a history on this machine; nothing is opened."""
    home = Path.home() if home is None else home
    environ = os.environ if environ is None else environ
    found: dict[Path, Profile] = {}
    for browser, base in _bases(home, platform, environ):
        for profile in _profiles_in(browser, base):
            found.setdefault(profile.database.resolve(), profile)
    return list(found.values())


def _bases(home: Path, platform: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if platform == "win32":
        folders = {
            "%LOCALAPPDATA%": environ.get("LOCALAPPDATA") or str(home / "AppData/Local"),
            "%APPDATA%": environ.get("APPDATA") or str(home / "AppData/Roaming"),
        }
        for browser, where in _WINDOWS:
            variable, _, rest = where.partition("/")
            yield browser, Path(folders[variable]) / rest
        return
    for browser, where in _MACOS if platform == "darwin" else _LINUX:
        yield browser, home / where
        config = environ.get("XDG_CONFIG_HOME")
        if platform != "darwin" and config and where.startswith(".config/"):
            yield browser, Path(config) / where.removeprefix(".config/")


def _profiles_in(browser: str, base: Path) -> Iterator[Profile]:
    if browser == "Safari":
        # the folder itself may be closed to us until Full Disk Access is given
        if _exists(base / Family.SAFARI.value):
            yield Profile(browser, "Safari", Family.SAFARI, base / Family.SAFARI.value)
        return
    family = Family.FIREFOX if browser == "Firefox" else Family.CHROME
    try:
        folders = sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
    except OSError:
        return
    for name in folders:
        database = base / name / family.value
        if name not in _NO_PERSON and _exists(database):
            yield Profile(browser, name, family, database)


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


# ---- visits -------------------------------------------------------------------------------


def _query(family: Family, connection: sqlite3.Connection) -> str:
    """The query for url, title, microseconds since 1970, description, site; times ascending."""
    columns = {
        row[1] for row in connection.execute("SELECT * FROM pragma_table_info('moz_places')")
    }
    described = ", ".join(
        f"coalesce(p.{name}, '')" if name in columns else "''"
        for name in ("description", "site_name")
    )
    selected = {
        # CHAIN_END: the page a chain of redirects led to, and not the redirects
        Family.CHROME: """
            SELECT u.url, coalesce(u.title, ''), v.visit_time - 11644473600000000 AS at, '', ''
            FROM visits v JOIN urls u ON u.id = v.url
            WHERE u.hidden = 0 AND v.transition & 0x20000000""",
        # neither embedded (4, 8), nor redirects (5, 6), nor downloads (7)
        Family.FIREFOX: f"""
            SELECT p.url, coalesce(p.title, ''),
                CASE WHEN v.visit_date > {_MILLISECONDS_BELOW} THEN v.visit_date
                     ELSE v.visit_date * 1000 END AS at, {described}
            FROM moz_historyvisits v JOIN moz_places p ON p.id = v.place_id
            WHERE p.hidden = 0 AND v.visit_type NOT IN (4, 5, 6, 7, 8)""",
        Family.SAFARI: """
            SELECT i.url, coalesce(v.title, ''),
                CAST(round((v.visit_time + 978307200) * 1000000) AS INTEGER) AS at, '', ''
            FROM history_visits v JOIN history_items i ON i.id = v.history_item
            WHERE 1""",
    }[family]
    return f"{selected} AND at >= ? ORDER BY at"


def read_visits(profile: Profile, since: datetime | None = None) -> Iterator[Visit]:
    """The profile's visits from `since` on, oldest first; only pages of the web.

    A history that cannot be read is an `InputError`, also in the middle: store what comes out
    within one transaction.
    """
    start = 0 if since is None else (since - _UNIX) // timedelta(microseconds=1)
    what = f"reading {profile.source}"
    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        copy = _copied(profile, Path(folder))
        try:
            with closing(_opened(copy)) as connection:
                query = _query(profile.family, connection)
                total = connection.execute(f"SELECT count(*) FROM ({query})", (start,)).fetchone()
                previous: dict[str, datetime] = {}
                rows = connection.execute(query, (start,))
                for done, (url, title, at, description, site) in enumerate(rows):
                    if done % _REPORT_EVERY == 0:
                        report(what, done, total[0])
                    if not url.startswith(("http://", "https://")):
                        continue
                    when = _UNIX + timedelta(microseconds=at)
                    last = previous.get(url)
                    previous[url] = when
                    if last is None or when - last > _SAME_LOAD:
                        yield Visit(url, title, when, profile.source, description, site)
                report(what, total[0], total[0])
        except (sqlite3.Error, OverflowError, TypeError, AttributeError) as error:
            raise InputError(
                f"the history of {profile.source} at {profile.database} is not as expected: "
                f"{error}. Nothing was imported; open the browser once so that it mends or "
                "updates its history, then try again"
            ) from error


def _copied(profile: Profile, folder: Path) -> Path:
    """A consistent copy of the database in this folder."""
    original, copy = profile.database, folder / profile.database.name
    problem = "it kept changing while it was copied"
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(0.05 * 2**attempt)
        try:
            before = _state(original)
            for suffix in ("", *_COMPANIONS):
                target = copy.with_name(copy.name + suffix)
                target.unlink(missing_ok=True)
                if before[suffix] is not None:
                    shutil.copyfile(original.with_name(original.name + suffix), target)
            moved = _state(original) != before
        except FileNotFoundError as error:
            if not original.exists():
                raise InputError(
                    f"there is no history at {original} any more. Look for browsers again"
                ) from error
            continue  # a log that vanished between looking and copying
        except OSError as error:
            raise InputError(_refused(profile, error)) from error
        copy.with_name(copy.name + "-shm").unlink(missing_ok=True)
        if moved:
            continue
        try:
            with closing(_opened(copy)) as connection:
                found = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
        except sqlite3.Error as error:
            problem = str(error)
            continue
        if found == ["ok"]:
            return copy
        problem = str(found[0])
    raise InputError(
        f"the history of {profile.source} at {original} cannot be read: {problem}. Nothing was "
        "imported; close the browser and try again"
    )


def _state(original: Path) -> dict[str, tuple[int, int] | None]:
    """Time and size of the database and its companions."""
    found: dict[str, tuple[int, int] | None] = {}
    for suffix in ("", *_COMPANIONS):
        try:
            status = original.with_name(original.name + suffix).stat()
            found[suffix] = (status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            if not suffix:
                raise
            found[suffix] = None
    return found


def _opened(copy: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(copy)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    # a database is somebody else's file: its schema may call nothing
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _refused(profile: Profile, error: OSError) -> str:
    remedy = (
        "In System Settings, Privacy & Security, give this program Full Disk Access"
        if profile.family is Family.SAFARI
        else "Close the browser or check who may read the file, then try again"
    )
    return f"the history of {profile.source} at {profile.database} is closed to us: {error}. " + (
        f"{remedy}. Nothing was imported"
    )
