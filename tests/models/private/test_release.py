"""A real fit, watched: what it measures costs the budget and no more, and is all that it learns."""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings, load_dataset
from epicrec.engine import local
from epicrec.models.estimates import PRIOR_MEAN, ItemSums, Spread
from epicrec.models.features import item_features, taste_columns
from epicrec.models.private import budget
from epicrec.models.private.budget import Budget
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.measurements import MeasuredRatings, measure_effects, reach_of
from epicrec.models.private.statistics import Moments, left_out_errors
from epicrec.models.spectrum import unresolved
from epicrec.privacy import gaussian_epsilon

KINDS = list(product(["ratings", "lists"], ["gaussian", "laplace"], ["rating", "user"]))
BUDGETS = [0.1, 1000.0]
"""Too little for a covariance or for tastes, and enough for one."""
CASES = [
    *product(KINDS, BUDGETS),
    (("lists", "gaussian", "user"), 1.0),  # tastes are measured, and hidden by the noise
    (("lists", "gaussian", "user"), 4.0),
]


@pytest.fixture(scope="module")
def some(viewers: Ratings) -> Ratings:
    """All that was rated of the sixty best known films."""
    known = np.argsort(-viewers.item_counts, kind="stable")[:60]
    return viewers.with_items(np.sort(viewers.item_ids[known]))


@dataclass
class Watch:
    """What was measured with how much noise; `said` replaces what the noise gave."""

    sensitivities: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    gaussian: list[bool] = field(default_factory=list)
    seeds: list[int | None] = field(default_factory=list)
    released: list[np.ndarray] = field(default_factory=list)
    said: list[np.ndarray] | None = None

    def attach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        measure = Budget.measure

        def measured(purse: Budget, statistic: Any, *rest: Any, **more: Any) -> Any:
            self.sensitivities.append(float(statistic.sensitivity))
            return measure(purse, statistic, *rest, **more)

        monkeypatch.setattr(Budget, "measure", measured)
        for name in ("add_discrete_laplace", "add_integer_gaussian"):
            monkeypatch.setattr(budget, name, self._noticing(getattr(budget, name)))

    def _noticing(self, add: Any) -> Any:
        def added(total: np.ndarray, scale: Any, *, seed: int | None = None) -> np.ndarray:
            self.scales.append(float(scale))
            self.gaussian.append(add.__name__ == "add_integer_gaussian")
            self.seeds.append(seed)
            add(total, scale, seed=seed)
            if self.said is not None:
                total[:] = self.said[len(self.released)]
            self.released.append(total.copy())
            return total

        return added


def fitted(ratings: Ratings, kind: tuple[str, str, str], epsilon: float) -> CovarianceSVD:
    task, noise, unit = kind
    model = CovarianceSVD(epsilon=epsilon, delta=1e-6, unit=unit, noise=noise, task=task, seed=3)
    return model.fit(ratings)


@pytest.mark.parametrize(("kind", "epsilon"), CASES)
def test_measurements_cost_the_budget_together(
    some: Ratings, monkeypatch, kind: tuple[str, str, str], epsilon: float
) -> None:
    watch = Watch()
    watch.attach(monkeypatch)
    model = fitted(some, kind, epsilon)
    assert len(watch.scales) == len(watch.sensitivities) > 1
    costs = np.array(watch.sensitivities) / np.array(watch.scales)
    by_gauss = np.array(watch.gaussian)
    spent = costs[~by_gauss].sum()
    if by_gauss.any():
        assert kind[1] == "gaussian"
        spent += gaussian_epsilon(float(np.sqrt((costs[by_gauss] ** 2).sum())), 1e-6)
    promise = model.guarantee
    assert (promise.delta > 0) == (kind[1] == "gaussian")
    assert spent <= promise.epsilon * (1 + 1e-12)
    assert spent == pytest.approx(epsilon, rel=1e-6), "nothing of the budget is left lying"
    assert len(set(watch.seeds)) == len(watch.seeds), "noise is never used twice"
    most = "pairs of items" if kind[0] == "ratings" else "how tastes go together"
    counts = kind[0] == "lists" and (kind[1] == "laplace" or epsilon < 1)
    if epsilon in BUDGETS:
        expected = epsilon > 1 and not counts
        assert (most in model.released_) == expected, "both ways are watched"
    elif epsilon == 1.0:
        assert model.released_ == pytest.approx({"counts of items": 0.8, most: 0.2})
        assert model.factors_.shape[1] == 0
    else:
        assert model.factors_.shape[1] > 5
    assert sum(model.released_.values()) == pytest.approx(1)


