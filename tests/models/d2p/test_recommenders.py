"""The recommenders on AlterEgos: the contract, and all against full matrices."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.d2p.recommenders import D2PItems, D2PSvd, D2PUserKNN, item_vectors, shared_items
from epicrec.models.spectrum import history_scales
from epicrec.models.svd import SVD
from epicrec.testing.recommenders import RecommenderContract

OPEN = {"p": 0.5, "p_star": 0.5, "seed": 3}


class TestD2P(RecommenderContract):
    model_type = D2PUserKNN
    settings = OPEN


class TestD2PUncorrected(RecommenderContract):
    model_type = D2PUserKNN
    settings = OPEN | {"correct": False}


class TestItemD2P(RecommenderContract):
    model_type = D2PItems
    settings = OPEN


class TestItemD2PUncorrected(RecommenderContract):
    model_type = D2PItems
    settings = OPEN | {"correct": False}


class TestSvd(RecommenderContract):
    model_type = D2PSvd
    settings = OPEN


class TestSvdUncorrected(RecommenderContract):
    model_type = D2PSvd
    settings = OPEN | {"correct": False}


def posterior_of(model: D2PItems | D2PSvd) -> np.ndarray:
    """P(s | t) as a full matrix."""
    joint = model.shares_[:, None] * model.channel.matrix()
    return np.asarray(joint / joint.sum(axis=0))


def test_neighbours_against_full_matrices(viewers: Ratings) -> None:
    """The corrected scores, written out with the posterior as a matrix and every x̂ held."""
    model = D2PUserKNN(k=40, **OPEN).fit(viewers)
    shares = model.shares_
    posterior = shares[:, None] * model.channel.matrix()
    posterior /= posterior.sum(axis=0)
    expected = model._profiles.toarray() @ posterior.T
    centred = expected - expected.sum(axis=1, keepdims=True) * shares
    seen = viewers.as_history().csr().toarray()
    asked = seen - seen.sum(axis=1, keepdims=True) * shares
    for user in (0, 17, 299):
        weights = centred @ asked[user]
        weights /= np.linalg.norm(centred, axis=1) * np.linalg.norm(asked[user])
        weights[user] = 0
        nearest = np.argsort(-weights)[:40]
        wanted = weights[nearest] @ expected[nearest]
        got = model._scores(viewers.as_history().users_at(np.array([user])))[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-8)


def test_factors_against_a_full_decomposition(viewers: Ratings) -> None:
    model = D2PItems(factors=5, **OPEN).fit(viewers)
    shares = model.shares_
    expected = model._profiles.toarray() @ posterior_of(model).T
    counts = expected.sum(axis=1, keepdims=True)
    matrix = (expected / counts - shares) * np.sqrt(counts) / np.sqrt(shares)
    wanted = np.linalg.svd(matrix)[2][:5]
    got = item_vectors(model._profiles, model._posterior, 5)
    np.testing.assert_allclose(got @ got.T, wanted.T @ wanted, atol=1e-6)


def test_shared_items_against_a_full_matrix(viewers: Ratings) -> None:
    model = D2PSvd(**OPEN).fit(viewers)
    y = model._profiles.toarray()
    weights = 1 / y.sum(axis=1)
    together = (y * weights[:, None]).T @ y - np.diag(weights @ y)
    guess = posterior_of(model)
    scales = history_scales(model.shares_ * y.sum())
    wanted = scales[:, None] * (guess @ together @ guess.T) * scales
    got = shared_items(model._profiles, scales, model._posterior) @ np.eye(len(scales))
    np.testing.assert_allclose(got, wanted, atol=1e-9)


def test_svd_of_true_histories_is_svd(viewers: Ratings) -> None:
    """Where nothing is replaced and nothing shrunk it keeps `svd`'s first eigenvectors."""
    kept = D2PSvd(p=0.5, p_star=1.0, correct=False, factors=4).fit(viewers)
    plain = SVD(task="lists", factors=4).fit(viewers)
    one, other = (np.linalg.qr(model.projections_.astype(np.float64))[0] for model in (kept, plain))
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-3)


def test_bad_settings_are_refused(viewers: Ratings) -> None:
    for model in (D2PItems(factors=0), D2PSvd(factors=0), D2PItems(p=1.5)):
        with pytest.raises(InputError):
            model.fit(viewers)
    with pytest.raises(InputError, match="k must be"):
        D2PUserKNN(k=0, **OPEN).fit(viewers)


@pytest.mark.parametrize("cls", [D2PUserKNN, D2PItems, D2PSvd])
def test_settings_of_another_type_are_refused(cls: Any, viewers: Ratings) -> None:
    for setting in ({"p": "much"}, {"correct": 1}, {"floor": 2.5}):
        with pytest.raises(InputError, match=f"{next(iter(setting))} of {cls.__name__} is"):
            cls(**setting).fit(viewers)
