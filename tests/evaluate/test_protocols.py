"""Protocols: the right split, the right questions, honest results."""

import json
import warnings

import numpy as np
import pytest

from epicrec.data import Dataset, Ratings, load_dataset
from epicrec.data.splits import folds_of
from epicrec.errors import EpicrecWarning, InputError
from epicrec.evaluate import evaluate, evaluate_topn
from epicrec.models import Recommender, make_model


@pytest.fixture(scope="module")
def films_data() -> Dataset:
    return load_dataset("films")


class Oracle(Recommender):
    """Knows the whole truth: its lists must be judged perfect."""

    task = "lists"

    def __init__(self, truth: Ratings) -> None:
        self.truth = truth

    def _fit(self, ratings: Ratings) -> None:
        pass

    def _scores(self, histories: Ratings):
        own = self.truth.users_at(self.truth.positions(histories.user_ids))
        return np.asarray(own.csr().todense()) + 0.0


def test_an_oracle_is_perfect(viewers: Ratings) -> None:
    from epicrec.data import split_per_user

    train, test = split_per_user(viewers, 0.3, seed=0)
    metrics, _ = evaluate_topn(Oracle(viewers), train, test, n=3)
    assert metrics["ndcg"] == pytest.approx(1)
    liked = test.select(test.values >= 5)
    metrics, _ = evaluate_topn(Oracle(viewers), train, test, n=3, relevant_from=5)
    assert metrics["users"] == (liked.user_counts > 0).sum()
    metrics, _ = evaluate_topn(Oracle(viewers), train, test, max_users=10)
    assert metrics["users"] == 10


def test_result_is_json_and_repeatable(films_data) -> None:
    one, two = (evaluate("bias", films_data, seed=3) for _ in range(2))
    assert one.metrics == two.metrics
    assert evaluate("bias", films_data, seed=4).metrics != one.metrics
    as_json = json.loads(json.dumps(one.to_dict()))
    assert set(as_json) >= {"method", "data", "guarantee", "metrics", "seconds", "peak_rss_mb"}
    assert set(as_json["seconds"]) == {"fit", "predict"}
    assert as_json["guarantee"]["status"] == "none"


def test_what_is_evaluated_is_what_fit_makes(films_data) -> None:
    """The task decides how a model is measured, and only asking for ratings changes the task."""
    for options, task, protocol in (
        ({}, "lists", "topn"),
        ({"task": "ratings"}, "ratings", "rating"),
        ({"protocol": "topn"}, "lists", "topn"),
        ({"protocol": "rating"}, "ratings", "rating"),
        ({"protocol": "topn", "task": "ratings"}, "ratings", "topn"),
        ({"epsilon": 1.0}, "lists", "topn"),
    ):
        found = evaluate("item-knn", films_data, **options)
        assert (found.settings["task"], found.protocol) == (task, protocol), options
    assert evaluate("bias", films_data).protocol == "rating"
    assert make_model("item-knn").task == make_model("svd", epsilon=1.0).task == "lists"
    with pytest.raises(InputError, match="predicts no ratings"):
        evaluate("svd", films_data, protocol="rating", task="lists")


def test_an_epsilon_keeps_the_task() -> None:
    for method, lists, ratings in (
        ("svd", "covariance-svd", "covariance-svd"),
        ("item-knn", "covariance-svd", "covariance-knn"),
    ):
        assert make_model(method, epsilon=1.0).method == lists
        rated = make_model(method, epsilon=1.0, task="ratings")
        assert (rated.method, rated.task) == (ratings, "ratings")


