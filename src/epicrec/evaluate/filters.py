"""Filters: ordinary collaborative filters over histories, as an unchanged server would run them."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from epicrec.arrays import AnyFloats
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.extras import needs

Filter = Literal["als", "svd"]
"""`implicit`'s alternating least squares, or this package's own `svd` for histories."""

_FACTORS = 64
_ITERATIONS = 15


def check_filter(model: Filter) -> None:
    """Refuse a filter that is unknown or not installed, before any work is done."""
    if model not in get_args(Filter):
        raise InputError(f"the filter is one of {', '.join(get_args(Filter))}, not {model!r}")
    if model == "als":
        needs("papers", "implicit", "threadpoolctl")


def completed(histories: Ratings, model: Filter) -> AnyFloats:
    """The predicted matrix, one row a user, one column an item."""
    if model == "als":
        fitted = als(histories)
        return np.asarray(fitted.user_factors @ fitted.item_factors.T)
    from epicrec.models.svd import SVD

    own = SVD(factors=_FACTORS, feedback="implicit").fit(histories)
    scores = np.asarray(own._scores(histories), dtype=np.float64)
    # it only orders items: one factor, fitted to what it learned from, puts it on GT's scale
    return np.asarray(scores * (binary(histories).multiply(scores).sum() / (scores**2).sum()))


def als(histories: Ratings) -> Any:
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        fitted = AlternatingLeastSquares(
            factors=_FACTORS, iterations=_ITERATIONS, random_state=0, use_gpu=False
        )
        fitted.fit(binary(histories), show_progress=False)
    return fitted


def folded_in(fitted: Any, histories: Ratings, part: slice) -> AnyFloats:
    """Scores for people the model has not seen, from a history in the call."""
    from threadpoolctl import threadpool_limits

    rows = binary(histories)[part]
    with threadpool_limits(1, "blas"):
        factors = fitted.recalculate_user(np.arange(rows.shape[0]), rows)
    return np.asarray(factors @ fitted.item_factors.T)


def binary(histories: Ratings) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(histories.csr()).astype(np.float32)
