"""The comparison of two versions' figures tells what moved from what did not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "figures.py"


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([0.9], [0.9 + 1e-12], "equal"),
        ([0.9], [0.9001], "moved"),
        ([1.0, 1.2, 1.1, 0.9], [1.0, 1.2, 1.1, 0.9], "equal"),
        ([1.0, 1.2, 1.1, 0.9], [1.1, 1.15, 0.95, 1.2], "within"),
        ([1.0, 1.2, 1.1, 0.9], [1.3, 1.5, 1.4, 1.2], "moved"),
        ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.01], "within"),
        ([1.0, 1.0, 1.0, 1.0], [1.01, 1.01, 1.01, 1.01], "moved"),
    ],
)
def test_verdict(figures: ModuleType, old: list[float], new: list[float], verdict: str) -> None:
    ((found, name, _),) = figures.compare({"a command": {"x": old}}, {"a command": {"x": new}})
    assert (found, name) == (verdict, "a command | x")


def test_what_only_one_version_has(figures: ModuleType) -> None:
    rows = figures.compare({"a": {"x": [1.0]}}, {"b": {"y": [1.0]}})
    assert [(verdict, name) for verdict, name, _ in rows] == [
        ("only old", "a | x"),
        ("only new", "b | y"),
    ]


def test_measures_a_command_and_finds_it_equal(tmp_path: Path) -> None:
    """One figure through the script as it is called, twice, and the comparison's exit status."""

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
        )

    chosen = ["--quick", "--seeds", "2", "--only", "perturb d2p"]
    for name in ("old.json", "new.json"):
        done = call(*chosen, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    same = call("--compare", tmp_path / "old.json", tmp_path / "new.json")
    assert same.returncode == 0, same.stdout
    measured = json.loads((tmp_path / "new.json").read_text("utf-8"))
    ((command, values),) = measured["figures"].items()
    values["items (how many)"] = [value + 100 for value in values["items (how many)"]]
    (tmp_path / "moved.json").write_text(json.dumps(measured), "utf-8")
    moved = call("--compare", tmp_path / "old.json", tmp_path / "moved.json")
    assert moved.returncode == 1
    assert f"moved     {command} | items (how many)" in moved.stdout
