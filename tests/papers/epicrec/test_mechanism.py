"""EpicRec as published: the contract, the leak of M-EpicRec, the competitors, the budget."""

from math import inf
from typing import Any

import numpy as np
import pytest

from epicrec.data import Catalogue, load_dataset
from epicrec.errors import InputError
from epicrec.papers.epicrec.mechanism import (
    PublishedLayout,
    PublishedMEpicRec,
    PublishedSEpicRec,
    quantify_published,
)
from epicrec.perturb import MEpicRec, Prior, SEpicRec, make_perturber, perturber_class
from epicrec.testing.perturbers import PerturberContract

MIXED = {"Drama": "all release", "Comedy": "no release", "War": "all release"}
FILMS = Catalogue.from_columns(
    [1, 2, 3, 4], ["a", "b", "c", "d"], ["War", "War|Drama", "Opera", "Opera|Spy"]
)


class TestSEpicRec(PerturberContract):
    def make(self, catalogue: Catalogue, **settings: Any) -> PublishedSEpicRec:
        return PublishedSEpicRec(catalogue, epsilon=1.0, **settings)


class TestMEpicRec(PerturberContract):
    levels = MIXED

    def make(self, catalogue: Catalogue, **settings: Any) -> PublishedMEpicRec:
        return PublishedMEpicRec(catalogue, epsilon=1.0, **settings)


def test_by_name_there_are_two_classes(films):
    assert type(make_perturber("s-epicrec", catalogue=films)) is SEpicRec
    one = make_perturber("s-epicrec", catalogue=films, as_published=True, calibration="lpa")
    assert type(one) is PublishedSEpicRec
    assert one.method == "s-epicrec"
    assert type(make_perturber("m-epicrec", catalogue=films, as_published=False)) is MEpicRec
    for setting in ({"calibration": "x"}, {"epsilon": "a"}, {"seed": 0.5}):
        with pytest.raises(InputError, match=next(iter(setting))):
            make_perturber("s-epicrec", catalogue=films, as_published=True, **setting)
    with pytest.raises(InputError, match="no setting 'calibration'"):
        make_perturber("s-epicrec", catalogue=films, calibration="lpa")
    with pytest.raises(InputError, match="as_published of s-epicrec is true or false"):
        make_perturber("s-epicrec", catalogue=films, as_published="no")
    with pytest.raises(InputError, match="dpi has no version as published"):
        make_perturber("dpi", as_published=True)


def test_a_release_says_who_made_it(films):
    history, made = films.item_ids[:40], {}
    for published in (True, False):
        perturber = make_perturber("s-epicrec", catalogue=films, as_published=published)
        made[published] = perturber.release(history)
        assert made[published].settings["as_published"] is published is made[published].as_published
        assert made[published].settings["calibration"] == "category"
    assert made[True].guarantee.status == "claimed"
    assert made[False].guarantee.status == "proved"


def test_no_release_means_none(films):
    history = films.item_ids[::3].tolist()
    release = PublishedMEpicRec(films, epsilon=1.0).release(history, MIXED)
    at = films.positions(release.items)
    assert len(at) > 50
    assert not any("Comedy" in films.categories_of(int(k)) for k in at)


LEAKY = Catalogue.from_columns(
    [1, 2, 3, 4], ["a", "b", "c", "d"], ["Opera", "Opera|War", "War", "Drama|War"]
)
LEAKY_LEVELS = {"Opera": "all release", "War": "perturbed release", "Drama": "no release"}


def test_it_tells_neighbouring_histories_apart_with_certainty():
    """Item 2 is to be perturbed; the exact count of its 'all release' category gives it away."""
    device = PublishedMEpicRec(LEAKY, epsilon=0.1)
    with_item = [device.release([2, 3], LEAKY_LEVELS) for _ in range(200)]
    without = [device.release([3], LEAKY_LEVELS) for _ in range(200)]
    assert {r.aggregates["Opera"] for r in with_item} == {1}
    assert {r.aggregates["Opera"] for r in without} == {0}
    # and it shows in what is sent: never an item of the category unless it was watched
    assert not any({1, 2} & set(r.items) for r in without)
    assert sum(bool({1, 2} & set(r.items)) for r in with_item) > 100
    assert with_item[0].guarantee.status == "claimed"


def test_odds_of_a_leaky_release_say_so():
    levels = {"War": "all", "Drama": "perturbed", "Opera": "perturbed", "Spy": "no"}
    release = PublishedMEpicRec(FILMS, epsilon=1.0).release([2], levels)
    reader = perturber_class(release.method, as_published=release.as_published)
    assert reader.odds(release, 2, FILMS).epsilon == inf
    assert reader.odds(release, 99, FILMS).epsilon == 0
    assert 0 < reader.odds(release, 3, FILMS).epsilon <= 1.0
    sound = MEpicRec(FILMS, epsilon=1.0).release([2], levels)
    assert MEpicRec.odds(sound, 2, FILMS).epsilon <= 1.0


def test_odds_of_what_no_category_counts_are_even():
    films = Catalogue.from_columns([1, 2], ["a", "b"], ["War", "Spy"])
    release = PublishedMEpicRec(films, epsilon=1.0).release([1], {"War": "perturbed", "Spy": "no"})
    assert PublishedMEpicRec.odds(release, 2, films).epsilon == 0


def test_odds_with_grouped_noise_are_those_of_the_whole_budget():
    release = PublishedSEpicRec(FILMS, epsilon=3.0, calibration="gs").release([1, 2, 3])
    assert PublishedSEpicRec.odds(release, 1, FILMS).epsilon == 3.0


@pytest.mark.parametrize("calibration", ["lpa", "gs"])
def test_competitors_release_too(films, calibration):
    device = PublishedSEpicRec(films, epsilon=1.0, calibration=calibration)
    release = device.release(films.item_ids[:40])
    assert release.guarantee.epsilon == 1.0
    assert release.settings["calibration"] == calibration
    with pytest.raises(InputError, match="calibration"):
        PublishedSEpicRec(films, calibration="none").release([])


@pytest.mark.parametrize("calibration", ["category", "lpa"])
def test_every_total_has_noise_of_its_own(films, monkeypatch, calibration):
    """What is released is the true total and the one draw of the category's scale, in all."""
    drawn = []

    def known(count, scale, **_seed):
        drawn.append((count, scale))
        return 1000 * np.arange(1, count + 1)

    monkeypatch.setattr("epicrec.papers.epicrec.mechanism.discrete_laplace", known)
    history = films.item_ids[::3]
    release = PublishedSEpicRec(films, epsilon=0.5, calibration=calibration).release(history)
    true = films.matrix[films.positions(history)].sum(axis=0)
    noise = np.array([release.aggregates[name] for name in films.categories]) - true
    assert noise.tolist() == [1000 * (j + 1) for j in range(len(films.categories))]
    scales = [release.settings["scales"][name] for name in films.categories]
    assert drawn == [(len(scales), scales)]


@pytest.mark.realdata
def test_movielens_budget_is_the_papers(real_data):
    data = load_dataset(real_data / "ml-1m")
    films = data.catalogue
    prior = Prior.from_histories(films, data.ratings)
    device = PublishedSEpicRec(films, prior=prior)
    assert all(0.15 <= device.budget(seed=seed) <= 0.30 for seed in range(3))
    levels = dict.fromkeys(films.categories, "perturbed release")
    layout = PublishedLayout.of(films, levels)
    literal = quantify_published(layout, prior, rng=np.random.default_rng(0), literal=True)
    assert literal == pytest.approx(0.04), "line 7 of Algorithm 2, taken literally, stops at once"
