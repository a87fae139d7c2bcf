"""Formulas of the pages as a reader sees them: MathML, and every symbol there."""

from __future__ import annotations

import importlib.util
import re
from html import unescape
from types import ModuleType

import pytest

from distributions import ROOT

markdown = pytest.importorskip("markdown", reason="mkdocs is not installed")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
EXTENSIONS = ["admonition", "attr_list", "tables", "pymdownx.superfences", "pymdownx.highlight"]


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("maths", ROOT / "docs" / "maths.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MATHS = hook()


def built(source: str) -> str:
    return markdown.markdown(source, extensions=[*EXTENSIONS, MATHS.Maths()])


def formulas(html: str) -> list[str]:
    """The text of each formula, as it stands on the page."""
    found = re.findall(r"<math.*?</math>", html, re.S)
    return [unescape(re.sub(r"<[^>]+>", "", formula)) for formula in found]


def test_the_formulas_of_d2p_say_what_they_mean() -> None:
    shown = formulas(built((ROOT / "docs" / "d2p.md").read_text("utf-8")))
    assert "T(s,t)=p*[s=t]+(1−p*)(1−p)|G(s)|[t∈G(s)]+p(1−p*)N." in shown
    assert "ε≤ln(1+p*+(1−p)(1−p*)/|G|p(1−p*)/N)." in shown
    assert "ε=maxs,s′,tlnT(s,t)T(s′,t)." in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_nothing_of_a_formula_is_eaten_or_left(page) -> None:
    """No emphasis begins within a word, as where two stars of p* met; no dollar or backslash is
    left of a formula; whatever stands in code is as it was."""
    html = built(page.read_text("utf-8"))
    assert [text for text in formulas(html) if "\\" in text or not text] == []
    text = re.sub(r"<(math|code|pre|style)\b.*?</\1>", "", html, flags=re.S)
    assert re.findall(r"\w<em>.{0,40}", text) == []
    assert re.findall(r".{0,20}\$.{0,20}", text) == []


def test_a_dollar_is_a_dollar() -> None:
    html = built("Set `$HOME`, pay $ 5 or 6 $ and see $x_1 \\lt y$-values:\n\n$$a * b * c$$")
    assert formulas(html) == ["x1<y", "a*b*c"]
    assert "<code>$HOME</code>, pay $ 5 or 6 $ and" in html
    assert html.count('display="block"') == 1
    assert "<em>" not in html


def test_pages_load_no_script_for_formulas() -> None:
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "docs/maths.py" in settings
    assert "extra_javascript" not in settings