@pytest.mark.parametrize(("kind", "epsilon"), CASES)
def test_all_that_is_learned_came_through_the_noise(
    some: Ratings, monkeypatch, kind: tuple[str, str, str], epsilon: float
) -> None:
    """Other people's ratings whose noisy sums happen to be the same give the same model."""
    first = Watch()
    with monkeypatch.context() as patch:
        first.attach(patch)
        one = fitted(some, kind, epsilon)
    second = Watch(said=first.released)
    with monkeypatch.context() as patch:
        second.attach(patch)
        other = fitted(some.users_at(np.arange(100, 180)), kind, epsilon)
    assert second.scales == first.scales
    assert len(second.released) == len(first.released)
    learned = {name: value for name, value in vars(one).items() if name.endswith("_")}
    for name in learned.keys() - {"histories_", "item_ids_", "scale_"}:
        np.testing.assert_array_equal(learned[name], vars(other)[name], err_msg=name)


# ---- what is made of the sums -------------------------------------------------------------


def plenty(unit: str) -> Budget:
    return Budget(1000.0, 1e-6, unit, "gaussian", 5)


def test_with_little_noise_the_sums_of_ratings_are_plain(some: Ratings) -> None:
    found = measure_effects(some, plenty("rating"), 1.0, local)
    stars = some.values - 3.0
    sums = np.bincount(some.items, stars, some.n_items)
    assert found.centre == pytest.approx(stars.mean(), abs=0.01)
    assert found.users == pytest.approx((some.user_counts > 0).sum(), rel=0.01)
    np.testing.assert_allclose(found.items.counts, some.item_counts, atol=1)
    np.testing.assert_allclose(found.items.sums, sums, atol=1)


def test_with_little_noise_the_sums_of_users_are_of_their_shares(some: Ratings) -> None:
    """Each user's counts, and deviations from the user's mean, have a length of at most 1."""
    found = measure_effects(some, plenty("user"), 1.0, local)
    counts, means = np.zeros(some.n_items), []
    for user in range(some.n_users):
        own = some.row(user)
        if own.stop > own.start:
            counts[some.items[own]] += 1 / np.ceil(np.sqrt(own.stop - own.start))
            means.append(float(some.values[own].mean()) - 3)
    assert found.apart
    assert found.centre == pytest.approx(np.mean(means), abs=0.02)
    assert found.users == pytest.approx(len(means), rel=0.01)
    np.testing.assert_allclose(found.items.counts, counts, atol=0.5)
    assert found.items.per_count == pytest.approx(found.users / counts.sum(), rel=0.01)


def test_the_second_look_hears_rare_items_better(some: Ratings) -> None:
    """Also one that nobody seemed to have at the first measured."""
    counts = some.item_counts.astype(float)
    counts[7] = 0.0
    sums = ItemSums(counts, counts, counts, np.full(some.n_items, 1e-9))
    first = MeasuredRatings(sums, 100.0, 1.0, 0.0, 1.0)
    found = measure_effects(some, plenty("user"), 1.0, local, like=first).items
    assert np.isfinite(found.counts).all()
    assert found.noise.argmin() == 7
    order = np.argsort(counts)
    assert (np.diff(found.noise[order]) >= 0).all()
    assert found.noise[order[-1]] > 1.2 * found.noise[order[1]]


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_items_reach_as_far_as_they_are_counted(unit: str) -> None:
    counts = np.array([100.0, 50.0, 10.0, 0.0, -3.0])
    measured = MeasuredRatings(ItemSums(counts, counts, counts, counts), 40.0, 1.0, 0.0, 1.0)
    share = np.maximum(counts, 0) / 160
    reach = reach_of(unit, measured, 0.3)
    for profile in (reach.reach, reach.sampled, reach.ratings):
        np.testing.assert_allclose(profile / profile.sum(), share)
    assert measured.units(unit) == (counts.sum() if unit == "rating" else 40.0)


def test_measurements_are_joined_by_how_sure_they_are() -> None:
    ones = np.ones(2)
    sure = MeasuredRatings(ItemSums(4 * ones, ones, ones, ones), 9.0, 1.0, 1.0, 1.0)
    vague = MeasuredRatings(
        ItemSums(8 * ones, ones, 9 * ones, 3 * ones), 29.0, 3.0, 0.0, 3.0, apart=True
    )
    both = sure + vague
    np.testing.assert_allclose(both.items.sums, 4.4)
    np.testing.assert_allclose(both.items.noise**2, 0.9)
    assert both.users == pytest.approx(11)
    assert both.users_noise == pytest.approx(0.9**0.5)
    assert both.centre == pytest.approx(0.75)
    assert both.unsure == pytest.approx(0.75)
    assert both.apart


def test_a_measurement_that_tells_nothing_of_items_or_people_changes_nothing_of_them() -> None:
    ones = np.ones(2)
    known = MeasuredRatings(ItemSums(4 * ones, ones, 5 * ones, 3 * ones), 9.0, 1.0, 1.0, 1.0)
    nothing = ItemSums(0 * ones, 0 * ones, 0 * ones, np.inf * ones)
    both = replace(known, items=nothing) + replace(known, users=0.0, users_noise=np.inf)
    for name in ("sums", "counts", "variance", "noise"):
        np.testing.assert_array_equal(getattr(both.items, name), getattr(known.items, name))
    assert both.users == 9
    assert both.users_noise == 1


