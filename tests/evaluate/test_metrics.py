"""Metrics against hand-worked figures and obvious twins."""

import numpy as np
import pytest

from epicrec.errors import InputError
from epicrec.evaluate import list_metrics, rating_metrics


def test_rating_metrics_by_hand() -> None:
    found = rating_metrics(np.array([1.0, 2.0, 5.0]), np.array([2.0, 4.0, 5.0]))
    assert found["mse"] == pytest.approx(5 / 3)
    assert found["rmse"] == pytest.approx((5 / 3) ** 0.5)
    assert found["mae"] == 1.0
    assert rating_metrics(np.array([2.5]), np.array([4.0])) == {
        "mae": 1.5,
        "mse": 2.25,
        "rmse": 1.5,
    }


def test_missing_predictions_are_an_error() -> None:
    with pytest.raises(InputError, match="1 of 2 predictions are missing, the first at row 2"):
        rating_metrics(np.array([1.0, np.nan]), np.array([1.0, 1.0]))
    with pytest.raises(InputError, match="do not answer"):
        rating_metrics(np.array([1.0]), np.array([1.0, 1.0]))
    with pytest.raises(InputError, match="do not answer"):
        rating_metrics(np.array([]), np.array([]))


def test_list_metrics_against_a_plain_loop() -> None:
    rng = np.random.default_rng(5)
    n_users, n_items, n = 20, 30, 5
    # some lists are longer than n; what stands behind place n counts nowhere
    lists = {u: rng.permutation(n_items)[: rng.integers(1, 2 * n)].tolist() for u in range(n_users)}
    relevant = {
        u: set(rng.permutation(n_items)[: rng.integers(0, 8)].tolist()) for u in range(n_users)
    }
    precision, recall, ndcg = [], [], []
    for u in range(n_users):
        if relevant[u]:
            hits = [r for r, i in enumerate(lists[u][:n], 1) if i in relevant[u]]
            precision.append(len(hits) / n)
            recall.append(len(hits) / len(relevant[u]))
            ideal = sum(1 / np.log2(r + 1) for r in range(1, min(n, len(relevant[u])) + 1))
            ndcg.append(sum(1 / np.log2(r + 1) for r in hits) / ideal)
    p, r = np.mean(precision), np.mean(recall)
    rows = [(u, i, rank) for u in lists for rank, i in enumerate(lists[u], 1)]
    pairs = np.array([(u, i) for u in relevant for i in relevant[u]])
    found = list_metrics(*np.array(rows).T, pairs, n, n_items)
    assert found["precision"] == pytest.approx(p)
    assert found["recall"] == pytest.approx(r)
    assert found["ndcg"] == pytest.approx(np.mean(ndcg))
    assert found["f1"] == pytest.approx(2 * p * r / (p + r))
    assert found["coverage"] == len({i for own in lists.values() for i in own[:n]}) / n_items


def test_perfect_and_useless_lists() -> None:
    users, items, ranks = np.array([[0, 0], [1, 2], [1, 2]])
    perfect = list_metrics(users, items, ranks, np.array([[0, 1], [0, 2]]), 2, 4)
    assert perfect["ndcg"] == perfect["precision"] == perfect["recall"] == perfect["f1"] == 1
    useless = list_metrics(users, items, ranks, np.array([[0, 3], [1, 3]]), 2, 4)
    assert useless["ndcg"] == useless["f1"] == 0
    with pytest.raises(InputError, match="no held-out item is relevant"):
        list_metrics(users, items, ranks, np.empty((0, 2)), 2, 4)
