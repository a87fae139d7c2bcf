"""Write what was measured of the client into client.md: no figure by hand.

python benchmarks/client.py --only pages --out docs/client-pages.json
epicrec client-quality --json > docs/client-films.json
epicrec client-quality --titles --json > docs/client-titles.json
epicrec client-quality --data ml-1m --unit rating --json > docs/client-ml-1m.json
python docs/client_tables.py             # writes the tables
python docs/client_tables.py --check     # says whether they are as they would be written

They stand between `<!-- pages -->` or `<!-- rows -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tables import write

HERE = Path(__file__).parent
PAGE = HERE / "client.md"
SETS = {
    "films": "simulated viewers, list of the same films",
    "titles": "the same viewers, the client's own list",
    "ml-1m": "MovieLens-1M",
}
SHOWN, WITH_STARS = "on the device, as shown", "on the device, with stars"
LIBRARY = "the model with the history on the server"
UNITS = {"user": "a whole person", "rating": "one rating"}


def pages(found: dict[str, Any]) -> list[list[str]]:
    head = ["page", "address", "ms", "× health", "ms after a change", "by the clock, ms"]
    rows = [
        [
            name, f"`{page['address']}`", f"{page['processor_ms']:.0f}",
            f"{page['times_health']:.0f}", f"{page['after_a_change_processor_ms']:.0f}",
            f"{page['clock_ms']:.0f} / {page['after_a_change_clock_ms']:.0f}",
        ]
        for name, page in sorted(
            found["pages"].items(), key=lambda item: -item[1]["after_a_change_processor_ms"]
        )
    ]  # fmt: skip
    return [head, *rows]


def rows(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """One column a data set, one row a way to make a list."""
    tables = {name: {row["way"]: row for row in one["table"]} for name, one in found.items()}
    ways = list(next(iter(tables.values())))
    return [
        ["", *(SETS[name] for name in found)],
        ["titles on the device", *(f"{one['titles']:,}" for one in found.values())],
        [
            "item model learned from, hiding",
            *(f"{one['people']:,} people, {UNITS[one['guarantee']['unit']]}" for one in
              found.values()),
        ],
        *([way, *(f"{table[way]['ndcg']:.3f}" for table in tables.values())] for way in ways),
        [
            "shown, as a share of the model's own",
            *(_share(table[SHOWN]["ndcg"], table[LIBRARY]["ndcg"]) for table in tables.values()),
        ],
        *(
            [f"{way}, over what was rated 4 or 5",
             *(f"{table[way]['liked']:.3f}" for table in tables.values())]
            for way in (SHOWN, WITH_STARS)
        ),
        [
            "with stars, as a share of without",
            *(_share(table[WITH_STARS]["liked"], table[SHOWN]["liked"])
              for table in tables.values()),
        ],
    ]  # fmt: skip


def _share(one: float, other: float) -> str:
    return f"{100 * one / other:.1f} %"


def measured() -> dict[str, list[list[str]]]:
    """Every table of which all figures are here."""
    files = {name: HERE / f"client-{name}.json" for name in SETS}
    speed = json.loads((HERE / "client-pages.json").read_text("utf-8"))
    tables = {"pages": pages(speed)}
    if all(path.exists() for path in files.values()):
        tables["rows"] = rows(
            {name: json.loads(path.read_text("utf-8")) for name, path in files.items()}
        )
    return tables


if __name__ == "__main__":
    sys.exit(write(PAGE, measured()))
