"""Write docs/reproduction.md from what `epicrec reproduce all` found, and the tables in epicrec.md:
no figure by hand.

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
from typing import Any

from tables import Rows, write

from epicrec.papers import papers_of
from epicrec.papers.report import markdown

HERE = Path(__file__).parent
WAYS = {
    "lpa": "`lpa`", "gs": "`gs`", "as published": "as published", "default": "**default**",
    "prior alone": "prior alone",
}  # fmt: skip
LISTS = {
    "true_sent": "true history sent",
    "device": "ranked on the device, true history, published item model",
    "popularity": "popularity",
    "perturbed_sent": "release sent to a server trained on others' true histories",
    "everybody_perturbed": "everybody releases",
    "device_from_perturbed": "ranked on the device, item model learned from releases",
}
PAGE, PARTS, PLOTS = HERE / "reproduction.md", HERE / "reproduction.json", HERE / "reproduction"


def page() -> str:
    return markdown(papers_of("all"), json.loads(PARTS.read_text("utf-8")), f"{PLOTS.name}/")


def figures_of_epicrec() -> dict[str, Rows]:
    """The tables of epicrec.md: a row for each way, a column for each ε."""
    parts = {part["name"]: part for part in json.loads(PARTS.read_text("utf-8"))}
    losses = parts["epicrec-loss"]["tables"]["recommendation MAE loss"]
    lines = [
        [f"{row['data']}, {row['method']}", row["model"], row["way"], row["epsilon"],
         f"{100 * row['mae_loss']:.1f} %"]
        for row in losses
    ]  # fmt: skip
    totals = []
    for row in parts["epicrec-totals"]["tables"]["category MAE"]:
        case = f"{row['data']}, {row['method']}"
        totals += [
            [case, way, row["epsilon"], f"{row[name]:.{1 if row[name] >= 1 else 2}f}"]
            for name, way in WAYS.items()
        ]
        totals += [
            [
                f"{case}, below `lpa`",
                WAYS[name],
                row["epsilon"],
                f"{100 * row[f'{name} below lpa']:.0f} %",
            ]
            for name in ("as published", "default")
        ]
    lists = parts["epicrec-lists"]["tables"]["nDCG@10 and recall"]
    found = [f"{row['way']}, ε = {row['epsilon']:g}" for row in lists]
    return {
        "lists": [
            ["", *found],
            *(
                [what, *(f"{row[f'ndcg_{name}']:.3f}" for row in lists)]
                for name, what in LISTS.items()
            ),
        ],
        "totals": _by_epsilon(["data, method", "way"], totals),
        "losses": _by_epsilon(["data, method", "filter", "way"], lines),
    }


def _by_epsilon(names: list[str], lines: list[list[Any]]) -> Rows:
    """Lines that end in ε and a value as rows, in the order of the others."""
    budgets = sorted({line[-2] for line in lines})
    rows: dict[tuple[str, ...], dict[float, str]] = {}
    for *case, epsilon, value in lines:
        rows.setdefault(tuple(case), {})[epsilon] = value
    head = [*names, *(f"ε = {e:g}" for e in budgets)]
    return [head, *([*case, *(own.get(e, "") for e in budgets)] for case, own in rows.items())]


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
    else:
        for folder in sys.argv[1:]:
            take(Path(folder))
        PAGE.write_text(page(), "utf-8")
        fresh = True
    return int(not fresh) | write(HERE / "epicrec.md", figures_of_epicrec())


if __name__ == "__main__":
    sys.exit(main())
