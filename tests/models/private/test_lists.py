"""Private lists: which plan the released counts choose, and that odd data ends in a list."""

import numpy as np
import pytest

from epicrec.data import Catalogue, Ratings, load_dataset, split_per_user
from epicrec.evaluate.protocols import evaluate_topn
from epicrec.models import load
from epicrec.models.bias import Popularity
from epicrec.models.features import item_features
from epicrec.models.private import lists, pairs
from epicrec.models.private.basis import Basis, popularity_weights, with_own
from epicrec.models.private.budget import Budget
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.lists import MeasuredCounts, Together, choose_plan
from epicrec.models.private.tastes import TASTE_BITS, TasteProducts
from epicrec.models.spectrum import denoised
from epicrec.privacy import gaussian_mu


def model(epsilon: float, **settings) -> CovarianceSVD:
    options = {"delta": 1e-5, "unit": "user", "feedback": "implicit", "seed": 1} | settings
    return CovarianceSVD(epsilon=epsilon, **options)


def ndcg(recommender, with_catalogue: bool = True) -> float:
    films = load_dataset("films")
    train, test = split_per_user(films.ratings, 0.2, seed=0)
    catalogue = films.catalogue if with_catalogue else None
    return evaluate_topn(recommender, train, test, catalogue=catalogue)[0]["ndcg"]


def test_public_features_make_lists_that_popularity_does_not() -> None:
    """A whole person at ε = 3: tastes with a catalogue, tastes in items themselves without."""
    popular = ndcg(Popularity(epsilon=3, delta=1e-5, unit="user", seed=1))
    bare = ndcg(model(3), with_catalogue=False)
    assert popular + 0.03 < bare < ndcg(model(3))


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_tastes_that_popularity_alone_would_show_are_none(epsilon: float) -> None:
    """Few items each, drawn by popularity: a direction stands out by far, of rare items against
    known ones, and means nothing. The whole budget is spent all the same."""
    rng = np.random.default_rng(3)
    chances = (np.arange(2000) + 10.0) ** -0.8
    users = np.repeat(np.arange(3000), rng.geometric(1 / 6, 3000))
    items = rng.choice(2000, len(users), p=chances / chances.sum())
    both = np.unique(np.stack([users, items]), axis=1)
    ratings = Ratings.from_columns(*both).with_items(np.arange(2000))
    found = model(epsilon).fit(ratings)
    assert "these lists are popularity: tastes show no more" in found.record
    assert found.factors_.shape[1] == 0
    assert sum(found.released_.values()) == pytest.approx(1)
    assert found.released_["counts of items"] > 0.59


def few_items(people: int) -> Ratings:
    """Most people have most of 60 items, by popularity and a little by taste."""
    rng = np.random.default_rng(3)
    known, often = rng.normal(0, 1.2, 60), rng.normal(size=(people, 1))
    taste = 0.1 * rng.normal(size=(people, 3)) @ rng.normal(size=(3, 60))
    users, items = np.nonzero(rng.random((people, 60)) < 1 / (1 + np.exp(-known - often - taste)))
    return Ratings.from_columns(users, items).with_items(np.arange(60))


def test_tastes_that_noise_hides_cost_half_of_what_they_would() -> None:
    """A first measurement says so: then counts have the rest, and tastes where it shows some."""
    hidden = model(0.2).fit(few_items(5000))
    assert hidden.released_ == pytest.approx(
        {"counts of items": 0.675, "how tastes go together": 0.325}
    )
    assert hidden.factors_.shape[1] == 0
    films = load_dataset("films")
    seen = model(1.0).fit(films.ratings, films.catalogue)
    assert seen.released_ == pytest.approx(
        {"counts of items": 0.35, "how tastes go together": 0.65}
    )
    assert seen.factors_.shape[1] > 0


def test_where_nothing_public_is_known_of_items_tastes_need_more_people() -> None:
    films = load_dataset("films")
    bare = model(1.0).fit(films.ratings)
    assert bare.released_ == {"counts of items": 1.0}
    assert "these lists are popularity: about " in bare.note_
    assert model(1.0).fit(films.ratings, films.catalogue).note_ == ""


