"""Write what `make audit` found (audit.json, attacks.json) into the pages: no figure by hand.

In audit.md the tables between `<!-- rows -->`, `<!-- attacks -->` and `<!-- end -->`; in any page
what stands between `<!--NAME-->` and `<!---->`, where NAME is a row of the table.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGES = ("audit.md", "privacy.md")


def written(text: str) -> str:
    """A page with the figures of the files beside it."""
    rows = json.loads((HERE / "audit.json").read_text("utf-8"))["rows"]
    attacks = json.loads((HERE / "attacks.json").read_text("utf-8"))["attacks"]
    by_name = {row["method"]: row for row in rows}
    text = re.sub(
        r"<!--([^-<>!]+(?:-[^-<>!]+)*)-->[^<]*<!---->",
        lambda found: f"<!--{found[1]}-->{_short(by_name[found[1]])}<!---->",
        text,
    )
    text = _between(text, "rows", _table(
        ["method", "unit", "claimed", "found", "share", "runs each", "the two worlds"],
        [
            [
                row["method"], row["unit"], f"{row['measure']} {row['claimed']:.3g}",
                f"{row['lower_bound']:.3g}", f"{row['share']:.2f}" if row["holds"]
                else f"**{row['share']:.2f}**", f"{row['runs']:,}", row["neighbours"],
            ]
            for row in rows
        ],
    ))  # fmt: skip
    return _between(text, "attacks", _table(
        ["attack", "against", "method", "advantage", "95 % interval", "tries"],
        [
            [
                row["attack"], row["against"], row["method"], f"{row['advantage']:.2f}",
                f"{row['low']:.2f} to {row['high']:.2f}", str(row["tries"]),
            ]
            for row in attacks
        ],
    ))  # fmt: skip


def _short(row: dict[str, object]) -> str:
    return f"{row['lower_bound']:.2f} / {row['claimed']:.3g} ({row['measure']})"


def _between(text: str, name: str, table: str) -> str:
    return re.sub(
        rf"(<!-- {name} -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{table}\n{found[2]}",
        text,
        flags=re.DOTALL,
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |\n" for line in lines)


def main() -> int:
    """Write the pages; with --check only say whether they are as they would be written."""
    stale = 0
    for name in PAGES:
        page = HERE / name
        text = page.read_text("utf-8")
        if (made := written(text)) != text:
            stale += 1
            print(f"{name}: {'is out of date' if '--check' in sys.argv else 'written'}")
            if "--check" not in sys.argv:
                page.write_text(made, "utf-8")
    return int(stale and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
