"""The worked example, a package of two files, beside the wheel in an environment of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from distributions import ROOT, build, clean_environment, tracked

EXAMPLE = "examples/epicrec-example"
HISTORY = "item_id\n" + "\n".join(["alien-1979", "up-2009", "the-matrix-1999", "heat-1995"])

ON_A_DEVICE = """
import json, sys, threading, time
from pathlib import Path
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.device import Device
from epicrec.client.sending.remote import Remote
from epicrec.data import load_dataset
from epicrec.server import Settings
from epicrec.server.main import make_server

folder = Path(sys.argv[1])
server = make_server(
    Settings(data=str(folder / "server"), catalogue="films", http=True, port=0, train_every=0)
)
thread = threading.Thread(target=server.run, daemon=True)
thread.start()
while not server.started:
    assert thread.is_alive()
    time.sleep(0.01)
url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
films = load_dataset("films").catalogue
device = Device(folder / "device", films, server=url)
device.example()
device.choose(Choice(mechanism="coins", strength="balanced"))
drawn = device.draw()
recorded = [entry.about for entry in device.ledger.entries()]
sent = device.send(drawn.id)
account = device.account
remote = Remote(url, key=account["secret"])
held = sorted(row.ItemId for row in remote.feedback(account["user_id"]))
print(json.dumps({"release": drawn.release.to_dict(), "recorded": recorded, "state": sent.state,
                  "held": held, "limit": device.ledger.limit_epsilon}))
remote.close()
device.close()
server.should_exit = True
thread.join()
"""


class Place:
    """An environment with the two wheels and, for all they need, the running one's packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", symlinks=True)
        self.bin = folder / "venv" / "bin"
        wheels = [
            *build(".", folder / "epicrec", "wheel"),
            *build(EXAMPLE, folder / "example", "wheel"),
        ]
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python")]
        self._run([*pip, "install", "-q", "--no-deps", "--no-index", *map(str, wheels)])
        (site,) = (folder / "venv").glob("lib/python*/site-packages")
        (site / "beside.pth").write_text(sysconfig.get_path("purelib"))
        self.history = folder / "mine.csv"
        self.history.write_text(HISTORY)

    def python(self, *arguments: str) -> str:
        return self._run([str(self.bin / "python"), *arguments])

    def epicrec(self, *arguments: str, ends: tuple[int, ...] = (0,)) -> dict[str, Any]:
        said = self._run([str(self.bin / "epicrec"), *arguments, "--json"], ends)
        answer: dict[str, Any] = json.loads(said)
        return answer

    def _run(self, command: list[str], ends: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, env=clean_environment()
        )
        assert done.returncode in ends, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


def test_two_files_are_all_it_takes() -> None:
    assert {Path(name).name for name in tracked(EXAMPLE)} == {
        "pyproject.toml",
        "epicrec_example.py",
    }


def test_the_wheel_is_what_runs(place: Place) -> None:
    code = "import epicrec, epicrec_example as own; print(epicrec.__file__, own.__file__)"
    assert all(path.startswith(str(place.folder)) for path in place.python("-c", code).split())


def test_it_is_listed_with_its_package(place: Place) -> None:
    rows = {row["method"]: row for row in place.epicrec("methods")["methods"]}
    assert {rows[name]["package"] for name in ("kindred", "coins")} == {"epicrec-example"}
    assert (rows["kindred"]["kind"], rows["kindred"]["task"]) == ("model", "lists")
    assert [rows["coins"][name] for name in ("kind", "unit", "status")] == [
        "perturber",
        "item",
        "proved",
    ]


def test_it_is_evaluated_and_better_than_popularity(place: Place) -> None:
    own, plain = (
        place.epicrec("evaluate", name, "--protocol", "topn")["metrics"]["ndcg"]
        for name in ("kindred", "popularity")
    )
    assert own > plain


def test_it_is_fitted_saved_loaded_and_ranks(place: Place) -> None:
    made = place.epicrec("fit", "kindred", "own.npz", "--set", "shared=3")
    assert made["method"] == "kindred"
    ranked = place.epicrec("recommend", "own.npz", "--history", str(place.history), "-n", "5")
    items = [row["item_id"] for row in ranked["items"]]
    assert len(items) == 5
    assert not {*items} & {*HISTORY.split()}
    assert ranked["guarantee"]["status"] == "none"


def test_it_alters_a_history(place: Place) -> None:
    release = place.epicrec("perturb", "coins", "--history", str(place.history), "-e", "2")
    assert release["method"] == "coins"
    assert release["guarantee"]["epsilon"] == release["settings"]["epsilon"] == 2
    assert release["items"]


def test_its_audit_holds(place: Place) -> None:
    """A bound that is 95 % sure lies above the truth now and then, but not by half: nine standard
    deviations here."""
    found = place.epicrec("audit", "coins", "--runs", "4000", ends=(0, 1))
    assert found["lower_bound"] < 1.5
    assert found["lower_bound"] > 0.1, "an audit that sees nothing would hold for anything"


def test_a_device_records_and_sends_its_release(place: Place) -> None:
    seen = json.loads(place.python("-c", ON_A_DEVICE, str(place.folder)).splitlines()[-1])
    release = seen["release"]
    assert release["method"] == "coins"
    assert len(seen["recorded"]) == 1
    assert "coins, with noise" in seen["recorded"][0]
    assert seen["state"] == "sent"
    assert seen["held"] == sorted(release["items"])


def test_it_keeps_the_contracts_as_the_guide_shows(place: Place) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (tests,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    (place.folder / "test_contracts.py").write_text(tests)
    said = place.python("-m", "pytest", "-q", "-W", "error", "test_contracts.py")
    assert re.search(r"^\d\d passed", said, re.MULTILINE), said
