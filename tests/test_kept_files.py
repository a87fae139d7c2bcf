"""Files that users have open in this version, and hold what they held.

`tests/kept/make.py` makes a folder with small files of every kind. Here the present code makes
one and opens it. From 1.0.0 on, the folders kept of released versions are opened too.
"""

from __future__ import annotations

import json
import math
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from epicrec import BudgetExceededError, Ledger
from epicrec.client.device import Device
from epicrec.client.main import bring
from epicrec.client.sending.remote import Remote
from epicrec.client.store import LockedError
from epicrec.client.vault import WrongPassphraseError
from epicrec.server import serve
from kept import make

KEPT = Path(make.__file__).parent
PRESENT = "present"
VERSIONS = [PRESENT, *sorted(path.parent.name for path in KEPT.glob("*/expected.json"))]


@pytest.fixture(scope="module", params=VERSIONS)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version; the present one is made now."""
    if request.param != PRESENT:
        return KEPT / request.param
    folder = tmp_path_factory.mktemp("kept") / PRESENT
    make.make(folder)
    return folder


@pytest.fixture
def version(kept: Path, tmp_path: Path) -> Path:
    """A copy: opening may write."""
    return shutil.copytree(kept, tmp_path / kept.name)


@pytest.fixture
def expected(version: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((version / "expected.json").read_text("utf-8"))
    return found


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    """All that was expected is there, numbers to seven digits; newer versions may say more."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{where}: {found!r}, not a mapping"
        assert expected.keys() <= found.keys(), f"{where}: {expected.keys() - found.keys()} missing"
        for name, value in expected.items():
            assert_same(found[name], value, f"{where}.{name}")
    elif where.endswith(".assumes"):
        assert set(expected) <= set(found), f"{where}: an assumption is gone"
    elif isinstance(expected, list):
        assert len(found) == len(expected), f"{where}: {len(found)}, not {len(expected)}"
        for at, value in enumerate(expected):
            assert_same(found[at], value, f"{where}[{at}]")
    elif isinstance(expected, float):
        close = math.isclose(found, expected, rel_tol=1e-7, abs_tol=1e-9)
        assert close, f"{where}: {found!r}, not {expected!r}"
    else:
        assert found == expected, f"{where}: {found!r}, not {expected!r}"


# ---- the device ---------------------------------------------------------------------------


def test_client_store_opens_and_opens_again(version: Path, expected: dict[str, Any]) -> None:
    films = make.films_of(version)
    for _ in range(2):
        assert_same(make.client_contents(version / "client", films), expected["client"])


def test_sealed_store(version: Path, expected: dict[str, Any]) -> None:
    films = make.films_of(version)
    with pytest.raises(LockedError):
        make.client_contents(version / "sealed", films)
    with pytest.raises(WrongPassphraseError):
        make.client_contents(version / "sealed", films, make.PASSPHRASE + "?")
    found = make.client_contents(version / "sealed", films, make.PASSPHRASE)
    assert_same(found, expected["client"])


def test_export_moves_to_another_machine(
    version: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    """All but the fetched model, which the server has."""
    bring(tmp_path / "moved", version / "everything.zip")
    found = make.client_contents(tmp_path / "moved", make.films_of(version))
    assert_same(found, expected["client"] | {"model": None})


def test_releases_cover_every_mechanism_and_state(version: Path, expected: dict[str, Any]) -> None:
    """The other tests rely on this: one drawn release was finished, some are sent, some wait."""
    found = make.client_contents(version / "client", make.films_of(version))
    finished = {entry[0].split(":")[0] for entry in found["entries"]}
    before = {entry["about"].split(":")[0] for entry in expected["ledger"]["entries"]}
    assert len(finished - before) == 1
    assert {release["state"] for release in found["releases"]} == {"recorded", "sent"}
    used = {release["choice"]["mechanism"] for release in found["releases"]}
    assert used == {"randomised-response", "epicrec", "d2p"}
    assert any(odds["sent_as_it_is"] for odds in found["odds"])


def test_recorded_release_is_sent_as_it_was_drawn(version: Path) -> None:
    """The same bytes, under the same account, to the same server."""
    with make.serving(version / "server") as (url, _):

        def dial(_: str, **options: Any) -> Remote:
            return Remote(url, **options)

        with closing(Device(version / "client", make.films_of(version), dial=dial)) as device:
            (waiting, *_) = device.releases.unsent()
            sent = device.send(waiting.id)
            account = device.account
            assert account is not None
            held = dial(url, key=account["secret"])
            rows = {row.ItemId: row.Value for row in held.feedback(account["user_id"])}
            held.close()
    assert sent.state == "sent"
    assert sent.payload == waiting.payload
    assert sent.release.items
    assert rows.items() >= dict(zip(sent.release.items, sent.release.values, strict=True)).items()


# ---- the ledger ---------------------------------------------------------------------------


def test_ledger(version: Path, expected: dict[str, Any]) -> None:
    path, limit = version / "client" / "ledger.jsonl", expected["client"]["limit"]
    assert_same(make.ledger_contents(path, limit_epsilon=limit), expected["ledger"])


def test_ledger_continues(version: Path, expected: dict[str, Any]) -> None:
    """What was spent still counts against the limit, and new lines follow the old ones."""
    path = version / "client" / "ledger.jsonl"
    spent = expected["ledger"]["total"]["item"]["epsilon"]
    book = Ledger(path, limit_epsilon=spent + 0.5)
    promise = book.total()["item"]
    with pytest.raises(BudgetExceededError):
        book.spend(promise, about="once more")
    Ledger(path, limit_epsilon=2 * spent + 1).spend(promise, about="once more")
    after = make.ledger_contents(path, limit_epsilon=2 * spent + 1)
    assert_same(after["entries"][:-1], expected["ledger"]["entries"])
    assert after["total"]["item"]["epsilon"] == pytest.approx(2 * spent)


# ---- models and releases in files ---------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "read"), [("models", make.model_contents), ("releases", make.release_contents)]
)
def test_files_of_the_library(
    version: Path, expected: dict[str, Any], kind: str, read: Any
) -> None:
    found = {path.stem: read(path) for path in (version / kind).iterdir()}
    assert_same(found, expected[kind], kind)


# ---- the server ---------------------------------------------------------------------------


def test_server_folder(version: Path, expected: dict[str, Any]) -> None:
    found = make.server_contents(version / "server", make.films_of(version))
    assert_same(found, expected["server"])


def test_server_from_backup(version: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    done = serve(restore=version / "backup", data=str(tmp_path / "restored"))
    assert done["rows"]["users"] == expected["server"]["counts"]["users"]
    assert done["rows"]["feedback"] == expected["server"]["counts"]["feedback"]
    found = make.server_contents(tmp_path / "restored", make.films_of(version))
    assert_same(found, expected["server"])
