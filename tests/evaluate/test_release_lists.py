"""Releases of a population: who is measured, what is public, and what lists lose."""

import pytest

from epicrec.data import Catalogue, Dataset, Ratings, load_dataset
from epicrec.evaluate.release_lists import YELP_TOP_LEVEL, experiment, keep_categories, topn_cost


@pytest.fixture(scope="module")
def small(films: Catalogue, viewers: Ratings) -> Dataset:
    return Dataset("films", viewers, films)


def test_nobody_measured_is_part_of_what_is_public(small):
    setting = experiment(small)
    assert not set(setting.others.user_ids) & set(setting.people.user_ids)
    assert setting.others.n_users + setting.people.n_users == small.ratings.n_users
    assert experiment(small, max_users=10).people.n_users == 10


def test_topn_cost_has_every_way(small):
    metrics = topn_cost(small, epsilon=0.25, max_users=100).metrics
    assert metrics["ndcg_device"] == metrics["ndcg_true_sent"]
    assert metrics["ndcg_device"] > metrics["ndcg_everybody_perturbed"]
    assert 0 < metrics["ndcg_popularity"] < 1


def test_kept_categories():
    films = Catalogue.from_columns([1, 2], ["a", "b"], ["Food|Pizza", "Pizza"])
    kept = keep_categories(films, YELP_TOP_LEVEL)
    assert kept.categories == ("Food",)
    assert [kept.categories_of(i) for i in (0, 1)] == [("Food",), ()]
    assert len(YELP_TOP_LEVEL) == 21


@pytest.mark.realdata
def test_yelp_has_the_papers_categories(real_data):
    setting = experiment(load_dataset(real_data / "yelp-2013"), max_users=10)
    assert set(setting.catalogue.categories) == YELP_TOP_LEVEL
