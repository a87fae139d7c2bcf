"""Metrics, by their textbook definitions."""

from __future__ import annotations

import numpy as np

from epicrec.arrays import AnyFloats, Positions
from epicrec.errors import InputError


def rating_metrics(predicted: AnyFloats, actual: AnyFloats) -> dict[str, float]:
    """Errors over all held-out ratings, with `e = predicted - actual`.

    `MSE = mean(e²)`, `RMSE = √MSE`, `MAE = mean |e|`. A missing prediction is
    an error, never left out.

    >>> rating_metrics(np.array([3.0, 5.0]), np.array([4.0, 5.0]))["mae"]
    0.5
    """
    if len(predicted) != len(actual) or len(actual) == 0:
        raise InputError(
            f"{len(predicted)} predictions do not answer {len(actual)} held-out ratings"
        )
    missing = np.flatnonzero(~np.isfinite(predicted))
    if missing.size:
        raise InputError(
            f"{missing.size:,} of {len(actual):,} predictions are missing, the first at row "
            f"{missing[0] + 1}; a score over the rest would flatter the model"
        )
    error = predicted.astype(np.float64) - actual
    mse = float(np.mean(error**2))
    return {"rmse": mse**0.5, "mae": float(np.mean(np.abs(error))), "mse": mse}


def list_metrics(
    users: Positions, items: Positions, ranks: Positions, relevant: Positions,
    n: int, n_items: int,
) -> dict[str, float]:  # fmt: skip
    """Quality of lists of at most `n` items, as means over the users who have a relevant item.

    With hits h_u among the n listed and R_u relevant items: `precision = h_u / n`,
    `recall = h_u / R_u`, `nDCG = Σ_hits 1/log₂(rank + 1) / Σ_{r ≤ min(n, R_u)} 1/log₂(r + 1)`.
    `F1 = 2 P R / (P + R)` of the mean precision and recall. `coverage` is the share of the
    `n_items` items that are in at least one list. `relevant` is an array of (user, item) rows.
    A user without a list counts as zero.

    >>> found = list_metrics(*np.array([[0, 0], [7, 8], [1, 2]]), np.array([[0, 8], [0, 9]]), 2, 10)
    >>> found["precision"], found["recall"], round(found["ndcg"], 4), found["coverage"]
    (0.5, 0.5, 0.3869, 0.2)
    """
    pairs = np.asarray(relevant, dtype=np.int64).reshape(-1, 2)
    if len(pairs) == 0:
        raise InputError("no held-out item is relevant, so lists cannot be judged; hold out more")
    judged, wanted = np.unique(pairs[:, 0], return_counts=True)
    hit = (ranks <= n) & np.isin(users * n_items + items, pairs[:, 0] * n_items + pairs[:, 1])
    hits = np.bincount(users[hit], minlength=judged.max() + 1)[judged]
    gain = np.bincount(users[hit], 1 / np.log2(ranks[hit] + 1), minlength=judged.max() + 1)[judged]
    ideal = np.cumsum(1 / np.log2(np.arange(2, n + 2)))[np.minimum(wanted, n) - 1]
    precision, recall = float(np.mean(hits / n)), float(np.mean(hits / wanted))
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "ndcg": float(np.mean(gain / ideal)),
        "coverage": len(np.unique(items[ranks <= n])) / n_items,
    }
