"""Private lists: which plan the released numbers make, that its shares add up, that it pays, and
that odd data ends in a list."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from epicrec.data import Catalogue, Ratings, load_dataset, split_per_user
from epicrec.errors import InputError
from epicrec.evaluate.protocols import evaluate_topn
from epicrec.models import load
from epicrec.models.bias import Popularity
from epicrec.models.features import fame_of, item_features
from epicrec.models.private import learner, lists, pairs
from epicrec.models.private.basis import Basis, popularity_weights, with_own
from epicrec.models.private.budget import Budget
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.learner import MeasuredCounts
from epicrec.models.private.lists import Released, Step, counts_statistic, next_step
from epicrec.models.private.tastes import TasteProducts
from epicrec.models.spectrum import denoised
from epicrec.privacy import gaussian_epsilon, gaussian_mu

FILMS = load_dataset("films")
TRAIN, TEST = split_per_user(FILMS.ratings, 0.2, seed=0)
UNITS = ["user", "rating"]


def model(epsilon: float, **settings) -> CovarianceSVD:
    options = {"delta": 1e-5, "unit": "user", "task": "lists", "seed": 1} | settings
    return CovarianceSVD(epsilon=epsilon, **options)


def ndcg(recommender, with_catalogue: bool = True) -> float:
    catalogue = FILMS.catalogue if with_catalogue else None
    return evaluate_topn(recommender, TRAIN, TEST, catalogue=catalogue)[0]["ndcg"]


# ---- whether it pays ----------------------------------------------------------------------


def test_public_features_make_lists_that_popularity_does_not() -> None:
    """A whole person at ε = 3: tastes with a catalogue, tastes in items themselves without."""
    popular = ndcg(Popularity(epsilon=3, delta=1e-5, unit="user", seed=1))
    bare = ndcg(model(3), with_catalogue=False)
    assert popular + 0.03 < bare < ndcg(model(3))


def test_one_item_is_no_harder_to_hide_than_a_person_with_more_noise() -> None:
    """Rating level at μ has the noise of the user level at μ/√2 for what one taste weighs, but a
    longer history weighs more there."""
    mu = gaussian_mu(1.0, 1e-5)
    weaker = gaussian_epsilon(mu / 2**0.5, 1e-5)
    gains = [
        ndcg(model(1.0, unit="rating", seed=seed)) - ndcg(model(weaker, seed=seed))
        for seed in (1, 2, 3)
    ]
    assert np.mean(gains) > 0.02


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
    assert found.released_["counts of items"] == pytest.approx(0.8)


def few_items(people: int) -> Ratings:
    """Most people have most of 60 items, by popularity and a little by taste."""
    rng = np.random.default_rng(3)
    known, often = rng.normal(0, 1.2, 60), rng.normal(size=(people, 1))
    taste = 0.1 * rng.normal(size=(people, 3)) @ rng.normal(size=(3, 60))
    users, items = np.nonzero(rng.random((people, 60)) < 1 / (1 + np.exp(-known - often - taste)))
    return Ratings.from_columns(users, items).with_items(np.arange(60))


def test_tastes_that_noise_hides_cost_a_fifth_and_others_have_the_rest() -> None:
    """A first measurement says so: then counts have the rest, and tastes where it shows some."""
    hidden = model(0.2).fit(few_items(5000))
    assert hidden.released_ == pytest.approx(
        {"counts of items": 0.8, "how tastes go together": 0.2}
    )
    assert hidden.factors_.shape[1] == 0
    seen = model(3.0).fit(FILMS.ratings, FILMS.catalogue)
    assert 0.2 <= seen.released_["counts of items"] <= 0.35
    assert sum(seen.released_.values()) == pytest.approx(1)
    assert seen.factors_.shape[1] > 0
    assert seen.note_ == ""


# ---- the plan -----------------------------------------------------------------------------


PATHS = {
    "popularity": (np.inf, False, False),
    "not shown": (-1.0, False, False),
    "shown at first": (-1.0, True, False),
    "shown": (-1.0, True, True),
}


def take(path: str, patch: pytest.MonkeyPatch) -> None:
    """Whatever the numbers are: one way through the plan, and what is learned in the end."""
    pays, first, last = PATHS[path]
    patch.setattr(lists, "PAYS", pays)
    patch.setattr(lists, "is_shown", lambda *_: first)
    patch.setattr(learner, "is_shown", lambda *_: last)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("epsilon", [0.05, 2.0])
def test_shares_add_up_to_the_budget_exactly_and_every_turn_has_its_own_noise(
    path: str, unit: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(path, monkeypatch)
    shares, turns, measure = [], [], Budget.measure

    def recorded(self, statistic, share, total, *, turn=0):
        shares.append(share)
        turns.append(turn)
        return measure(self, statistic, share, total, turn=turn)

    monkeypatch.setattr(Budget, "measure", recorded)
    found = model(epsilon, unit=unit).fit(FILMS.ratings, FILMS.catalogue)
    assert all(isinstance(share, Fraction) and share > 0 for share in shares)
    assert sum(shares) == 1
    assert turns == [*range(len(shares))]
    assert len(shares) == (2 if path == "popularity" else 4)
    assert sum(found.released_.values()) == pytest.approx(1)
    assert (found.factors_.shape[1] > 0) == (path == "shown")
    assert (found.note_ == "") == (path == "shown")


def measured(
    people: float, unit: str = "user", n: int = 1000, spread: float = 1.0
) -> MeasuredCounts:
    each = people / (1 + np.arange(n)) / 4
    return MeasuredCounts(unit, each, spread, people, 8 * spread, 0.1)


def after(counts: MeasuredCounts, *shares: Fraction) -> Released:
    statistic = counts_statistic(counts.unit, 2, len(counts.counts))
    return Released(counts.unit, tuple(Step(statistic, share) for share in shares), counts)


def kinds(n: int) -> csr_array:
    return csr_array(np.eye(20)[np.arange(n) % 20])


@pytest.mark.parametrize("unit", UNITS)
def test_more_people_pay_for_more_directions(unit: str) -> None:
    found = []
    for people in (1000, 3000, 10_000, 100_000, 1_000_000):
        done = after(measured(people, unit), Fraction(1, 10), Fraction(1, 5))
        step = next_step(done, kinds(1000), mu=0.1)
        assert isinstance(step.statistic, TasteProducts)
        assert step.share == Fraction(1, 5)
        found.append(step.statistic.coefficients.shape[1])
    assert found == sorted(found)
    assert found[0] < 30 < 150 < found[-1] <= 600
    assert len(set(found)) >= 4


@pytest.mark.parametrize("unit", UNITS)
def test_few_people_or_drowned_counts_pay_for_counts_alone(unit: str) -> None:
    """And people who are clear pay for tastes: popularity never comes back."""
    first = Fraction(1, 10)
    whole = [
        next_step(after(measured(10**power, unit), first), kinds(1000), mu=0.1).share == 1 - first
        for power in np.linspace(0.5, 6, 30)
    ]
    assert whole[0]
    assert not whole[-1]
    assert whole == sorted(whole, reverse=True)
    noise = np.random.default_rng(0).normal(0, 1, 5000)
    drowned = MeasuredCounts(unit, noise, 1.0, 2000.0, 8.0, 0.1)
    assert next_step(after(drowned, first), kinds(5000), mu=0.1).share == 1 - first


def test_counts_that_stand_out_leave_more_for_tastes() -> None:
    first = Fraction(1, 10)
    shares = [
        next_step(after(measured(10**5, spread=spread), first), kinds(1000), mu=0.1).share
        for spread in (1.0, 1000.0)
    ]
    assert shares[0] == Fraction(1, 10), "a fifth in all"
    assert Fraction(1, 10) < shares[1] <= Fraction(2, 5), "up to a half"


def test_laplace_noise_is_for_counts_alone(viewers: Ratings) -> None:
    found = model(1000, noise="laplace").fit(viewers)
    assert found.released_ == {"counts of items": 1.0}
    assert found.note_.startswith("these lists are popularity: Laplace noise")
    assert found.guarantee.delta == 0


def test_the_note_says_that_lists_are_popularity_by_released_numbers(viewers: Ratings) -> None:
    one = model(0.05).fit(viewers)
    assert one.note_.startswith("these lists are popularity: about ")
    assert one.note_ != model(0.05, seed=2).fit(viewers).note_, "the number of people has noise"
    assert model(5).fit(viewers).note_ == ""


# ---- popularity ---------------------------------------------------------------------------


def test_without_privacy_to_spend_popularity_is_plain() -> None:
    ratings = Ratings.from_columns([1, 1, 2], [10, 20, 20])
    plain = Popularity().fit(ratings)
    assert plain.counts_.tolist() == [1, 2]
    assert plain.guarantee.status == "none"
    assert plain.record == ""


@pytest.mark.parametrize("unit", UNITS)
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


@pytest.mark.parametrize("unit", UNITS)
def test_lists_that_are_popularity_are_those_of_private_popularity(unit: str) -> None:
    """With the same seed: so that a comparison shows the methods, and not their draws."""
    plain = Popularity(epsilon=0.02, delta=1e-5, unit=unit, seed=1).fit(FILMS.ratings)
    lists = model(0.02, unit=unit).fit(FILMS.ratings, FILMS.catalogue)
    assert "these lists are popularity: about" in lists.note_
    users = FILMS.ratings.user_ids[:20]
    one, two = (found.recommend(users, n=10).to_pydict() for found in (plain, lists))
    assert one["item_id"] == two["item_id"]


def test_a_private_popularity_is_saved_without_histories(tmp_path) -> None:
    ratings = Ratings.from_columns([1, 1, 2], [10, 20, 20])
    Popularity(epsilon=1, unit="user", seed=0).fit(ratings).save(tmp_path / "m.npz")
    kept = load(tmp_path / "m.npz")
    assert kept.histories_ is None
    assert "counts of items (100%)" in kept.record


# ---- fame ---------------------------------------------------------------------------------


def test_with_public_fame_lists_are_never_much_worse_than_fame_itself() -> None:
    class Famous(Popularity):
        def _fit(self, ratings: Ratings) -> None:
            super()._fit(ratings)
            self.counts_ = fame_of(FILMS.catalogue, "popularity", ratings.item_ids)

    public = ndcg(Famous())
    found = [
        (ndcg(model(0.1, fame="popularity", seed=seed)), ndcg(model(0.1, seed=seed)))
        for seed in (1, 2, 3)
    ]
    for famous, without in found:
        assert famous > public - 0.01
        assert famous > without + 0.05


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_guarantee_names_the_column_that_is_taken_to_be_public(noise: str) -> None:
    options = {"noise": noise, "seed": None}
    famous = model(0.5, fame="popularity", **options).fit(FILMS.ratings, FILMS.catalogue)
    named = [one for one in famous.guarantee.assumes if "'popularity'" in one]
    assert len(named) == 1
    assert "public" in named[0]
    plain = model(0.5, **options).fit(FILMS.ratings, FILMS.catalogue)
    assert not any("'popularity'" in one for one in plain.guarantee.assumes)
    assert famous.guarantee.epsilon == plain.guarantee.epsilon


def test_much_budget_makes_little_of_wrong_fame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fame that is the wrong way round: counts decide where they are clear."""
    take("popularity", monkeypatch)
    wrong = FILMS.catalogue.to_table()
    famous = wrong["popularity"].to_numpy()
    wrong = wrong.append_column("wrong", [famous.max() - famous])
    catalogue = Catalogue.from_table(wrong)
    rich = model(30.0, fame="wrong").fit(FILMS.ratings, catalogue)
    plain = model(30.0).fit(FILMS.ratings, FILMS.catalogue)
    both = np.corrcoef(rich.offsets_, plain.offsets_)[0, 1]
    assert both > 0.95