@pytest.mark.parametrize("d", [10, 40])
def test_noise_alone_seldom_seems_to_be_taste(d: int) -> None:
    """One time in a hundred a first measurement of nothing passes: by draws of noise as added."""
    rng = np.random.default_rng(d)
    products = TasteProducts("user", np.zeros(1, np.int64), None, np.zeros((1, d), np.int64))
    sums = rng.normal(0, 5 << 2 * TASTE_BITS, (3000, d * (d + 1) // 2))
    measured = [Together(products.matrix(one), 1.0, 0.1) for one in sums]
    limit = 1 + lists.RARELY * d ** (-2 / 3)
    passed = np.mean([one.beyond(np.zeros((d, d))) > limit for one in measured])
    assert 0.003 < passed < 0.02


def test_two_looks_at_tastes_are_one() -> None:
    one, two = Together(np.ones((2, 2)), 2.0, 0.1), Together(4 * np.ones((2, 2)), 1.0, 0.4)
    both = one + two
    np.testing.assert_allclose(both.matrix, (1 * 0.2 + 4 * 0.8) * np.ones((2, 2)))
    assert both.sigma == pytest.approx((2**-2 + 1**-2) ** -0.5), "as measured with both shares"
    assert both.share == pytest.approx(0.5)


def test_without_privacy_to_spend_popularity_is_plain() -> None:
    ratings = Ratings.from_columns([1, 1, 2], [10, 20, 20])
    plain = Popularity().fit(ratings)
    assert plain.counts_.tolist() == [1, 2]
    assert plain.guarantee.status == "none"
    assert plain.record == ""


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_private_popularity_has_the_noise_it_claims(unit: str) -> None:
    """Items nobody has: their counts are noise alone, of the scale that ε asks for."""
    items = np.arange(20_000)
    ratings = Ratings.from_columns([1], [0]).with_items(items)
    found = Popularity(epsilon=1, delta=1e-5, unit=unit).fit(ratings, items=items)
    # beside the count stands the number of people, an eighth or a quarter as large
    expected = np.sqrt(1 + (1 / 8 if unit == "user" else 1 / 4) ** 2) / gaussian_mu(1, 1e-5)
    assert found.counts_[1:].std() == pytest.approx(expected, rel=0.05)  # 0.05 is ten deviations
    assert found.guarantee.unit == unit
    assert found.released_ == {"counts of items": 1.0}


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_lists_that_are_popularity_are_those_of_private_popularity(unit: str) -> None:
    """With the same seed: so that a comparison shows the methods, and not their draws."""
    films = load_dataset("films")
    plain = Popularity(epsilon=0.02, delta=1e-5, unit=unit, seed=1).fit(films.ratings)
    lists = model(0.02, unit=unit).fit(films.ratings, films.catalogue)
    assert "these lists are popularity: about" in lists.note_
    users = films.ratings.user_ids[:20]
    one, two = (found.recommend(users, n=10).to_pydict() for found in (plain, lists))
    assert one["item_id"] == two["item_id"]


def test_a_private_popularity_is_saved_without_histories(tmp_path) -> None:
    ratings = Ratings.from_columns([1, 1, 2], [10, 20, 20])
    Popularity(epsilon=1, unit="user", seed=0).fit(ratings).save(tmp_path / "m.npz")
    kept = load(tmp_path / "m.npz")
    assert kept.histories_ is None
    assert "counts of items (100%)" in kept.record


def measured(
    people: float, n: int = 1000, spread: float = 1.0, top: float = 50.0
) -> MeasuredCounts:
    return MeasuredCounts(top / (1 + np.arange(n)), spread, people, 8 * spread, 0.1)


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_more_people_pay_for_more(unit: str) -> None:
    budget = Budget(1.0, 1e-5, unit, "gaussian", 0)
    plans = [
        choose_plan(budget, measured(10.0**power, top=10.0 ** (power - 1)), room=True, bare=False)
        for power in np.linspace(1, 7, 60)
    ]
    assert plans[0] == "popularity"
    assert plans[-1] == "pairs"
    for last in ("popularity", "pairs"):  # neither comes back, nor goes again
        span = [at for at, plan in enumerate(plans) if plan == last]
        assert span == [*range(span[0], span[-1] + 1)]
    assert "tastes" in plans or unit == "rating"


def test_counts_that_are_noise_pay_for_nothing() -> None:
    budget = Budget(1.0, 1e-5, "user", "gaussian", 0)
    drowned = MeasuredCounts(np.random.default_rng(0).normal(0, 1, 5000), 1.0, 2000.0, 8.0, 0.1)
    assert choose_plan(budget, drowned, room=True, bare=False) == "popularity"


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_pairs_that_are_noise_leave_no_factors(
    viewers: Ratings, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "choose_plan", lambda *_, **__: "pairs")
    drowned, clear = (model(epsilon, unit=unit).fit(viewers) for epsilon in (0.01, 1000))
    assert "pairs of items" in drowned.released_
    assert drowned.factors_.shape[1] <= 2 < clear.factors_.shape[1]


def test_where_pairs_do_not_fit_something_else_is_measured_and_said(
    viewers: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "all_memory", lambda: 1 << 20)
    found = model(1000).fit(viewers)
    assert "pairs of items" not in found.released_
    assert f"the pairs of {viewers.n_items:,} items do not fit in memory" in found.record
    laplace = model(1000, noise="laplace").fit(viewers)
    assert [*laplace.released_] == ["counts of items"]


def test_the_note_says_that_lists_are_popularity_by_released_numbers(viewers: Ratings) -> None:
    one = model(0.05).fit(viewers)
    assert one.note_.startswith("these lists are popularity: about ")
    assert one.note_ != model(0.05, seed=2).fit(viewers).note_, "the number of people has noise"
    assert model(5).fit(viewers).note_ == ""


def test_a_refusal_for_memory_offers_nothing_that_is_not_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "free_memory", lambda: 1000)
    with pytest.raises(Exception, match="histories") as refused:
        pairs.check_memory(10_000)
    assert "svd" not in str(refused.value)
    assert "not private" not in str(refused.value)


CATALOGUES = {
    "none": None,
    "no genres, no years": [("a", "")] * 40,
    "one genre": [("a (1990)", "War")] * 40,
    "a genre each": [(f"f (19{i + 10})", f"G{i}") for i in range(40)],
    "strange years": [(f"f ({year})", "War|Art") for year in [1, 9999] * 20],
}


@pytest.mark.parametrize("name", CATALOGUES)
@pytest.mark.parametrize("plan", ["popularity", "tastes", "items", "pairs"])
@pytest.mark.parametrize("people", [1, 10, 300])
def test_odd_data_ends_in_a_list(
    name: str, plan: str, people: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was chosen, also where the choice would have been another: no NaN, no warning."""
    rows = CATALOGUES[name]
    rng = np.random.default_rng(0)
    catalogue = rows and Catalogue.from_columns(range(40), *zip(*rows, strict=True))
    sizes = rng.integers(1, 40, people)
    items = np.concatenate([rng.permutation(40)[:size] for size in sizes])
    ratings = Ratings.from_columns(np.repeat(np.arange(people), sizes), items)
    monkeypatch.setattr(lists, "choose_plan", lambda *_, **__: plan)
    for unit in ("user", "rating"):
        found = model(1.0, unit=unit).fit(ratings.with_items(np.arange(40)), catalogue)
        scores = found._scores(found.histories_)
        assert np.isfinite(scores).all()
        assert len(set(np.round(scores[0], 12))) > 1, "items are told apart"


@pytest.mark.parametrize("plan", ["popularity", "tastes", "items", "pairs"])
def test_one_item(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "choose_plan", lambda *_, **__: plan)
    found = model(1.0).fit(Ratings.from_columns([1, 2], [7, 7]))
    assert np.isfinite(found._scores(found.histories_)).all()


# ---- what is made of the counts -----------------------------------------------------------


def test_denoised_counts_are_nearer_to_the_truth_and_in_order() -> None:
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.zeros(5000), rng.exponential(5, 300), [100, 1000]])
    noisy = truth + rng.normal(0, 2, len(truth))
    found = denoised(noisy, 2.0)
    assert ((found - truth) ** 2).sum() < 0.25 * ((np.maximum(noisy, 0) - truth) ** 2).sum()
    assert (np.diff(found[np.argsort(noisy)]) > -1e-9).all()
    np.testing.assert_allclose(found[-2:], noisy[-2:])
    assert denoised(np.zeros(5), 0.0).tolist() == [0.0] * 5


def test_a_basis_is_orthonormal_and_apart_from_popularity() -> None:
    films = load_dataset("films")
    counts, weights, popular = popularity_weights(films.ratings.item_counts.astype(float))
    features = with_own(item_features(films.catalogue, films.ratings.item_ids), counts, own=True)
    basis = Basis.of(features, counts, popular, most=80)
    columns = basis.times(np.eye(80))
    np.testing.assert_allclose(columns.T @ columns, np.eye(80), atol=1e-9)
    np.testing.assert_allclose(basis.inner(columns), np.eye(80), atol=1e-9)
    apart = basis.scales[:, None] * (features @ basis.apart)
    inside = columns @ (columns.T @ popular)
    np.testing.assert_allclose(apart.T @ inside, 0, atol=1e-9)
    assert weights.min() == weights[np.argmax(counts)]


def test_counts_of_nothing_are_even() -> None:
    counts, weights, popular = popularity_weights(np.zeros(4))
    for found in (counts, weights, 2 * popular):
        np.testing.assert_allclose(found, 1)
