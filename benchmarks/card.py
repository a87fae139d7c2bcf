"""Pairs of items on a graphics card beside this machine's processors: python benchmarks/card.py

Simulated ratings of Netflix's size and of two smaller ones; both sums are compared bit by bit.
"""

import time

import cupy
import numpy as np

from epicrec.data import Ratings, Scale
from epicrec.engine.cuda import check_cuda, cuda
from epicrec.engine.local import local
from epicrec.machine import processors
from epicrec.models.covariance.statistics import PairSums

SIZES = ((7_500, 2_221, 50), (60_000, 8_885, 175), (480_189, 17_770, 350))
"""People, items, and about how many ratings a person."""


def simulated(people: int, items: int, ratings: int) -> Ratings:
    """Popular items as in film data, and people who differ in how much they rated."""
    rng = np.random.default_rng(0)
    share = np.cumsum(np.arange(1, items + 1) ** -0.9)
    counts = np.minimum(rng.lognormal(np.log(ratings) - 0.65, 1.15, people), 3000).astype(int) + 1
    drawn = np.searchsorted(share / share[-1], rng.random(counts.sum()))
    rows = np.unique(np.repeat(np.arange(people), counts) * items + drawn)
    indptr = np.searchsorted(rows, np.arange(people + 1) * items)
    values = rng.integers(1, 6, len(rows)).astype(np.float32)
    ids = np.arange(people), np.arange(items)
    return Ratings(*ids, indptr, (rows % items).astype(np.int32), values, Scale.parse("1:5:1"))


def seconds(work):
    """Of the second run: the first also compiles."""
    work()
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def main() -> None:
    check_cuda()
    pool = cupy.get_default_memory_pool()
    for size in SIZES:
        ratings = simulated(*size)
        statistic = PairSums("rating", 2, ratings.scale, np.zeros(ratings.n_items, np.int16))
        there, card = seconds(lambda: cuda(statistic, ratings))  # noqa: B023
        memory = pool.total_bytes() / 2**30
        pool.free_all_blocks()
        here, processor = seconds(lambda: local(statistic, ratings))  # noqa: B023
        assert np.array_equal(here, there)
        print(
            f"{len(ratings):,} ratings of {ratings.n_users:,} people and {ratings.n_items:,} "
            f"items: card {card:.2f} s, {memory:.1f} GiB; {processors()} processors "
            f"{processor:.2f} s; the same to the bit",
            flush=True,
        )


if __name__ == "__main__":
    main()
