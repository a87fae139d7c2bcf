"""The pages that are made as a whole: compare.md and reproduction.md, from runs of two commands.

epicrec compare --data films --task lists --json > lists.json
python docs/build.py compare --from lists.json

epicrec reproduce all --output out
python docs/build.py reproduction --from out
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tables import FIGURES, HERE, Made, Row, Rows, piped, read

from epicrec.evaluate.compare import CHIEN, TASKS
from epicrec.papers import papers_of
from epicrec.papers.report import markdown

# ---- compare.md ---------------------------------------------------------------------------------

DATA = ("films", "ml-100k", "ml-1m")

AT = 1.0
"""The ε of the table at the top."""
UNITS = ("rating value", "item", "rating", "user")
"""What is hidden, from less to more."""
PEER = "DPALS"
NAMES = {"rmse": "RMSE", "ndcg": "nDCG@10"}
SHORT = f"""The best of each kind at ε = {AT:g}, what is hidden growing from row to row: RMSE of
ratings, which is better low, and nDCG@10 of lists, which is better high. *Means, popularity* is
what needs no taste, without privacy. Other ε, and whose each method is, follow below."""

HEAD = """# Every method at equal privacy

The four papers' methods as published, ours, DPALS (the strongest learner published that hides whole
users) and what does without privacy, on one split of one data set, over the same ε. These tables
are written by a script from what the command found:

```sh
epicrec compare --data films
epicrec compare --data ml-100k
epicrec compare --data ml-1m --seeds 2 --keep rows     # ended and run again, it goes on
```
"""
READ = """## How to read it

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
- Releases of EpicRec are judged by a server that has seen releases and nothing else. They tell of
  categories; which items stand in for which is drawn by public popularity, and MovieLens' lists of
  films come without: there every film of a category is as likely as the other, and lists are hardly
  better than chance. D2P's models rank with the true history, at home.
"""


def compare() -> Made:
    """Every method at equal privacy."""
    found = [read(f"compare-{data}.json") for data in DATA]
    parts = [HEAD, "## In short", "", SHORT, "", *piped(_summary(found)), "", READ]
    for one in found:
        parts += _section(one)
    parts += ["## Who promises what", "", *piped(_promises(found))]
    page = "\n".join(parts).rstrip() + "\n"
    return {"compare.md": lambda _: page}


def take_comparison(path: Path) -> None:
    """Take over the tasks of a run in the place of earlier ones."""
    new = json.loads(path.read_text("utf-8"))
    target = FIGURES / f"compare-{new['data']}.json"
    kept = json.loads(target.read_text("utf-8"))["tasks"] if target.exists() else {}
    fresh = {task: table | {"epsilons": new["epsilons"]} for task, table in new["tasks"].items()}
    tasks = {task: fresh.get(task) or kept[task] for task in TASKS if task in fresh | kept}
    text = json.dumps(new | {"tasks": tasks}, indent=1, ensure_ascii=False)
    target.write_text(text + "\n", "utf-8")


def _summary(found: list[Row]) -> Rows:
    """For each task and unit the best of the papers, of the peer and of ours at one ε, between
    what needs no taste and what is possible without privacy."""
    kinds = ("a paper, as published", PEER, "ours")
    rows = [["data, task", "hidden", *kinds, "means, popularity", "without privacy"]]
    for one in found:
        for task, table in one["tasks"].items():
            openly = [row for row in table["rows"] if row["epsilon"] is None]
            plain = [row for row in openly if row["method"] in ("bias", "popularity")]
            limits = [_best(some, table["metric"]) for some in (plain, openly)]
            for unit in UNITS:
                own: dict[str, list[Row]] = {kind: [] for kind in kinds}
                for row in table["rows"]:
                    if (row["unit"], row["epsilon"]) == (unit, AT):
                        kind = {"ours": "ours", CHIEN: PEER}.get(row["whose"], kinds[0])
                        own[kind].append(row)
                if any(own.values()):
                    best = [_best(some, table["metric"]) for some in own.values()]
                    rows.append([f"{one['data']}, {task}", unit, *best, *limits])
    return rows


def _best(rows: list[Row], metric: str) -> str:
    """The best of some rows with its name; nothing where there is none."""
    if not rows:
        return ""
    row = sorted(rows, key=lambda row: row[metric], reverse=metric != "rmse")[0]
    return f"{row[metric]:.3f} {row['method'].removesuffix(', as published')}"


def _promises(found: list[Row]) -> Rows:
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
    return [["method", "whose", "unit, relation", "status", "trusted"], *rows.values()]


def _section(found: Row) -> list[str]:
    """One data set: its plot, and a table for each task."""
    name, short = found["data"], " (`--quick`)" if found["quick"] else ""
    lines = [
        f"## {name}{short}", "",
        f"{found['users']:,} people, {found['items']:,} items, {found['ratings']:,} ratings; "
        f"δ = {found['delta']:g}.", "",
        f"![Every method on {name} by ε](compare-{name}.svg)", "",
    ]  # fmt: skip
    for task, table in found["tasks"].items():
        draws = max(len(row["values"]) for row in table["rows"])
        lines += [f"### {name}, {task}: {NAMES[table['metric']]}, {draws} draws of the noise", ""]
        lines += [*piped(_pivot(found, table)), ""]
        reasons: dict[str, list[str]] = {}
        for one in table["refused"]:
            reasons.setdefault(one["reason"], []).append(one["method"])
        lines += [f"- Not here, as it {why}: {'; '.join(who)}." for why, who in reasons.items()]
        lines.append("")
    return lines


def _pivot(found: Row, table: Row) -> Rows:
    """A row for each method, a column for each ε."""
    budgets, metric = table.get("epsilons", found["epsilons"]), table["metric"]
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
    return [[*next(iter(rows.values()))], *([*row.values()] for row in rows.values())]


# ---- reproduction.md ----------------------------------------------------------------------------

PARTS, PLOTS = FIGURES / "reproduction.json", HERE / "reproduction"


def reproduction() -> Made:
    """The papers' tables and figures, the paper's values beside ours."""
    page = markdown(papers_of("all"), read(PARTS.name), f"{PLOTS.name}/")
    return {"reproduction.md": lambda _: page}


def take_reproduction(folder: Path) -> None:
    """Take over the finished parts of a run, with their plots, in the place of earlier ones."""
    kept = {part["name"]: part for part in read(PARTS.name)}
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
