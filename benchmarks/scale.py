"""What does one machine take? Files into columns, sums over columns, and whole private fits.

    epicrec bench scale                                 sums over 2 million ratings; a minute
    epicrec bench scale sums 1000000 --spark 'local[2]' 100 million ratings, also in Spark
    epicrec bench scale sums 10000000 --each 105 --keep /tmp/billion    a billion; 25 GB of disk
    epicrec bench scale convert [GB]                    CSV of four sizes into mapped columns
    epicrec bench scale fits                            how a fit grows with ratings and items
    epicrec bench scale published                       the paper's recipe on 10,000 items
    epicrec bench scale netflix [EVERY …]               the fit on Netflix, of each such part
    epicrec bench scale spark [EVERY]                   that fit by `local` and by Spark
    epicrec bench scale before ../before/src [DATA]     sums over pairs by another checkout's code

Every line of JSON is one fresh process with its own peak memory; Spark's is that of all the
processes it starts. Processor time includes compilation where `sums` measures it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from _measuring import Parts, Weighed, fresh, run_to_end, show

from epicrec.data import Catalogue, Ratings, Scale, load_dataset, split_probe
from epicrec.data.datasets import convert_dataset, public_of
from epicrec.engine import RemoteRatings, local
from epicrec.machine import peak_memory
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.pairs import PairSums, memory_needed
from epicrec.models.private.statistics import ForAndAgainst, ItemEffects, Overall
from epicrec.models.private.tastes import TasteProducts

STARS = Scale(1, 5, 1)

# ---- sums over columns --------------------------------------------------------------------------

WIDE = 100
"""Directions of the sums d × d."""


def sums(given: Namespace) -> None:
    """Ratings from Parquet into columns, then the sums that a private fit takes.

    Everybody draws among items of Zipf-like popularity; repeated draws count once. What is in the
    folder of `--keep` is not made again, so a long run may be ended and resumed.
    """
    shape = given.people, given.items, given.each
    if given.keep:
        given.keep.mkdir(exist_ok=True)
        _sums(*shape, given.keep, given.spark)
    else:
        with tempfile.TemporaryDirectory(prefix="sums-", dir=given.folder) as place:
            _sums(*shape, Path(place), given.spark)


def _sums(people: int, items: int, each: int, place: Path, master: str | None) -> None:
    source, mapped, kept = place / "ratings.parquet", place / "mapped", place / "sums.json"
    if not source.exists():
        unfinished = source.with_suffix(".unfinished")
        _timed("simulate", None, simulate, unfinished, people, items, each)
        unfinished.rename(source)
    count = pa_parquet.read_metadata(source).num_rows
    if not mapped.exists():
        _timed("convert", count, _into_columns, source, mapped)
    item_ids = np.array(Ratings.open(mapped).item_ids)
    show({"ratings": count, "people": people, "items": len(item_ids)})
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for name, statistic in _statistics(len(item_ids)).items():
        if name not in known:
            known[name] = _timed(name, count, _sum_by_blocks, statistic, mapped)
            kept.write_text(json.dumps(known))
    if master is not None:
        os.environ["SPARK_LOCAL_DIRS"] = str(place / "spark")
        _sums_in_spark(master, source, item_ids, count, known)


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


def _into_columns(source: Path, mapped: Path) -> None:
    convert_dataset(source, mapped, scale=STARS, mapped=True)


def _statistics(n: int) -> dict[str, Any]:
    """Each statistic of a private fit that needs no pairs of items."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(1)
    features = csr_array((np.ones(n), (np.arange(n), np.arange(n) % WIDE)), shape=(n, WIDE))
    weights = rng.integers(1, 1 << 14, n)
    wide = rng.integers(-(1 << 20), 1 << 20, (WIDE, WIDE))
    return {
        "item effects, a rating": ItemEffects("rating", 2, STARS),
        "item effects, a user": ItemEffects("user", 2, STARS),
        "counts, a user": ItemEffects("user", 2, None, np.full(n, 64, np.int16)),
        "totals for and against": ForAndAgainst(STARS),
        "bounds: lengths of histories": Overall(STARS),
        f"{WIDE} x {WIDE}": TasteProducts("user", weights, features, wide),
    }


