"""Make what the docs show of figures and code: tables, two whole pages, plots and the layers.

    python docs/build.py                    everything but the picture of the client
    python docs/build.py capacity layers    only these
    python docs/build.py --check            only say what is stale; exit status 1 if anything is
    python docs/build.py compare --from lists.json     take over a run of `epicrec compare`
    python docs/build.py reproduction --from out       … of `epicrec reproduce all --output out`
    python docs/build.py picture            client.png, with chromium; never part of everything
    python docs/build.py sizes [PATH …]     lines and modules of checkouts, side by side

A second or two for everything. Figures are in docs/figures; tables.py says what measures them.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WHAT = {
    "audit": ("tables", "plots"),
    "capacity": ("tables",),
    "client": ("tables",),
    "compare": ("pages", "plots"),
    "epicrec": ("tables",),
    "reproduction": ("pages",),
    "server": ("tables",),
    "plots": ("plots",),  # from the tables of the pages, so after them
    "layers": ("pictures",),
}
"""What can be made, and the modules beside this one with a function of that name."""


def build(names: list[str], check: bool) -> int:
    """Write what is stale and say so; with `check` only say so. How much was stale."""
    stale = 0
    for name in names:
        for module in WHAT[name]:
            for file, update in getattr(import_module(module), name)().items():
                path = HERE / file
                text = path.read_text("utf-8") if path.exists() else ""
                made = update(text)
                if made == text:
                    continue
                stale += 1
                print(f"{file} is stale: python docs/build.py {name}" if check else f"wrote {file}")
                if not check:
                    path.write_text(made, "utf-8")
    return stale


def take(name: str, run: Path) -> None:
    """Take over the results of a run into docs/figures."""
    pages: Any = import_module("pages")
    takers = {"compare": pages.take_comparison, "reproduction": pages.take_reproduction}
    if name not in takers:
        raise SystemExit(f"{name} is not made from a run; --from goes with compare or reproduction")
    takers[name](run)


def sizes(checkouts: list[Path]) -> str:
    """Lines and modules by package, tests and scripts: a table with two columns a checkout."""
    rows: dict[str, dict[Path, tuple[int, int]]] = {}
    for checkout in checkouts:
        parts: dict[str, list[Path]] = defaultdict(list)
        package = checkout / "src" / "epicrec"
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package).parts
            parts[inside[0] if len(inside) > 1 else "(single modules)"].append(path)
        parts["src, all"] = [path for found in parts.values() for path in found]
        for folder in ("tests", "benchmarks", "docs", "examples"):
            parts[folder] = [*(checkout / folder).rglob("*.py")]
        parts["extension (js)"] = [*(checkout / "extension").rglob("*.js")]
        for name, files in parts.items():
            lines = sum(len(path.read_text("utf-8").splitlines()) for path in files)
            rows.setdefault(name, {})[checkout] = lines, len(files)
    ends = ("src, all", "tests", "benchmarks", "docs", "examples", "extension (js)")
    order = [*sorted(rows.keys() - {*ends}), *ends]
    heads = [f"{what}, {checkout}" for checkout in checkouts for what in ("lines", "modules")]
    table = [["", *heads], ["---"] * (1 + len(heads))]
    for name in order:
        counts = [count for one in checkouts for count in rows[name].get(one, (0, 0))]
        table.append([name, *(f"{count:,}" for count in counts)])
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*WHAT, "picture"]))
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--from", dest="runs", type=Path, action="append", default=[])
    given = parser.parse_args()
    if given.names[:1] == ["sizes"]:
        print(sizes([Path(name) for name in given.names[1:]] or [HERE.parent]))
        return 0
    if given.names == ["picture"]:
        import_module("pictures").take_picture()
        return 0
    if unknown := [name for name in given.names if name not in WHAT]:
        parser.error(f"there is no {unknown[0]!r}; choose from {', '.join([*WHAT, 'picture'])}")
    for run in given.runs:
        take(given.names[0] if given.names else "", run)
    stale = build([name for name in WHAT if name in (given.names or WHAT)], given.check)
    return int(given.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
