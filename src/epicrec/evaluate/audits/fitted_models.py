"""Audits of what a fitted model holds: private bias and popularity, DPI and DPM, D2P.

One fit plays many rounds, because every user or every item of it is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.arrays import Bools, Floats
from epicrec.data import Ratings, Scale
from epicrec.errors import InputError
from epicrec.evaluate.audits.game import Game, climb, fisher
from epicrec.models import Recommender, make_model
from epicrec.models.private.statistics import ForAndAgainst
from epicrec.perturb.d2p.groups import no_features
from epicrec.perturb.d2p.tuning import choose
from epicrec.privacy import Guarantee

STARS = Scale(1, 5, 1)
D2P_MODELS = ("d2p", "i-d2p", "d2p-svd")
_HIDDEN_AMONG = 400
"""Items, where DPI hides which of them were rated."""
_D2P_ITEMS = 20


def private_bias_games(model: Any) -> list[Game]:
    """An item has one rating or none, and every item of the fit is a round. The observer sees the
    totals that the model publishes."""

    def totals(value: int) -> Floats:
        own = Ratings.from_columns([0], [0], [float(value)], scale=STARS)
        return ForAndAgainst(STARS)(own).astype(np.float64)

    (value,) = climb(lambda found: float(np.sum(totals(found[0] + 1) ** 2)), [5])
    moved = totals(value + 1)[:, None]

    def seen(bits: Bools) -> Floats:
        rated = np.append(
            np.flatnonzero(bits), len(bits)
        )  # the last, so that there are always ratings
        ratings = Ratings.from_columns(
            np.zeros(len(rated), int), rated, np.full(len(rated), value + 1.0), scale=STARS
        )
        totals = model.fit(ratings.with_items(np.arange(len(bits) + 1))).totals_[:, :-1]
        return np.asarray(totals, np.float64)

    def by_likelihood(bits: Bools) -> Floats:
        totals = seen(bits)
        return np.asarray((np.abs(totals) - np.abs(totals - moved)).sum(axis=0))

    def by_fisher(bits: Bools) -> Floats:
        return fisher(seen(bits).T, moved[:, 0])

    said = f"an item has a rating of {value + 1} or none"
    return [
        Game(claim=model.guarantee, neighbours=said, play=play, rounds=rounds, at_once=4000)
        for play, rounds in ((by_likelihood, 200_000), (by_fisher, 40_000))
    ]


def popularity_games(model: Any) -> list[Game]:
    """A user who alone has an item, and no other, is there or not, and every item of the fit is a
    round. The observer sees the counts that the model publishes."""

    def play(bits: Bools) -> Floats:
        had = np.append(
            np.flatnonzero(bits), len(bits)
        )  # the last, so that there are always ratings
        histories = Ratings.from_columns(had, had).with_items(np.arange(len(bits) + 1))
        return np.asarray(model.fit(histories).counts_[:-1], np.float64)

    play(np.array([True]))
    said = "the only person who has an item, and no other, is there or not"
    return [Game(claim=model.guarantee, neighbours=said, play=play, rounds=200_000, at_once=4000)]


def dpi_games(model: Any) -> list[Game]:
    """A rating has one value or another, or is there or not, and every user of the fit is a round.
    The observer sees the released ratings in the saved model, after each of two fits on the same
    ratings."""
    hidden = model.unit == "rating"
    items = np.arange(_HIDDEN_AMONG if hidden else 1)

    def play(bits: Bools) -> Floats:
        users = np.flatnonzero(bits) if hidden else np.arange(len(bits))
        values = np.full(len(users), 5.0) if hidden else np.where(bits, 5.0, 1.0)
        ratings = Ratings.from_columns(
            np.append(users, len(bits)), np.zeros(len(users) + 1, int), np.append(values, 3.0),
            scale=STARS,
        )  # fmt: skip
        everybody = ratings.with_items(items)
        if hidden:
            everybody = _with_users(everybody, len(bits) + 1)
        model._memory = None  # in another world nothing has been released yet
        seen = np.zeros((2, len(bits) + 1))
        for once in seen:
            released = model.fit(everybody)._released()
            mine = released.items == 0
            once[released.users[mine]] = released.values[mine]
        return np.asarray(seen.mean(axis=0)[:-1])

    said = "5 or none, among fakes" if hidden else "5 or 1"
    return [
        Game(
            claim=_promised(model, items),
            neighbours=f"a user's only rating is {said}",
            play=play,
            rounds=40_000 if hidden else 100_000,
            at_once=1000 if hidden else 4000,
        )
    ]


def dpm_games(model: Any) -> list[Game]:
    """DPM as published.

    `dpm-avg`: one of three ratings is the lowest or the highest; the observer sees the prediction.
    The others: **the attack**. Two items have the same single rater, who rates them alike or not.
    With r̂_ai - r̂_aj = w'_au (r_ui - r_uj)/Σ|w'| the averages' noise cancels, and the two
    predictions differ only if the ratings do: a few hundred rounds are enough.
    """
    play: Callable[[Bools], Floats]
    if model.method == "dpm-avg":

        def play(bits: Bools) -> Floats:
            users, items = np.repeat(np.arange(len(bits)), 3), np.tile(np.arange(3), len(bits))
            first = np.repeat(np.where(bits, 5.0, 1.0), 3)
            ratings = Ratings.from_columns(
                users, items, np.where(items == 0, first, 3.0), scale=STARS
            ).with_items(np.arange(3))
            asked = ratings.select(ratings.items == 0)
            scores = model.fit(ratings).predict(asked, histories=ratings)["score"]
            return np.asarray(scores.to_numpy(), np.float64)

        said, rounds, at_once = "one of a user's three ratings is 5 or 1", 100_000, 4000
    else:

        def play(bits: Bools) -> Floats:
            return np.array([_difference(model, 3.0 if bit else 4.0) for bit in bits])

        said, rounds, at_once = "the only rater of y and z rates them alike or not", 1600, 100
    play(np.array([False]))
    claim = model.guarantee
    return [Game(claim=claim, neighbours=said, play=play, rounds=rounds, at_once=at_once)]


def _difference(model: Recommender, value: float) -> float:
    """Whether an active user's predictions of y and z, which only `ann` has rated, differ."""
    rows = [("ann", "x", 3), ("ann", "y", 4), ("ann", "z", value), ("bob", "x", 2), ("bob", "w", 5)]
    others = Ratings.from_columns(*zip(*rows, strict=True), scale=STARS)
    own = Ratings.from_columns(["eve"] * 3, ["x", "w", "v"], [3.0, 4.0, 2.0], scale=STARS)
    asked = pa.table({"user_id": ["eve", "eve"], "item_id": ["y", "z"]})
    items = ["v", "w", "x", "y", "z"]
    y, z = model.fit(others, items=items).predict(asked, histories=own)["score"].to_pylist()
    return float(abs(y - z) > 1e-4)


