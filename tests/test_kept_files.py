"""Files of earlier versions open in this one, and hold what they held.

`tests/kept/make.py` made them with the version they are named after, and wrote down what that
version saw in them.
"""

from __future__ import annotations

import json
import math
import runpy
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicrec import BudgetExceededError, Ledger
from epicrec.client.device import Device
from epicrec.client.main import bring
from epicrec.client.sending.remote import Remote
from epicrec.client.store import LockedError
from epicrec.client.vault import WrongPassphraseError
from epicrec.perturb import Release
from epicrec.server import serve
from kept import contents

KEPT = Path(__file__).parent / "kept"
VERSIONS = sorted(path.parent.name for path in KEPT.glob("*/expected.json"))
FILES = [
    (kind, version, path.stem)
    for version in VERSIONS
    for kind in ("models", "releases")
    for path in sorted((KEPT / version / kind).iterdir())
]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a version's files: opening may write."""
    return shutil.copytree(KEPT / request.param, tmp_path / request.param)


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


def test_the_version_before_is_kept() -> None:
    assert "0.1.0" in VERSIONS


@pytest.mark.slow
def test_files_of_this_version_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make.py` works whenever the next release comes, and what it writes is what is there."""
    made = tmp_path / "next"
    monkeypatch.syspath_prepend(KEPT)
    runpy.run_path(str(KEPT / "make.py"))["make"](made)
    expected = json.loads((made / "expected.json").read_text("utf-8"))
    films = contents.films_of(made)
    assert_same(contents.client(made / "client", films), expected["client"])
    assert_same(contents.server(made / "server", films), expected["server"])


# ---- the device ---------------------------------------------------------------------------


def test_client_store(version: Path, expected: dict[str, Any]) -> None:
    found = contents.client(version / "client", contents.films_of(version))
    assert_same(found, expected["client"])


def test_client_store_opens_again_after_this_version_wrote_to_it(
    version: Path, expected: dict[str, Any]
) -> None:
    films = contents.films_of(version)
    first = contents.client(version / "client", films)
    assert_same(contents.client(version / "client", films), json.loads(json.dumps(first)))
    assert_same(first, expected["client"])


def test_sealed_store(version: Path, expected: dict[str, Any]) -> None:
    films = contents.films_of(version)
    with pytest.raises(LockedError):
        contents.client(version / "sealed", films)
    with pytest.raises(WrongPassphraseError):
        contents.client(version / "sealed", films, contents.PASSPHRASE + "?")
    found = contents.client(version / "sealed", films, contents.PASSPHRASE)
    assert_same(found, expected["client"])


def test_export_moves_to_another_machine(
    version: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    """All but the fetched model, which the server has."""
    bring(tmp_path / "moved", version / "everything.zip")
    found = contents.client(tmp_path / "moved", contents.films_of(version))
    assert_same(found, expected["client"] | {"model": None})


def test_releases_cover_every_mechanism_and_state(version: Path, expected: dict[str, Any]) -> None:
    """What the other tests rest on: a drawn release was finished, some are sent, some wait."""
    found = contents.client(version / "client", contents.films_of(version))
    finished = {entry[0].split(":")[0] for entry in found["entries"]}
    before = {entry["about"].split(":")[0] for entry in expected["ledger"]["entries"]}
    assert len(finished - before) == 1
    assert {release["state"] for release in found["releases"]} == {"recorded", "sent"}
    assert {release["choice"]["mechanism"] for release in found["releases"]} == {"epicrec", "d2p"}
    assert any(odds["sent_as_it_is"] for odds in found["odds"])


def test_recorded_release_is_sent_as_it_was_drawn(version: Path) -> None:
    """The same bytes, under the old account, to the old server."""
    with contents.serving(version / "server") as (url, _):

        def dial(_: str, **options: Any) -> Remote:
            return Remote(url, **options)

        with closing(Device(version / "client", contents.films_of(version), dial=dial)) as device:
            (waiting, *_) = device.releases.unsent()
            sent = device.send(waiting.id)
            account = device.account
            assert account is not None
            held = dial(url, key=account["secret"])
            rows = {row.ItemId: row.Value for row in held.feedback(account["user_id"])}
            held.close()
    assert sent.state == "sent"
    assert sent.payload == waiting.payload
    for row in json.loads(waiting.payload):
        assert rows[row["ItemId"]] == row["Value"]


def test_release_can_be_made_out_to_another_account(version: Path) -> None:
    """The record of a release is enough to write it again: films, and how often each."""
    films = contents.films_of(version)
    with closing(Device(version / "client", films, dial=contents.nobody_there)) as device:
        for stored in device.releases.all():
            device.releases.readdress(stored.id, "another")
            again = device.releases.get(stored.id)
            sent = Release.from_dict(json.loads(again.payload)["Release"])
            rows = [(row["ItemId"], row["Value"]) for row in json.loads(stored.payload)]
            assert again.user_id == "another"
            assert rows == [*zip(sent.items, sent.values, strict=True)]


# ---- the ledger ---------------------------------------------------------------------------


def test_ledger(version: Path, expected: dict[str, Any]) -> None:
    path, limit = version / "client" / "ledger.jsonl", expected["client"]["limit"]
    assert_same(contents.ledger(path, limit_epsilon=limit), expected["ledger"])


def test_ledger_goes_on(version: Path, expected: dict[str, Any]) -> None:
    """What was spent still counts against the limit, and new lines follow the old ones."""
    path = version / "client" / "ledger.jsonl"
    spent = expected["ledger"]["total"]["item"]["epsilon"]
    book = Ledger(path, limit_epsilon=spent + 0.5)
    promise = book.total()["item"]
    with pytest.raises(BudgetExceededError):
        book.spend(promise, about="once more")
    Ledger(path, limit_epsilon=2 * spent + 1).spend(promise, about="once more")
    after = contents.ledger(path, limit_epsilon=2 * spent + 1)
    assert_same(after["entries"][:-1], expected["ledger"]["entries"])
    assert after["total"]["item"]["epsilon"] == pytest.approx(2 * spent)


# ---- models and releases in files ---------------------------------------------------------

LEARNED_ANEW = {"dpi-svd"}
"""Models whose file holds what was released, and which learn from it when they are read."""


@pytest.mark.parametrize(("kind", "version", "name"), FILES)
def test_file(kind: str, version: str, name: str) -> None:
    expected = json.loads((KEPT / version / "expected.json").read_text("utf-8"))[kind]
    read = {"models": contents.model, "releases": contents.release}[kind]
    (path,) = (KEPT / version / kind).glob(f"{name}.*")
    found, kept = read(path), expected[name]
    if name in LEARNED_ANEW:  # its scores are those of today's model of what was released
        for scores in ("newcomer", "known", "best"):
            assert np.abs(np.subtract(found[scores], kept.pop(scores))).max(initial=0) < 0.5
    assert_same(found, kept)


# ---- the server ---------------------------------------------------------------------------


def test_server_folder(version: Path, expected: dict[str, Any]) -> None:
    found = contents.server(version / "server", contents.films_of(version))
    assert_same(found, expected["server"])


def test_server_from_backup(version: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    done = serve(restore=version / "backup", data=str(tmp_path / "restored"))
    assert done["rows"]["users"] == expected["server"]["counts"]["users"]
    assert done["rows"]["feedback"] == expected["server"]["counts"]["feedback"]
    found = contents.server(tmp_path / "restored", contents.films_of(version))
    assert_same(found, expected["server"])
