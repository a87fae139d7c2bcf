"""What one machine takes: ratings from Parquet through mapped columns into the statistics.

    python benchmarks/capacity.py                            2 million ratings, 20,000 people
    python benchmarks/capacity.py 1000000 --folder /tmp      100 million ratings: a tenth
    python benchmarks/capacity.py 1000000 --spark 'local[2]' the same also through Spark, to the bit
    python benchmarks/capacity.py 10000000 --each 105 --keep /tmp/billion
                                                             a billion: 25 GB of disk
    python benchmarks/capacity.py --accuracy ml-1m           the price of doing without item²

100 draws a person among 20,000 items of Zipf-like popularity, the repeated ones once. Every line is
a fresh process with its own peak memory: the simulation, `epicrec data convert`, and each statistic
over the mapped columns by the local engine; nanoseconds are of processor time, compilation counted
in. Spark's lines are of one session and all its processes, Java's among them: the peak is the most
until then. `--items` and `--each` change the shape, and a run beside another tells what an item and
a user cost. What stands in the folder of `--keep` is not made again: a long run may be ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from family import Weighed

from epicrec.data import Ratings, Scale, load_dataset
from epicrec.data.datasets import convert_dataset
from epicrec.engine import local
from epicrec.engine.spark import SparkRatings
from epicrec.engine.spark_data import session
from epicrec.evaluate import evaluate
from epicrec.machine import peak_memory
from epicrec.models.private import lists as histories
from epicrec.models.private import pairs as kernel
from epicrec.models.private import ratings
from epicrec.models.private.statistics import ForAndAgainst, ItemEffects, Overall
from epicrec.models.private.tastes import ItemTastes, TasteProducts

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


def statistics(n: int) -> dict[str, Any]:
    """Each statistic of a private fit that needs no pairs of items."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(1)
    features = csr_array((np.ones(n), (np.arange(n), np.arange(n) % WIDE)), shape=(n, WIDE))
    weights = rng.integers(1, 1 << 14, n)
    wide = rng.integers(-(1 << 20), 1 << 20, (WIDE, WIDE))
    directions = rng.integers(-(1 << 20), 1 << 20, (n, DIRECTIONS))
    return {
        "item effects, a rating": ItemEffects("rating", 2, STARS),
        "item effects, a user": ItemEffects("user", 2, STARS),
        "counts, a user": ItemEffects("user", 2, None, np.full(n, 64, np.int16)),
        "totals for and against": ForAndAgainst(STARS),
        "bounds: lengths of histories": Overall(STARS),
        f"{WIDE} x {WIDE}": TasteProducts("user", weights, features, wide),
        f"items x {DIRECTIONS}": ItemTastes("user", weights, directions),
    }


def by_blocks(statistic: Any, mapped: Path) -> str:
    return digest(local(statistic, Ratings.open(mapped)))


def digest(found: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(found)).hexdigest()


def _measured(answer: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    used, began = time.process_time(), time.perf_counter()
    found = work(*arguments)
    spent = time.perf_counter() - began, time.process_time() - used
    answer.send((found, *spent, peak_memory()))


def fresh(name: str, count: int | None, work: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in a process of its own, print what it took, and give what it found."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_measured, args=(there, work, arguments)
    )
    process.start()
    there.close()
    found, seconds, used, peak = here.recv()
    process.join()
    figures = {"what": name, "seconds": round(seconds, 1), "peak_rss_mb": round(peak)}
    figures["processor_seconds"] = round(used, 1)
    show(figures, count)
    return found


def show(figures: dict[str, Any], count: int | None) -> None:
    if count is not None:
        figures["ns_per_rating"] = round(figures["processor_seconds"] / count * 1e9, 1)
    print(json.dumps(figures), flush=True)


def through_spark(
    master: str, source: Path, item_ids: Any, count: int, known: Mapping[str, str]
) -> None:
    """The same sums of the same file, by a cluster."""
    ratings = None
    for name, statistic in {"people together": None, **statistics(len(item_ids))}.items():
        with Weighed() as weighed:
            figures = {"what": f"spark: {name}"}
            if ratings is None:
                frame = session(master).read.parquet(str(source))
                ratings = SparkRatings.of(frame, items=item_ids, scale=STARS)
                assert len(ratings) == count
            else:
                figures["same_to_the_bit"] = digest(ratings.total(statistic)) == known[name]
            show(figures | weighed.figures(), count)


def accuracy(name: str) -> None:
    """RMSE and nDCG@10 with all statistics and, as where the memory does not hold them, without
    pairs of items; seed 0."""
    data = load_dataset(name)
    for protocol, metric, unit, epsilons in (
        ("rating", "rmse", "rating", (1.0, 10.0)),
        ("topn", "ndcg", "rating", (1.0, 10.0)),
        ("topn", "ndcg", "user", (1.0, 10.0)),
    ):
        for epsilon in epsilons:
            figures: dict[str, Any] = {"protocol": protocol, "unit": unit, "epsilon": epsilon}
            for kind, room in (("with pairs", kernel.fits), ("without", lambda _: False)):
                histories.fits = ratings.fits = room
                feedback = "implicit" if protocol == "topn" else "explicit"
                found = evaluate(
                    "covariance-svd", data, protocol=protocol, epsilon=epsilon, delta=1e-6,
                    unit=unit, feedback=feedback, seed=0,
                )  # fmt: skip
                figures[kind] = round(found.metrics[metric], 4)
            print(json.dumps(figures), flush=True)


def capacity(people: int, items: int, each: int, place: Path, master: str | None) -> None:
    """Every step of ratings from a file to sums, in a process of its own."""
    source, mapped, kept = place / "ratings.parquet", place / "mapped", place / "sums.json"
    if not source.exists():
        unfinished = source.with_suffix(".unfinished")
        fresh("simulate", None, simulate, unfinished, people, items, each)
        unfinished.rename(source)
    count = pa_parquet.read_metadata(source).num_rows
    if not mapped.exists():
        fresh("convert", count, convert, source, mapped)
    item_ids = np.array(Ratings.open(mapped).item_ids)
    print(json.dumps({"ratings": count, "people": people, "items": len(item_ids)}), flush=True)
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for name, statistic in statistics(len(item_ids)).items():
        if name not in known:
            known[name] = fresh(name, count, by_blocks, statistic, mapped)
            kept.write_text(json.dumps(known))
    if master is not None:
        os.environ["SPARK_LOCAL_DIRS"] = str(place / "spark")
        through_spark(master, source, item_ids, count, known)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("people", nargs="?", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--spark", metavar="MASTER")
    parser.add_argument("--accuracy", metavar="DATA")
    asked = parser.parse_args()
    shape = asked.people, asked.items, asked.each
    if asked.accuracy:
        accuracy(asked.accuracy)
    elif asked.keep:
        asked.keep.mkdir(exist_ok=True)
        capacity(*shape, asked.keep, asked.spark)
    else:
        with tempfile.TemporaryDirectory(prefix="capacity-", dir=asked.folder) as place:
            capacity(*shape, Path(place), asked.spark)


if __name__ == "__main__":
    main()
