"""Tables of measured figures in the pages, made from the files in docs/figures.

A table is between `<!-- NAME -->` and `<!-- end -->`. Its figures come from these commands:

    make audit                                             audit.json, attacks.json
    epicrec bench scale sums 200000                        > sums-20-million.jsonl
    epicrec bench scale sums 500000                        > sums-50-million.jsonl
    epicrec bench scale sums 1000000 --spark 'local[2]'    > sums-100-million.jsonl
    epicrec bench scale sums 10000000 --each 105           > sums-1-billion.jsonl
    epicrec bench scale netflix 8 4 2 1                    > fit-netflix.jsonl
    epicrec bench scale spark                              > fit-engines.jsonl
    epicrec bench client pages --out docs/figures/client-pages.json
    epicrec client-quality --json                          > client-quality-films.json
    epicrec client-quality --titles --json                 > client-quality-titles.json
    epicrec client-quality --data ml-1m --unit rating --json > client-quality-ml-1m.json
    epicrec bench service_sizes --database postgresql://…  > service-sizes.jsonl

Every function here returns, for each file that it makes, a function from the file's present text
to the text that it should have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES = HERE / "figures"

Row = dict[str, Any]
Rows = list[list[str]]
"""Rows of cells; the first is the head."""
Made = dict[str, Callable[[str], str]]


def read(name: str) -> Any:
    """A file of figures: one JSON value, or a list with one for each line."""
    text = (FIGURES / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()] if "jsonl" in name else json.loads(text)


def piped(rows: Rows) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return [f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |" for line in lines]


def filled(text: str, tables: dict[str, Rows]) -> str:
    """A page with each table in its place."""
    for name, rows in tables.items():
        block = "".join(f"{line}\n" for line in piped(rows))
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda found, block=block: f"{found[1]}\n{block}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


# ---- audit.md and privacy.md --------------------------------------------------------------------


def audit() -> Made:
    """Both tables of audit.md; in privacy.md each text between `<!--METHOD-->` and `<!---->`."""
    rows, attacks = read("audit.json")["rows"], read("attacks.json")["attacks"]
    tables = {"rows": _claims(rows), "attacks": _attacks(attacks)}
    found = {
        row["method"]: f"{row['lower_bound']:.2f} / {row['claimed']:.3g} ({row['measure']})"
        for row in rows
    }

    def update(text: str) -> str:
        short = re.sub(
            r"<!--([^-<>!]+(?:-[^-<>!]+)*)-->[^<]*<!---->",
            lambda place: f"<!--{place[1]}-->{found[place[1]]}<!---->",
            text,
        )
        return filled(short, tables)

    return {"audit.md": update, "privacy.md": update}


def _claims(rows: list[Row]) -> Rows:
    return [
        ["method", "unit", "claimed", "found", "share", "runs each", "the two worlds"],
        *(
            [
                row["method"], row["unit"], f"{row['measure']} {row['claimed']:.3g}",
                f"{row['lower_bound']:.3g}", f"{row['share']:.2f}" if row["holds"]
                else f"**{row['share']:.2f}**", f"{row['runs']:,}", row["neighbours"],
            ]
            for row in rows
        ),
    ]  # fmt: skip


def _attacks(rows: list[Row]) -> Rows:
    return [
        ["attack", "against", "method", "advantage", "95 % interval", "tries"],
        *(
            [
                row["attack"], row["against"], row["method"], f"{row['advantage']:.2f}",
                f"{row['low']:.2f} to {row['high']:.2f}", str(row["tries"]),
            ]
            for row in rows
        ),
    ]  # fmt: skip


# ---- capacity.md --------------------------------------------------------------------------------

SUMS = {
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


def capacity() -> Made:
    """What one machine takes, and Spark on it."""
    names = ("20-million", "50-million", "100-million", "1-billion")
    runs = [read(f"sums-{name}.jsonl") for name in names]
    in_spark = [run for run in runs if run[-1]["what"].startswith("spark: ")]
    tables = {
        "sums": _sums(runs, spark=False),
        "spark": _sums(in_spark, spark=True),
        "netflix": _netflix(read("fit-netflix.jsonl")),
        "engines": _engines(read("fit-engines.jsonl")),
    }
    return {"capacity.md": lambda text: filled(text, tables)}


def _sums(runs: list[list[Row]], spark: bool) -> Rows:
    """A row for each step, with the time for a rating and the peak of each run."""
    counts = [next(line["ratings"] for line in run if "ratings" in line) for run in runs]
    peak = "peak_mb" if spark else "peak_rss_mb"
    found = [{line["what"]: line for line in run if "ns_per_rating" in line} for run in runs]
    steps = [name for name in found[0] if name.startswith("spark: ") == spark]
    head = [f"ns, {count / 1e6:,.0f} million" for count in counts]
    head += [f"peak, {count / 1e6:,.0f} million" for count in counts]
    rows = [
        [
            SUMS.get(name) or SUMS[name.removeprefix("spark: ")],
            *(f"{run[name]['ns_per_rating']:.0f}" for run in found),
            *(f"{run[name][peak]:,} MB" for run in found),
        ]
        for name in steps
    ]
    return [["", *head], *rows]


def _netflix(lines: list[Row]) -> Rows:
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


def _engines(lines: list[Row]) -> Rows:
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


# ---- client.md ----------------------------------------------------------------------------------

SETS = {
    "films": "simulated viewers, list of the same films",
    "titles": "the same viewers, the client's own list",
    "ml-1m": "MovieLens-1M",
}
SHOWN, WITH_STARS = "on the device, as shown", "on the device, with stars"
LIBRARY = "the model with the history on the server"
UNITS = {"user": "a whole person", "rating": "one rating"}


def client() -> Made:
    """How good and how fast the client is."""
    quality = {name: read(f"client-quality-{name}.json") for name in SETS}
    tables = {"pages": _pages(read("client-pages.json")), "rows": _quality(quality)}
    return {"client.md": lambda text: filled(text, tables)}


def _pages(found: Row) -> Rows:
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


def _quality(found: dict[str, Row]) -> Rows:
    """A column for each data set, a row for each way to make a list."""
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


# ---- server.md ----------------------------------------------------------------------------------

STEPS = ("fill", "train", "serve", "backup", "purge of a tenth")


def server() -> Made:
    """What a service takes by its size, and how many times the smallest the largest takes."""
    runs = read("service-sizes.jsonl")
    head = ["people, rows", "filled by COPY", "trained", "lists, one worker"]
    head += ["backed up", "a tenth purged", "database"]
    tables = {"sizes": [head, *map(_size, runs), _growth(runs[0], runs[-1])]}
    return {"server.md": lambda text: filled(text, tables)}


def _size(run: Row) -> list[str]:
    fill, train, serve, backup, purge = (run[name] for name in STEPS)
    answers = f"{serve['per_second']:,} a second, 99 of 100 within {serve['p99_ms']:.0f} ms"
    return [
        f"{run['users']:,}, {run['rows'] / 1e6:g} million",
        f"{fill['cpu_seconds']:.0f} s",
        f"{train['cpu_seconds']:.0f} s, {_gb(train)}",
        f"{answers}; {_gb(serve)}",
        f"{backup['cpu_seconds']:.0f} s, {_gb(backup)}",
        f"{purge['seconds']:.0f} s of the clock, {_gb(purge)}",
        f"{purge['database_mb'] / 1000:.1f} GB",
    ]


def _gb(step: Row) -> str:
    return f"{step['peak_rss_mb'] / 1000:.1f} GB"


def _growth(least: Row, most: Row) -> list[str]:
    def times(step: str, name: str) -> str:
        return f"{most[step][name] / least[step][name]:.1f}"

    memory = {step: f"memory {times(step, 'peak_rss_mb')}" for step in STEPS}
    return [
        f"times, for {most['rows'] / least['rows']:g} times the rows",
        times("fill", "cpu_seconds"),
        f"{times('train', 'cpu_seconds')}, {memory['train']}",
        memory["serve"],
        f"{times('backup', 'cpu_seconds')}, {memory['backup']}",
        memory["purge of a tenth"],
        times("fill", "database_mb"),
    ]


# ---- epicrec.md ---------------------------------------------------------------------------------

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


def epicrec() -> Made:
    """Totals, losses and lists, as `epicrec reproduce epicrec` found them."""
    parts = {part["name"]: part["tables"] for part in read("reproduction.json")}
    tables = {
        "lists": _lists(parts["epicrec-lists"]["nDCG@10 and recall"]),
        "totals": _totals(parts["epicrec-totals"]["category MAE"]),
        "losses": _losses(parts["epicrec-loss"]["recommendation MAE loss"]),
    }
    return {"epicrec.md": lambda text: filled(text, tables)}


def _lists(rows: list[Row]) -> Rows:
    head = ["", *(f"{row['way']}, ε = {row['epsilon']:g}" for row in rows)]
    return [
        head,
        *([what, *(f"{row[f'ndcg_{name}']:.3f}" for row in rows)] for name, what in LISTS.items()),
    ]


def _totals(rows: list[Row]) -> Rows:
    lines = []
    for row in rows:
        case = f"{row['data']}, {row['method']}"
        lines += [
            [case, way, row["epsilon"], f"{row[name]:.{1 if row[name] >= 1 else 2}f}"]
            for name, way in WAYS.items()
        ]
        lines += [
            [f"{case}, below `lpa`", WAYS[name], row["epsilon"],
             f"{100 * row[f'{name} below lpa']:.0f} %"]
            for name in ("as published", "default")
        ]  # fmt: skip
    return _by_epsilon(["data, method", "way"], lines)


def _losses(rows: list[Row]) -> Rows:
    lines = [
        [f"{row['data']}, {row['method']}", row["model"], row["way"], row["epsilon"],
         f"{100 * row['mae_loss']:.1f} %"]
        for row in rows
    ]  # fmt: skip
    return _by_epsilon(["data, method", "filter", "way"], lines)


def _by_epsilon(names: list[str], lines: list[list[Any]]) -> Rows:
    """Lines that end in ε and a value, as rows with a column for each ε."""
    budgets = sorted({line[-2] for line in lines})
    rows: dict[tuple[str, ...], dict[float, str]] = {}
    for *case, epsilon, value in lines:
        rows.setdefault(tuple(case), {})[epsilon] = value
    head = [*names, *(f"ε = {e:g}" for e in budgets)]
    return [head, *([*case, *(own.get(e, "") for e in budgets)] for case, own in rows.items())]
