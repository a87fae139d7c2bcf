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

NOTES = {
    "ml-1m": "McSherry & Mironov's two rows were measured before their recipe followed the paper "
    "in all points (by a hundredth worse or better elsewhere), and are to be run again."
}
HEAD = """# Every method at equal privacy

The four papers' methods as published, ours, DPALS (the strongest learner published that hides whole
users) and what does without privacy, on one split of one data set, over the same ε. These tables
are written by a script from what the command found:

```sh
epicrec compare --data films
epicrec compare --data ml-100k --quick
epicrec compare --data ml-1m --keep rows     # ended and run again, it goes on
```

How to read them:

- **The same ε is not the same promise.** *Unit* and *relation* say what is hidden and against what:
  the value of a rating is less than a rating, and that is less than a person. *Trusted* says who
  sees what before any noise ([who promises what](#who-promises-what)). Compare like with like
  first. In the plots lines are dashed as published and dotted where nothing is promised.
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
    found = [json.loads((HERE / f"compare-{data}.json").read_text("utf-8")) for data in DATA]
    parts = [HEAD]
    for one in found:
        parts += section(one)
    parts += ["## Who promises what", "", *promises(found)]
    return "\n".join(parts).rstrip() + "\n"


def promises(found: list[dict[str, Any]]) -> list[str]:
    """A row for each method: whose it is, what it hides, on what grounds and who is trusted."""
    rows = {
        row["method"]: [
            row["method"], row["whose"], f"{row['unit']}, {row['relation']}" if row["unit"] else "",
            row["status"], row["trust"],
        ]
        for one in found
        for table in one["tasks"].values()
        for row in table["rows"]
    }  # fmt: skip
    return piped([["method", "whose", "unit, relation", "status", "trusted"], *rows.values()])


def piped(rows: list[list[str]]) -> list[str]:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return [f"| {' | '.join(line)} |" for line in lines]


def section(found: dict[str, Any]) -> list[str]:
    """One data set: its plot, and a table for each task."""
    name, short = found["data"], " (`--quick`)" if found["quick"] else ""
    lines = [
        f"## {name}{short}", "",
        f"{found['users']:,} people, {found['items']:,} items, {found['ratings']:,} ratings; "
        f"δ = {found['delta']:g}.", "",
        f"![Every method on {name} by ε](compare-{name}.svg)", "", NOTES.get(name, ""), "",
    ]  # fmt: skip
    for task, table in found["tasks"].items():
        draws = max(len(row["values"]) for row in table["rows"])
        lines += [f"### {name}, {task}: {table['metric']}, {draws} draws of the noise", ""]
        lines += [*pivot(found, table), ""]
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
        spread = "" if row["spread"] is None else f"\u00a0±\u00a0{row['spread']:.3f}"
        value = f"{row[metric]:.4f}{spread}"
        one = rows.setdefault(
            row["method"],
            {
                "method": row["method"], "unit": row["unit"],
                **{f"ε = {e:g}": "" for e in budgets}, "other ε": "",
            },
        )  # fmt: skip
        if row["epsilon"] in budgets:
            one[f"ε = {row['epsilon']:g}"] = value
        else:
            own = "no ε" if row["epsilon"] is None else f"ε = {row['epsilon']:.3g}"
            one["other ε"] = f"{value} ({own})"
    return piped([[*next(iter(rows.values()))], *([*row.values()] for row in rows.values())])


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
