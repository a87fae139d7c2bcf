"""Item neighbours beside implicit's item-item cosine: fit, and ten items for every user."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

from epicrec.data import Ratings, available, load_dataset
from epicrec.models.neighbours.items import ItemKNN


def best_of(times: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    work()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def ours(histories: Ratings) -> None:
    ItemKNN(feedback="implicit").fit(histories).recommend(histories, n=10)


def implicits(histories: Ratings) -> None:
    from implicit.nearest_neighbours import CosineRecommender
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(histories.csr(), dtype=np.float64)
    model = CosineRecommender(K=20, num_threads=2)
    model.fit(matrix, show_progress=False)
    model.recommend(np.arange(histories.n_users), matrix, N=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-100k" if "ml-100k" in available() else "films")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="implicit")  # it converts between its own formats
    histories = load_dataset(options.data).ratings.as_history()
    result = {
        "data": options.data,
        "epicrec_seconds": best_of(options.times, lambda: ours(histories)),
        "implicit_seconds": best_of(options.times, lambda: implicits(histories)),
    }
    result["ratio"] = result["epicrec_seconds"] / result["implicit_seconds"]
    print(f"item neighbours, fit and top 10 for all users of {options.data}")
    for name, value in list(result.items())[1:]:
        print(f"  {name:18} {value:.3f}")


if __name__ == "__main__":
    main()
