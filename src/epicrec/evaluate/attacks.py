"""Known attacks on recommenders, and how far each gets with and without privacy.

Each attack returns scores, which should be larger where the truth is yes, and the truth. The table
sets every attack against something without privacy, a method as published, and the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from epicrec.arrays import Bools, Floats
from epicrec.data import Catalogue, Ratings, Scale, load_dataset
from epicrec.models import make_model
from epicrec.perturb import D2P, DPI, SEpicRec
from epicrec.progress import report

STARS = Scale(1, 5, 1)
AGAINST = ("without privacy", "as published", "default")
EPSILON = 1.0
KNOWN_BESIDE = 4
"""Films of each person that the attack on lists over time knows."""
KNOWN_OF_VICTIM, FAKES = 8, 5
"""Films of the victim that fake neighbours know, and how many of them there are."""
_FAKE_IDS = 1_000_000
ASKED = 60
"""How often the attacker asks for the same answer."""
_RISK = 0.05


@dataclass(frozen=True)
class Success:
    """The advantage of an attack, TPR - FPR, with a 95 % interval."""

    attack: str
    against: str
    method: str
    advantage: float
    low: float
    high: float
    tries: int

    def to_dict(self) -> dict[str, Any]:
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in vars(self).items()
        }


def success(attack: str, against: str, method: str, scores: Floats, truth: Bools) -> Success:
    """How well scores tell where the truth is yes; there they should be larger.

    The threshold is chosen on a random third of the tries and tested on the others. Both rates have
    Clopper-Pearson intervals with half the risk each.
    """
    order = np.random.default_rng(0).permutation(len(scores))
    first, rest = order[: len(order) // 3], order[len(order) // 3 :]
    thresholds = np.unique(scores[first])
    above = scores[first] >= thresholds[:, None]
    yes = truth[first]
    gains = above[:, yes].mean(axis=1) - above[:, ~yes].mean(axis=1)
    said, truly = scores[rest] >= thresholds[int(np.argmax(gains))], truth[rest]
    hit, alarm = _interval(said[truly]), _interval(said[~truly])
    return Success(
        attack, against, method,
        advantage=float(said[truly].mean() - said[~truly].mean()),
        low=hit[0] - alarm[1], high=hit[1] - alarm[0], tries=len(rest),
    )  # fmt: skip


def _interval(said: Bools) -> tuple[float, float]:
    yes, n = int(said.sum()), len(said)
    low = float(beta.ppf(_RISK / 4, yes, n - yes + 1)) if yes else 0.0
    high = float(beta.ppf(1 - _RISK / 4, yes + 1, n - yes)) if yes < n else 1.0
    return low, high


# ---- the attacks -----------------------------------------------------------------------------


def lists_over_time(model: Any, ratings: Ratings, *, seed: int = 0) -> tuple[Floats, Bools]:
    """How far a film rises in the lists of similar films that its viewer is known to have seen.

    The attacker knows four films of each person and sees the list of similar films beside each
    film, on two days (Calandrino et al. 2011). Between these days half of the people watch a film
    each. The score is the sum of the places that this film gained in the lists of the four, for
    those who watched it and for those who did not.
    """
    rng = np.random.default_rng(seed)
    people = np.flatnonzero(ratings.user_counts >= KNOWN_BESIDE)
    watched = rng.random(len(people)) < 0.5
    targets, known = [], []
    for person in people:
        own = ratings.items[ratings.row(int(person))]
        others = np.setdiff1d(np.arange(ratings.n_items), own)
        rare = others[np.argsort(ratings.item_counts[others], kind="stable")[: len(others) // 2]]
        targets.append(int(rng.choice(rare)))
        known.append(rng.choice(own, KNOWN_BESIDE, replace=False))
    after = _numbered(ratings, people[watched], np.array(targets)[watched])
    places = [_places(model, day) for day in (_numbered(ratings), after)]
    scores = [
        float(np.sum(places[0][own, target] - places[1][own, target]))
        for own, target in zip(known, targets, strict=True)
    ]
    return np.array(scores), watched


def _numbered(ratings: Ratings, users: Any = (), items: Any = ()) -> Ratings:
    """The same people with positions as ids, after some watched more films and liked them."""
    both = Ratings.from_columns(
        np.concatenate([ratings.users, np.asarray(users, int)]),
        np.concatenate([ratings.items, np.asarray(items, int)]),
        np.concatenate([ratings.values, np.full(len(users), 5.0)]),
        scale=ratings.scale,
    )
    return both.with_items(np.arange(ratings.n_items))


def _places(model: Any, ratings: Ratings) -> Floats:
    """For each film, the place of every other film in the list beside it."""
    n = ratings.n_items
    alone = Ratings.from_columns(np.arange(n), np.arange(n), np.full(n, 5.0), scale=ratings.scale)
    model.fit(ratings)
    scores = model._scores(model._suitable(alone.with_items(np.arange(n))))
    return np.argsort(np.argsort(-scores, axis=1), axis=1).astype(np.float64)


def fake_neighbours(
    model: Any, ratings: Ratings, *, victims: int = 240, seed: int = 0
) -> tuple[Floats, Bools]:
    """How highly fake accounts are recommended a film that the victim has, or has not.

    The attacker knows eight of a victim's films and opens five accounts with just these, so that
    the victim is their nearest real neighbour (Calandrino et al. 2011).
    """
    rng = np.random.default_rng(seed)
    able = np.flatnonzero(ratings.user_counts > KNOWN_OF_VICTIM + 1)
    people = rng.choice(able, min(victims, len(able)), replace=False)
    truth = np.arange(len(people)) % 2 == 0
    users, items, targets = [], [], []
    for number, (person, has) in enumerate(zip(people, truth, strict=True)):
        own = rng.permutation(ratings.items[ratings.row(int(person))])
        others = np.setdiff1d(np.arange(ratings.n_items), own)
        targets.append(
            int(own[KNOWN_OF_VICTIM] if has else rng.choice(others, p=_chances(ratings, others)))
        )
        for fake in range(FAKES):
            users += [_FAKE_IDS + number * FAKES + fake] * KNOWN_OF_VICTIM
            items += own[:KNOWN_OF_VICTIM].tolist()
    everybody = _numbered(ratings, users, items)
    model.fit(everybody)
    asked = model._suitable(everybody)
    rows = asked.positions(_FAKE_IDS + FAKES * np.arange(len(people)))
    scores = model._scores(asked.users_at(rows))
    ranks = np.argsort(np.argsort(scores, axis=1), axis=1)
    return ranks[np.arange(len(people)), targets].astype(np.float64), truth


def _chances(ratings: Ratings, others: Any) -> Floats:
    """A film that the victim does not have is drawn in proportion to its popularity."""
    counts = ratings.item_counts[others] + 1e-9
    return np.asarray(counts / counts.sum(), np.float64)


def averaging(
    answers: Callable[[Bools, int], Floats], *, people: int = 600
) -> tuple[Floats, Bools]:
    """The mean of sixty answers about each person: noise that is redrawn at each answer averages
    out. Half of the people gave the highest rating, half the lowest. `answers` gives a row for each
    person and a column for each time it is asked."""
    truth = np.arange(people) % 2 == 0
    return answers(truth, ASKED).mean(axis=1), truth


def membership(model: Any, ratings: Ratings, *, seed: int = 0) -> tuple[Floats, Bools]:
    """How well the model predicts each person's ratings from their others. It was learned from half
    of the people, and fits these better."""
    rng = np.random.default_rng(seed)
    inside = rng.random(ratings.n_users) < 0.5
    over = _numbered(ratings)
    model.fit(over.users_at(np.flatnonzero(inside)))
    scores = np.asarray(model._scores(model._suitable(over)), np.float64)
    errors = (over.values - scores[over.users, over.items]) ** 2
    counts = np.maximum(over.user_counts, 1)
    return -np.bincount(over.users, errors, over.n_users) / counts, inside


def size_and_time(
    sent: Callable[[Sequence[int]], int], items: int, *, weeks: int = 300, seed: int = 0
) -> tuple[Floats, Bools]:
    """How many rows are sent in a week in which one film was watched, or none.

    `sent` gives their number for the films of one week.
    """
    rng = np.random.default_rng(seed)
    watched = np.arange(weeks) % 2 == 0
    films = [[int(rng.integers(items))] if busy else [] for busy in watched]
    return np.array([float(sent(week)) for week in films]), watched


# ---- the table -------------------------------------------------------------------------------

Outcome = tuple[str, Floats, Bools]
"""The attacked method, the attack's scores, and the truth."""


