"""What `pip install .` brings into a clean environment: packages, megabytes, seconds to import.

    python benchmarks/install.py                 # the base, as docs/install.md states it
    python benchmarks/install.py client server   # with these extras

Needs a package index, or wheels that pip finds. Everything happens in a temporary folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
IMPORT = "import time; t = time.perf_counter(); import epicrec; print(time.perf_counter() - t)"


def measure(extras: list[str]) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="epicrec-install-") as name:
        folder = Path(name)
        _run(sys.executable, "-m", "venv", str(folder))
        python = str(folder / "bin" / "python")
        wanted = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
        _run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), wanted)
        listed = json.loads(_run(python, "-m", "pip", "list", "--format=json"))
        packages = {row["name"] for row in listed} - {"pip"}
        return {
            "python": ".".join(map(str, sys.version_info[:3])),
            "extras": extras,
            "packages": len(packages),
            "mb": round(_size(folder) / 2**20),
            "import_seconds": round(median(_seconds(python, folder) for _ in range(9)), 3),
        }


def _seconds(python: str, folder: Path) -> float:
    return float(_run(python, "-c", IMPORT, cwd=folder))


def _size(folder: Path) -> int:
    """Bytes on the disk, as `du` counts them: 2²⁰ of them are a megabyte there."""
    return sum(512 * path.lstat().st_blocks for path in folder.rglob("*"))


def _run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
