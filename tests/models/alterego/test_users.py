"""D2P's user neighbours: the contract, and the correction against full matrices."""

import numpy as np
import pytest

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models.alterego.users import D2PUserKNN
from epicrec.testing.recommenders import RecommenderContract

OPEN = {"p": 0.5, "p_star": 0.5, "seed": 3}


class TestD2P(RecommenderContract):
    model_type = D2PUserKNN
    settings = OPEN


class TestD2PUncorrected(RecommenderContract):
    model_type = D2PUserKNN
    settings = OPEN | {"correct": False}


def test_neighbours_against_full_matrices(viewers: Ratings) -> None:
    """The corrected scores, written out with the posterior as a matrix and every x̂ held."""
    model = D2PUserKNN(k=40, **OPEN).fit(viewers)
    law, shares = model.channel.matrix(), model.shares_
    posterior = shares[:, None] * law
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


def test_published_votes_are_those_of_the_nearest_sets(viewers: Ratings) -> None:
    model = D2PUserKNN(k=10, as_published=True, **OPEN).fit(viewers)
    sets = model._profiles.toarray()
    asked = viewers.as_history().csr().toarray()[5].astype(np.float64)
    weights = sets @ asked / (np.linalg.norm(sets, axis=1) * np.linalg.norm(asked))
    weights[5] = 0
    nearest = np.argsort(-weights)[:10]
    got = model._scores(viewers.as_history().users_at(np.array([5])))[0]
    np.testing.assert_allclose(got, weights[nearest] @ sets[nearest], rtol=1e-9)


def test_bad_settings_are_refused(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="k must be"):
        D2PUserKNN(k=0, **OPEN).fit(viewers)
