"""Votes of neighbours: by their weight, or each alike."""

from __future__ import annotations

import numpy as np

from epicrec.data import Ratings
from epicrec.models.alterego.users import D2PUserKNN


def test_neighbours_vote_alike_where_they_are_not_weighted(viewers: Ratings) -> None:
    """With p* = 1 AlterEgos are histories: scores are how many of the k nearest have an item."""
    settings = {"p": 0.5, "p_star": 1.0, "lam": 1.0, "as_published": True, "k": 10, "seed": 0}
    model = D2PUserKNN(weighted=False, **settings).fit(viewers)
    history = viewers.as_history()
    scores = model._scores(history.users_at(np.arange(1)))[0]
    rows = (history.csr() != 0).toarray().astype(float)
    near = rows @ rows[0] / np.linalg.norm(rows, axis=1) / np.linalg.norm(rows[0])
    near[0] = 0
    best = np.argsort(-near, kind="stable")[:10]
    np.testing.assert_allclose(scores, rows[best].sum(axis=0))
    weighted = D2PUserKNN(**settings).fit(viewers)._scores(history.users_at(np.arange(1)))[0]
    assert not np.allclose(weighted, scores)
