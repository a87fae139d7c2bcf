"""An audit of whatever promises something: neighbours by its own guarantee, and many runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec import registry
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.models import Recommender, make_model, model_class
from epicrec.perturb.contract import Perturber
from epicrec.perturb.registry import make_perturber, perturber_class
from epicrec.privacy import AuditResult, Guarantee, audit_epsilon
from epicrec.progress import report
from epicrec.settings import taken

Floats = npt.NDArray[np.float64]
Rows = list[tuple[int, float]]
"""One person's history: positions of items and ratings, the lowest 0 and the highest 1."""

_ITEMS = 8
_LEAST = 400


def audit_black_box(
    method: str | Recommender | Perturber, *, epsilon: float = 1.0, runs: int = 1500
) -> AuditResult:
    """A 95 % lower bound on ε, of a method by name (made with ε where it takes one) or as it is.

    The neighbours are tiny and differ as the guarantee says, in what it hides. The output is all
    that comes out, projected on the direction that tells them apart best on the first third of the
    runs. This finds what is badly wrong; a mechanism's own audit finds more.
    """
    if runs < _LEAST:
        raise InputError(f"runs must be at least {_LEAST} for an audit, not {runs}")
    subject = _made(method, epsilon) if isinstance(method, str) else method
    draw = _released if isinstance(subject, Perturber) else _learned
    promise, _ = draw(subject, _neighbours(None)[0])
    if promise.status == "none":
        raise InputError(f"{_name(method)} promises nothing, so there is nothing to audit")
    if promise.reproducible:
        raise InputError(f"{_name(method)} has a seed, so all its runs are one; audit it without")
    outputs = [
        _outputs(partial(draw, subject, rows), runs, part)
        for part, rows in enumerate(_neighbours(promise))
    ]
    third = runs // 3
    best = _direction(outputs[0][:third], outputs[1][:third])
    found = audit_epsilon(*(drawn[third:] @ best for drawn in outputs), delta=promise.delta)
    return replace(found, claimed=promise.epsilon)


def _name(method: Any) -> str:
    return method if isinstance(method, str) else str(method.method)


def _made(method: str, epsilon: float) -> Recommender | Perturber:
    if method in registry.names(registry.MODELS):
        return make_model(method, **_asked(model_class(method), epsilon))
    if method not in registry.names(registry.PERTURBERS):
        raise InputError(
            f"there is no method {method!r} to audit; 'epicrec methods' lists them all"
        )
    ids = np.arange(_ITEMS)
    genres = ["War", "Drama"] * (_ITEMS // 2)
    catalogue = Catalogue.from_columns(ids, [f"item {i}" for i in ids], genres)
    asked = _asked(perturber_class(method), epsilon)
    return make_perturber(method, catalogue=catalogue, scale=Scale(1, 5, 1), **asked)


def _asked(cls: type[Any], epsilon: float) -> dict[str, Any]:
    return {"epsilon": epsilon} if "epsilon" in taken(cls) else {}


def _neighbours(promise: Guarantee | None) -> tuple[Rows, Rows]:
    """Two histories that differ in one unit, as far as they can."""
    whole: Rows = [(0, 1.0), (1, 0.5)]
    if promise is None:
        return whole, whole
    added = promise.relation == "add or remove one"
    if promise.unit == "user":
        return whole, [] if added else [(2, 0.0), (3, 0.0)]
    if promise.unit == "rating value":
        return whole, [(0, 0.0), whole[1]]
    return whole, [whole[1]] if added else [(2, 1.0), whole[1]]


def _outputs(draw: Callable[[], tuple[Guarantee, Floats]], runs: int, part: int) -> Floats:
    drawn = []
    for run in range(runs):
        if run % 100 == 0:
            report("running it", part * runs + run, 2 * runs)
        drawn.append(draw()[1])
    return np.nan_to_num(np.array(drawn, np.float64))


def _direction(a: Floats, b: Floats) -> Floats:
    """The difference of the means over the spread, coordinate by coordinate."""
    difference, spread = a.mean(axis=0) - b.mean(axis=0), (a.var(axis=0) + b.var(axis=0)) / 2
    return np.asarray(difference / (spread + 1e-6 * (1 + np.abs(difference))))


def _released(perturber: Any, rows: Rows) -> tuple[Guarantee, Floats]:
    """What one person's device sends: each item's number, and the noisy totals."""
    listed = getattr(getattr(perturber, "catalogue", perturber), "item_ids", np.arange(_ITEMS))
    ids = listed[:_ITEMS].tolist()
    scale = getattr(perturber, "scale", Scale(1, 5, 1))
    columns: dict[str, Any] = {"item_id": pa.array([ids[i] for i, _ in rows])}
    if perturber.feedback == "explicit":
        columns["rating"] = [scale.low + part * (scale.high - scale.low) for _, part in rows]
    release = perturber.release(pa.table(columns))
    sent = dict(zip(release.items, release.values, strict=True))
    totals = [value for _, value in sorted(release.aggregates.items())]
    return release.guarantee, np.array([*(sent.get(i, 0.0) for i in ids), *totals], np.float64)


def _learned(model: Any, rows: Rows) -> tuple[Guarantee, Floats]:
    """What a model of four people, of whom one is the victim, says to a stranger and to a twin."""
    scale = Scale(1, 5, 1)
    others = [(user, item, 1 + (user + item) % 5) for user in (1, 2, 3) for item in range(_ITEMS)]
    own = [(0, item, scale.low + round(part * 4)) for item, part in rows]
    ratings = Ratings.from_columns(*zip(*own, *others, strict=True), scale=scale)
    items = np.arange(_ITEMS)
    model.fit(ratings.with_items(items))
    asked = pa.table({"user_id": [7, 7, 8], "item_id": [0, 1, 5], "rating": [5.0, 3.0, 3.0]})
    pairs = pa.table({"user_id": np.repeat([7, 8], _ITEMS), "item_id": np.tile(items, 2)})
    return model.guarantee, model.predict(pairs, histories=asked)["score"].to_numpy()
