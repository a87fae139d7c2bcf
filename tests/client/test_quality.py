"""The measurement of what people get, on a few viewers."""

from __future__ import annotations

import numpy as np
import pytest

from client.conftest import Served
from epicrec.client.ranking.scores import best, lone_scores, model_scores, well_liked
from epicrec.data import Catalogue, Ratings, Scale, split_per_user
from epicrec.data.simulate import simulate_table
from epicrec.demo.quality import measure, viewers_of
from epicrec.models import model_class


def test_the_table(films: Catalogue, viewers: Ratings, publishing: Served) -> None:
    train, test = split_per_user(viewers, 0.2, seed=0)
    publishing.publish(train)
    people = viewers_of(films, train, test, 25, seed=1)
    rows = measure(publishing.url, films, people, train_server=publishing.train)
    ndcg = {row["way"]: row["ndcg"] for row in rows}
    shown, same = ndcg["on the device, as shown"], ndcg["the model with the history on the server"]
    assert shown == pytest.approx(same), "ranking on the device loses nothing"
    assert shown > 1.5 * ndcg["popularity"]
    assert ndcg["on the device, without a model"] >= ndcg["popularity"]
    assert ndcg["the server's list alone"] < ndcg["on the device, without a model"]


def test_with_stars_rows_have_as_many_liked_films_as_without(films: Catalogue) -> None:
    """nDCG@10 over the held-out films that were rated four or more, for two hundred viewers."""
    train, test = split_per_user(
        Ratings.from_table(simulate_table(users=1500, seed=5), scale=Scale(1, 5, 1)), 0.2, seed=1
    )
    model = model_class("svd")(task="lists", factors=20).fit(train)
    sums = {"model with": 0.0, "model without": 0.0, "with": 0.0, "without": 0.0}
    for user in range(200):
        mine, held = train.users == user, (test.users == user) & (test.values >= 4)
        items = [str(i) for i in train.item_ids[train.items[mine]]]
        stars = dict(zip(items, train.values[mine].tolist(), strict=True))
        good = films.positions(test.item_ids[test.items[held]])
        liked = well_liked(items, stars)
        for way, speak in (("with", liked), ("without", items)):
            for name, scores in ((f"model {way}", model_scores(model, films, speak, {})),
                                 (way, lone_scores(films, speak, {}, []))):  # fmt: skip
                sums[name] += ndcg(best(scores, films.positions(items), 10), good)
    assert sums["model with"] >= sums["model without"]
    assert sums["with"] >= 0.99 * sums["without"]


def ndcg(order: np.ndarray, good: np.ndarray) -> float:
    gains = 1 / np.log2(np.arange(2, 12))
    ideal = gains[: len(good)].sum()
    return float(gains[: len(order)][np.isin(order, good)].sum() / ideal) if ideal else 0.0