def _sum_by_blocks(statistic: Any, mapped: Path) -> str:
    return digest(local(statistic, Ratings.open(mapped)))


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(one).data for one in arrays)).hexdigest()


def _timed(name: str, count: int | None, work: Callable[..., Any], *arguments: Any) -> Any:
    """Do it in a fresh process, show what it took, and return what it found."""

    def measured() -> tuple[Any, dict[str, Any]]:
        used, began = time.process_time(), time.perf_counter()
        found = work(*arguments)
        return found, {
            "seconds": round(time.perf_counter() - began, 1),
            "peak_rss_mb": round(peak_memory() or 0),
            "processor_seconds": round(time.process_time() - used, 1),
        }

    found, figures = fresh(measured)
    show({"what": name} | figures | _each(figures, count))
    return found


def _each(figures: Mapping[str, Any], count: int | None) -> dict[str, float]:
    if count is None:
        return {}
    return {"ns_per_rating": round(figures["processor_seconds"] / count * 1e9, 1)}


def _sums_in_spark(
    master: str, source: Path, item_ids: Any, count: int, known: Mapping[str, str]
) -> None:
    """The same sums of the same file by a cluster, and whether they are the same to the bit."""
    from epicrec.engine.spark import SparkRatings
    from epicrec.engine.spark_data import session

    ratings = None
    for name, statistic in {"people together": None, **_statistics(len(item_ids))}.items():
        with Weighed() as weighed:
            about = {"what": f"spark: {name}"}
            if ratings is None:
                frame = session(master).read.parquet(str(source))
                ratings = SparkRatings.of(frame, items=item_ids, scale=STARS)
                assert len(ratings) == count
            else:
                about["same_to_the_bit"] = digest(ratings.total(statistic)) == known[name]
            figures = weighed.figures()
            show(about | figures | _each(figures, count))


# ---- files into columns -------------------------------------------------------------------------

USERS, ITEMS = 1_000_000, 20_000
ROW = 26
"""Bytes of a row of such a CSV."""
AT_ONCE = 1 << 20


def convert(given: Namespace) -> None:
    """`epicrec data convert` on an eighth, a quarter, a half and all of so many gigabytes.

    The people (1 million) and items (20,000) are the same in all sizes and their rows in no order,
    so that only rows grow. Ratios are to the smallest size.
    """
    first: dict[str, float] = {}
    for part in (8, 4, 2, 1):
        each = max(1, round(given.gigabytes * 1e9 / part / ROW / USERS))
        with tempfile.TemporaryDirectory(prefix="convert-", dir=given.folder) as folder:
            source, out = Path(folder, f"ratings.{given.kind}"), str(Path(folder, "out"))
            _write(source, given.kind, each)
            command = ("data", "convert", str(source), out, "--mapped", "--json")
            took = run_to_end(sys.executable, "-m", "epicrec", *command, "--scale", "1:5:1")
            size = source.stat().st_size
        now = {"size": size, "seconds": took["seconds"], "peak": took["peak_rss_mb"]}
        first = first or now
        ratios = {name: round(value / first[name], 2) for name, value in now.items()}
        show({"megabytes": round(size / 1e6), "rows": USERS * each} | took | {"ratios": ratios})


def _write(path: Path, kind: str, each: int) -> None:
    blocks = _rows(each)
    first = next(blocks)
    if kind == "parquet":
        writer = pa_parquet.ParquetWriter(path, first.schema, compression="zstd")
    else:
        writer = pa_csv.CSVWriter(pa.output_stream(path, compression="detect"), first.schema)
    with writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)


def _rows(each: int) -> Iterator[pa.Table]:
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


# ---- whole fits ---------------------------------------------------------------------------------


