"""The store: private, sealed on request, of one version, one client at a time."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from epicrec.client.device import Device
from epicrec.client.history import History
from epicrec.client.main import default_folder
from epicrec.client.store import PLAIN, SEALED, LockedError, Store, restore
from epicrec.client.vault import WrongPassphraseError
from epicrec.data import Catalogue
from epicrec.errors import InputError

PHRASE = "four words are better"


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    store.set(a=1)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    for file in (tmp_path / "new").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    store.close()


def test_the_store_is_in_the_users_data_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_folder() == tmp_path / ".local" / "share" / "epicrec"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    assert default_folder() == tmp_path / "elsewhere" / "epicrec"


def test_a_second_client_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(InputError, match="another client"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_a_device_that_cannot_start_lets_go(tmp_path: Path, films: Catalogue) -> None:
    with pytest.raises(InputError, match="address"):
        Device(tmp_path, films, server="nonsense")
    Device(tmp_path, films).close()


def test_a_failed_change_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = store.changes

    def fail() -> None:
        with store.changing() as db:
            db.execute("INSERT INTO unwanted (item_id) VALUES ('x')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.reading() as db:
        assert db.execute("SELECT count(*) FROM unwanted").fetchone()[0] == 0
    assert store.changes == before
    store.close()


def test_sealing_hides_every_title_and_opens_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    History(store).add(["secret-film-1999"])
    assert b"secret-film" in (tmp_path / PLAIN).read_bytes()
    store.seal(PHRASE)
    History(store).add(["second-secret-film"])
    store.close()
    assert not (tmp_path / PLAIN).exists()
    assert b"secret-film" not in b"".join(f.read_bytes() for f in tmp_path.iterdir())
    with pytest.raises(LockedError):
        Store(tmp_path)
    with pytest.raises(WrongPassphraseError):
        Store(tmp_path, "another phrase")
    store = Store(tmp_path, PHRASE)
    assert History(store).count() == 2
    store.unseal()
    store.close()
    assert not (tmp_path / SEALED).exists()
    store = Store(tmp_path)
    assert History(store).count() == 2
    store.close()


def test_a_changed_byte_of_the_sealed_file_is_noticed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.seal(PHRASE)
    store.close()
    data = bytearray((tmp_path / SEALED).read_bytes())
    data[-40] ^= 1
    (tmp_path / SEALED).write_bytes(data)
    with pytest.raises(WrongPassphraseError):
        Store(tmp_path, PHRASE)


def test_short_passphrases_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(InputError, match="8 characters"):
        store.seal("short")
    store.close()


def test_a_store_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "here")
    History(store).add(["a"])
    store.close()
    file = tmp_path / "here" / PLAIN
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA user_version = 99")
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"another version of epicrec .*99"):
        Store(tmp_path / "here")
    with pytest.raises(InputError, match=r"another version of epicrec .*99"):
        restore(tmp_path / "there", before)
    assert file.read_bytes() == before
    assert not (tmp_path / "there").exists(), "nothing is begun with it"


def test_a_damaged_store_says_so(tmp_path: Path) -> None:
    (tmp_path / PLAIN).write_bytes(b"this is no database" * 100)
    with pytest.raises(InputError, match="damaged"):
        Store(tmp_path)


def test_move_to_another_machine(tmp_path: Path) -> None:
    store = Store(tmp_path / "old")
    History(store).add(["a"])
    copy = store.copy()
    with pytest.raises(InputError, match="already"):
        restore(tmp_path / "old", copy)
    restore(tmp_path / "new", copy)
    store.close()
    moved = Store(tmp_path / "new")
    assert History(moved).items() == ["a"]
    moved.close()
    with pytest.raises(InputError, match="no copy"):
        restore(tmp_path / "third", b"nonsense" * 1000)


def test_erase(tmp_path: Path) -> None:
    store = Store(tmp_path)
    History(store).add(["secret-film-1999"])
    store.set(choice=1)
    store.erase()
    assert History(store).count() == 0
    assert store.setting("choice") is None
    assert b"secret-film" not in (tmp_path / PLAIN).read_bytes()
    store.close()
