"""The measurement of what people get, on a few viewers."""

from __future__ import annotations

import pytest

from client.conftest import Served
from epicrec.data import Catalogue, Ratings, split_per_user
from epicrec.system.quality import measure, viewers_of


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
