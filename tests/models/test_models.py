"""The non-private models: the contract, the checkerboard, and each against an obvious twin."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings, split_random
from epicrec.errors import InputError
from epicrec.evaluate import evaluate_rating, evaluate_topn
from epicrec.models import load
from epicrec.models.bias import Bias, Popularity
from epicrec.models.neighbours.items import ItemKNN
from epicrec.models.neighbours.users import Avg, Cos, Pcc, UserKNN
from epicrec.testing.recommenders import RecommenderContract


class TestBias(RecommenderContract):
    model_type = Bias
    settings = {"damping": 3.0}

    def test_against_the_formula(self, viewers: Ratings) -> None:
        model = Bias(damping=2.0).fit(viewers)
        matrix = np.full((viewers.n_users, viewers.n_items), np.nan)
        matrix[viewers.users, viewers.items] = viewers.values
        mean = np.nanmean(matrix)
        item = np.nansum(matrix - mean, axis=0) / (np.sum(~np.isnan(matrix), axis=0) + 2)
        user = np.nansum(matrix - mean - item, axis=1) / (np.sum(~np.isnan(matrix), axis=1) + 2)
        expected = np.clip((mean + item + user[:, None])[viewers.users, viewers.items], 1, 5)
        np.testing.assert_allclose(model.predict(viewers)["score"].to_numpy(), expected, rtol=1e-5)


class TestPopularity(RecommenderContract):
    model_type = Popularity


class TestItemKNN(RecommenderContract):
    model_type = ItemKNN
    settings = {"k": 10, "task": "ratings"}

    def test_against_an_obvious_twin(self, viewers: Ratings) -> None:
        model = ItemKNN(task="ratings", k=5, shrinkage=3.0, ridge=0.5).fit(viewers)
        bias = Bias().fit(viewers)
        base = bias._scores(viewers)
        residual = np.zeros(base.shape)
        rated = np.zeros(base.shape, bool)
        rated[viewers.users, viewers.items] = True
        residual[rated] = viewers.values - base[viewers.users, viewers.items]
        norms = np.linalg.norm(residual, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            similar = residual.T @ residual / np.outer(norms, norms)
        together = rated.T.astype(int) @ rated
        similar = np.nan_to_num(similar) * together / (together + 3.0)
        np.fill_diagonal(similar, 0)
        for user, item in [(0, 3), (5, 100), (40, 17), (299, 411)]:
            near = [
                j for j in np.argsort(-similar[item]) if rated[user, j] and similar[item, j] > 0
            ][:5]
            near = [j for j in near if j in set(model.neighbours_[item].tolist())]
            weight = similar[item, near]
            expected = base[user, item] + weight @ residual[user, near] / (weight.sum() + 0.5)
            assert model._scores(viewers)[user, item] == pytest.approx(expected, rel=1e-4)

    def test_k_must_be_positive(self, viewers: Ratings) -> None:
        with pytest.raises(InputError, match="at least 1"):
            ItemKNN(k=0).fit(viewers)


class TestItemKNNOfHistories(RecommenderContract):
    model_type = ItemKNN
    settings = {"task": "lists"}

    def test_against_an_obvious_twin(self, viewers: Ratings) -> None:
        model = ItemKNN(task="lists", kept=1000).fit(viewers)
        seen = np.zeros((viewers.n_users, viewers.n_items))
        seen[viewers.users, viewers.items] = 1
        norms = np.sqrt(seen.sum(axis=0))
        similar = seen.T @ seen / np.maximum(np.outer(norms, norms), 1e-9)
        np.fill_diagonal(similar, 0)
        np.testing.assert_allclose(
            model._scores(viewers.as_history()), seen @ similar, rtol=1e-4, atol=1e-4
        )


class TestUserKNN(RecommenderContract):
    model_type = UserKNN
    settings = {"task": "ratings"}


class TestUserKNNOfHistories(RecommenderContract):
    model_type = UserKNN
    settings = {"task": "lists"}


class TestAvg(RecommenderContract):
    model_type = Avg


class TestCos(RecommenderContract):
    model_type = Cos


class TestPcc(RecommenderContract):
    model_type = Pcc

    def test_against_an_obvious_twin(self, viewers: Ratings) -> None:
        """Breese et al. (1998), equations 1 and 2, written out."""
        small = viewers.users_at(np.arange(40))
        model = Pcc().fit(small)
        matrix = np.full((small.n_users, small.n_items), np.nan)
        matrix[small.users, small.items] = small.values
        means = np.nanmean(matrix, axis=1)
        centred = matrix - means[:, None]
        user, scores = 7, model._scores(small)
        for item in range(0, small.n_items, 29):
            top = bottom = 0.0
            for other in range(small.n_users):
                both = ~np.isnan(centred[user]) & ~np.isnan(centred[other])
                mine, theirs = centred[user, both], centred[other, both]
                scale = np.sqrt((mine**2).sum() * (theirs**2).sum())
                if scale > 0 and not np.isnan(centred[other, item]):
                    top += mine @ theirs / scale * centred[other, item]
                    bottom += abs(mine @ theirs / scale)
            expected = means[user] + (top / bottom if bottom > 0 else 0)
            assert scores[user, item] == pytest.approx(expected, abs=1e-4)


NEAR: dict[str, Any] = {"task": "ratings", "k": 5, "shrinkage": 0}
FOR_RATINGS = [ItemKNN(**NEAR), UserKNN(**NEAR), Pcc(), Cos()]


@pytest.mark.parametrize("model", FOR_RATINGS, ids=lambda m: type(m).__name__)
def test_finds_the_diagonal_of_the_checkerboard(model, checkerboard: Ratings) -> None:
    model.fit(checkerboard)
    diagonal = {"user_id": np.arange(16), "item_id": np.arange(16)}
    import pyarrow as pa

    high = model.predict(pa.table(diagonal))["score"].to_numpy()
    assert (high > 3.3).all(), "the diagonal is where each user's favourites lie"


@pytest.mark.parametrize("cls", [ItemKNN, UserKNN])
def test_neighbours_beat_the_bias_model(cls, viewers: Ratings) -> None:
    train, test = split_random(viewers, 0.2, seed=1)
    assert (
        evaluate_rating(cls(task="ratings"), train, test)[0]["rmse"]
        < (evaluate_rating(Bias(), train, test)[0]["rmse"])
    )


@pytest.mark.parametrize("cls", [ItemKNN, UserKNN])
def test_neighbours_beat_popularity(cls, viewers: Ratings) -> None:
    train, test = split_random(viewers, 0.2, seed=1)
    personal, _ = evaluate_topn(cls(task="lists"), train, test)
    popular, _ = evaluate_topn(Popularity(), train, test)
    assert personal["ndcg"] > 1.2 * popular["ndcg"]


def test_load_refuses_other_files(tmp_path) -> None:
    (tmp_path / "not.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a saved epicrec model"):
        load(tmp_path / "not.npz")
    with pytest.raises(InputError, match="there is no file"):
        load(tmp_path / "absent.npz")


def test_saving_leaves_no_half_file(viewers: Ratings, tmp_path, monkeypatch) -> None:
    model = Bias().fit(viewers)
    model.save(tmp_path / "model.npz")
    before = (tmp_path / "model.npz").read_bytes()

    def fail(*_args: object, **_kwargs: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(InputError, match="disk full"):
        model.save(tmp_path / "model.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    assert (tmp_path / "model.npz").read_bytes() == before
