"""Desktop: the client in the desktop's menu, and running from login on."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from epicrec.errors import InputError

_ENTRY = """[Desktop Entry]
Type=Application
Name=EpicRec
Comment=Recommendations made on this machine
Exec={command}
Icon=epicrec
Categories=AudioVideo;
Terminal=false
{further}"""


def install(
    arguments: Sequence[str] = (),
    *,
    home: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
) -> list[Path]:
    """Write an entry for the menu, one that starts the program at login without a window, and the
    icon; where they are. To take it back, delete them."""
    if platform in ("darwin", "win32"):
        raise InputError("this works on desktops as Linux has them; here make a shortcut yourself")
    home = home or Path.home()
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    icon = data / "icons/hicolor/scalable/apps/epicrec.svg"
    command = [*program(), "client", *arguments]
    started = {
        data / "applications/epicrec.desktop": _entry(command, ""),
        config / "autostart/epicrec.desktop": _entry(
            [*command, "--no-browser"], "X-GNOME-Autostart-enabled=true\n"
        ),
        icon: (Path(__file__).parent / "web/static/icon.svg").read_text("utf-8"),
    }
    for path, content in started.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    return list(started)


def program() -> list[str]:
    """How this program is called, whatever folder one is in."""
    found = shutil.which(Path(sys.argv[0]).name) if Path(sys.argv[0]).stem == "epicrec" else None
    return [str(Path(found).resolve())] if found else [sys.executable, "-m", "epicrec"]


def _entry(command: Sequence[str], further: str) -> str:
    return _ENTRY.format(command=" ".join(_quoted(word) for word in command), further=further)


def _quoted(word: str) -> str:
    """As the Desktop Entry Specification wants it: quoted twice, once for each reader."""
    for mark in ("\\", '"', "`", "$"):
        word = word.replace(mark, f"\\{mark}")
    word = word.replace("\\", "\\\\").replace("%", "%%")
    return f'"{word}"'
