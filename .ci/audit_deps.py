"""Known vulnerabilities of the pinned dependencies, by pip-audit, where its data can be had.

Exits 1 where one is known; says so, and exits 0, where nothing could be looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
AUDIT = (
    "-m", "pip_audit", "-r", str(ROOT / "constraints.txt"), "--no-deps", "--disable-pip",
    "--timeout", "3", "--progress-spinner", "off", "--format", "json",
)  # fmt: skip
PATIENCE = 60  # seconds


def main() -> int:
    try:
        run = subprocess.run(
            [sys.executable, *AUDIT], capture_output=True, text=True, timeout=PATIENCE
        )
        rows = json.loads(run.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError):
        rows = []
    return told(rows)


def told(rows: list[dict[str, object]]) -> int:
    """Say what was found among the rows of pip-audit; its own summary counts what it skipped."""
    looked_up = [row for row in rows if "skip_reason" not in row]
    if not looked_up:
        print("NOT AUDITED: the data of known vulnerabilities cannot be had here")
        return 0
    found = [(row, known) for row in looked_up for known in row["vulns"]]  # type: ignore[attr-defined]
    for row, known in found:
        fixed = ", ".join(known["fix_versions"]) or "no version yet"
        print(f"{row['name']} {row['version']}: {known['id']}, fixed in {fixed}")
    left = [str(row["name"]) for row in rows if "skip_reason" in row]
    if left:
        print(f"not looked up: {', '.join(left)}")
    print(f"{len(looked_up)} packages looked up, {len(found)} known vulnerabilities")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
