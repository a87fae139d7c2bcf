"""Files held by one process at a time, on this system and on one without Linux's names."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epicrec.files import locked
from epicrec.privacy import Guarantee, Ledger

WORLDS = {
    "here": "",
    "elsewhere": "import warnings; warnings.simplefilter('ignore'); import elsewhere",
}

HOLDER = """
import sys
from pathlib import Path
from epicrec.files import locked

with locked(Path(sys.argv[1]), wait=sys.argv[2] == "wait"):
    print("held", flush=True)
    sys.stdin.readline()
"""

SPENDER = """
import sys
from epicrec.errors import BudgetExceededError
from epicrec.privacy import Guarantee, Ledger

ledger = Ledger(sys.argv[1], limit_epsilon=40.0)
guarantee = Guarantee(epsilon=1.0, unit="item", relation="add or remove one")
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        ledger.spend(guarantee, about=sys.argv[2])
        print("spent", flush=True)
except BudgetExceededError:
    pass
"""

EVERY_MODULE = """
import importlib, pkgutil, epicrec
for found in pkgutil.walk_packages(epicrec.__path__, "epicrec."):
    if not found.name.endswith("migrations.env"):  # only alembic runs it
        importlib.import_module(found.name)
        print(found.name)
"""


def start(world: str, code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORLDS[world] + code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_every_module_can_be_imported_elsewhere() -> None:
    found, errors = (process := start("elsewhere", EVERY_MODULE)).communicate()
    assert process.returncode == 0, errors
    assert {"epicrec.client.main", "epicrec.privacy.ledger", "epicrec.cli.app"} <= {*found.split()}


@pytest.mark.parametrize("name", ["fcntl", "resource"])
def test_elsewhere_lacks_the_names(name) -> None:
    process = start("elsewhere", f"\nimport os; print(hasattr(os, 'fork')); import {name}")
    said, errors = process.communicate()
    assert said == "False\n"
    assert process.returncode == 1
    assert "No module named" in errors
    importlib.import_module(name)  # here it is there


@pytest.mark.parametrize("world", WORLDS)
def test_a_second_process_is_refused_or_waits(world, tmp_path) -> None:
    file = tmp_path / "file"
    first = start(world, HOLDER, file, "wait")
    assert first.stdout.readline() == "held\n"
    refused = start(world, HOLDER, file, "refuse")
    _, errors = refused.communicate("\n")
    assert refused.returncode == 1
    assert f"BlockingIOError: another process holds {file}" in errors
    waits = start(world, HOLDER, file, "wait")
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(1)
    first.communicate("\n")
    assert waits.stdout.readline() == "held\n"
    waits.communicate("\n")
    assert (first.returncode, waits.returncode) == (0, 0)


@pytest.mark.parametrize("world", WORLDS)
def test_a_killed_process_lets_go(world, tmp_path) -> None:
    file = tmp_path / "file"
    killed = start(world, HOLDER, file, "wait")
    assert killed.stdout.readline() == "held\n"
    killed.kill()
    killed.communicate()
    after = start(world, HOLDER, file, "refuse")
    said, errors = after.communicate("\n")
    assert said == "held\n", errors


@pytest.mark.parametrize("world", WORLDS)
def test_processes_share_one_ledger(world, tmp_path) -> None:
    file = tmp_path / "ledger.jsonl"
    spenders = [start(world, SPENDER, file, name) for name in "ab"]
    for spender in spenders:
        assert spender.stdout.readline() == "ready\n"
    for spender in spenders:
        spender.stdin.write("\n")
        spender.stdin.flush()
    spent = [spender.communicate()[0].count("spent") for spender in spenders]
    assert sum(spent) == 40
    entries = Ledger(file, limit_epsilon=40.0).entries()
    assert [sum(entry.about == name for entry in entries) for name in "ab"] == spent
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.jsonl"]


def test_the_lock_is_on_the_file_itself_and_leaves_it_as_it_is(tmp_path) -> None:
    """So a process of the version before, which locked the same file, is kept out too."""
    import fcntl

    file = tmp_path / "file"
    file.write_bytes(b"what was there\n")
    with locked(file, wait=False) as handle, file.open("r+b") as other:
        assert os.read(handle, 100) == b"what was there\n"
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert file.read_bytes() == b"what was there\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become someone who may not write")
def test_a_ledger_in_a_folder_that_may_not_be_changed_is_read(tmp_path) -> None:
    file = tmp_path / "ledger.jsonl"
    guarantee = Guarantee(epsilon=1.0, unit="item", relation="add or remove one")
    Ledger(file, limit_epsilon=2.0).spend(guarantee, about="before")
    os.chown(file, 65534, 65534)
    tmp_path.chmod(0o555)
    code = (
        "import os, sys; from epicrec.privacy import Ledger; os.chdir(sys.argv[1]);"
        "os.setgid(65534); os.setuid(65534); assert not os.access('.', os.W_OK);"
        "print(len(Ledger('ledger.jsonl', limit_epsilon=2.0).entries()))"
    )
    said, errors = start("here", "\n" + code, tmp_path).communicate()
    assert said == "1\n", errors
