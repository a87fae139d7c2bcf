"""The contract of every recommender, as tests."""

import inspect
import json
from copy import copy
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Ratings
from epicrec.errors import InputError, NotFittedError
from epicrec.models import Recommender, load, model_class
from epicrec.privacy import Guarantee


class RecommenderContract:
    """Subclass it and set `model_type` and, where the defaults will not do, `settings`."""

    model_type: ClassVar[type[Recommender]]
    settings: ClassVar[dict[str, Any]] = {}

    @classmethod
    def make(cls) -> Recommender:
        return cls.model_type(**cls.settings)

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls, viewers: Ratings) -> Recommender:
        return cls.make().fit(viewers)

    def seen(self, viewers: Ratings, user: int) -> pa.Table:
        return viewers.users_at(np.array([user])).to_table()

    def test_constructor_only_stores(self) -> None:
        model = self.make()
        for name, value in self.settings.items():
            assert getattr(model, name) == value
        assert not [name for name in vars(model) if name.endswith("_")]

    def test_is_found_by_name(self) -> None:
        as_published = self.model_type.as_published
        assert model_class(self.make().method, as_published=as_published) is self.model_type

    def test_unfitted_says_so(self) -> None:
        with pytest.raises(NotFittedError, match="fit"):
            self.make().recommend([1])

    def test_fit_returns_itself(self, viewers: Ratings) -> None:
        model = self.make()
        assert model.fit(viewers) is model

    def test_recommends_unseen_items_best_first(
        self, fitted: Recommender, viewers: Ratings
    ) -> None:
        users = viewers.user_ids[:5]
        lists = fitted.recommend(users, n=7)
        assert lists.column_names == ["user_id", "item_id", "score", "rank"]
        for user in users:
            own = lists.filter(pa.compute.equal(lists["user_id"], user))
            assert own["rank"].to_pylist() == list(range(1, 8))
            scores = own["score"].to_pylist()
            assert scores == sorted(scores, reverse=True)
            history = viewers.users_at(viewers.positions([user])).to_table()["item_id"].to_pylist()
            assert not set(own["item_id"].to_pylist()) & set(history)

    def test_a_history_in_the_call_equals_the_known_user(
        self, fitted: Recommender, viewers: Ratings
    ) -> None:
        known = fitted.recommend(viewers.user_ids[3:4], n=5)
        brought = fitted.recommend(self.seen(viewers, 3), n=5)
        assert known["item_id"].to_pylist() == brought["item_id"].to_pylist()
        np.testing.assert_allclose(
            known["score"].to_numpy(), brought["score"].to_numpy(), rtol=1e-5
        )

    def test_batch_equals_single(self, fitted: Recommender, viewers: Ratings) -> None:
        batch = fitted.recommend(viewers.user_ids[:4], n=5)["score"].to_numpy().reshape(4, 5)
        for user in range(4):
            single = fitted.recommend(viewers.user_ids[user : user + 1], n=5)["score"].to_numpy()
            np.testing.assert_allclose(single, batch[user], rtol=1e-5)

    def test_predict_keeps_order_and_agrees_with_recommend(
        self, fitted: Recommender, viewers: Ratings
    ) -> None:
        lists = fitted.recommend(viewers.user_ids[:6], n=4)
        shuffled = lists.take(np.random.default_rng(0).permutation(len(lists)))
        again = fitted.predict(shuffled.select(["user_id", "item_id"]))
        assert again["item_id"].to_pylist() == shuffled["item_id"].to_pylist()
        np.testing.assert_allclose(
            again["score"].to_numpy(), shuffled["score"].to_numpy(), rtol=1e-4, atol=1e-5
        )

    def test_predictions_are_on_the_scale(self, fitted: Recommender, viewers: Ratings) -> None:
        scores = fitted.predict(viewers)["score"].to_numpy()
        assert np.isfinite(scores).all()
        if fitted.task == "ratings":
            assert scores.min() >= 1
            assert scores.max() <= 5

    def test_unknown_item_has_no_prediction(self, fitted: Recommender, viewers: Ratings) -> None:
        pairs = pa.table({"user_id": viewers.user_ids[:1], "item_id": ["no-such-film"]})
        assert np.isnan(fitted.predict(pairs)["score"].to_numpy()).all()

    def test_unknown_user_needs_a_history(self, fitted: Recommender) -> None:
        with pytest.raises(InputError, match="history"):
            fitted.recommend([987654321])

    def test_history_of_unknown_items_is_an_empty_history(self, fitted: Recommender) -> None:
        lists = fitted.recommend(
            pa.table({"user_id": [1], "item_id": ["no-such"], "rating": [5.0]})
        )
        assert len(lists) == 10
        assert np.isfinite(lists["score"].to_numpy()).all()

    @pytest.mark.parametrize("n", [0, -3])
    def test_n_must_be_positive(self, fitted: Recommender, n: int) -> None:
        with pytest.raises(InputError, match="at least 1"):
            fitted.recommend([1], n=n)

    def test_more_than_there_is(self, fitted: Recommender, viewers: Ratings) -> None:
        history = self.seen(viewers, 0)
        lists = fitted.recommend(history, n=10_000)
        assert len(lists) == viewers.n_items - len(history)

    def test_nobody_is_an_error(self, fitted: Recommender, viewers: Ratings) -> None:
        nobody: Any
        for nobody in ([], np.array([]), viewers.users_at(np.array([], int))):
            with pytest.raises(InputError, match="give at least one user"):
                fitted.recommend(nobody)

    def test_learns_from_any_dataframe(self, viewers: Ratings) -> None:
        some = viewers.users_at(np.arange(40)).to_table()
        public: dict[str, Any] = {"items": viewers.item_ids, "scale": viewers.scale}
        expected = self.make().fit(some, **public)
        frames = [pytest.importorskip("pandas").DataFrame(some.to_pydict())]
        frames.append(pytest.importorskip("polars").DataFrame(some.to_pydict()))
        for frame in frames:
            learned = self.make().fit(frame, **public)
            assert learned.scale_ == expected.scale_
            np.testing.assert_array_equal(learned.item_ids_, expected.item_ids_)

    def test_prints_as_it_was_made(self, fitted: Recommender) -> None:
        made, learned = repr(self.make()), repr(fitted)
        assert made.startswith(f"{self.model_type.__name__}(")
        for name, value in self.settings.items():
            default = inspect.signature(self.model_type).parameters[name].default
            assert (f"{name}=" in made) == (repr(value) != repr(default))
        assert learned == f"{made}, fitted on {len(fitted.item_ids_):,} items"

    def test_settings_are_checked_before_learning(self, viewers: Ratings) -> None:
        for name, wrong in (("seed", -1), ("seed", "a"), ("epsilon", float("nan")), ("k", "a")):
            if name in inspect.signature(self.model_type).parameters:
                with pytest.raises(InputError, match=name):
                    self.model_type(**{**self.settings, name: wrong}).fit(viewers)

    def test_candidates(self, fitted: Recommender, viewers: Ratings) -> None:
        some = viewers.item_ids[:40]
        lists = fitted.recommend(viewers.user_ids[:1], n=5, items=some)
        assert set(lists["item_id"].to_pylist()) <= set(some.tolist())

    def test_save_and_load(self, fitted: Recommender, viewers: Ratings, tmp_path: Any) -> None:
        fitted.save(tmp_path / "model.npz")
        loaded = load(tmp_path / "model.npz")
        assert loaded.get_params() == fitted.get_params()
        assert loaded.guarantee == fitted.guarantee
        history = self.seen(viewers, 2)
        assert loaded.recommend(history).equals(fitted.recommend(history))
        if fitted.guarantee.status != "none":
            assert loaded.histories_ is None

    def test_an_unregistered_class_is_not_saved(self, fitted: Recommender, tmp_path: Any) -> None:
        other = copy(fitted)
        other.__class__ = type("Unregistered", (type(fitted),), {})
        assert other.method.endswith("Unregistered")
        with pytest.raises(InputError):
            other.save(tmp_path / "model.npz")
        assert not [*tmp_path.iterdir()]

    def test_fit_does_not_depend_on_row_order(self, viewers: Ratings) -> None:
        table = viewers.to_table()
        shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
        mixed = Ratings.from_table(shuffled, scale=viewers.scale).with_items(viewers.item_ids)
        one, two = (self.make().fit(r).recommend(viewers.user_ids[:3]) for r in (viewers, mixed))
        assert one["item_id"].to_pylist() == two["item_id"].to_pylist()

    def test_explicit_models_refuse_histories(self, viewers: Ratings) -> None:
        model = self.make()
        if model.task == "ratings":
            with pytest.raises(InputError, match="needs ratings"):
                model.fit(viewers.as_history())

    def test_tiny_data(self) -> None:
        tiny = Ratings.from_columns(["a", "a", "b"], ["x", "y", "x"], [5, 1, 4])
        lists = self.make().fit(tiny, items=["x", "y"], scale="1:5:1").recommend(["b"])
        assert lists["item_id"].to_pylist() == ["y"]

    @pytest.mark.filterwarnings("ignore::epicrec.errors.EpicrecWarning")  # ratings are left out
    def test_items_and_scale_are_those_that_were_given(self, viewers: Ratings) -> None:
        """One rating of an item that is not listed, or off the scale, changes neither."""
        some = viewers.users_at(np.arange(40)).to_table().select(["user_id", "item_id", "rating"])
        odd = {"user_id": [1, 2], "item_id": ["rated-once", viewers.item_ids[0]]}
        odd_table = pa.table(odd | {"rating": [4.0, 4.5]}).cast(some.schema)
        users = some.filter(pa.compute.equal(some["user_id"], 2))["item_id"].to_pylist()
        assert viewers.item_ids[0] not in users
        for table in (some, pa.concat_tables([some, odd_table])):
            learned = self.make().fit(table, items=viewers.item_ids, scale="1:5:1")
            assert learned.item_ids_.tolist() == viewers.item_ids.tolist()
            assert learned.scale_ == (viewers.scale if learned.task == "ratings" else None)

    def test_a_promise_does_not_guess(self, viewers: Ratings) -> None:
        model, table = self.make(), viewers.users_at(np.arange(40)).to_table()
        if model.unsaid(items=False, scale=False):
            with pytest.raises(InputError, match="items="):
                model.fit(table)

    def test_a_promise_is_known_beforehand(self, fitted: Recommender) -> None:
        if fitted.guarantee.status != "none":
            assert self.make().promises

    def test_the_list_of_methods_tells_the_same(self, fitted: Recommender) -> None:
        """Except for a paper's own version, and without privacy."""
        guarantee = fitted.guarantee
        if guarantee.status != "none" and not getattr(fitted, "as_published", False):
            assert guarantee.status == self.model_type.status
            assert guarantee.unit in self.model_type.units

    def test_guarantee_prints_and_survives_json(self, fitted: Recommender) -> None:
        guarantee = fitted.guarantee
        assert str(guarantee)
        assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
