"""In the desktop's menu and from login on; locked, and under another passphrase."""

from __future__ import annotations

import configparser
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from client.conftest import showing
from epicrec.client import main
from epicrec.client.desktop import _quoted, install
from epicrec.client.vault import Vault
from epicrec.errors import InputError


def entry(path: Path) -> configparser.SectionProxy:
    found = configparser.RawConfigParser()
    found.read(path, "utf-8")
    return found["Desktop Entry"]


def test_an_entry_for_the_menu_and_one_for_login(tmp_path: Path) -> None:
    menu, login, icon = install(
        ["--folder", "/a b"], home=tmp_path, environment={}, platform="linux"
    )
    assert menu == tmp_path / ".local/share/applications/epicrec.desktop"
    assert login == tmp_path / ".config/autostart/epicrec.desktop"
    assert icon.read_text().startswith("<svg")
    assert shlex.split(entry(menu)["Exec"])[-3:] == ["client", "--folder", "/a b"]
    assert shlex.split(entry(login)["Exec"])[-1] == "--no-browser"
    assert entry(menu)["Terminal"] == "false"
    program = shlex.split(entry(menu)["Exec"])[:-3]
    said = subprocess.run(
        [*program, "client", "--help"], capture_output=True, text=True, check=True
    )
    assert "--install" in said.stdout


def test_odd_paths_are_quoted() -> None:
    assert _quoted('a b"c') == '"a b\\\\"c"'
    assert _quoted("100%") == '"100%%"'


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_have_no_such_entries(tmp_path: Path, platform: str) -> None:
    with pytest.raises(InputError, match="shortcut"):
        install(home=tmp_path, environment={}, platform=platform)
    assert list(tmp_path.iterdir()) == []


def test_a_second_start_opens_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with showing(tmp_path / "client") as pages:
        folder, port = tmp_path / "client", pages.door.port
        monkeypatch.setattr("epicrec.client.web.security.has_screen", lambda: True)
        main.run_client(folder=folder, port=port, catalogue="films")
        assert opened == [f"http://127.0.0.1:{port}/"]
        with pytest.raises(InputError, match="another client"):
            main.run_client(folder=folder, port=port, catalogue="films", browser=False)


def test_locking_and_another_passphrase(tmp_path: Path) -> None:
    first, second = "four words are better", "five words are even better"
    with showing(tmp_path / "client") as pages:
        post = pages.http.post
        assert post("/lock").status_code == 400, "there is no passphrase"
        assert "Lock</button>" not in pages.http.get("/").text
        post("/example")
        films = pages.device.history.count()
        post("/data/passphrase", data={"passphrase": first, "again": first})
        assert "Lock</button>" in pages.http.get("/").text
        for wrong in ("", "guess"):
            given = {"current": wrong, "passphrase": second, "again": second}
            assert post("/data/passphrase", data=given).status_code == 400
            assert (
                post("/data/passphrase", data={"current": wrong, "act": "remove"}).status_code
                == 400
            )
        Vault.open(tmp_path / "client/history.sealed", first)
        given = {"current": first, "passphrase": second, "again": second}
        assert post("/data/passphrase", data=given).status_code == 200
        assert pages.http.get("/health").text == "open"
        assert post("/lock").url.path == "/unlock"
        assert pages.http.get("/health").text == "locked"
        for path in ("/history", "/for-you", "/data/history.csv"):
            assert pages.http.get(path).url.path == "/unlock"
        assert post("/unlock", data={"passphrase": first}).status_code == 403
        assert post("/unlock", data={"passphrase": second}).url.path == "/"
        assert pages.state.device is not None
        assert pages.state.device.history.count() == films
        assert (
            post("/data/passphrase", data={"current": second, "act": "remove"}).status_code == 200
        )
        assert (tmp_path / "client/history.sqlite").exists()


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epicrec", "client", "--install"]
    environment = {
        "PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path),
        "XDG_DATA_HOME": str(tmp_path / "d"), "XDG_CONFIG_HOME": str(tmp_path / "c"),
    }  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.count("wrote") == 3
    assert (tmp_path / "c/autostart/epicrec.desktop").exists()
