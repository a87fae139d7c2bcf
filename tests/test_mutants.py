"""What `make mutants` plants, and which tests it runs; the run itself takes long."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mutants.draw import draw
from mutants.faults import NAMED, Fault
from mutants.noticing import FIRST, NOT_DRAWN, Checkout

HERE = Checkout(Path(__file__).parents[1])
SOURCE = """
LIMIT = 5

@kept(1)
def chosen(values: list[int], most: int = 3) -> bool:
    if not values:
        raise InputError("none of " + str(7))
    assert len(values) > 0
    report("chosen", 8)
    total = -2 * (max(values) + 20)
    total += 1
    return a if total <= most and total is not None else f"{1 + 1}"
"""
FAULTS = {
    "most: int = 4", "if values:", "total = 2 * (max", "total = -3 * (max", "total = -2 / (max",
    "(min(values) + 20)", "(max(values) - 20)", "(max(values) + 40)", "total -= 1", "total += 2",
    "a if True or total <=", "total < most", "most or total", "total is None",
}  # fmt: skip


@pytest.mark.parametrize("fault", NAMED, ids=lambda fault: fault.name)
def test_a_named_fault_can_be_planted(fault: Fault) -> None:
    planted = fault.planted(HERE.sources)
    ast.parse(planted)
    assert planted != fault.place(HERE.sources).read_text("utf-8")


def test_a_fault_whose_text_has_changed_is_found() -> None:
    with pytest.raises(LookupError, match=r"0 times.*\n.*\nnearest: privacy/ledger\.py: class Led"):
        Fault("gone", "class Ledgers:", "").place(HERE.sources)
    with pytest.raises(LookupError, match=r"occurs \d+ times"):
        Fault("too often", "import numpy as np\n", "").place(HERE.sources)


def test_faults_are_drawn_from_functions_and_not_from_words(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(SOURCE, "utf-8")
    drawn = draw(module, 100)
    lines = SOURCE.splitlines()
    changed = [
        next(new for old, new in zip(lines, one.text.splitlines(), strict=True) if old != new)
        for one in drawn
    ]
    assert len(changed) == len(FAULTS)
    assert {words for words in FAULTS if not any(words in line for line in changed)} == set()


def test_a_fault_stays_drawn_when_its_module_moves(tmp_path: Path) -> None:
    names = []
    for number, before in enumerate(("", "import os\n\n\ndef other():\n    return 1 + 2\n")):
        module = tmp_path / f"{number}.py"
        module.write_text(before + SOURCE, "utf-8")
        names.append({one.name for one in draw(module, 100)})
    assert names[0] < names[1]
    assert [one.name for one in draw(module, 3)] == [one.name for one in draw(module, 100)][:3]


def test_the_nearest_tests_come_first(tmp_path: Path) -> None:
    files = {
        "src/epicrec/__init__.py": "",
        "src/epicrec/data/__init__.py": "from epicrec.data.splits import split",
        "src/epicrec/data/splits.py": "",
        "src/epicrec/evaluate/run.py": "from epicrec.data import split",
        "tests/helpers.py": "import epicrec.evaluate.run",
        "tests/data/test_splits.py": "",
        "tests/data/test_other.py": "",
        "tests/data/test_cut.py": "from epicrec.data import split",
        "tests/evaluate/test_run.py": "from epicrec.evaluate.run import run",
        "tests/test_more.py": "from helpers import x",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    made = Checkout(tmp_path)
    found = made.tests_of(tmp_path / "src/epicrec/data/splits.py")
    names = ["data/test_splits.py", "data/test_cut.py", "evaluate/test_run.py", "test_more.py"]
    assert [path.relative_to(made.tests).as_posix() for path in found] == names


def test_every_module_has_tests_that_should_notice() -> None:
    modules = HERE.modules()
    assert len(modules) > 200
    assert [module for module in modules if not HERE.tests_of(module)] == []


def test_tables_name_what_there_is() -> None:
    assert [part for part in (*FIRST, *NOT_DRAWN) if not (HERE.sources / part).exists()] == []
    tests = [name for names in FIRST.values() for name in names]
    tests += [name for fault in NAMED for name in fault.tests]
    assert [name for name in tests if not (HERE.root / name).exists()] == []