def fits(_: Namespace) -> None:
    """Whole fits with pairs of items, on simulated ratings: how they grow."""
    _growing(simulated_fit, [(2000, 2000, n) for n in (25, 50, 100, 200)])
    _growing(simulated_fit, [(2000, n, 50) for n in (1000, 2000, 4000, 8000)])


def published(_: Namespace) -> None:
    """The fit as published, on 10,000 items."""
    show(simulated_fit(2000, 10_000, 50, as_published=True))


def netflix(given: Namespace) -> None:
    """The fit on Netflix, of the users whose ids are divisible by each EVERY."""
    _growing(netflix_fit, [("local", every) for every in given.every])


def spark(given: Namespace) -> None:
    """The fit on Netflix by `local` and by Spark on two cores: ratios, and equality to the bit."""
    here, there = (fresh(netflix_fit, engine, given.every) for engine in ("local", "spark"))
    ratios = {
        f"times_{name}": round(there[name] / here[name], 2)
        for name in ("seconds", "processor_seconds", "peak_mb")
    }
    for line in (here, there, {"same_to_the_bit": here["model"] == there["model"]} | ratios):
        show(line)


def _growing(fit: Callable[..., dict[str, Any]], cases: list[tuple[Any, ...]]) -> None:
    """What each case takes, and how many times the first."""
    first: dict[str, Any] = {}
    for case in cases:
        found = fresh(fit, *case)
        first = first or found
        for name in ("ratings", "pairs", "processor_seconds", "peak_mb"):
            if first[name]:  # 0 where it was too short to measure
                found[f"times_{name}"] = round(found[name] / first[name], 2)
        show(found)


def simulated_fit(users: int, items: int, each: int, **settings: Any) -> dict[str, Any]:
    one_fit(simulated(50, 60, 5), **settings)  # compile
    ratings = simulated(users, items, each)
    return {"ratings": len(ratings), "pairs": _pairs(ratings)} | one_fit(ratings, **settings)


def simulated(users: int, items: int, each: int) -> Ratings:
    """Users with so many ratings each, of items with Zipf-like popularity."""
    rng = np.random.default_rng(0)
    weights = 1 / (np.arange(items) + 20.0)
    keys = np.log(weights) + rng.gumbel(size=(users, items))
    chosen = np.sort(np.argpartition(-keys, each, axis=1)[:, :each], axis=1)
    return Ratings(
        np.arange(users),
        np.arange(items),
        np.arange(users + 1, dtype=np.int64) * each,
        chosen.reshape(-1).astype(np.int32),
        rng.integers(1, 6, users * each).astype(np.float32),
        STARS,
    )


def one_fit(ratings: Any, catalogue: Catalogue | None = None, **settings: Any) -> dict[str, Any]:
    remote = isinstance(ratings, RemoteRatings)  # they bring their items and scale
    given = {} if remote else {"items": ratings.item_ids, "scale": "1:5:1"}
    with Weighed() as weighed:
        model = CovarianceSVD(**{"epsilon": 100.0} | settings).fit(ratings, catalogue, **given)
        figures = weighed.figures()
    return figures | {
        "items": ratings.n_items,
        "stated_mb": memory_needed(ratings.n_items) // 2**20,
        "model": digest(model.offsets_, model.factors_),
    }


def netflix_fit(engine: str, every: int) -> dict[str, Any]:
    """The whole fit of what is not the probe. A seed makes both engines draw the same noise.

    Loading ends, for Spark, when each person's ratings are together on its disk.
    """
    films = load_dataset("films")
    one_fit(films.ratings, films.catalogue, epsilon=1000.0)  # compile
    began = time.perf_counter()
    if engine == "local":
        dataset = load_dataset("netflix")
        ratings, catalogue = split_probe(dataset.ratings)[0], dataset.catalogue
        del dataset
        if every > 1:
            ratings = ratings.users_at(np.flatnonzero(ratings.user_ids % every == 0))
        known = {"ratings": len(ratings), "pairs": _pairs(ratings)}
    else:
        ratings, catalogue = _netflix_in_spark(every)
        known = {"ratings": len(ratings)}
    known |= {"loading_seconds": round(time.perf_counter() - began, 1), "loaded_mb": peak_memory()}
    found = one_fit(ratings, catalogue, epsilon=1.0, delta=1e-8, seed=0)
    return {"engine": engine, "busy": os.getloadavg()[0]} | known | found


