"""Scores: how well each film suits a person, computed on the device from the true history.

With a published item model the scores are the model's, for the true history, which goes nowhere.
Without one they come from public facts (`content`), with a server's list as a hint, as that knows
only the release. A film that was rated low contributes to no other's score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyarrow as pa

from epicrec.arrays import Array, Floats, Integers
from epicrec.client.ranking.content import content_of, content_scores
from epicrec.data import Catalogue, find
from epicrec.models import Recommender

_GOOD = 4.0  # stars for a film that was watched and not rated
LOW = 3.0
"""Stars below which a film was not liked."""
HIGH = 4.0
"""Stars from which it was."""
_NEAREST = 5  # liked films that are asked for what they share
_HINT = 0.1  # how much the first place on the server's list counts: it knows little


@dataclass(frozen=True)
class Card:
    item_id: str
    why: tuple[str, ...]
    """Films of the history that contributed most to its score."""
    facts: tuple[str, ...] = ()
    """What it has in common with the first of them, where that made the score."""


@dataclass(frozen=True)
class Row:
    """Films that belong together."""

    title: str
    cards: tuple[Card, ...]
    category: str | None = None
    """The category that it shows the best of, where it does."""


def well_liked(items: Iterable[str], ratings: Mapping[str, float]) -> list[str]:
    """Those that may contribute to the scores of other films: watched, and not rated low."""
    return [item for item in items if ratings.get(item, _GOOD) >= LOW]


def model_scores(
    model: Recommender, catalogue: Catalogue, items: Sequence[str], ratings: Mapping[str, float]
) -> Floats:
    """The model's score of every film of the catalogue for this history; -inf for unknown ones."""
    at = places_in(model, catalogue)
    scores = np.full(len(catalogue), -np.inf)
    if not (at >= 0).any():
        return scores
    history = _own_ids(model, np.array(list(items), dtype=np.str_))
    known = find(model.item_ids_, history) >= 0
    if not known.any():
        return scores
    columns: dict[str, Any] = {"user_id": ["me"] * int(known.sum()), "item_id": history[known]}
    if model.task == "ratings" and model.scale_ is not None:
        stars = [ratings.get(item, _GOOD) for item, here in zip(items, known, strict=True) if here]
        columns["rating"] = model.scale_.of_stars(np.array(stars))
    scores[at >= 0] = model.scores(pa.table(columns))[0][at[at >= 0]]
    return scores


_PLACES: WeakKeyDictionary[Catalogue, tuple[ref[Recommender], Integers]] = WeakKeyDictionary()


def places_in(model: Recommender, catalogue: Catalogue) -> Integers:
    """Where the films of a catalogue are among a model's items, -1 where it knows them not; kept,
    as every ranking needs it."""
    kept = _PLACES.get(catalogue)
    if kept is None or kept[0]() is not model:
        kept = (ref(model), find(model.item_ids_, _own_ids(model, catalogue.item_ids)))
        _PLACES[catalogue] = kept
    return kept[1]


def knows_taste(model: Recommender) -> bool:
    """Whether there is more in a model than how popular items are: too few people under too much
    noise leave a factor model without factors."""
    factors: Any = getattr(model, "factors_", None)
    return factors is None or factors.shape[1] > 0


def lone_scores(
    catalogue: Catalogue, items: Sequence[str], ratings: Mapping[str, float], listed: Sequence[str]
) -> Floats:
    """Scores without a model: public facts, and a hint from the server's list."""
    at = catalogue.positions(items)
    stars = {int(k): ratings[item] for k, item in zip(at, items, strict=True) if item in ratings}
    scores = content_scores(catalogue, at[at >= 0], stars, LOW)
    for place, film in enumerate(catalogue.positions(listed).tolist()):
        if film >= 0:
            scores[film] += _HINT / np.log2(place + 2)
    return scores


def with_unknown(scores: Floats, lone: Floats) -> Floats:
    """A model's scores; titles that it does not know come after all others, ranked by facts."""
    known = np.isfinite(scores)
    lowest = scores[known].min(initial=0.0) + lone.min() - lone.max() - 1
    return np.where(known, scores, lowest + lone - lone.min())


def best(scores: Floats, hidden: Integers, n: int) -> Integers:
    """The positions of the n best films that are not hidden."""
    shown = scores.copy()
    shown[hidden[hidden >= 0]] = -np.inf
    candidates = np.flatnonzero(np.isfinite(shown))
    order = np.lexsort((candidates, -shown[candidates]))
    return np.asarray(candidates[order[:n]], np.int64)


def reasons(
    catalogue: Catalogue, liked: Integers, films: Integers, model: Recommender | None
) -> dict[int, Card]:
    """Each film with the two liked ones that have the greatest part in its score. Without a model
    only those count with which it shares telling facts, and the first one's are named."""
    part = parts_in_score(catalogue, liked, films, model)
    found = {}
    for column, film in enumerate(films.tolist()):
        order = np.argsort(-part[:, column], kind="stable")[:_NEAREST]
        near = [int(liked[k]) for k in order if part[k, column] > 0]
        facts: list[str] = []
        if model is None:
            shared = {k: content_of(catalogue).shared(k, film) for k in near}
            near = [k for k in near if shared[k]]
            facts = [_words(*fact) for fact in shared[near[0]]] if near else []
        why = tuple(str(catalogue.titles[k]) for k in near[:2])
        found[film] = Card(str(catalogue.item_ids[film]), why, tuple(facts))
    return found


def _words(group: str, name: str) -> str:
    """A fact that two titles share, as a page says it."""
    return {"directors": f"by {name}", "cast": f"with {name}"}.get(group, name)


def parts_in_score(
    catalogue: Catalogue, watched: Integers, films: Integers, model: Recommender | None
) -> Floats:
    """How much each watched film contributes to each film's score: exact for a factor model of
    histories and without a model, similarity of factors for one of ratings."""
    factors: Any = getattr(model, "factors_", None)
    if model is not None and factors is not None:
        left: Any = getattr(model, "projections_", factors)
        own = places_in(model, catalogue)
        part = np.asarray(left[own[watched]] @ factors[own[films]].T, np.float64)
        part[own[watched] < 0] = 0
        part[:, own[films] < 0] = 0
        return part
    facts = content_of(catalogue).telling
    return np.asarray((facts[watched] @ facts[films].T).toarray(), np.float64)


def _own_ids(model: Recommender, ids: Array) -> Array:
    """Ids as text in the type the model knows; -1 for what is no number to a model that numbers
    its items."""
    if model.item_ids_.dtype.kind in "US":
        return ids.astype(np.str_)
    return np.array([int(i) if str(i).isdecimal() else -1 for i in ids], dtype=np.int64)
