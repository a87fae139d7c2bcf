"""The planted faults are those of the code as it is: `make mutants` itself takes long."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "mutants"
FAULTS = runpy.run_path(str(HERE / "faults.py"))


@pytest.mark.parametrize("fault", FAULTS["NAMED"], ids=lambda fault: fault.name)
def test_a_named_fault_can_be_planted(fault) -> None:
    text = (HERE.parents[1] / FAULTS["SOURCES"] / fault.file).read_text("utf-8")
    assert text.count(fault.old) == 1
    assert fault.old != fault.new
