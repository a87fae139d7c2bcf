"""Table 4 of D2P: what it costs in processor time, beside McSherry & Mironov's recommender."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from epicrec.data import Dataset, Scale
from epicrec.models import make_model
from epicrec.models.d2p.alterego_model import aligned, alterego_matrix
from epicrec.papers.d2p.rating_groups import cosine_groups
from epicrec.papers.d2p.tables import METHODS, PAPER
from epicrec.papers.mcsherry_mironov.models import PublishedCovarianceSVD
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import no_features, public_groups
from epicrec.perturb.d2p.tuning import make_channel


def overhead(dataset: Dataset) -> dict[str, Any]:
    """Table 4: processor milliseconds, the paper's beside ours, and the ratio in this run.

    Offline is what is done once in a while: groups, everybody's draws and the matrix of AlterEgos;
    public groups change with the catalogue only, so a refresh is the draws. McSherry & Mironov's is
    the fit of `CovarianceSVD` as published: noisy item effects and covariance, cleaned. Online is
    one user's AlterEgo.
    """
    ratings = dataset.ratings
    history, n = ratings.as_history(), ratings.n_items
    catalogue = no_features(ratings.item_ids)
    if dataset.catalogue is not None:
        catalogue = aligned(dataset.catalogue, ratings.item_ids)
    one = history.users_at(np.array([int(np.argsort(history.user_counts)[history.n_users // 2])]))
    whole = ratings
    if ratings.scale is not None and ratings.scale.step < 0.1:  # too fine for the paper's sums
        scale = Scale(ratings.scale.low, ratings.scale.high, 1)
        whole = replace(ratings, values=np.rint(ratings.values), scale=scale)

    def published() -> object:
        drawn = Channel(cosine_groups(history, 1.0), 0.5, 0.5).draw(history.items)
        return alterego_matrix(history, drawn, n)

    def public() -> object:
        public_groups.cache_clear()
        drawn = Channel(public_groups(catalogue, 1.0, max(1, n // 20)), 0.5, 0.0)
        return alterego_matrix(history, drawn.draw(history.items), n)

    channel, _ = make_channel(catalogue, p=0.5)
    theirs = _milliseconds(lambda: PublishedCovarianceSVD(theta=5.0).fit(whole))
    ours = {
        "as published": _milliseconds(published),
        "public groups": _milliseconds(public),
        "all AlterEgos": _milliseconds(lambda: channel.draw(history.items)),
    }
    models = {name: make_model(name, p=0.5, catalogue=catalogue).fit(ratings) for name in METHODS}
    return {
        "data": dataset.name,
        "offline_ms": ours,
        "mcsherry_mironov_ms": theirs,
        "ratio": {how: theirs / spent for how, spent in ours.items()},
        "online_ms": _milliseconds(lambda: channel.draw(one.items)),
        "recommend_ms": {
            name: _milliseconds(partial(model.recommend, one, n=10))
            for name, model in models.items()
        },
        "paper_ms": PAPER["overhead_ms"].get(dataset.name),
    }


def _milliseconds(call: Callable[[], object], rounds: int = 7) -> float:
    """The median processor time of several calls, after one that is not counted."""
    call()
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1000 * float(np.median(spent))
