"""The audit of any model or perturber with a guarantee that has no games of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from epicrec import registry
from epicrec.arrays import Bools, Floats
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.evaluate.audits.game import Game
from epicrec.models import Recommender, make_model, model_class
from epicrec.parameters import taken
from epicrec.perturb.contract import Perturber, make_perturber, perturber_class
from epicrec.privacy import Guarantee

Rows = list[tuple[int, float]]
"""One user's history: positions of items and ratings, the lowest 0 and the highest 1."""

_ITEMS = 8
_LEARNING = 600  # rounds to find the direction with


def black_box_game(subject: Recommender | Perturber) -> Game:
    """The game of a model or perturber that has no games of its own.

    The neighbours are tiny and differ in one unit of its guarantee. The observer sees the whole
    output, projected on the direction that told them apart best in some earlier rounds. This finds
    what is badly wrong; a mechanism's own games find more.
    """
    draw = _released if isinstance(subject, Perturber) else _learned
    promise, _ = draw(subject, _neighbours(None)[0])
    if promise.status == "none":
        raise InputError(f"{subject.method} promises nothing, so there is nothing to audit")
    if promise.reproducible:
        raise InputError(f"{subject.method} has a seed, so all its runs are one; audit it without")
    worlds = _neighbours(promise)

    def outputs(bits: Bools) -> Floats:
        return np.asarray(
            np.nan_to_num(np.array([draw(subject, worlds[int(bit)])[1] for bit in bits])),
            np.float64,
        )

    first = np.arange(_LEARNING) % 2 == 1
    known = outputs(first)
    best = _direction(known[first], known[~first])
    return Game(
        claim=promise,
        neighbours=f"a history is {_said(worlds[0])} or {_said(worlds[1])}",
        play=lambda bits: np.asarray(outputs(bits) @ best),
        rounds=3000,
        at_once=100,
    )


def made(method: str, epsilon: float, *, as_published: bool = False) -> Recommender | Perturber:
    """A method by name, with this ε where it takes one."""
    if method in registry.names(registry.MODELS):
        asked = _asked(model_class(method, as_published=as_published), epsilon)
        return make_model(method, as_published=as_published, **asked)
    if method not in registry.names(registry.PERTURBERS):
        raise InputError(
            f"there is no method {method!r} to audit; 'epicrec methods' lists them all"
        )
    ids = np.arange(_ITEMS)
    genres = ["War", "Drama"] * (_ITEMS // 2)
    catalogue = Catalogue.from_columns(ids, [f"item {i}" for i in ids], genres)
    asked = _asked(perturber_class(method, as_published=as_published), epsilon)
    return make_perturber(
        method, catalogue=catalogue, scale=Scale(1, 5, 1), as_published=as_published, **asked
    )


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


def _said(rows: Rows) -> str:
    return " ".join(f"{item}:{value:g}" for item, value in rows) or "nothing"


def _direction(a: Floats, b: Floats) -> Floats:
    """Fisher's direction: the difference of the means, without the noise that numbers share."""
    difference = a.mean(axis=0) - b.mean(axis=0)
    spread = (np.atleast_2d(np.cov(a.T)) + np.atleast_2d(np.cov(b.T))) / 2
    least = 1e-6 * (1 + np.abs(difference) + np.diag(spread))
    return np.asarray(np.linalg.solve(spread + np.diag(least), difference))


def _released(perturber: Any, rows: Rows) -> tuple[Guarantee, Floats]:
    """What one user's device sends: each item's number, and the noisy totals."""
    listed = getattr(getattr(perturber, "catalogue", perturber), "item_ids", np.arange(_ITEMS))
    ids = listed[:_ITEMS].tolist()
    scale = getattr(perturber, "scale", Scale(1, 5, 1))
    columns: dict[str, Any] = {"item_id": pa.array([ids[i] for i, _ in rows])}
    if perturber.task == "ratings":
        columns["rating"] = [scale.low + part * (scale.high - scale.low) for _, part in rows]
    release = perturber.release(pa.table(columns))
    sent = dict(zip(release.items, release.values, strict=True))
    totals = [value for _, value in sorted(release.aggregates.items())]
    bits = np.unpackbits(np.frombuffer(release.answers or b"", np.uint8))[:_ITEMS]
    seen = np.array([*(sent.get(i, 0.0) for i in ids), *totals, *bits], np.float64)
    return release.guarantee, np.concatenate([seen, _low_bits(seen)])


def _low_bits(seen: Floats) -> Floats:
    """Whether a number has digits finer than 2⁻⁵⁴, which no float near 1 has: noise in floats
    reveals what it was added to (Mironov 2012)."""
    scaled = seen * 2.0**54
    return np.asarray(scaled != np.floor(scaled), np.float64)


def _learned(model: Any, rows: Rows) -> tuple[Guarantee, Floats]:
    """Predictions of a model of four users, one of them the victim, for a stranger and a twin."""
    scale = Scale(1, 5, 1)
    others = [(user, item, 1 + (user + item) % 5) for user in (1, 2, 3) for item in range(_ITEMS)]
    own = [(0, item, scale.low + round(part * 4)) for item, part in rows]
    ratings = Ratings.from_columns(*zip(*own, *others, strict=True), scale=scale)
    items = np.arange(_ITEMS)
    model.fit(ratings, items=items)
    asked = pa.table({"user_id": [7, 7, 8], "item_id": [0, 1, 5], "rating": [5.0, 3.0, 3.0]})
    pairs = pa.table({"user_id": np.repeat([7, 8], _ITEMS), "item_id": np.tile(items, 2)})
    return model.guarantee, model.predict(pairs, histories=asked)["score"].to_numpy()
