"""What was spent stays spent: another catalogue, a copy from elsewhere, an erased device."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from client.conftest import Pages, Served
from epicrec.client.device import Device
from epicrec.client.main import bring
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.store import PLAIN, SEALED, LockedError
from epicrec.client.vault import WrongPassphraseError
from epicrec.data import Catalogue
from epicrec.errors import InputError

PHRASE = "four words are better"


def total(device: Device) -> float:
    return device.ledger.total()["item"].epsilon


def renumbered(films: Catalogue) -> Catalogue:
    """The same films under other ids, as another list has them."""
    table = films.to_table()
    ids = [f"m{k}" for k in range(table.num_rows)]
    return Catalogue.from_table(table.set_column(0, "item_id", [ids]))


def test_a_film_is_counted_once_whatever_list_it_stands_in(
    tmp_path: Path, films: Catalogue, served: Served
) -> None:
    with closing(Device(tmp_path, films, server=served.url)) as device:
        device.choose(Choice(strength="recommended"))
        device.set_limit(100)
        device.history.add([str(i) for i in films.item_ids[:30]])
        device.draw()
        assert total(device) == 1
    with closing(Device(tmp_path, renumbered(films), server=served.url)) as device:
        device.history.add([f"m{k}" for k in range(30)])  # in the order of the films' own ids
        assert device.outlook().fresh == 0, "known again by title and year"
        assert device.outlook().counted == 30
        for _ in range(4):
            device.draw()
            assert total(device) == 2, "nobody is sure of it: a new draw adds, once for this list"
        device.choose(Choice(strength="weak"))
        for _ in range(2):
            device.draw()
            # what was added (1 and 3), and the dearest of what shares no film (1, then 3)
            assert total(device) >= 1 + 3, "a dearer one adds again"
    with closing(Device(tmp_path, films, server=served.url)) as device:
        before = total(device)
        device.draw()
        assert total(device) > before, "the first list again: what the second counted may be in it"


@pytest.mark.parametrize(
    ("strengths", "spent"),
    [(("recommended", "weak"), [2.0, 5.0]), (("weak", "recommended"), [4.0, 4.0])],
)
def test_a_later_list_adds_a_release_unless_one_that_cost_as_much_was_added(
    tmp_path: Path, films: Catalogue, served: Served, strengths: tuple[str, str],
    spent: list[float],
) -> None:  # fmt: skip
    """Recommended costs ε = 1 and weak 3. What is added for the one does not pay for the other."""
    with closing(Device(tmp_path, films, server=served.url)) as device:
        device.set_limit(100)
        device.choose(Choice(strength="recommended"))
        device.history.add([str(i) for i in films.item_ids[:30]])
        device.draw()
        assert total(device) == 1
    with closing(Device(tmp_path, renumbered(films), server=served.url)) as device:
        for strength, ledger_says in zip(strengths, spent, strict=True):
            device.choose(Choice(strength=strength))
            device.draw()
            assert total(device) == ledger_says, strength


def test_a_film_stays_counted_when_its_list_learns_its_title(
    tmp_path: Path, films: Catalogue, served: Served
) -> None:
    ids = [str(i) for i in films.item_ids]
    nameless = films.to_table().set_column(1, "title", [["", *films.titles.tolist()[1:]]])
    assert nameless.column_names == films.to_table().column_names
    with closing(Device(tmp_path, Catalogue.from_table(nameless), server=served.url)) as device:
        device.history.add(ids[:1])
        device.draw()
        assert device.outlook().counted == 1
    with closing(Device(tmp_path, films, server=served.url)) as device:
        assert (device.outlook().counted, device.outlook().fresh) == (1, 0)


def exported(device: Device, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PLAIN, device.store.copy())
        archive.writestr("ledger.jsonl", (device.folder / "ledger.jsonl").read_bytes())
    return path


def test_an_old_copy_does_not_roll_back(tmp_path: Path, films: Catalogue, served: Served) -> None:
    with closing(Device(tmp_path / "a", films, server=served.url)) as device:
        device.history.add([str(i) for i in films.item_ids[:30]])
        device.draw()
        one = total(device)
        packed = exported(device, tmp_path / "old.zip")
        device.draw(everything=True)
        spent = len(device.ledger.entries())
        device.erase()
        assert device.history.items() == []
        assert total(device) == pytest.approx(2 * one), "the ledger outlives what it is about"
        device.history.add([str(i) for i in films.item_ids[:30]])
        device.accounts.use(served.url)
        device.draw()
        assert total(device) == pytest.approx(3 * one), "counted again, and added"
    (tmp_path / "a" / PLAIN).unlink()
    bring(tmp_path / "a", packed)
    with closing(Device(tmp_path / "a", films)) as device:
        assert len(device.ledger.entries()) == spent + 1, "merged, nothing twice, nothing forgotten"
        assert total(device) == pytest.approx(3 * one)
        assert device.outlook().counted == 30
        device.draw()
        assert total(device) == pytest.approx(4 * one)
    bring(tmp_path / "b", packed)
    with closing(Device(tmp_path / "b", films)) as device:
        assert total(device) == pytest.approx(one)
        device.draw()
        assert total(device) == pytest.approx(2 * one), "the copy does not know the rest"
        device.draw()
        assert total(device) == pytest.approx(2 * one)


def test_a_damaged_ledger_is_not_brought(tmp_path: Path, films: Catalogue) -> None:
    with closing(Device(tmp_path / "a", films)) as device:
        packed = tmp_path / "x.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(PLAIN, device.store.copy())
            archive.writestr("ledger.jsonl", b'{"epsilon": 0}\n')
    with pytest.raises(Exception, match="altered or damaged"):
        bring(tmp_path / "b", packed)
    assert not (tmp_path / "b" / PLAIN).exists()


# ---- the pages ----------------------------------------------------------------------------


def test_erasing_says_what_stays_and_what_is_forgotten(pages: Pages, publishing: Served) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    pages.http.post(f"/release/{stored.id}/send")
    account = dict(pages.device.account or {})
    assert "without your name there you can no longer" in pages.http.get("/data").text
    gone = pages.http.post("/data/erase", data={"sure": "yes"})
    assert "stays spent" in gone.text
    assert f"{publishing.url} was not told and still holds what was sent" in gone.text
    assert pages.device.history.count() == 0
    assert pages.device.ledger.entries()
    forgotten = pages.http.post("/data/erase", data={"sure": "yes", "ledger": "yes"})
    assert "still counts" in forgotten.text
    assert not pages.device.ledger.entries()
    assert publishing.rows_of(account), "it really still holds them"


def test_delete_there_then_here(pages: Pages, publishing: Served) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    pages.http.post(f"/release/{stored.id}/send", data={"again": "yes"})
    account = dict(pages.device.account or {})
    assert publishing.rows_of(account)
    gone = pages.http.post("/data/erase", data={"sure": "yes", "there": "yes"})
    assert "confirmed it" in gone.text
    assert "still holds" not in gone.text
    assert not publishing.rows_of(account)
    assert pages.device.history.count() == 0


def test_nothing_is_deleted_here_where_the_server_does_not_confirm(pages: Pages) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    pages.http.post(f"/release/{stored.id}/send")
    named = pages.device.accounts.named[0]
    pages.device.store.set(servers={named["url"]: {**named, "secret": "wrong"}})
    films = pages.device.history.count()
    refused = pages.http.post("/data/erase", data={"sure": "yes", "there": "yes"})
    assert refused.status_code == 400
    assert pages.device.history.count() == films


def test_nothing_is_scheduled_that_was_not_asked_for(pages: Pages) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    pages.http.post(f"/release/{stored.id}/send")
    assert pages.device.store.setting("schedule")["every"] == "never"


def test_after_a_deletion_there_nothing_registers_by_itself(pages: Pages) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    pages.http.post(f"/release/{stored.id}/send", data={"again": "yes"})
    assert pages.device.store.setting("schedule")["every"] == "every three months"
    pages.http.post("/data/forget-there")  # unsure
    assert pages.device.store.setting("schedule")["every"] == "every three months"
    pages.http.post("/data/forget-there", data={"sure": "yes"})
    assert pages.device.store.setting("schedule")["every"] == "never"
    for path in ("/for-you", "/learned?look=1", "/server", "/data", "/preview"):
        pages.http.get(path)
    pages.http.post("/for-you/refresh")
    pages.http.post("/preview/draw")
    assert pages.device.accounts.named == []
    assert "This device has no name there" in pages.http.get("/server").text


def test_an_export_can_be_sealed(pages: Pages, tmp_path: Path, films: Catalogue) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (stored,) = pages.device.releases.unsent()
    pages.http.post(f"/release/{stored.id}/send")
    secret = (pages.device.account or {})["secret"].encode()
    plain = pages.http.get("/data/everything.zip").content
    assert "can speak to the server in your name" in pages.http.get("/data").text
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        assert secret in archive.read(PLAIN), "which is why the page says so"
    differ = {"passphrase": PHRASE, "again": "another"}
    assert pages.http.post("/data/everything", data=differ).status_code == 400
    short = {"passphrase": "short", "again": "short"}
    assert pages.http.post("/data/everything", data=short).status_code == 400
    answer = pages.http.post("/data/everything", data={"passphrase": PHRASE, "again": PHRASE})
    assert secret not in answer.content
    packed = tmp_path / "epicrec-everything.sealed"
    packed.write_bytes(answer.content)
    with pytest.raises(WrongPassphraseError):
        bring(tmp_path / "moved", packed, lambda _: "not this one")
    bring(tmp_path / "moved", packed, lambda _: PHRASE)
    assert (tmp_path / "moved" / SEALED).exists(), "what was sealed stays sealed"
    with pytest.raises(LockedError):
        Device(tmp_path / "moved", films)
    with closing(Device(tmp_path / "moved", films, passphrase=PHRASE)) as device:
        assert device.history.items() == pages.device.history.items()
        assert [e.about for e in device.ledger.entries()] == [
            e.about for e in pages.device.ledger.entries()
        ]
        assert json.loads(device.releases.all()[0].payload)
    with pytest.raises(InputError, match="already"):
        bring(tmp_path / "moved", packed, lambda _: PHRASE)
