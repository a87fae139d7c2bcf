"""The audit of what nobody wrote an audit for: it must catch what leaks, and pass what does not."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.evaluate import audit
from epicrec.models import Recommender
from epicrec.perturb import DPI
from epicrec.perturb.contract import Perturber, Release, item_ids_of
from epicrec.privacy import Guarantee, discrete_laplace


class Toy(Perturber):
    """Sends each item of the catalogue, or not, by a coin that knows the history a little."""

    def __init__(self, catalogue: Catalogue, *, epsilon: float = 0.1, leaks: bool = False) -> None:
        self.catalogue, self.epsilon, self.leaks = catalogue, epsilon, leaks

    def release(self, history: Any, levels: Any = None, *, seed: int | None = None) -> Release:
        del levels
        had = np.isin(self.catalogue.item_ids, item_ids_of(history))
        truth = 1 / (1 + np.exp(-self.epsilon))
        flips = np.random.default_rng(seed).random(len(had)) > (1.0 if self.leaks else truth)
        return Release(
            method=self.method,
            items=tuple(self.catalogue.item_ids[had ^ flips].tolist()),
            guarantee=Guarantee(
                epsilon=self.epsilon, unit="item", relation="add or remove one"
            ).seeded(seed),
        )

    def budget(self, levels: Any = None) -> float:
        del levels
        return self.epsilon


class Counting(Recommender):
    """Items by how many people have them, with noise of scale 1/ε, or without."""

    task = "lists"

    def __init__(self, *, epsilon: float = 0.1, leaks: bool = False) -> None:
        self.epsilon, self.leaks = epsilon, leaks

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, unit="rating", relation="add or remove one")

    def _fit(self, ratings: Ratings) -> None:
        noise = discrete_laplace(ratings.n_items, 1 / self.epsilon)
        self.counts_ = ratings.item_counts + (0 if self.leaks else noise)

    def _scores(self, histories: Ratings) -> Any:
        return np.tile(self.counts_.astype(float), (histories.n_users, 1))


@pytest.fixture
def shelf() -> Catalogue:
    return Catalogue.from_columns(np.arange(10, 22), list("abcdefghijkl"), ["War"] * 12)


class Floating(Perturber):
    """A rating with noise in floats, as numpy draws it: the digits say what was added to."""

    task = "ratings"

    def __init__(self, *, epsilon: float = 1.0) -> None:
        self.epsilon, self.scale = epsilon, Scale(0, 1, 1)

    def release(self, history: Any, levels: Any = None, *, seed: int | None = None) -> Release:
        del levels
        values = np.array(history["rating"].to_pylist())
        noise = np.random.default_rng(seed).laplace(scale=1 / self.epsilon, size=len(values))
        return Release(
            method="floating",
            items=tuple(history["item_id"].to_pylist()),
            ratings=tuple((values + noise).tolist()),
            guarantee=Guarantee(
                epsilon=self.epsilon, unit="rating value", relation="change one"
            ).seeded(seed),
        )

    def budget(self, levels: Any = None) -> float:
        del levels
        return self.epsilon


def test_a_perturber_that_sends_everything_is_caught(shelf: Catalogue) -> None:
    found = audit(Toy(shelf, leaks=True))
    assert found.claimed == 0.1
    assert not found.holds
    assert found.lower_bound > 2


def test_a_model_without_its_noise_is_caught() -> None:
    found = audit(Counting(leaks=True), runs=1200)
    assert not found.holds
    assert found.lower_bound > 2


def test_what_keeps_its_promise_passes(shelf: Catalogue) -> None:
    """A bound that is 95 % sure is above the truth now and then, but not by half."""
    assert audit(Toy(shelf, epsilon=1.0)).share < 1.5
    assert audit(Counting(epsilon=1.0), runs=1800).share < 1.5


def test_it_comes_close_where_the_direction_is_clear(shelf: Catalogue) -> None:
    assert audit(Toy(shelf, epsilon=2.0), runs=3000).lower_bound > 1.0
    assert audit(DPI(Scale(0, 100, 1), epsilon=2.0), runs=6000).lower_bound > 1.0


def test_noise_in_floats_gives_itself_away() -> None:
    found = audit(Floating(), runs=6000)
    assert found.lower_bound > 1.5
    assert not found.holds


def test_by_name() -> None:
    found = audit("dpi", epsilon=0.5, runs=2000)
    assert (found.status, found.claimed, found.unit) == ("proved", 0.5, "rating value")
    assert found.share < 1.7


def test_what_cannot_be_audited_says_why(shelf: Catalogue) -> None:
    for subject, message in (
        ("bias", "promises nothing"),
        ("nothing", "no method 'nothing'"),
        (DPI(Scale(1, 5, 1), epsilon=1.0, seed=3), "has a seed"),
    ):
        with pytest.raises(InputError, match=message):
            audit(subject)
    with pytest.raises(InputError, match="at least 400"):
        audit(Toy(shelf), runs=100)