def _netflix_in_spark(every: int) -> tuple[Any, Catalogue | None]:
    from epicrec.engine.spark import SparkRatings
    from epicrec.engine.spark_data import load_frame, session

    known = public_of("netflix", items=None, scale=None)
    rows = load_frame(session("local[2]"), "netflix")
    rows = rows.where(~rows["probe"]).where(rows["user_id"] % every == 0)
    return SparkRatings.of(rows, items=known.items, scale="1:5:1"), known.catalogue


def _pairs(ratings: Ratings) -> int:
    return int(np.sum(ratings.user_counts * (ratings.user_counts - 1) // 2))


# ---- sums over pairs, by two checkouts ----------------------------------------------------------


def before(given: Namespace) -> None:
    """Sums over pairs of items by another checkout's code and by ours, in turns.

    Of every so manieth user of a data set; at the end the ratio of the best times.
    """
    best: dict[str, float] = {}
    found_sums = set()
    for path in [given.path, os.environ.get("PYTHONPATH", "src")] * 2:
        command = [sys.executable, __file__, "pairs", given.data, str(given.every)]
        environment = os.environ | {"PYTHONPATH": path}
        found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        figures = json.loads(found.stdout)
        found_sums.add(figures.pop("sum"))
        best[path] = min(best.get(path, inf), figures["processor_seconds"])
        show({"code": path} | figures)
    old, new = best.values()
    show({"same_to_the_bit": len(found_sums) == 1, "ratio": round(old / new, 2)})


def pairs(given: Namespace) -> None:
    """The sums over pairs of items of a data set: their time, and a digest of what they are."""
    whole = load_dataset(given.data).ratings
    ratings = whole.users_at(np.arange(0, whole.n_users, given.every))
    del whole
    statistic = PairSums("rating", 2, ratings.scale, np.zeros(ratings.n_items, np.int16))
    local(statistic, ratings.users_at(np.arange(9)))  # compile
    used, began = time.process_time(), time.perf_counter()
    found = local(statistic, ratings)
    show(
        {
            "seconds": round(time.perf_counter() - began, 4),
            "processor_seconds": round(time.process_time() - used, 4),
            "sum": digest(found),
        }
    )


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("sums", sums)
    part.add_argument("people", nargs="?", type=int, default=20_000)
    part.add_argument("--items", type=int, default=20_000)
    part.add_argument("--each", type=int, default=100, help="draws a person")
    part.add_argument("--folder", type=Path, help="where the files are made for the time being")
    part.add_argument("--keep", type=Path, help="a folder for the files, kept and used again")
    part.add_argument("--spark", metavar="MASTER", help="also by this cluster, such as local[2]")
    part = found.add("convert", convert)
    part.add_argument("gigabytes", nargs="?", type=float, default=0.16)
    part.add_argument("--folder", type=Path, help="where the files are made for the time being")
    part.add_argument("--kind", choices=["csv", "csv.gz", "csv.zst", "parquet"], default="csv")
    found.add("fits", fits)
    found.add("published", published)
    found.add("netflix", netflix).add_argument("every", nargs="*", type=int, default=[1])
    found.add("spark", spark).add_argument("every", nargs="?", type=int, default=1)
    part = found.add("before", before)
    part.add_argument("path", help="the other checkout's src")
    for one in (part, found.add("pairs", pairs)):
        one.add_argument("data", nargs="?", default="films")
        one.add_argument("every", nargs="?", type=int, default=1)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
