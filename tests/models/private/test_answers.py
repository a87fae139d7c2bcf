"""Learning from randomised response: weights of people, what is learned, and when nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from epicrec.data import Catalogue, Dataset, Ratings, load_dataset
from epicrec.data.works import catalogue_works
from epicrec.evaluate import evaluate
from epicrec.models.private import answers as learning
from epicrec.models.private.answers import Answers, Block, learn_answers
from epicrec.models.randomised_response import RandomisedResponseLists
from epicrec.perturb.randomised_response import Answering
from epicrec.testing.recommenders import RecommenderContract


class TestRandomisedResponseLists(RecommenderContract):
    model_type = RandomisedResponseLists
    settings = {"epsilon": 3.0, "seed": 1}


def two_kinds(people: int, works: int = 40) -> np.ndarray[Any, Any]:
    """People who have seen most of one half of the works and little of the other."""
    rng = np.random.default_rng(0)
    chances = np.where(np.arange(works) % 2 == np.arange(people)[:, None] % 2, 0.6, 0.05)
    return np.asarray(rng.random((people, works)) < chances)


def held(seen: Any, ways: list[Answering], which: Any, at_once: int = 100) -> Answers:
    """Answers of people about `seen`; `which` has the ways of each person's releases, of which the
    first one counts what was seen."""
    people, used, bits = [], [], []
    for person, each in enumerate(which):
        for turn, way in enumerate(each):
            told = seen[person] & (turn == 0)
            people.append(person)
            used.append(way)
            bits.append(np.frombuffer(ways[way].answer(told, 1000 * person + turn), np.uint8))
    rows = (np.array(people), np.array(used), np.array(bits))

    def blocks() -> Iterator[Block]:
        for start in range(0, len(seen), at_once):
            mine = (rows[0] >= start) & (rows[0] < start + at_once)
            yield Block(*(column[mine] for column in rows))

    return Answers(ways[0].works, tuple(ways), blocks, len(seen))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    genres = ["War" if i % 4 else "War|Opera" for i in range(40)]
    return Catalogue.from_columns(np.arange(40), [f"t {i}" for i in range(40)], genres)


def way(catalogue: Catalogue, epsilon: float, *opened: str) -> Answering:
    return Answering(catalogue_works(catalogue), epsilon, opened)


def kinds_told_apart(state: dict[str, Any]) -> float:
    """How much more works of a person's own kind score than others, for a history of three."""
    scores = state["factors_"] @ state["projections_"][[0, 2, 4]].sum(axis=0)
    return float(scores[6::2].mean() - scores[7::2].mean())


def test_tastes_are_learned_from_answers(catalogue: Catalogue) -> None:
    found, note = learn_answers(held(two_kinds(1500), [way(catalogue, 2.0)], [[0]] * 1500))
    assert note == ""
    assert kinds_told_apart(found) > 0.1


def test_nothing_is_learned_where_there_is_nothing(catalogue: Catalogue) -> None:
    rng = np.random.default_rng(3)
    alike = rng.random((1500, 40)) < np.linspace(0.05, 0.6, 40)
    found, note = learn_answers(held(alike, [way(catalogue, 2.0)], [[0]] * 1500))
    assert "popularity" in note
    assert found["factors_"].shape[1] == 0
    assert np.corrcoef(found["offsets_"], alike.sum(axis=0))[0, 1] > 0.98


