"""D2P's overhead beside the paper's Table 4 and as a ratio to McSherry-Mironov's preprocessing.

python benchmarks/d2p.py

Processor time on one core, in one run. Offline is what is done once in a while: groups and
everybody's AlterEgos; public groups change with the catalogue only, so a refresh is the AlterEgos.
McSherry-Mironov's is the fit of `CovarianceSVD` as published: noisy item effects and covariance,
cleaned. The paper has 1/26 on MovieLens and 1/4.5 on Jester.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from epicrec.data import Scale, available, load_dataset
from epicrec.evaluate.d2p import PAPER, jester
from epicrec.models.alterego import alterego_matrix
from epicrec.models.alterego_items import D2PItems, D2PSvd
from epicrec.models.alterego_users import D2PUserKNN
from epicrec.models.covariance import CovarianceSVD
from epicrec.perturb.d2p import make_channel
from epicrec.perturb.groups import cosine_groups, public_groups
from epicrec.perturb.substitution import Channel

THETA = 5.0  # how much noise there is does not matter to the time


def milliseconds(call: Callable[[], object], rounds: int = 5) -> float:
    """The median processor time of several calls, after one that is not counted."""
    call()
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1000 * float(np.median(spent))


def row(name: str) -> dict[str, Any]:
    dataset = load_dataset(name)
    if name.startswith("jester"):
        dataset = jester(dataset)
    ratings, catalogue = dataset.ratings, dataset.catalogue
    history = ratings.as_history()
    whole = ratings
    if name.startswith("jester"):  # whole points: their grid is too fine for hundredths
        whole = replace(ratings, values=np.rint(ratings.values), scale=Scale(-10, 10, 1))
    n = ratings.n_items
    one = history.users_at(np.array([int(np.argsort(history.user_counts)[history.n_users // 2])]))

    def published() -> object:
        channel = Channel(cosine_groups(history, 1.0), 0.5, 0.5)
        return alterego_matrix(history, channel.draw(history.items), n)

    def public() -> object:
        public_groups.cache_clear()
        channel = Channel(public_groups(catalogue, 1.0, max(1, n // 20)), 0.5, 0.0)
        return alterego_matrix(history, channel.draw(history.items), n)

    channel, _ = make_channel(catalogue, p=0.5)
    models = {
        "d2p": D2PUserKNN(p=0.5, catalogue=catalogue).fit(ratings),
        "i-d2p": D2PItems(p=0.5, catalogue=catalogue).fit(ratings),
        "d2p-svd": D2PSvd(p=0.5, catalogue=catalogue).fit(ratings),
    }
    theirs = milliseconds(lambda: CovarianceSVD(as_published=True, theta=THETA).fit(whole), 3)
    ours = {
        "as published": milliseconds(published),
        "public groups": milliseconds(public),
        "all AlterEgos": milliseconds(lambda: channel.draw(history.items), n),
    }
    return {
        "data": name,
        "offline_ms": ours,
        "mcsherry_mironov_ms": theirs,
        "ratio": {how: theirs / spent for how, spent in ours.items()},
        "online_ms": milliseconds(lambda: channel.draw(one.items)),
        "recommend_ms": {
            how: milliseconds(lambda m=model: m.recommend(one, n=10), 20)
            for how, model in models.items()
        },
        "paper_ms": PAPER["overhead_ms"].get(name),
    }


if __name__ == "__main__":
    for name in ("ml-100k", "jester1-part1", "ml-1m"):
        if name in available():
            print(json.dumps(row(name)), flush=True)
