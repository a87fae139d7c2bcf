"""Whose files they are: everything the server keeps is closed to other users of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from epicrec.errors import InputError
from epicrec.server import serve
from loopback import wait_for
from server.conftest import prepare, released, running


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask that closes nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def rights(folder: Path) -> dict[str, int]:
    """The rights of a folder and of everything in it."""
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777
        for path in [folder, *folder.rglob("*")]
    }


def is_closed(folder: Path) -> bool:
    return all(
        mode == (0o700 if (folder / name).is_dir() else 0o600)
        for name, mode in rights(folder).items()
    )


@pytest.mark.usefixtures("careless")
def test_all_a_server_writes_is_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    settings = {"http": False, "catalogue": "films", "train_from": "films", "admin_key": ""}
    with running(folder, **settings) as serving:
        user = serving.register()
        user.put(f"/api/user/{user.user_id}/release", json=released(["heat-1995"]))
        admin = serving.client((folder / "admin.key").read_text().strip())
        admin.train()
        wait_for(lambda: admin.get("/api/model/info").status_code == 200)
        wait_for(lambda: admin.get("/api/dashboard/publishing").json()["state"] == "done")
        found = rights(folder)
        assert is_closed(folder), found
        serve(backup=tmp_path / "backup", data=str(folder))
    for name in (
        "epicrec.sqlite", "epicrec.sqlite-wal", "epicrec.sqlite-shm", "ledger.jsonl", "admin.key",
        "tls/ca.key", "models/1/top_items.npy", "published/item-model-1.npz",
    ):  # fmt: skip
        assert name in found  # there is something to look at
    assert is_closed(tmp_path / "backup"), rights(tmp_path / "backup")
    assert "models/1/top_items.npy" in rights(tmp_path / "backup")


def test_what_was_left_open_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    prepare(data=str(folder))
    (folder / "models" / "1").mkdir()
    (folder / "models" / "1" / "top_items.npy").touch()
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    elsewhere = tmp_path / "elsewhere.sqlite"
    elsewhere.touch(mode=0o644)
    prepare(data=str(folder), database=f"sqlite:///{elsewhere}")
    assert is_closed(folder), rights(folder)
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_what_is_not_the_servers_is_left_alone(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.touch()
    note.chmod(0o644)
    serve(check=True, data=str(tmp_path), http=True)
    assert note.stat().st_mode & 0o777 == 0o644
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(InputError, match="shared by all users"):
        serve(check=True, data=str(shared), http=True)
    assert shared.stat().st_mode & 0o777 == 0o777