def attack_rows() -> Iterator[Success]:
    """Every attack against each of `AGAINST`, on the embedded films."""
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
        for against, (method, scores, truth) in zip(AGAINST, outcomes(), strict=True):
            yield success(name, against, method, scores, truth)


def _covariance() -> list[tuple[str, Any]]:
    """The covariance recommender by the paper's recipe and by ours, for one rating at ε = 1."""
    published = make_model("covariance-svd", epsilon=EPSILON, delta=1e-6, as_published=True)
    default = make_model("covariance-svd", epsilon=EPSILON, delta=1e-6, task="ratings")
    return [("covariance-svd, as published", published), ("covariance-svd", default)]


def _lists(ratings: Ratings) -> list[Outcome]:
    models = [("item-knn", make_model("item-knn", task="ratings")), *_covariance()]
    return [(name, *lists_over_time(model, ratings)) for name, model in models]


def _fakes(ratings: Ratings, catalogue: Catalogue) -> list[Outcome]:
    few: dict[str, Any] = {"k": FAKES + 1}  # the other fakes, and the victim
    models = [
        ("user-knn", make_model("user-knn", task="lists", **few)),
        ("d2p, as published", make_model("d2p", as_published=True, **few)),
        (
            "d2p",
            make_model("d2p", epsilon=3.0, catalogue=_over_positions(catalogue, ratings), **few),
        ),
    ]
    return [(name, *fake_neighbours(model, ratings)) for name, model in models]


