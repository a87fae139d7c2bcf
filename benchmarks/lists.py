"""Private lists: nDCG@10 of covariance-svd beside private popularity, over ε, as docs has them.

    python benchmarks/lists.py                                  films, where there is nothing else
    python benchmarks/lists.py ml-1m 1 2 5 10 20                a set beside the checkout
    python benchmarks/lists.py netflix 1 5 --delta 1e-7 --seeds 1 --judged 10000 --from 4

The means of the seeds 0 to 3, a whole user being hidden, with the way that was chosen.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from epicrec.data import load_dataset
from epicrec.evaluate import evaluate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", default="films")
    parser.add_argument("epsilon", nargs="*", type=float, default=[0.3, 1, 5, 20])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--unit", default="user")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--judged", type=int)
    parser.add_argument("--from", type=float, dest="relevant_from")
    parser.add_argument("--methods", nargs="+", default=["covariance-svd", "popularity"])
    asked = parser.parse_args()
    data = load_dataset(asked.data)
    for epsilon in asked.epsilon:
        for method in asked.methods:
            found, ways, seconds = [], Counter[str](), 0.0
            for seed in range(asked.seeds):
                result = evaluate(
                    method, data, protocol="topn", epsilon=epsilon, delta=asked.delta,
                    unit=asked.unit, seed=seed, relevant_from=asked.relevant_from,
                    max_users=asked.judged,
                )  # fmt: skip
                found.append(result.metrics["ndcg"])
                ways[result.record] += 1
                seconds += result.seconds["fit"] / asked.seeds
            spread = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
            way = ways.most_common(1)[0][0].removeprefix("released with these shares of the budget")
            print(
                f"{asked.data} ε={epsilon:g} {method}: {np.mean(found):.4f} ± {spread:.4f}, "
                f"fit {seconds:.1f} s{way}",
                flush=True,
            )


if __name__ == "__main__":
    main()
