"""The audit of dependencies never says that all is well where nothing was looked up."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from distributions import ROOT

FINE = {"name": "one", "version": "1", "vulns": []}
KNOWN = {
    "name": "two",
    "version": "2",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}],
}
SKIPPED = {"name": "three", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("rows", "ends", "says"),
    [
        ([], 0, "NOT AUDITED"),
        ([SKIPPED], 0, "NOT AUDITED"),
        ([FINE], 0, "1 packages looked up, 0 known"),
        ([FINE, SKIPPED], 0, "not looked up: three"),
        ([FINE, KNOWN], 1, "two 2: CVE-1, fixed in 3"),
    ],
)
def test_what_is_said(
    rows: list[dict[str, Any]], ends: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = runpy.run_path(str(ROOT / ".ci" / "audit_deps.py"))["told"]
    assert told(rows) == ends
    said = capsys.readouterr().out
    assert says in said
    assert ("looked up, " in said) != ("NOT AUDITED" in said)
