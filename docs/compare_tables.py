"""Write docs/compare.md from what `epicrec compare` found: no figure by hand.

epicrec compare --data films --json --plot docs/compare-films.svg > docs/compare-films.json
python docs/compare_tables.py            # writes the page
python docs/compare_tables.py --check    # says whether it is as it would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = ("films", "ml-100k", "ml-1m")

HEAD = """# Every method at equal privacy

The four papers' methods as published, ours, DPALS (the strongest learner published that hides whole
users) and what does without privacy, on one split of one data set, over the same ε. These tables
are written by a script from what the command found:

```sh
epicrec compare --data films
epicrec compare --data ml-100k --quick
```

How to read them:

- **The same ε is not the same promise.** *Unit* and *relation* say what is hidden and against what:
  the value of a rating is less than a rating, and that is less than a person. *Trusted* says who
  sees what before any noise. Compare like with like first.
- The papers' rows are at the ε that their noise is worth by exact composition, where that can be
  computed (McSherry & Mironov); at the ε that they claim elsewhere. D2P as published has the
  settings of its paper, and the ε of its equation (12).
- A row is a mean over draws of the noise on one split, ± their standard deviation. A tenth of the
  ratings is held out for ratings (RMSE), a fifth of each history for lists (nDCG@10 of unseen
  items).
- Releases of EpicRec are judged by a server that has seen releases and nothing else; D2P's models
  rank with the true history, at home.
"""


def page() -> str:
    parts = [HEAD]
    for data in DATA:
        path = HERE / f"compare-{data}.json"
        if path.exists():
            parts += section(json.loads(path.read_text("utf-8")))
    return "\n".join(parts).rstrip() + "\n"


def section(found: dict[str, Any]) -> list[str]:
    """One data set: its plot, and a table for each task."""
    name, short = found["data"], " (`--quick`)" if found["quick"] else ""
    lines = [
        f"## {name}{short}", "",
        f"{found['users']:,} people, {found['items']:,} items, {found['ratings']:,} ratings; "
        f"δ = {found['delta']:g}, {found['seeds']} draws of the noise.", "",
        f"![Every method on {name} by ε](compare-{name}.svg)", "",
    ]  # fmt: skip
    for task, table in found["tasks"].items():
        lines += [f"### {name}, {task}: {table['metric']}", "", *pivot(found, table), ""]
        reasons: dict[str, list[str]] = {}
        for one in table["refused"]:
            reasons.setdefault(one["reason"], []).append(one["method"])
        lines += [f"- Not here, as it {why}: {'; '.join(who)}." for why, who in reasons.items()]
        lines.append("")
    if found["left_out"]:
        lines += [f"Left out for speed: {'; '.join(found['left_out'])}.", ""]
    return lines


def pivot(found: dict[str, Any], table: dict[str, Any]) -> list[str]:
    """A row for each method, a column for each ε."""
    budgets, metric = found["epsilons"], table["metric"]
    rows: dict[str, dict[str, str]] = {}
    for row in table["rows"]:
        spread = "" if row["spread"] is None else f" ± {row['spread']:.4f}"
        value = f"{row[metric]:.4f}{spread}"
        one = rows.setdefault(
            row["method"],
            {
                "method": row["method"], "whose": row["whose"], "unit": row["unit"],
                "relation": row["relation"], "status": row["status"], "trusted": row["trust"],
                **{f"ε = {e:g}": "" for e in budgets}, "other ε": "",
            },
        )  # fmt: skip
        if row["epsilon"] in budgets:
            one[f"ε = {row['epsilon']:g}"] = value
        else:
            own = "no ε" if row["epsilon"] is None else f"ε = {row['epsilon']:.3g}"
            one["other ε"] = f"{value} ({own})"
    head = [*next(iter(rows.values()))]
    cells = [head, ["---"] * len(head), *([*row.values()] for row in rows.values())]
    return [f"| {' | '.join(line)} |" for line in cells]


def main() -> int:
    target = HERE / "compare.md"
    if "--check" not in sys.argv:
        target.write_text(page(), "utf-8")
        return 0
    fresh = target.read_text("utf-8") == page()
    print("" if fresh else "compare.md is out of date: python docs/compare_tables.py")
    return int(not fresh)


if __name__ == "__main__":
    sys.exit(main())