def _with_users(ratings: Ratings, n: int) -> Ratings:
    """The same ratings among users 0 to n - 1, some of whom have none."""
    counts = np.bincount(ratings.user_ids[ratings.users], minlength=n)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(ratings, user_ids=np.arange(n), indptr=indptr)


def _promised(model: Any, items: Any) -> Guarantee:
    one = Ratings.from_columns([0], [0], [3.0], scale=STARS).with_items(items)
    promise: Guarantee = make_model(model.method, **model.get_params()).fit(one).guarantee
    return promise


# ---- D2P ------------------------------------------------------------------------------------


def d2p_games(method: str, epsilon: float) -> list[Game]:
    """A user has the first of twenty items or the second, and every user of the fit is a round.
    The observer sees the AlterEgos that the model learns from: all it knows of its users."""
    ids = np.arange(_D2P_ITEMS)
    chosen = choose(no_features(ids), epsilon)  # once, not at each fit
    options = {name: getattr(chosen, name) for name in ("p", "p_star", "lam", "floor")}
    model: Any = make_model(method, **options)

    def play(bits: Bools) -> Floats:
        model.fit(Ratings.from_columns(np.arange(len(bits)), bits.astype(int)).with_items(ids))
        seen = model._held.by_item().toarray()
        return np.asarray(seen[:, 1] - seen[:, 0], np.float64)

    play(np.array([False]))
    return [
        Game(
            claim=model.guarantee,
            neighbours=f"a user's item is the first or the second of {_D2P_ITEMS}",
            play=play,
            rounds=100_000,
            at_once=2000,
        )
    ]


def published_d2p_games(method: str) -> list[Game]:
    """As published, groups are made of all users' ratings, without noise, and the model's file has
    them. One user's ratings decide whether an item is in another's group."""
    if method == "i-d2p":
        raise InputError("there is no audit of i-d2p as published, only of d2p")
    ids = np.arange(6)
    model: Any = make_model(method, as_published=True, p=0.9, p_star=0.0, lam=2.0)

    def fitted(bit: bool) -> Any:
        rows = [(user, item) for user in range(4) for item in (user % 3, 3 + user % 3)]
        rows.append((9, 0 if bit else 5))
        rows.append((9, 1))
        return model.fit(Ratings.from_columns(*zip(*rows, strict=True)).with_items(ids))

    def play(bits: Bools) -> Floats:
        return np.array([_close(fitted(bit)) for bit in bits.tolist()])

    fitted(False)
    return [
        Game(
            claim=model.guarantee,
            neighbours="one item of a history is another, which moves it into another's group",
            play=play,
            rounds=1600,
            at_once=100,
        )
    ]


def _close(model: Any) -> float:
    """Whether the first item is in the second's group."""
    return float(0 in model.channel.groups.members(1))
