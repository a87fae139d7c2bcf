"""Write what was measured of one machine and of Spark on it into capacity.md: no figure by hand.

python benchmarks/capacity.py 200000 > docs/capacity-fiftieth.jsonl
python benchmarks/capacity.py 500000 > docs/capacity-twentieth.jsonl
python benchmarks/capacity.py 1000000 --spark 'local[2]' > docs/capacity-tenth.jsonl
python benchmarks/capacity.py 10000000 --each 105 > docs/capacity-billion.jsonl
python benchmarks/covariance.py netflix 8 4 2 1 > docs/capacity-netflix.jsonl
python benchmarks/covariance.py spark > docs/capacity-engines.jsonl
python docs/capacity_tables.py             # writes the tables
python docs/capacity_tables.py --check     # says whether they are as they would be written

They stand between `<!-- sums -->`, `<!-- spark -->`, `<!-- netflix -->` or `<!-- engines -->` and
`<!-- end -->`; a table stays as it is until its figures are here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tables import write

HERE = Path(__file__).parent
PAGE = HERE / "capacity.md"
NAMES = {
    "convert": "Parquet into columns",
    "item effects, a rating": "item effects, for a rating",
    "item effects, a user": "item effects, for a user",
    "counts, a user": "counts",
    "totals for and against": "totals for and against",
    "bounds: lengths of histories": "lengths of histories",
    "100 x 100": "d × d, d = 100",
    "items x 20": "n × 20",
    "spark: people together": "each person's ratings together",
}
SIZES = ("fiftieth", "twentieth", "tenth", "billion")
"""Of a billion ratings."""
Lines = list[dict[str, Any]]


def read(name: str) -> Lines:
    path = HERE / f"capacity-{name}.jsonl"
    text = path.read_text("utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def sums(runs: list[Lines], spark: bool) -> list[list[str]]:
    """One row a step; of each run the time of a rating and the peak."""
    counts = [next(line["ratings"] for line in run if "ratings" in line) for run in runs]
    peak = "peak_mb" if spark else "peak_rss_mb"
    found = [{line["what"]: line for line in run if "ns_per_rating" in line} for run in runs]
    steps = [name for name in found[0] if name.startswith("spark: ") == spark]
    head = [f"ns, {count / 1e6:,.0f} million" for count in counts]
    head += [f"peak, {count / 1e6:,.0f} million" for count in counts]
    rows = [
        [
            NAMES.get(name) or NAMES[name.removeprefix("spark: ")],
            *(f"{run[name]['ns_per_rating']:.0f}" for run in found),
            *(f"{run[name][peak]:,} MB" for run in found),
        ]
        for name in steps
    ]
    return [["", *head], *rows]


def netflix(lines: Lines) -> list[list[str]]:
    head = ["ratings", "pairs of ratings", "clock", "processor", "peak"]
    rows = [
        [
            f"{line['ratings'] / 1e6:.1f} million", f"{line['pairs'] / 1e9:.1f} billion",
            f"{line['seconds']:.0f} s", f"{line['processor_seconds']:.0f} s",
            f"{line['peak_mb'] / 1000:.1f} GB",
        ]
        for line in lines
    ]  # fmt: skip
    of_first = ["ratings", "pairs", "seconds", "processor_seconds", "peak_mb"]
    ratios = [f"{lines[-1][name] / lines[0][name]:.1f} times" for name in of_first]
    return [head, *rows, ratios]


def engines(lines: Lines) -> list[list[str]]:
    here, there, both = lines
    head = ["", "loading", "fit, clock", "fit, processor", "peak of all processes"]
    rows = [
        [
            name, f"{line['loading_seconds']:.0f} s", f"{line['seconds']:.0f} s",
            f"{line['processor_seconds']:.0f} s", f"{line['peak_mb'] / 1000:.1f} GB",
        ]
        for name, line in (("`local`", here), ("Spark, `local[2]`", there))
    ]  # fmt: skip
    same = "the same to the bit" if both["same_to_the_bit"] else "**not** the same"
    times = [f"{both[f'times_{name}']}" for name in ("seconds", "processor_seconds", "peak_mb")]
    return [head, *rows, [f"Spark over `local`; the model is {same}", "", *times]]


def measured() -> dict[str, list[list[str]]]:
    """Every table of which there are figures."""
    runs = [run for run in map(read, SIZES) if run]
    of_spark = [run for run in runs if run[-1]["what"].startswith("spark: ")]
    tables = {}
    if runs:
        tables["sums"] = sums(runs, spark=False)
    if of_spark:
        tables["spark"] = sums(of_spark, spark=True)
    for name, made in (("netflix", netflix), ("engines", engines)):
        if lines := read(name):
            tables[name] = made(lines)
    return tables


if __name__ == "__main__":
    sys.exit(write(PAGE, measured()))
