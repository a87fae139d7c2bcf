"""Locations: where browsers keep their history. Only the names of folders are looked at."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


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
