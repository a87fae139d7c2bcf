"""How often the extension is right about the labelled pages.

The sealed sets are opened for a final figure only, when told to, and judged by two numbers alone.
"""

from __future__ import annotations

import os
import shutil

import pytest

from extension.labelled import OPEN, SCRIPTS, SEALED, judge_pages, read
from loopback import PATIENCE

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed (apt-get install chromium)", allow_module_level=True)

final = pytest.mark.skipif(
    not os.environ.get("EPICREC_SEALED"),
    reason="the sealed pages are for a final figure: set EPICREC_SEALED=1 for that alone",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [OPEN, *(pytest.param(one, marks=final) for one in SEALED)])
def test_precision_and_recall(name: str) -> None:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"],
            timeout=PATIENCE * 1000,
        )  # fmt: skip
        page = browser.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.evaluate(SCRIPTS + "\n;0")
        found = judge_pages(page, *read(name))
        browser.close()
    precision, recall, wrong = found.precision, found.recall, found.wrong
    print(f"{name}: precision {precision:.3f}, recall {recall:.3f}, {found.reports} reports")
    assert precision >= 0.98, wrong if name == OPEN else "of the sealed ones"
    assert recall >= 0.9, wrong if name == OPEN else "of the sealed ones"
