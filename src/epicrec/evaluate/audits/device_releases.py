"""Audits of perturbers: the observer reads a device's release, as the text that is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.arrays import Bools, Floats
from epicrec.data import Catalogue, Scale
from epicrec.evaluate.audits.game import Game, climb
from epicrec.perturb import (
    D2P,
    DPI,
    HidingDPI,
    MEpicRec,
    RandomisedResponse,
    SEpicRec,
    make_perturber,
)
from epicrec.perturb.contract import Perturber, Release
from epicrec.perturb.levels import PERTURBED, Level, Levels
from epicrec.perturb.randomised_response import answers_about

STARS = Scale(1, 5, 1)
FILMS = Catalogue.from_columns(
    np.arange(7),
    list("abcdefg"),
    ["War|Drama", "War", "Drama", "Horror", "Crime", "War|Drama|Crime", "Horror"],
)
MIXED: dict[str, Level] = {
    "War": PERTURBED, "Drama": PERTURBED, "Crime": "all release", "Horror": "no release"
}  # fmt: skip


def received(perturber: Perturber, history: Any, levels: Levels = PERTURBED) -> Release:
    """A release as it is received: nothing but the text arrives."""
    return Release.from_json(perturber.release(history, levels).public().to_json())


def epicrec_games(perturber: SEpicRec | MEpicRec, levels: Levels = PERTURBED) -> list[Game]:
    """A history has a film or not: the one whose totals tell most, and the one of most categories,
    whose loss is spread over all of them."""
    scales = received(perturber, [], levels).settings["scales"]

    def moved(film: int) -> list[float]:
        if perturber.treatment([film], levels)[0] != PERTURBED:
            return [0.0]
        return [1 / scales[name] for name in FILMS.categories_of(film) if name in scales]

    (told,) = climb(lambda found: sum(loss**2 for loss in moved(found[0])), [len(FILMS)])
    (many,) = climb(lambda found: float(len(moved(found[0]))), [len(FILMS)])
    return [_film_game(perturber, levels, film) for film in dict.fromkeys((told, many))]


def _film_game(perturber: SEpicRec | MEpicRec, levels: Levels, film: int) -> Game:
    """The score is the log-likelihood ratio of the noisy totals that are sent with a release. The
    films that are sent are computed from these totals and public numbers."""
    kind = FILMS.categories_of(film)
    other = next(i for i in range(len(FILMS)) if i != film and kind[0] in FILMS.categories_of(i))
    before = dict.fromkeys(FILMS.categories_of(other), 1)

    def score(release: Release) -> float:
        noisy, scales = release.aggregates, release.settings["scales"]
        off = {name: noisy[name] - before.get(name, 0) for name in kind if name in scales}
        return sum((abs(y) - abs(y - 1)) / float(scales[name]) for name, y in off.items())

    said = f"{FILMS.titles[film]} ({'|'.join(kind)}) is in the history or not"
    return _game(perturber, ([other], [film, other]), score, said, levels=levels, rounds=6000)


def published_epicrec_games(method: str, epsilon: float) -> list[Game]:
    """S-EpicRec as published has the same games as ours. In M-EpicRec the total of a category at
    "all release" is sent without noise, and counts films that another of their categories hides."""
    public: Any = {"catalogue": FILMS, "scale": STARS}
    perturber: Any = make_perturber(method, as_published=True, epsilon=epsilon, **public)
    if method == "s-epicrec":
        return epicrec_games(perturber)
    return [
        _game(
            perturber,
            ([1], [0, 1]),
            lambda release: float(release.aggregates["Drama"]),
            "a film of a hidden and of an open category is in the history or not",
            levels={**MIXED, "Drama": "all release"},
            rounds=2000,
        )
    ]


def dpi_release_games(epsilon: float) -> list[Game]:
    return [
        _game(
            DPI(STARS, epsilon=epsilon),
            (_rated(1), _rated(5)),
            lambda release: release.values[0],
            "a rating is 5 or 1",
        )
    ]


def hiding_release_games(epsilon: float) -> list[Game]:
    perturber = HidingDPI(np.arange(40), STARS, epsilon=epsilon, fakes=10)
    return [
        _game(
            perturber,
            (pa.table({"item_id": pa.array([], pa.int64()), "rating": []}), _rated(5)),
            lambda release: dict(zip(release.items, release.values, strict=True)).get(0, 0.0),
            "an item has a rating of 5 or none, among fakes",
        )
    ]


def answer_games(epsilon: float) -> list[Game]:
    """One film's bit is all that differs; one category is held back and another open."""
    return [
        _game(
            RandomisedResponse(FILMS, epsilon=epsilon),
            ([0, 3], [0, 1, 3]),
            lambda release: float(answers_about(release, FILMS)[1]),
            "a film is in the history or not",
            levels=MIXED,
            rounds=64_000,
        )
    ]


def d2p_release_games(epsilon: float) -> list[Game]:
    catalogue = Catalogue.from_columns(np.arange(20), [str(i) for i in range(20)], ["War"] * 20)
    return [
        _game(
            D2P(catalogue, epsilon=epsilon),
            ([0], [1]),
            lambda release: float(1 in release.items) - float(0 in release.items),
            "the only film is the first or the second of 20",
        )
    ]


def _rated(value: float) -> pa.Table:
    return pa.table({"item_id": [0], "rating": [float(value)]})


def _game(
    perturber: Perturber,
    worlds: tuple[Any, Any],
    score: Callable[[Release], float],
    said: str,
    *,
    levels: Levels = PERTURBED,
    rounds: int = 8000,
) -> Game:
    def play(bits: Bools) -> Floats:
        return np.array(
            [score(received(perturber, worlds[int(bit)], levels)) for bit in bits.tolist()]
        )

    claim = perturber.release(worlds[1], levels).guarantee
    return Game(claim=claim, neighbours=said, play=play, rounds=rounds)


RELEASES: Mapping[str, Callable[[float], list[Game]]] = {
    "randomised-response": answer_games,
    "s-epicrec": lambda epsilon: epicrec_games(SEpicRec(FILMS, epsilon=epsilon)),
    "m-epicrec": lambda epsilon: epicrec_games(MEpicRec(FILMS, epsilon=epsilon), MIXED),
    "dpi": dpi_release_games,
    "hiding-dpi": hiding_release_games,
    "d2p": d2p_release_games,
}
"""The games of each perturber, by its name and ε."""