def test_blocks_do_not_matter(catalogue: Catalogue) -> None:
    seen, ways, which = two_kinds(500), [way(catalogue, 3.0)], [[0]] * 500
    scores = []
    for at_once in (500, 7):
        state, note = learn_answers(held(seen, ways, which, at_once))
        assert note == ""
        scores.append(state["factors_"] @ state["projections_"].T)
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_people_who_tell_more_weigh_more_and_counts_stay_right(catalogue: Catalogue) -> None:
    """With different ε, open categories and numbers of releases."""
    seen = two_kinds(4000)
    ways = [way(catalogue, 0.5), way(catalogue, 3.0), way(catalogue, 1.0, "War")]
    which = [[[0], [1], [2], [0, 1, 0]][person // 2 % 4] for person in range(4000)]
    counts = learning._counts(held(seen, ways, which))
    true = seen.sum(axis=0)
    off = counts.counts - true
    sampled = np.sqrt(true * (1 - true / 4000) * 0.5)  # some people weigh more than others
    assert (np.abs(off) < 4 * (counts.spread + sampled)).all()
    assert np.sqrt(np.mean(off**2)) > counts.spread / 4
    even = sum(np.mean(ways[w].variance) for each in which for w in each) ** 0.5
    assert counts.spread < 0.5 * even, "less noise than if all weighed alike"
    found, note = learn_answers(held(seen, ways, which))
    assert note == ""
    assert kinds_told_apart(found) > 0.1


def test_moments_are_those_of_the_histories(catalogue: Catalogue) -> None:
    """Noise is taken off as it is known, also where categories are open."""
    seen = two_kinds(4000)
    ways = [way(catalogue, 1.0), way(catalogue, 2.0, "War")]
    answers = held(seen, ways, [[person // 2 % 2] for person in range(4000)])
    measured = learning._Measured.of(answers, learning._counts(answers))
    found = measured.moments()
    true = (seen - seen.mean(axis=0)) @ measured.directions.astype(float)
    off = found.whitened(found.matrix - true.T @ true)
    assert abs(np.trace(off)) < 2 * len(off)
    raw = found.whitened(found.matrix + found.noise * np.sqrt(found.people) - true.T @ true)
    assert np.trace(raw) > 50 * len(off), "what was taken off is much"


def test_nobody_counts_for_more_than_honest_noise_does(catalogue: Catalogue) -> None:
    """Answers of people who saw nothing are hardly ever clipped, and long claims are."""
    ways = [way(catalogue, 3.0)]
    nothing = held(np.zeros((1000, 40), bool), ways, [[0]] * 1000)
    claims = held(np.ones((1000, 40), bool), ways, [[0]] * 1000)
    counts = learning._counts(nothing)
    whole = 1000 / (ways[0].variance.mean() + learning.OWN_VARIANCE) ** 2
    honest = learning._Measured.of(nothing, counts)
    assert honest.people[:, 0].sum() == pytest.approx(whole, rel=0.05)
    false = learning._Measured.of(claims, counts)
    d = honest.honest.whitening.shape[1]
    length = np.einsum("fij,ik,jk->", false.products, *[honest.honest.whitening] * 2)
    most = (d + 3 * np.sqrt(2 * d)) * whole
    assert 0.9 * most < length <= 1.001 * most


def test_films_are_better_than_popularity_and_sparse_people_are_not_worse() -> None:
    films = load_dataset("films")

    def ndcg(data: Dataset, **settings: Any) -> float:
        found = evaluate(
            "randomised-response", data, protocol="topn", epsilon=3.0, seed=0, settings=settings
        )
        return float(found.metrics["ndcg"])

    assert ndcg(films) > 1.5 * ndcg(films, tastes=False)
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(400), 6)
    items = (rng.pareto(1.0, len(users)) * 20).astype(np.int64) % 800
    pairs = np.unique(np.column_stack([users, items]), axis=0)
    few = Ratings.from_columns(pairs[:, 0], pairs[:, 1]).with_items(np.arange(800))
    sparse = Dataset("sparse", few, None)
    assert ndcg(sparse) > ndcg(sparse, tastes=False) - 0.005


def test_a_model_says_what_it_promises() -> None:
    films = load_dataset("films")
    model = RandomisedResponseLists(epsilon=1.0).fit(films.ratings, films.catalogue)
    promise = model.guarantee
    assert (promise.epsilon, promise.unit, promise.relation) == (1.0, "item", "add or remove one")
    assert not promise.reproducible
    assert "answers for every work" in model.record
