"""Every attack against something without privacy, a method as published, and the default."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from epicrec.arrays import Bools, Floats
from epicrec.data import Catalogue, Ratings, Scale, load_dataset
from epicrec.evaluate.attacks.averaging import averaging
from epicrec.evaluate.attacks.fake_neighbours import FAKES, fake_neighbours
from epicrec.evaluate.attacks.lists_over_time import lists_over_time
from epicrec.evaluate.attacks.membership import membership
from epicrec.evaluate.attacks.size import size_and_time
from epicrec.evaluate.attacks.success import Success, success
from epicrec.models import make_model
from epicrec.perturb import D2P, DPI, SEpicRec
from epicrec.progress import report

STARS = Scale(1, 5, 1)
WAYS = ("without privacy", "as published", "default")
EPSILON = 1.0

Outcome = tuple[str, Floats, Bools]
"""The method that was attacked, scores, and the truth."""


def attack_rows() -> Iterator[Success]:
    """The table, on the embedded films."""
    films = load_dataset("films")
    ratings, catalogue = films.ratings, films.catalogue
    assert catalogue is not None
    attacks: dict[str, Callable[[], list[Outcome]]] = {
        "lists over time": lambda: _lists(ratings),
        "fake neighbours": lambda: _fakes(ratings, catalogue),
        "averaging repeated answers": _averaged,
        "membership": lambda: _members(ratings),
        "size and time": lambda: _sizes(catalogue),
    }
    for done, (name, outcomes) in enumerate(attacks.items()):
        report("attacking", done, len(attacks))
        for way, (method, scores, truth) in zip(WAYS, outcomes(), strict=True):
            yield success(name, way, method, scores, truth)


def _covariance() -> list[tuple[str, Any]]:
    """Without noise, by the paper's recipe and by ours, for one rating at ε = 1."""
    published = make_model("covariance-svd", epsilon=EPSILON, delta=1e-6, as_published=True)
    default = make_model("covariance-svd", epsilon=EPSILON, delta=1e-6)
    return [("covariance-svd, as published", published), ("covariance-svd", default)]


def _lists(ratings: Ratings) -> list[Outcome]:
    models = [("item-knn", make_model("item-knn")), *_covariance()]
    return [(name, *lists_over_time(model, ratings)) for name, model in models]


def _fakes(ratings: Ratings, catalogue: Catalogue) -> list[Outcome]:
    few: dict[str, Any] = {"k": FAKES + 1}  # the fakes themselves, and whom they resemble
    models = [
        ("user-knn", make_model("user-knn", feedback="implicit", **few)),
        ("d2p, as published", make_model("d2p", as_published=True, **few)),
        ("d2p", make_model("d2p", epsilon=3.0, catalogue=_numbered(catalogue, ratings), **few)),
    ]
    return [(name, *fake_neighbours(model, ratings)) for name, model in models]


def _numbered(catalogue: Catalogue, ratings: Ratings) -> Catalogue:
    """The catalogue with the positions of the ratings' items for ids."""
    at = catalogue.positions(ratings.item_ids)
    genres = ["|".join(catalogue.categories_of(int(i))) for i in at]
    return Catalogue.from_columns(np.arange(len(at)), catalogue.titles[at].tolist(), genres)


def _averaged() -> list[Outcome]:
    def plain(high: Bools, times: int) -> Floats:
        return np.repeat(np.where(high, 5.0, 1.0)[:, None], times, axis=1)

    def anew(high: Bools, times: int) -> Floats:
        noise, rated = DPI(STARS, epsilon=EPSILON / 2), _one_each(high)
        return np.stack([noise.alter(rated).values for _ in range(times)], axis=1).astype(float)

    def kept(high: Bools, times: int) -> Floats:
        rated = _one_each(high)
        model = make_model("dpi-avg", epsilon=EPSILON / 2).fit(rated)
        asked = [model.predict(rated)["score"].to_numpy() for _ in range(times)]
        return np.stack(asked, axis=1).astype(float)

    ways = [("ratings", plain), ("dpi, drawn at each answer", anew), ("dpi-avg", kept)]
    return [(name, *averaging(answers)) for name, answers in ways]


def _one_each(high: Bools) -> Ratings:
    people = np.arange(len(high))
    rated = Ratings.from_columns(people, 0 * people, np.where(high, 5.0, 1.0), scale=STARS)
    return rated.with_items(np.arange(1))


def _members(ratings: Ratings) -> list[Outcome]:
    models = [("item-knn", make_model("item-knn")), *_covariance()]
    return [(name, *membership(model, ratings)) for name, model in models]


def _sizes(catalogue: Catalogue) -> list[Outcome]:
    ids = catalogue.item_ids
    d2p, epicrec = D2P(catalogue), SEpicRec(catalogue, epsilon=EPSILON)

    def of_d2p(week: Sequence[int]) -> int:
        return len(d2p.release(ids[list(week)]).items)

    def of_epicrec(week: Sequence[int]) -> int:
        return len(epicrec.release(ids[list(week)]).items)

    ways = [("history", len), ("d2p", of_d2p), ("s-epicrec", of_epicrec)]
    return [(name, *size_and_time(sent, len(ids))) for name, sent in ways]