def test_a_mean_that_noise_hides_is_the_usual_one() -> None:
    ones = np.ones(2)
    measured = MeasuredRatings(ItemSums(ones, ones, ones, ones), 9.0, 1.0, -2.0, 1e9)
    assert measured.settled().centre == pytest.approx(PRIOR_MEAN)
    clear = replace(measured, unsure=1e-9).settled()
    assert clear.centre == pytest.approx(-2)
    assert clear.unsure <= 1e-9


def test_people_are_counted_whatever_the_noise_on_items_says(some: Ratings) -> None:
    """The noise on many items' counts may well say fewer than there are people."""
    people = np.count_nonzero(some.user_counts)
    wide = some.with_items(np.concatenate([some.item_ids, [f"more {at}" for at in range(20_000)]]))
    for seed in range(5):
        measured = measure_effects(wide, Budget(2.0, 1e-6, "user", "gaussian", seed), 1.0, local)
        assert abs(measured.users - people) < 6 * measured.users_noise


def test_twice_the_people_tell_the_mean_with_half_the_error(some: Ratings) -> None:
    who = np.repeat(np.arange(some.n_users), some.user_counts)
    twice = Ratings.from_columns(
        np.concatenate([who, who + some.n_users]), np.tile(some.items, 2), np.tile(some.values, 2),
        scale=some.scale,
    ).with_items(np.arange(some.n_items))  # fmt: skip
    one, two = (
        measure_effects(part, Budget(1000.0, 1e-6, "user", "gaussian", 5), 1.0, local)
        for part in (some, twice)
    )
    assert two.unsure == pytest.approx(one.unsure / 4, rel=0.01)
    assert two.centre == pytest.approx(one.centre, abs=0.01)


def test_two_looks_have_a_mean_between_theirs_nearer_to_the_surer() -> None:
    ones = np.ones(2)
    sure, vague = (
        MeasuredRatings(ItemSums(ones, ones, ones, ones), 9.0, 1.0, centre, unsure)
        for centre, unsure in ((1.0, 0.1), (-1.0, 0.3))
    )
    both = sure + vague
    assert both.centre == pytest.approx(0.75 * 1.0 + 0.25 * -1.0)
    assert both.unsure == pytest.approx(1 / (1 / 0.1 + 1 / 0.3))


# ---- the votes for taste ------------------------------------------------------------------


def test_votes_tell_features_that_matter_from_those_that_do_not() -> None:
    films = load_dataset("films")
    features = item_features(films.catalogue, films.ratings.item_ids)
    mixed = features[np.random.default_rng(0).permutation(films.ratings.n_items)]
    votes = []
    for own in (features, mixed):
        tastes = taste_columns(own)
        levels = np.zeros(films.ratings.n_items, np.int16) + 32
        statistic = Moments("user", 2, films.ratings.scale, levels, tastes, Spread(0.9, taste=0.1))
        votes.append(statistic(films.ratings)[1] / 64)
    assert votes[0] > 0.1 * films.ratings.n_users
    assert votes[1] < 0.5 * votes[0]


def test_an_error_of_a_rating_left_out_is_that_of_a_fit_without_it(some: Ratings) -> None:
    rng = np.random.default_rng(4)
    indptr = np.append(some.indptr, len(some) + 300)  # and one who has many
    items = np.append(some.items, rng.integers(0, some.n_items, 300).astype(np.int32))
    columns, residuals = rng.normal(size=(some.n_items, 3)), rng.normal(size=len(items))
    found = left_out_errors(indptr, items, residuals, columns, 0.7)
    for user in (0, 5, 11, some.n_users):
        row = slice(indptr[user], indptr[user + 1])
        f, r = columns[items[row]], residuals[row]
        squares = 0.0
        for at in range(len(r)):
            keep = np.arange(len(r)) != at
            solved = np.linalg.solve(f[keep].T @ f[keep] + 0.7 * np.eye(3), f[keep].T @ r[keep])
            squares += (r[at] - f[at] @ solved) ** 2
        assert found[user] == pytest.approx(squares)


def test_what_stands_above_the_noise_is_left_to_the_matrix() -> None:
    """Of two directions, one is clear four times over and has a quarter left; the other stays."""
    columns = np.array([[4.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    left = unresolved(columns, np.full(3, 0.5), 1.0)
    np.testing.assert_allclose(left @ left.T, np.diag([1.0, 1.0, 0.0]), atol=1e-12)
    assert unresolved(columns[:, :0], np.ones(3), 1.0).shape == (3, 0)
