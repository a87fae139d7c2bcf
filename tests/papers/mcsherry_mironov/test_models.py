"""The published recipe without noise against a slow twin written from the paper's equations.

The twin has a variant for each way in which one could depart from the paper and not notice: they
must lie further from the recipe than the twin does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from epicrec.data import Ratings, Scale
from epicrec.errors import InputError
from epicrec.models import load, make_model
from epicrec.papers.mcsherry_mironov import models
from epicrec.papers.mcsherry_mironov.measurements import theta_of
from epicrec.papers.mcsherry_mironov.models import (
    RIDGE,
    PublishedCovarianceKNN,
    PublishedCovarianceSVD,
)
from epicrec.testing.recommenders import RecommenderContract

Floats = npt.NDArray[np.float64]
USERS, ITEMS, NEIGHBOURS = 80, 30, 3
ROUNDING = 0.02
"""Stars, for ratings and weights on a grid."""


class TestPublishedCovarianceSVD(RecommenderContract):
    model_type = PublishedCovarianceSVD
    settings = {"epsilon": 5.0, "seed": 0}


class TestPublishedCovarianceKNN(RecommenderContract):
    model_type = PublishedCovarianceKNN
    settings = {"theta": 5.0, "seed": 0}


@pytest.fixture(scope="module")
def stars() -> Floats:
    """Two tastes; the rare items are the loved ones, so that what is left after shrunk item means
    has a mean; NaN where nothing was said."""
    rng = np.random.default_rng(0)
    taste, kind = rng.choice([-1, 1], USERS), rng.choice([-1, 1], ITEMS)
    rare = np.arange(ITEMS) >= ITEMS // 2
    said = rng.random((USERS, ITEMS)) < np.where(rare, 0.1, 0.6)
    values = 2.6 + 1.8 * rare + np.outer(taste, kind) + rng.normal(0, 0.7, (USERS, ITEMS))
    return np.where(said, np.clip(np.rint(values), 1, 5), np.nan)


@pytest.fixture(scope="module")
def ratings(stars: Floats) -> Ratings:
    users, items = np.nonzero(~np.isnan(stars))
    found = Ratings.from_columns(users, items, stars[users, items], scale=Scale(1, 5, 1))
    return found.with_items(np.arange(ITEMS))


def twin(stars: Floats, *, knn: bool, clean: bool = True, instead: str = "") -> Floats:
    """Every prediction by sections 4 and 5 of the paper, with no noise."""
    seen, said = ~np.isnan(stars), np.nan_to_num(stars)
    item_counts, user_counts = seen.sum(axis=0), seen.sum(axis=1)
    means = (said.sum(axis=0) + 15 * said.sum() / seen.sum()) / (item_counts + 15)
    off = np.where(seen, said - means, 0.0)
    middle = 0.0 if instead == "no middle" else off.sum() / seen.sum()
    own = (off.sum(axis=1) + 20 * middle) / (user_counts + 20)
    residuals = np.where(seen, off - own[:, None], 0.0)
    clamped = np.clip(residuals, -1, 1)
    each = np.floor(2**16 / np.sqrt(user_counts)) / 2**16  # as they are, for the sake of ties
    cov, weights = (np.einsum("u,ui,uj->ij", each, x, x) for x in (clamped, seen.astype(float)))
    constants = (models.SHRINK_DIAGONAL, models.SHRINK_PAIRS)
    factors = shrunk(cov, weights, item_counts, constants if clean else None, instead)
    out = np.empty(stars.shape)
    for user in range(USERS):
        history, left = np.flatnonzero(seen[user]), residuals[user]
        for item in range(ITEMS):
            near = history
            if knn:
                alike = weights[item] if instead != "covariances" else abs(factors @ factors[item])
                near = history[np.argsort(-alike[history], kind="stable")[:NEIGHBOURS]]
            part = factors[near]
            inverse = np.linalg.inv(part.T @ part + RIDGE * np.eye(part.shape[1]))
            out[user, item] = factors[item] @ inverse @ part.T @ left[near]
    return means + own[:, None] + out


def shrunk(
    cov: Floats, weights: Floats, counts: Any, constants: tuple[float, float] | None, instead: str
) -> Floats:
    """Section 4.6, as factors; without constants the averages as they are."""
    inside = np.eye(ITEMS, dtype=bool)
    if constants is None:
        average, root = cov / np.maximum(weights, 1), np.ones(ITEMS)
    else:
        root, average = np.sqrt(counts), np.empty_like(cov)
        order = constants[::-1] if instead == "constants exchanged" else constants
        for which, beta in zip((inside, ~inside), order, strict=True):
            held = weights[which] + beta * weights[which].mean()
            average[which] = (cov[which] + beta * cov[which].mean()) / held
    values, vectors = np.linalg.eigh(average * np.outer(root, root))
    best = np.argsort(-values)[:20]
    return np.asarray(vectors[:, best] * np.sqrt(np.maximum(values[best], 0)) / root[:, None])


def predictions(ratings: Ratings, *, knn: bool, clean: bool = True) -> Floats:
    model = (
        PublishedCovarianceKNN(k=NEIGHBOURS, cleaned=clean)
        if knn
        else PublishedCovarianceSVD(cleaned=clean)
    )
    return np.asarray(model.fit(ratings)._scores(ratings), np.float64)


@pytest.mark.parametrize("knn", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_it_predicts_what_the_papers_equations_say(
    ratings: Ratings, stars: Floats, knn: bool, clean: bool
) -> None:
    found = predictions(ratings, knn=knn, clean=clean)
    assert np.abs(found - twin(stars, knn=knn, clean=clean)).max() < ROUNDING


@pytest.mark.parametrize("instead", ["covariances", "constants exchanged", "no middle"])
def test_it_does_not_depart_from_them_where_we_once_did(
    ratings: Ratings, stars: Floats, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "SHRINK_DIAGONAL", 0.1)
    monkeypatch.setattr(models, "SHRINK_PAIRS", 3.0)
    found = predictions(ratings, knn=True)
    assert np.abs(found - twin(stars, knn=True)).max() < ROUNDING
    assert np.abs(found - twin(stars, knn=True, instead=instead)).max() > 2 * ROUNDING


def test_the_mean_of_residuals_is_measured_with_noise(ratings: Ratings) -> None:
    """Somebody of whom nothing is known is predicted at item means and that mean."""
    nobody = Ratings.from_columns([0], [0], [3.0], scale=Scale(1, 5, 1)).with_items(
        ratings.item_ids
    )
    nobody = nobody.select(np.zeros(1, bool))
    found = [
        PublishedCovarianceSVD(theta=theta, seed=1).fit(ratings)._scores(nobody)[0]
        for theta in (1e6, 1.0)
    ]
    exact = PublishedCovarianceSVD().fit(ratings)._scores(nobody)[0]
    assert np.abs(found[0] - exact).max() < ROUNDING
    assert np.abs(found[1] - exact).max() > ROUNDING


@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_as_published_says_what_its_noise_is_worth(viewers: Ratings, unit, noise) -> None:
    paper = PublishedCovarianceSVD(epsilon=2, noise=noise, unit=unit, seed=0)
    guarantee = paper.fit(viewers).guarantee
    assert guarantee.status == "proved"
    if noise == "gaussian":
        assert guarantee.epsilon < 2  # exact composition of the same noise certifies less
    elif unit == "rating":
        assert guarantee.epsilon > 2  # α is 8 and not 4
    by_theta = PublishedCovarianceSVD(
        theta=theta_of(2, paper.delta, 2 if noise == "gaussian" else 1),
        noise=noise,
        unit=unit,
        seed=0,
    ).fit(viewers)
    assert by_theta.guarantee == guarantee
    np.testing.assert_array_equal(by_theta.offsets_, paper.offsets_)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"theta": 1, "epsilon": 1}, "twice"),
        ({"theta": 0}, "theta must be above 0"),
        ({"task": "lists"}, "histories"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"k": 0}, "at least 1 neighbour"),
    ],
)
def test_refuses_with_a_reason(viewers: Ratings, settings, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        PublishedCovarianceKNN(**settings).fit(viewers)


@pytest.mark.parametrize("setting", [{"theta": 1.0}, {"cleaned": False}])
def test_the_papers_settings_go_with_as_published(setting: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="goes with as_published=True"):
        make_model("covariance-svd", **setting)
    assert make_model("covariance-svd", as_published=True, **setting).as_published


def test_a_saved_model_is_read_as_published(ratings: Ratings, tmp_path) -> None:
    model = make_model("svd", epsilon=1, as_published=True, seed=0).fit(ratings)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert type(again) is type(model) is PublishedCovarianceSVD
    np.testing.assert_array_equal(again.scores(ratings), model.scores(ratings))


def test_a_theta_worth_an_epsilon_has_its_guarantee(ratings: Ratings) -> None:
    theta = PublishedCovarianceSVD.theta_worth(0.7, 1e-5, ratings.n_items)
    model = PublishedCovarianceSVD(theta=theta, delta=1e-5, seed=0).fit(ratings)
    assert model.guarantee.epsilon == pytest.approx(0.7, rel=1e-6)


def test_the_largest_loss_passes_the_papers_epsilon() -> None:
    """Many liked items rated low, a few disliked ones high, and one of the latter more."""
    low, high, items = 271, 29, 301
    with_it = Ratings.from_columns(
        np.zeros(items), np.arange(items), np.where(np.arange(items) < low, 1.0, 5.0),
        scale=Scale(1, 5, 1),
    ).with_items(np.arange(items))  # fmt: skip
    means = np.where(np.arange(items) < low, 5.0, 1.0)
    without = with_it.select(np.arange(items) < low + high)
    assert PublishedCovarianceSVD.largest_loss(with_it, without, means, 1.0) > 1.05
    assert PublishedCovarianceSVD.largest_loss(with_it, with_it, means, 1.0) == 0
