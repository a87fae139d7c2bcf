"""Tables of measured figures in a page, between `<!-- name -->` and `<!-- end -->`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

Rows = list[list[str]]


def filled(text: str, tables: dict[str, Rows]) -> str:
    """The text with each table at its place; the first row is the head."""
    for name, (head, *others) in tables.items():
        lines = "".join(f"| {' | '.join(r)} |\n" for r in [head, ["---"] * len(head), *others])
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda found, lines=lines: f"{found[1]}\n{lines}\n{found[2]}",
            text, flags=re.DOTALL,
        )  # fmt: skip
    return text


def write(page: Path, tables: dict[str, Rows]) -> int:
    """Fill the page, or with `--check` say whether it is as it would be written."""
    text = page.read_text("utf-8")
    made = filled(text, tables)
    if made == text:
        return 0
    check = "--check" in sys.argv
    print(f"{page.name}: {'is out of date' if check else 'written'}")
    if not check:
        page.write_text(made, "utf-8")
    return int(check)
