"""Formulas as MathML, made when the site is built: no script in the pages. A mkdocs hook.

`$…$` stands in a line, `$$…$$` by itself; both hold LaTeX, as GitHub reads it, too. A dollar that
is followed by a blank, or stands in code, is a dollar.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

BY_ITSELF = r"\$\$(.+?)\$\$"
IN_A_LINE = r"(?<![\\$\w])\$(?=[^\s$])([^$]*?[^\s\\$])\$(?![\w$])"


class Formula(InlineProcessor):
    """One kind of formula, out of the reach of emphasis and of escapes."""

    def __init__(self, pattern: str, md: Markdown, display: str) -> None:
        super().__init__(pattern, md)
        self.compiled_re = re.compile(pattern, re.DOTALL)
        self.display = display

    def handleMatch(self, m: re.Match[str], _: str) -> tuple[str, int, int]:  # type: ignore[override]
        made = convert(" ".join(m[1].split()), display=self.display)
        if self.display == "block":
            made = f'<span class="formula">{made}</span>'
        return self.md.htmlStash.store(made), m.start(0), m.end(0)


class Maths(Extension):
    """After code (190), before escapes (180) and emphasis."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(Formula(BY_ITSELF, md, "block"), "formula", 188)
        md.inlinePatterns.register(Formula(IN_A_LINE, md, "inline"), "formula in a line", 187)


def on_config(config: Any) -> Any:
    """Have mkdocs read formulas."""
    config.markdown_extensions.append(Maths())
    return config
