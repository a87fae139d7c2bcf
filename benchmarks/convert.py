"""Files into memory-mapped columns: time and peak memory of `epicrec data convert`, in four sizes.

    python benchmarks/convert.py                       CSV of 20, 40, 80 and 160 MB
    python benchmarks/convert.py 5 --folder /tmp       of 0.6, 1.2, 2.5 and 5 GB, made there
    python benchmarks/convert.py 1 --kind csv.gz       or csv.zst, parquet

The people (1 million) and items (20,000) are the same in all sizes, and their rows in no order, so
that only rows grow. Every line is one fresh process; ratios are to the smallest size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

USERS, ITEMS = 1_000_000, 20_000
ROW = 26
"""Bytes of a row of such a CSV."""
AT_ONCE = 1 << 20


def rows(each: int) -> Iterator[pa.Table]:
    """`each` ratings of different items for every user, in an order that mixes all users."""
    count = USERS * each
    step = next(s for s in range(int(count * 0.618), count) if np.gcd(s, count) == 1)
    for first in range(0, count, AT_ONCE):
        number = np.arange(first, min(first + AT_ONCE, count), dtype=np.int64)
        # step and count are below 2⁴⁰: multiplied in two halves, nothing overflows
        at = ((number >> 20) * step % count * (1 << 20) + (number & 0xFFFFF) * step) % count
        user, turn = at // each, at % each
        yield pa.table(
            {
                "user_id": user,
                "item_id": (user * 7919 + turn * (ITEMS // each)) % ITEMS,
                "rating": (at * 31 >> 3) % 5 + 1,
                "timestamp": 1_735_689_600 + at % 31_536_000,
            }
        )


def write(path: Path, kind: str, each: int) -> None:
    blocks = rows(each)
    first = next(blocks)
    if kind == "parquet":
        writer = pa_parquet.ParquetWriter(path, first.schema, compression="zstd")
    else:
        writer = pa_csv.CSVWriter(pa.output_stream(path, compression="detect"), first.schema)
    with writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)


def convert(source: Path, out: Path) -> tuple[float, float]:
    """Seconds and peak memory in MB of the command."""
    command = ["-m", "epicrec", "data", "convert", str(source), str(out), "--mapped", "--json"]
    command += ["--scale", "1:5:1"]
    began = time.perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, *command],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"the command ended with status {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("gigabytes", nargs="?", type=float, default=0.16)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kind", choices=["csv", "csv.gz", "csv.zst", "parquet"], default="csv")
    asked = parser.parse_args()
    smallest = None
    for part in (8, 4, 2, 1):
        each = max(1, round(asked.gigabytes * 1e9 / part / ROW / USERS))
        with tempfile.TemporaryDirectory(prefix="convert-", dir=asked.folder) as folder:
            source = Path(folder, f"ratings.{asked.kind}")
            write(source, asked.kind, each)
            seconds, peak = convert(source, Path(folder, "out"))
            size = source.stat().st_size
        smallest = smallest or (size, seconds, peak)
        ratios = [
            round(now / then, 2) for now, then in zip((size, seconds, peak), smallest, strict=True)
        ]
        figures = {
            "megabytes": round(size / 1e6),
            "rows": USERS * each,
            "seconds": round(seconds, 1),
            "peak_rss_mb": round(peak),
            "ratios": dict(zip(("size", "seconds", "peak"), ratios, strict=True)),
        }
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