@pytest.mark.parametrize(
    ("fame", "reason"),
    [("renown", "no column 'renown'.*popularity"), ("label", "numbers.*'label'")],
)
def test_fame_that_is_no_column_of_numbers_is_refused(fame: str, reason: str) -> None:
    table = FILMS.catalogue.to_table()
    table = table.append_column("label", [["a"] * len(table)])
    with pytest.raises(InputError, match=reason):
        model(1.0, fame=fame).fit(FILMS.ratings, Catalogue.from_table(table))


# ---- memory -------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS)
def test_pairs_that_do_not_fit_are_refused_before_anything_is_measured(
    viewers: Ratings, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the ratings are; without pairs there is a model, which says so."""
    monkeypatch.setattr(pairs, "free_memory", lambda: 1000)
    spent = []
    note = Budget.note
    monkeypatch.setattr(Budget, "note", lambda *given: (spent.append(1), note(*given)))
    options = {"unit": unit, "task": "ratings"}
    with pytest.raises(InputError, match="factors=0") as refused:
        model(5.0, **options).fit(viewers)
    assert not spent
    assert "not private" not in str(refused.value)
    found = model(5.0, factors=0, **options).fit(viewers)
    assert spent
    assert "pairs of items" not in found.released_
    assert "factors = 0" in found.note_
    assert found.guarantee.epsilon <= 5 * (1 + 1e-9)
    assert model(5.0, unit=unit).fit(viewers).released_, "lists need no pairs"


def test_a_refusal_for_memory_offers_nothing_that_is_not_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "free_memory", lambda: 1000)
    with pytest.raises(InputError, match="histories") as refused:
        pairs.check_memory(10_000)
    assert "svd" not in str(refused.value)
    assert "not private" not in str(refused.value)


# ---- odd data -----------------------------------------------------------------------------


CATALOGUES = {
    "none": None,
    "no genres, no years": [("a", "")] * 40,
    "one genre": [("a (1990)", "War")] * 40,
    "a genre each": [(f"f (19{i + 10})", f"G{i}") for i in range(40)],
    "strange years": [(f"f ({year})", "War|Art") for year in [1, 9999] * 20],
}


@pytest.mark.parametrize("name", CATALOGUES)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("people", [1, 10, 300])
@pytest.mark.filterwarnings("error")
def test_odd_data_ends_in_a_list(
    name: str, path: str, people: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever way was taken, also where it would have been another: no NaN, no warning."""
    rows = CATALOGUES[name]
    rng = np.random.default_rng(0)
    catalogue = rows and Catalogue.from_columns(
        range(40), *zip(*rows, strict=True), known=[0.0] * 39 + [1.0]
    )
    sizes = rng.integers(1, 40, people)
    items = np.concatenate([rng.permutation(40)[:size] for size in sizes])
    ratings = Ratings.from_columns(np.repeat(np.arange(people), sizes), items)
    take(path, monkeypatch)
    for unit in UNITS:
        for fame in (None, "known") if catalogue else (None,):
            given = ratings.with_items(np.arange(40))
            found = model(1.0, unit=unit, fame=fame).fit(given, catalogue)
            scores = found._scores(found.histories_)
            assert np.isfinite(scores).all()
            assert len(set(np.round(scores[0], 12))) > 1, "items are told apart"


@pytest.mark.parametrize("path", PATHS)
def test_one_item(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take(path, monkeypatch)
    for unit in UNITS:
        found = model(1.0, unit=unit).fit(Ratings.from_columns([1, 2], [7, 7]))
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
    counts, weights, popular = popularity_weights(FILMS.ratings.item_counts.astype(float))
    features = with_own(item_features(FILMS.catalogue, FILMS.ratings.item_ids), counts)
    whole = Basis.of(features, counts, popular)
    for basis in (whole, whole.first(80, popular)):
        d = len(basis.emphasis)
        columns = basis.times(np.eye(d))
        np.testing.assert_allclose(columns.T @ columns, np.eye(d), atol=1e-8)
        apart = basis.scales[:, None] * (features @ basis.apart)
        inside = columns @ (columns.T @ popular)
        np.testing.assert_allclose(apart.T @ inside, 0, atol=1e-8)
        assert (np.diff(basis.emphasis) <= 0).all(), "the first, of which most is expected, most"
        assert basis.emphasis[0] == 1
    assert d == 80
    assert weights.min() == weights[np.argmax(counts)]


def test_counts_of_nothing_are_even() -> None:
    counts, weights, popular = popularity_weights(np.zeros(4))
    for found in (counts, weights, 2 * popular):
        np.testing.assert_allclose(found, 1)


def test_lists_without_a_delta_are_popularity(viewers: Ratings) -> None:
    model = CovarianceSVD(epsilon=1.0, delta=0.0, noise="laplace", task="lists", unit="user")
    model.fit(viewers, items=viewers.item_ids)
    assert (model.guarantee.epsilon, model.guarantee.delta) == (1.0, 0.0)
    assert "Laplace noise is for counts alone" in model.note_


def test_noise_that_cannot_be_drawn_is_not_planned() -> None:
    """Asked before anything is drawn: a plan that stopped half-way would have spent for nothing."""
    assert lists._too_noisy("rating", 1e-4)
    assert not lists._too_noisy("rating", 0.01)
