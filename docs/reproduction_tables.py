"""Write docs/reproduction.md from what `epicrec reproduce all` found: no figure by hand.

epicrec reproduce all --output out
python docs/reproduction_tables.py out      # takes the parts that are finished there, and their
                                            # plots, over; writes the page
python docs/reproduction_tables.py --check  # says whether the page is as it would be written
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from epicrec.papers import papers_of
from epicrec.papers.report import markdown

HERE = Path(__file__).parent
PAGE, PARTS, PLOTS = HERE / "reproduction.md", HERE / "reproduction.json", HERE / "reproduction"


def page() -> str:
    return markdown(papers_of("all"), json.loads(PARTS.read_text("utf-8")), f"{PLOTS.name}/")


def take(folder: Path) -> None:
    """Finished parts of a run, with their plots, in the place of earlier ones."""
    kept = {part["name"]: part for part in json.loads(PARTS.read_text("utf-8"))}
    for path in (folder / "parts").glob("*.json"):
        part = json.loads(path.read_text("utf-8"))
        kept[part["name"]] = part
        for plot in (name for name in part["plots"] if name.endswith(".svg")):
            shutil.copy(folder / plot, PLOTS / plot)
    names = [part.name for paper in papers_of("all") for part in paper.parts]
    parts = [kept[name] for name in names]
    PARTS.write_text(json.dumps(parts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    used = {plot for part in parts for plot in part["plots"]}
    for plot in PLOTS.iterdir():
        if plot.name not in used:
            plot.unlink()


def main() -> int:
    if "--check" in sys.argv:
        fresh = page() == PAGE.read_text("utf-8")
        print("" if fresh else "reproduction.md is out of date")
        return int(not fresh)
    for folder in sys.argv[1:]:
        take(Path(folder))
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
