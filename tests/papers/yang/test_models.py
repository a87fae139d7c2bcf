"""DPI and DPM models: the contract, obvious twins, and what goes through the mechanism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models import Recommender, load
from epicrec.papers.yang.dpi_models import DPIAvg, DPICos, DPIPcc, DPISvd, ReleasedRatings
from epicrec.papers.yang.dpm_models import (
    DPMAvg,
    DPMCos,
    DPMPcc,
    PublishedNeighbours,
    noised,
    similarities,
)
from epicrec.testing.guarantees import GuaranteeContract
from epicrec.testing.recommenders import RecommenderContract


class TestDPIAvg(RecommenderContract):
    model_type = DPIAvg
    settings = {"epsilon": 1.0, "seed": 1, "debias": True}


class TestDPIPcc(RecommenderContract):
    model_type = DPIPcc
    settings = {"epsilon": 1.0, "seed": 1, "normalise": "raters"}


class TestDPICos(RecommenderContract):
    model_type = DPICos
    settings = {"epsilon": 1.0, "seed": 1}


class TestDPISvd(RecommenderContract):
    model_type = DPISvd
    settings = {"epsilon": 1.0, "seed": 1}


class TestDPMAvg(RecommenderContract):
    model_type = DPMAvg
    settings = {"epsilon": 1.0, "seed": 1}


class NotSaved(RecommenderContract):
    def test_save_and_load(self, fitted: Recommender, viewers: Ratings, tmp_path: Any) -> None:
        """It would hold everybody's true ratings under a promise that does not hold."""
        del viewers
        with pytest.raises(InputError, match="true ratings"):
            fitted.save(tmp_path / "model.npz")
        assert not [*tmp_path.iterdir()]


class TestDPMPcc(NotSaved):
    model_type = DPMPcc
    settings = {"epsilon": 1.0, "seed": 1}


class TestDPMCos(NotSaved):
    model_type = DPMCos
    settings = {"epsilon": 1.0, "seed": 1}


class TestGuarantees(GuaranteeContract):
    @pytest.fixture(params=[DPIAvg(), DPIAvg(unit="rating"), DPMAvg(), DPMPcc()])
    def guaranteed(self, request: pytest.FixtureRequest, viewers: Ratings) -> Any:
        return request.param.fit(viewers)


def test_what_is_promised(viewers: Ratings) -> None:
    value = DPIAvg(epsilon=2.0).fit(viewers).guarantee
    assert (value.epsilon, value.unit, value.relation) == (2.0, "rating value", "change one")
    assert value.status == "proved"
    whole = DPIAvg(epsilon=2.0, unit="rating").fit(viewers).guarantee
    assert (whole.unit, whole.relation) == ("rating", "add or remove one")
    assert DPMPcc(epsilon=2.0).fit(viewers).guarantee.status == "claimed"
    with pytest.raises(InputError, match="rating value"):
        DPIAvg(unit="user").fit(viewers)


# ---- after DPI ------------------------------------------------------------------------------


def test_true_ratings_are_not_kept(viewers: Ratings, tmp_path: Any) -> None:
    model = DPIPcc(epsilon=0.5, normalise="raters").fit(viewers)
    assert model.histories_ is not None
    kept = model.histories_.values
    assert not np.array_equal(kept, viewers.values)
    assert np.array_equal(model.inner.histories_.values, kept)
    model.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        assert np.array_equal(file["released_values_"], kept)
        assert not any(np.array_equal(file[name], viewers.values) for name in file.files)


def test_a_rating_is_drawn_once(viewers: Ratings) -> None:
    """Without a seed: a known rating brought in a call keeps the value it was released with."""
    model = DPIAvg(epsilon=0.5).fit(viewers)
    some = viewers.users_at(np.arange(20))
    first, second = (model._histories_of(some).values for _ in range(2))
    assert np.array_equal(first, model.histories_.users_at(np.arange(20)).values)
    assert np.array_equal(first, second)


def test_a_new_history_is_released_once(viewers: Ratings) -> None:
    """Sixty answers to the same raw history would average its noise away."""
    model = DPIAvg(epsilon=0.5).fit(viewers.users_at(np.arange(200)))
    new = viewers.users_at(np.arange(200, 300))
    with pytest.raises(InputError, match="not released yet"):
        model.recommend(new)
    with pytest.raises(InputError, match="not released yet"):
        model.predict(new, histories=new)
    released = model.released(new)
    assert np.array_equal(released.items, new.items)
    assert (released.values != new.values).mean() > 0.5
    answers = [model.predict(new, histories=released)["score"].to_numpy() for _ in range(3)]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    again = model.released(new, before=released)
    assert np.array_equal(again.values, released.values), "what was released stays"


def test_changed_and_added_ratings_keep_what_was_released(viewers: Ratings, tmp_path: Any) -> None:
    known = viewers.users_at(np.arange(50))
    old = known.items % 2 == 0
    model = DPIAvg(epsilon=0.5).fit(known.select(old))
    fitted = model.histories_.values
    released = model.released(known)
    assert np.array_equal(released.values[old], fitted)
    assert (released.values[~old] != known.values[~old]).mean() > 0.5
    released.save(tmp_path)
    kept = ReleasedRatings.open(tmp_path)
    changed = replace(known, values=6 - known.values)
    assert np.array_equal(model.released(changed, before=kept).values, released.values)
    model.fit(changed.select(old))
    assert np.array_equal(model.histories_.values, fitted), "fitting again draws what is new"
    model.fit(kept)
    assert np.array_equal(model.histories_.values, released.values), "and nothing of a release"


