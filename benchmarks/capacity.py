"""What one machine takes: ratings from Parquet through mapped columns into the statistics.

    python benchmarks/capacity.py                            2 million ratings, 20,000 people
    python benchmarks/capacity.py 1000000 --folder /tmp      100 million ratings: a tenth
    python benchmarks/capacity.py 10000000 --folder /tmp     a billion; about 60 GB of disk

100 draws a person among 20,000 items of Zipf-like popularity, the repeated ones once. Every line is
a fresh process with its own peak memory: the simulation, `epicrec data convert`, and each statistic
over the mapped columns by the local engine. `--items` and `--each` change the shape; then a second
run beside the first tells what an item and a rating cost.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from epicrec.data import Ratings, Scale
from epicrec.data.datasets import convert_dataset
from epicrec.engine.local import local
from epicrec.machine import peak_memory
from epicrec.models.covariance.moments import Overall
from epicrec.models.covariance.statistics import ItemEffects
from epicrec.models.covariance.tastes import ItemTastes, TasteProducts
from epicrec.models.private_bias import ForAndAgainst

STARS = Scale(1, 5, 1)
DIRECTIONS, WIDE = 20, 100
"""Of n × 20, and of d × d."""


def simulate(path: Path, people: int, items: int, each: int) -> None:
    rng = np.random.default_rng(0)
    edges = np.cumsum(1 / (np.arange(items) + 20.0))
    edges /= edges[-1]
    schema = pa.schema([("user_id", pa.int64()), ("item_id", pa.int32()), ("rating", pa.int8())])
    with pa_parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, people, 10_000):
            size = min(10_000, people - start)
            drawn = np.searchsorted(edges, rng.random((size, each), np.float32)).astype(np.int32)
            drawn.sort(axis=1)
            first = np.ones(drawn.shape, bool)
            first[:, 1:] = drawn[:, 1:] > drawn[:, :-1]
            user = np.repeat(np.arange(start, start + size), first.sum(axis=1))
            rating = rng.integers(1, 6, len(user), np.int8)
            writer.write_table(pa.table([user, drawn[first].clip(max=items - 1), rating], schema))


def convert(source: Path, mapped: Path) -> None:
    convert_dataset(source, mapped, scale=STARS, mapped=True)


def statistics(n: int) -> dict[str, Callable[[Path], Any]]:
    """Each statistic of a private fit that needs no pairs of items."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(1)
    features = csr_array((np.ones(n), (np.arange(n), np.arange(n) % WIDE)), shape=(n, WIDE))
    weights = rng.integers(1, 1 << 14, n)
    wide = rng.integers(-(1 << 20), 1 << 20, (WIDE, WIDE))
    directions = rng.integers(-(1 << 20), 1 << 20, (n, DIRECTIONS))
    sums: dict[str, Any] = {
        "item effects, a rating": ItemEffects("rating", 2, STARS),
        "item effects, a user": ItemEffects("user", 2, STARS),
        "counts, a user": ItemEffects("user", 2, None, np.full(n, 64, np.int16)),
        "totals for and against": ForAndAgainst(STARS),
        "bounds: lengths of histories": Overall(STARS),
        f"{WIDE} x {WIDE}": TasteProducts("user", weights, features, wide),
        f"items x {DIRECTIONS}": ItemTastes("user", weights, directions),
    }
    return {name: lambda at, s=s: local(s, Ratings.open(at)) for name, s in sums.items()}


def _measured(answer: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    began = time.perf_counter()
    work(*arguments)
    answer.send((time.perf_counter() - began, peak_memory()))


def fresh(name: str, ratings: int | None, work: Callable[..., Any], *arguments: Any) -> None:
    """Run it in a process of its own and print what it took."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_measured, args=(there, work, arguments)
    )
    process.start()
    there.close()
    seconds, peak = here.recv()
    process.join()
    figures = {"what": name, "seconds": round(seconds, 1), "peak_rss_mb": round(peak)}
    if ratings is not None:
        figures["ns_per_rating"] = round(seconds / ratings * 1e9, 1)
    print(json.dumps(figures), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("people", nargs="?", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="capacity-", dir=asked.folder) as folder:
        source, mapped = Path(folder, "ratings.parquet"), Path(folder, "mapped")
        fresh("simulate", None, simulate, source, asked.people, asked.items, asked.each)
        ratings = pa_parquet.read_metadata(source).num_rows
        fresh("convert", ratings, convert, source, mapped)
        source.unlink()
        n = Ratings.open(mapped).n_items
        print(json.dumps({"ratings": ratings, "people": asked.people, "items": n}), flush=True)
        for name, work in statistics(n).items():
            fresh(name, ratings, work, mapped)


if __name__ == "__main__":
    main()
