"""Write what a service takes by its size into server.md: no figure by hand.

python benchmarks/service_scale.py --database postgresql://… > docs/service-scale.jsonl
python docs/service_tables.py             # writes the table
python docs/service_tables.py --check     # says whether it is as it would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tables import write

HERE = Path(__file__).parent
_STEPS = ("fill", "train", "serve", "backup", "purge of a tenth")


def sizes(runs: list[dict[str, Any]]) -> list[list[str]]:
    """One row a size, and how much the largest takes of the smallest."""
    head = ["people, rows", "filled by COPY", "trained", "lists, one worker"]
    return [
        [*head, "backed up", "a tenth purged", "database"],
        *(_row(run) for run in runs),
        _growth(runs[0], runs[-1]),
    ]


def _row(run: dict[str, Any]) -> list[str]:
    fill, train, serve, backup, purge = (run[name] for name in _STEPS)
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


def _gb(step: dict[str, Any]) -> str:
    return f"{step['peak_rss_mb'] / 1000:.1f} GB"


def _growth(least: dict[str, Any], most: dict[str, Any]) -> list[str]:
    def times(step: str, name: str) -> str:
        return f"{most[step][name] / least[step][name]:.1f}"

    memory = {step: f"memory {times(step, 'peak_rss_mb')}" for step in _STEPS}
    return [
        f"times, for {most['rows'] / least['rows']:g} times the rows",
        times("fill", "cpu_seconds"),
        f"{times('train', 'cpu_seconds')}, {memory['train']}",
        memory["serve"],
        f"{times('backup', 'cpu_seconds')}, {memory['backup']}",
        memory["purge of a tenth"],
        times("fill", "database_mb"),
    ]


if __name__ == "__main__":
    lines = (HERE / "service-scale.jsonl").read_text("utf-8").splitlines()
    sys.exit(write(HERE / "server.md", {"sizes": sizes([json.loads(line) for line in lines])}))
