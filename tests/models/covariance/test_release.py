"""A real fit, watched: what it measures costs the budget and no more, and is all that it learns."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings
from epicrec.engine.local import local
from epicrec.models.covariance import budget
from epicrec.models.covariance.budget import Budget
from epicrec.models.covariance.model import CovarianceSVD
from epicrec.models.covariance.release import _effects, _reach
from epicrec.models.spectrum import RATING_VARIANCE, Effects
from epicrec.privacy import gaussian_mu

KINDS = list(product(["explicit", "implicit"], ["gaussian", "laplace"], ["rating", "user"]))
BUDGETS = [0.5, 500.0]
"""Too little for a covariance, and enough for one."""


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
            self.seeds.append(seed)
            add(total, scale, seed=seed)
            if self.said is not None:
                total[:] = self.said[len(self.released)]
            self.released.append(total.copy())
            return total

        return added


def fitted(ratings: Ratings, kind: tuple[str, str, str], epsilon: float) -> CovarianceSVD:
    feedback, noise, unit = kind
    model = CovarianceSVD(
        epsilon=epsilon, delta=1e-6, unit=unit, noise=noise, feedback=feedback, seed=3
    )
    return model.fit(ratings)


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_measurements_cost_the_budget_together(
    some: Ratings, monkeypatch, kind: tuple[str, str, str], epsilon: float
) -> None:
    watch = Watch()
    watch.attach(monkeypatch)
    fitted(some, kind, epsilon)
    assert len(watch.scales) == len(watch.sensitivities) > 1
    costs = np.array(watch.sensitivities) / np.array(watch.scales)
    if kind[1] == "laplace":
        spent, budget = costs.sum(), epsilon
    else:
        spent, budget = np.sqrt((costs**2).sum()), gaussian_mu(epsilon, 1e-6)
    assert spent <= budget
    assert spent == pytest.approx(budget, rel=1e-6), "nothing of the budget is left lying"
    assert len(set(watch.seeds)) == len(watch.seeds), "noise is never used twice"
    pairs = some.n_items * (some.n_items - 1) // 2
    assert (len(watch.released[-1]) >= pairs) == (epsilon > 1), "both ways are watched"


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
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


def test_with_little_noise_the_effects_of_ratings_are_plain_sums(some: Ratings) -> None:
    centre, users, found = _effects(some, plenty("rating"), 1.0, local)
    stars = some.values - 3.0
    sums = np.bincount(some.items, stars, some.n_items)
    assert centre == pytest.approx(stars.mean(), abs=0.01)
    assert users == pytest.approx((some.user_counts > 0).sum(), rel=0.01)
    np.testing.assert_allclose(found.counts, some.item_counts, atol=1)
    np.testing.assert_allclose(found.deviations, sums - centre * some.item_counts, atol=1)
    np.testing.assert_allclose(found.variance, (1 + centre**2) * found.noise**2)


def test_with_little_noise_the_effects_of_users_are_sums_of_their_shares(some: Ratings) -> None:
    """Each user's counts, and deviations from the user's mean, have a length of at most 1."""
    centre, users, found = _effects(some, plenty("user"), 1.0, local)
    counts, means = np.zeros(some.n_items), []
    for user in range(some.n_users):
        own = some.row(user)
        if own.stop > own.start:
            counts[some.items[own]] += 1 / np.ceil(np.sqrt(own.stop - own.start))
            means.append(float(some.values[own].mean()) - 3)
    assert centre == pytest.approx(np.mean(means), abs=0.02)
    assert users == pytest.approx(len(means), rel=0.01)
    np.testing.assert_allclose(found.counts, counts, atol=0.5)
    np.testing.assert_allclose(found.variance, found.noise**2)
    assert found.per_count == pytest.approx(RATING_VARIANCE * users / counts.sum(), rel=0.01)


def test_the_second_look_hears_rare_items_better(some: Ratings) -> None:
    """Also one that nobody seemed to have at the first look."""
    counts = some.item_counts.astype(float)
    counts[7] = 0.0
    first = Effects(counts, counts, counts, np.full(some.n_items, 1e-9), 1.0)
    _, _, found = _effects(some, plenty("user"), 1.0, local, like=first)
    assert np.isfinite(found.counts).all()
    assert found.noise.argmin() == 7
    order = np.argsort(counts)
    assert (np.diff(found.noise[order]) >= 0).all()
    assert found.noise[order[-1]] > 1.2 * found.noise[order[1]]


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_items_reach_as_far_as_they_are_counted(unit: str) -> None:
    counts = np.array([100.0, 50.0, 10.0, 0.0, -3.0])
    effects = Effects(counts, counts, counts, counts, 1.0)
    share = np.maximum(counts, 0) / 160
    reach, usual = _reach(unit, effects, 40.0, None)
    for profile in (reach.reach, reach.sampled, reach.ratings):
        np.testing.assert_allclose(profile / profile.sum(), share)
    units = counts.sum() if unit == "rating" else 40.0
    assert 0.05 < usual < 1
    assert _reach(unit, effects, 40.0, 0.3 * units)[1] == pytest.approx(0.3)
    assert _reach(unit, effects, 40.0, 3 * units)[1] == 1, "residuals are clamped to one star"
    assert _reach(unit, effects, 40.0, -units)[1] == pytest.approx(0.05)