def test_hiding_existence_keeps_what_was_released(viewers: Ratings) -> None:
    model = DPIAvg(epsilon=1.0, unit="rating").fit(viewers)
    assert model.histories_ is not None
    assert len(np.setdiff1d(_cells(model.histories_), _cells(viewers))) > 1000, "there are fakes"
    again = model._histories_of(viewers.users_at(np.arange(5)))
    assert np.array_equal(again.items, model.histories_.users_at(np.arange(5)).items)
    new = pa.table({"user_id": ["new"] * 2, "item_id": viewers.item_ids[:2], "rating": [5.0, 1.0]})
    with pytest.raises(InputError, match="not released yet"):
        model.recommend(new)
    released = model.released(Ratings.from_frame(new, scale=viewers.scale))
    assert len(released) > 20
    assert model.recommend(released).equals(model.recommend(released))


def _cells(ratings: Ratings) -> np.ndarray:
    return ratings.users.astype(np.int64) * ratings.n_items + ratings.items


def test_normalise_is_checked(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="raters"):
        DPIPcc(normalise="some").fit(viewers)


def test_loaded_models_know_released_ratings(viewers: Ratings, tmp_path: Any) -> None:
    model = DPIAvg(epsilon=0.5).fit(viewers)  # no seed: only the file can repeat this noise
    model.save(tmp_path / "m.npz")
    history = viewers.users_at(np.arange(3))
    assert load(tmp_path / "m.npz").recommend(history).equals(model.recommend(history))


# ---- as published ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dense() -> tuple[np.ndarray, Ratings]:
    rng = np.random.default_rng(3)
    matrix = np.where(rng.random((9, 12)) < 0.6, rng.integers(1, 6, (9, 12)), 0).astype(float)
    user, item = np.nonzero(matrix)
    return matrix, Ratings.from_columns(user, item, matrix[user, item])


def slow_similarity(a: np.ndarray, b: np.ndarray, centred: bool) -> float:
    if not centred:
        return a @ b / np.sqrt((a @ a) * (b @ b))
    both = (a > 0) & (b > 0)
    x, y = a[both] - a[a > 0].mean(), b[both] - b[b > 0].mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return x @ y / scale if scale > 0 else 0.0


@pytest.mark.parametrize("centred", [True, False])
def test_similarities_equal_the_slow_twin(dense: Any, centred: bool) -> None:
    matrix, ratings = dense
    slow = [[slow_similarity(a, b, centred) for b in matrix] for a in matrix]
    np.testing.assert_allclose(similarities(ratings, ratings, centred=centred), slow, atol=1e-6)


@pytest.mark.parametrize("centred", [True, False])
def test_predictions_equal_the_slow_twin(dense: Any, centred: bool) -> None:
    matrix, ratings = dense
    scores = PublishedNeighbours(centred=centred).fit(ratings)._scores(ratings)
    means = [row[row > 0].mean() for row in matrix]
    for a in range(9):
        weights = [slow_similarity(matrix[a], b, centred) for b in matrix]
        for i in range(12):
            said = [
                w * (row[i] - m)
                for w, row, m in zip(weights, matrix, means, strict=True)
                if row[i] > 0
            ]
            expected = means[a] + sum(said) / sum(abs(w) for w in weights)
            assert scores[a, i] == pytest.approx(expected, abs=1e-4)


def test_dpm_without_noise_is_the_published_algorithm(dense: Any) -> None:
    _, ratings = dense
    noisy = DPMPcc(epsilon=1e7, seed=1).fit(ratings)._scores(ratings)
    plain = PublishedNeighbours(centred=True).fit(ratings)._scores(ratings)
    np.testing.assert_allclose(noisy, plain, atol=1e-3)


def test_dpm_noise_has_the_published_scales(viewers: Ratings) -> None:
    """Lap(Δr/(k ε)) for Avg; Lap(Δr/(k ε₂)) and Lap(2/ε₁) with ε₁ = 0.2 ε otherwise."""
    many = Ratings.from_columns(np.arange(20_000), np.zeros(20_000, int), np.full(20_000, 3.0))
    public: dict[str, Any] = {"items": [0], "scale": "1:5:1"}
    avg = DPMAvg(epsilon=2.0).fit(many, **public)
    spread = np.abs(avg._scores(many)[:, 0] - 3).mean()
    assert spread == pytest.approx(4 / (3 * 2.0), rel=0.05)
    pcc = DPMPcc(epsilon=2.0).fit(many, **public)
    assert np.abs(pcc.means_ - 3).mean() == pytest.approx(4 / (3 * 1.6), rel=0.05)
    block = viewers.users_at(np.arange(100))
    model = DPMCos(epsilon=2.0).fit(viewers)
    exact = similarities(block, viewers, centred=False)
    off = np.abs(model._weights(block, viewers) - exact).mean()
    assert off == pytest.approx(2 / 0.4, rel=0.05)


def test_seeded_noise_belongs_to_the_user(dense: Any) -> None:
    _, ratings = dense
    values = np.zeros((9, 4))
    whole = noised(values, 1.0, 1.0, ratings, 5, "x")
    part = noised(values[3:5], 1.0, 1.0, ratings.users_at(np.array([3, 4])), 5, "x")
    assert np.array_equal(whole[3:5], part)
    assert len(np.unique(whole)) > 30
    assert not np.array_equal(whole, noised(values, 1.0, 1.0, ratings, 5, "y"))


def test_dpm_refuses_nonsense(viewers: Ratings) -> None:
    for model in (DPMPcc(epsilon=0), DPMAvg(epsilon=-1.0), DPMCos(k=0)):
        with pytest.raises(InputError, match="above 0"):
            model.fit(viewers)