def test_lists_of_a_model_for_ratings_warn_once(viewers: Ratings) -> None:
    model = make_model("svd", task="ratings").fit(viewers)
    with pytest.warns(EpicrecWarning, match="for lists make the model with task='lists'"):
        model.recommend(viewers.user_ids[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.recommend(viewers.user_ids[:1])
        make_model("svd").fit(viewers).recommend(viewers.user_ids[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nothing"}, "no method 'nothing'"),
        ({"method": "bias", "epsilon": 1.0}, "bias has no private version"),
        ({"method": "bias", "settings": {"depth": 3}}, "no setting 'depth'.*damping"),
        ({"method": "bias", "protocol": "magic"}, "no protocol 'magic'"),
        ({"method": "bias", "test_fraction": 1.5}, "between 0 and 1"),
        ({"method": "bias", "protocol": "topn", "n": 0}, "at least 1"),
    ],
)
def test_bad_options(films_data, options, message) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(options.pop("method"), films_data, **options)


def test_a_model_is_measured_as_it_is(films_data) -> None:
    model = make_model("item-knn", k=7)
    given = evaluate(model, films_data)
    by_name = evaluate("item-knn", films_data, settings={"k": 7})
    assert given.metrics == by_name.metrics
    assert (given.method, given.to_dict()["asked"]) == ("item-knn", "item-knn")
    assert not hasattr(model, "item_ids_"), "the caller's model is left as it was"
    for options in ({"epsilon": 1.0}, {"settings": {"k": 3}}):
        with pytest.raises(InputError, match=r"ItemKNN\(k=7\) has its own settings"):
            evaluate(model, films_data, **options)
    with pytest.raises(InputError, match="give a method's name"):
        evaluate(model, films_data, protocol="yang")


def test_an_instance_keeps_its_own_seed(films_data) -> None:
    seeded = make_model("private-bias", epsilon=1.0, seed=5)
    assert evaluate(seeded, films_data, seed=1).guarantee.reproducible
    fresh = make_model("private-bias", epsilon=1.0)
    assert not evaluate(fresh, films_data, seed=1).guarantee.reproducible


def test_any_form_of_data_is_measured_alike(films_data) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = films_data.ratings.to_table()
    expected = evaluate("bias", table)
    assert expected.data == "frame"
    for frame in (pandas.DataFrame(table.to_pydict()), polars.DataFrame(table.to_pydict())):
        assert evaluate("bias", frame).metrics == expected.metrics
    assert evaluate("bias", films_data.ratings).metrics == evaluate("bias", films_data).metrics
    with pytest.raises(InputError, match="cannot read ratings from a list"):
        evaluate("bias", [1, 2])


def test_results_name_what_ran_and_what_was_asked(films_data) -> None:
    result = evaluate("avg", films_data, epsilon=1.0).to_dict()
    assert (result["method"], result["asked"]) == ("private-bias", "avg")


def test_settings_reach_the_model() -> None:
    assert make_model("bias", damping=9).get_params() == {"damping": 9}


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("method", "data", "fraction", "seed", "bar"),
    [
        ("item-knn", "ml-100k", 0.2, 42, 0.93),
        ("svd", "ml-100k", 0.2, 42, 0.93),
        ("bias", "ml-100k", 0.2, 42, 0.955),
        ("svd", "ml-1m", 0.1, 42, 0.860),
    ],
)
def test_rmse_on_movielens(real_data, method, data, fraction, seed, bar) -> None:
    dataset = load_dataset(real_data / data)
    result = evaluate(method, dataset, protocol="rating", test_fraction=fraction, seed=seed)
    assert result.metrics["rmse"] <= bar


@pytest.mark.parametrize("protocol", ["rating", "topn"])
def test_cross_validation_holds_out_everything_once(films_data, protocol) -> None:
    ratings = films_data.ratings
    held = np.zeros(len(ratings), int)
    sizes = []
    for train, test in folds_of(ratings, 4, per_user=protocol == "topn", seed=1):
        assert len(train) + len(test) == len(ratings)
        sizes.append(test.user_counts)
        at = ratings.users.astype(np.int64) * ratings.n_items + ratings.items
        held += np.isin(at, test.users.astype(np.int64) * ratings.n_items + test.items)
    assert (held == 1).all()
    if protocol == "topn":
        assert np.ptp(np.array(sizes), axis=0).max() <= 1
    found = evaluate("svd", films_data, protocol=protocol, folds=3)
    assert len(found.folds) == len(found.to_dict()["folds"]) == 3
    for name, value in found.metrics.items():
        assert value == pytest.approx(np.mean([fold[name] for fold in found.folds]))
    assert len({fold["rmse" if protocol == "rating" else "ndcg"] for fold in found.folds}) == 3
    with pytest.raises(InputError, match="2 folds or more"):
        evaluate("svd", films_data, folds=1)
