"""EpicRec's protocols: category totals and recommendation loss, for any perturber."""

import json

import numpy as np
import pytest

from epicrec.data import Catalogue, Dataset, Ratings, load_dataset
from epicrec.errors import InputError
from epicrec.evaluate import evaluate
from epicrec.papers.epicrec.protocol import aggregates, mae_loss
from epicrec.perturb import D2P


@pytest.fixture(scope="module")
def small(films: Catalogue, viewers: Ratings) -> Dataset:
    return Dataset("films", viewers, films)


def test_a_catalogue_is_needed(viewers):
    with pytest.raises(InputError, match="no catalogue"):
        aggregates(Dataset("x", viewers, None))


@pytest.mark.parametrize("method", ["s-epicrec", "m-epicrec"])
def test_aggregates_order_the_ways_as_they_should_be(small, method):
    def mae(epsilon, **how):
        result = aggregates(small, method=method, epsilon=epsilon, max_users=60, **how)
        json.dumps(result.to_dict())
        return result.metrics["category_mae"]

    lpa = mae(0.1, as_published=True, calibration="lpa")
    assert mae(0.1) < 0.6 * lpa
    assert mae(0.1, as_published=True) < 1.05 * lpa
    assert mae(1.0) < mae(0.1), "less noise, less error"


def test_aggregates_are_repeatable_and_say_they_are_not_private(small):
    one, two = (aggregates(small, epsilon=0.5, max_users=20) for _ in range(2))
    assert one.metrics["category_mae"] == two.metrics["category_mae"]
    assert one.guarantee.reproducible


def test_mae_loss_of_a_release_with_no_noise_to_speak_of_is_small(small):
    hardly = mae_loss(small, epsilon=100.0, max_users=100).metrics
    much = mae_loss(small, epsilon=0.1, as_published=True, max_users=100).metrics
    assert hardly["mae_loss"] < much["mae_loss"]
    assert hardly["mae_raw"] < hardly["mae_popularity"]


def test_mae_loss_by_level_and_filter(small):
    several = mae_loss(small, method="m-epicrec", epsilon=1.0, model="svd", max_users=60).metrics
    assert {"mae_loss_no_release", "mae_loss_perturbed_release"} <= several.keys()
    with pytest.raises(InputError, match="als"):
        mae_loss(small, model="knn", max_users=20)


def test_any_perturber_is_measured_by_name_or_as_it_is(small):
    by_name = evaluate("d2p", small, protocol="aggregates", settings={"max_users": 20})
    assert by_name.method == "d2p"
    assert by_name.metrics["release_size"] > 0
    assert by_name.guarantee.reproducible
    given = evaluate(D2P(small.catalogue), small, protocol="aggregates", max_users=20)
    assert given.metrics["category_mae"] == by_name.metrics["category_mae"]
    with pytest.raises(InputError, match="takes no epsilon"):
        evaluate(D2P(small.catalogue), small, protocol="release-topn", epsilon=1.0)
    with pytest.raises(InputError, match="makes releases"):
        evaluate("s-epicrec", small)
    with pytest.raises(InputError, match="no method 'nothing'"):
        aggregates(small, method="nothing")


def test_folds_hold_out_everything_once(small):
    from epicrec.papers.epicrec.protocol import FOLDS, _without_fold

    left = sum(_without_fold(small.ratings, fold, 3).item_counts for fold in range(FOLDS))
    np.testing.assert_array_equal(left, (FOLDS - 1) * small.ratings.item_counts)
    with pytest.raises(InputError, match="0 to 9"):
        mae_loss(small, epsilon=1.0, fold=10, max_users=5)


@pytest.mark.realdata
def test_movielens_gains(real_data):
    data = load_dataset(real_data / "ml-1m")

    def mae(epsilon, **how):
        return aggregates(data, epsilon=epsilon, max_users=150, **how).metrics["category_mae"]

    for epsilon, least in ((0.1, 0.60), (0.2, 0.45), (1.0, 0.20)):
        lpa = mae(epsilon, as_published=True, calibration="lpa")
        assert mae(epsilon) < (1 - least) * lpa
        assert 0.80 * lpa < mae(epsilon, as_published=True) < 0.95 * lpa