def _over_positions(catalogue: Catalogue, ratings: Ratings) -> Catalogue:
    """The catalogue with the positions of the ratings' items as ids."""
    at = catalogue.positions(ratings.item_ids)
    genres = ["|".join(catalogue.categories_of(int(i))) for i in at]
    return Catalogue.from_columns(np.arange(len(at)), catalogue.titles[at].tolist(), genres)


def _averaged() -> list[Outcome]:
    def plain(high: Bools, times: int) -> Floats:
        return np.repeat(np.where(high, 5.0, 1.0)[:, None], times, axis=1)

    def redrawn(high: Bools, times: int) -> Floats:
        noise, rated = DPI(STARS, epsilon=EPSILON / 2), _one_each(high)
        return np.stack([noise.alter(rated).values for _ in range(times)], axis=1).astype(float)

    def kept(high: Bools, times: int) -> Floats:
        rated = _one_each(high)
        model = make_model("dpi-avg", epsilon=EPSILON / 2).fit(rated)
        asked = [model.predict(rated)["score"].to_numpy() for _ in range(times)]
        return np.stack(asked, axis=1).astype(float)

    ways = [("ratings", plain), ("dpi, drawn at each answer", redrawn), ("dpi-avg", kept)]
    return [(name, *averaging(answers)) for name, answers in ways]


def _one_each(high: Bools) -> Ratings:
    people = np.arange(len(high))
    rated = Ratings.from_columns(people, 0 * people, np.where(high, 5.0, 1.0), scale=STARS)
    return rated.with_items(np.arange(1))


def _members(ratings: Ratings) -> list[Outcome]:
    models = [("item-knn", make_model("item-knn", task="ratings")), *_covariance()]
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
