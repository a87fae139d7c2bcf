"""Scores: how well each film suits a person, computed on the device from the true history.

With a published item model the scores are the model's, for the true history, which goes nowhere.
Without one the server's list knows only the release, so it is a hint beside public popularity and
the categories the person really likes. A film that was rated low contributes to no other's score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyarrow as pa

from epicrec.arrays import Array, Floats, Integers
from epicrec.data import Catalogue, find
from epicrec.models import Recommender

_GOOD = 4.0  # stars for a film that was watched and not rated
LOW = 3.0
"""Stars below which a film was not liked."""
HIGH = 4.0
"""Stars from which it was."""
_TASTE = 1.0  # how much a category the person likes counts beside popularity, in logarithms
_HINT = 0.1  # how much the first place on the server's list counts, likewise: it knows little
_PRIOR = 20.0  # films of a category before its share is believed


@dataclass(frozen=True)
class Card:
    item_id: str
    why: tuple[str, ...]
    """Films of the history that contributed most to its score."""


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


def blended_scores(catalogue: Catalogue, items: Sequence[str], listed: Sequence[str]) -> Floats:
    """log popularity + the person's taste in categories + a hint from the server's list.

    The taste for a category is the logarithm of its share of the history over its share of all
    viewing by popularity, both with `_PRIOR` films added; a film's is the mean of its categories'.
    """
    popularity = popularity_of(catalogue)
    matrix = catalogue.matrix.astype(np.float64)
    at = catalogue.positions(items)
    watched = np.zeros(len(catalogue))
    watched[at[at >= 0]] = 1.0
    usual = matrix.T @ popularity
    expected = usual * watched.sum()
    taste = np.log((matrix.T @ watched + _PRIOR * usual) / (expected + _PRIOR * usual + 1e-12))
    each = np.maximum(np.asarray(matrix.sum(axis=1)).ravel(), 1.0)
    hint = np.zeros(len(catalogue))
    for place, film in enumerate(catalogue.positions(listed).tolist()):
        if film >= 0:
            hint[film] = 1 / np.log2(place + 2)
    scores: Floats = np.log(popularity) + _TASTE * (matrix @ taste) / each + _HINT * hint
    return scores


def popularity_of(catalogue: Catalogue) -> Floats:
    """Each film's share of all viewing; alike for all where nothing is known."""
    if catalogue.popularity is None:
        return np.full(len(catalogue), 1 / len(catalogue))
    positive = np.asarray(catalogue.popularity.clip(min=0) + 0.01)
    return np.asarray(positive / positive.sum(), np.float64)


def best(scores: Floats, hidden: Integers, n: int) -> Integers:
    """The positions of the n best films that are not hidden."""
    shown = scores.copy()
    shown[hidden[hidden >= 0]] = -np.inf
    candidates = np.flatnonzero(np.isfinite(shown))
    order = np.lexsort((candidates, -shown[candidates]))
    return np.asarray(candidates[order[:n]], np.int64)


def reasons(
    catalogue: Catalogue, liked: Integers, films: Integers, model: Recommender | None
) -> dict[int, tuple[str, ...]]:
    """The two liked films with the greatest part in each film's score."""
    if not len(liked) or not len(films):
        return {int(film): () for film in films}
    part = parts_in_score(catalogue, liked, films, model)
    first = part.argmax(axis=0)
    columns = np.arange(len(films))
    most = part[first, columns].copy()
    part[first, columns] = -np.inf
    second = part.argmax(axis=0)
    shares = zip(first, most, second, part[second, columns], strict=True)
    return {
        int(film): tuple(str(catalogue.titles[liked[h]]) for h, share in pair if share > 0)
        for film, pair in zip(films, (((a, x), (b, y)) for a, x, b, y in shares), strict=True)
    }


def parts_in_score(
    catalogue: Catalogue, watched: Integers, films: Integers, model: Recommender | None
) -> Floats:
    """How much each watched film contributes to each film's score: exact for a factor model of
    histories, similarity of factors for one of ratings, else the categories in common."""
    factors: Any = getattr(model, "factors_", None)
    if model is not None and factors is not None:
        left: Any = getattr(model, "projections_", factors)
        own = places_in(model, catalogue)
        part = np.asarray(left[own[watched]] @ factors[own[films]].T, np.float64)
        part[own[watched] < 0] = 0
        part[:, own[films] < 0] = 0
        return part
    matrix = catalogue.matrix.astype(np.float64)
    common = (matrix[watched] @ matrix[films].T).toarray()
    sizes = np.asarray(matrix.sum(axis=1)).ravel()
    union = sizes[watched][:, None] + sizes[films][None, :] - common
    return np.asarray(common / np.maximum(union, 1.0), np.float64)


def _own_ids(model: Recommender, ids: Array) -> Array:
    """Ids as text in the type the model knows; -1 for what is no number to a model that numbers
    its items."""
    if model.item_ids_.dtype.kind in "US":
        return ids.astype(np.str_)
    return np.array([int(i) if str(i).isdecimal() else -1 for i in ids], dtype=np.int64)
