from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp, inf, log, nan, sqrt

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from epicrec.errors import InputError
from epicrec.models.private.budget import Budget
from epicrec.models.private.statistics import ItemEffects
from epicrec.privacy import (
    Guarantee,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_guarantee,
    gaussian_mu,
    gaussian_sigma,
    laplace_scale,
)

RATING = {"unit": "rating", "relation": "add or remove one"}


def exact_delta(mu, epsilon):
    with mpmath.workdps(400):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-b)


@pytest.mark.parametrize("mu", [1e-9, 1e-5, 0.01, 0.3, 1, 4, 30])
@pytest.mark.parametrize("multiple", [0, 0.1, 0.5, 1, 3, 8, 20])
def test_delta_against_many_digits(mu, multiple):
    epsilon = mu * multiple + mu * mu / 2
    exact = exact_delta(mu, epsilon)
    assert exact <= gaussian_delta(mu, epsilon) <= exact * (1 + 1e-9 + 1e-10 / mu)


@settings(deadline=None)
@given(st.floats(1e-6, 60), st.floats(0, 300))
def test_delta_is_never_below_the_truth(mu, epsilon):
    assert gaussian_delta(mu, epsilon) >= exact_delta(mu, epsilon)


@settings(deadline=None)
@given(st.floats(1e-4, 200), st.floats(1e-14, 0.5))
def test_conversions_are_inverse_and_safe(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(mu, epsilon) <= delta
    assert exact_delta(mu * (1 + 1e-7), epsilon) > delta
    back = gaussian_epsilon(mu, delta)
    assert exact_delta(mu, back) <= delta
    assert back == pytest.approx(epsilon, rel=1e-7)


def test_conversions_at_the_edges():
    assert gaussian_epsilon(1.0, 0.0) == inf
    assert gaussian_epsilon(1e-3, 0.01) == 0  # δ(0) = 0.0004 already suffices
    assert gaussian_delta(1e-3, 1.0) > 0  # far below the smallest float, yet not 0
    assert gaussian_delta(1.0, 0.0) == pytest.approx(0.3829249225480262)
    assert gaussian_mu(0, 1e-3) == pytest.approx(0.0025066, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1, 1e-6), (3, 1e-9), (10, 1e-12)])
def test_agrees_with_dp_accounting_and_beats_the_classical_bound(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    theirs = pld.from_gaussian_mechanism(
        standard_deviation=1 / mu, value_discretization_interval=1e-4
    ).get_epsilon_for_delta(delta)
    assert theirs == pytest.approx(epsilon, rel=2e-3)
    assert 1 / mu < sqrt(2 * log(1.25 / delta)) / epsilon


@given(st.fractions(Fraction(1, 1000), 1000), st.floats(1e-6, 1e3))
def test_sigma_is_rounded_up_and_scale_is_exact(sensitivity, mu):
    sigma = gaussian_sigma(sensitivity, mu)
    assert Fraction(sigma) * Fraction(mu) >= sensitivity
    assert sigma == pytest.approx(float(sensitivity) / mu, rel=1e-15)
    assert laplace_scale(sensitivity, mu) * Fraction(mu) == sensitivity


def pure(epsilon, **fields):
    return Guarantee(**RATING | {"epsilon": epsilon} | fields)


def test_pure_guarantees_add_up():
    total = compose([pure(0.1)] * 10, delta=1e-6)
    assert (total.epsilon, total.delta, total.mu) == (1.0, 0.0, None)


def test_gaussian_guarantees_add_up_in_squares():
    parts = [gaussian_guarantee(mu, 1e-7, **RATING) for mu in (0.3, 0.4)]
    total = compose(parts, delta=1e-6)
    assert total.mu == pytest.approx(0.5)
    assert total.epsilon == pytest.approx(gaussian_epsilon(0.5, 1e-6))
    assert total.delta == 1e-6
    assert total.epsilon < sum(part.epsilon for part in parts)
    assert compose(parts[:1], 1e-7).epsilon == pytest.approx(parts[0].epsilon)


def test_mixed_guarantees_lie_between_their_parts_and_their_sum():
    parts = [pure(0.3), pure(0.2, delta=1e-7), gaussian_guarantee(0.4, 1e-7, **RATING)]
    total = compose(parts, delta=1e-6)
    assert parts[2].epsilon < total.epsilon <= sum(part.epsilon for part in parts)
    many = compose([pure(0.05, delta=1e-9)] * 400, delta=1e-6)
    assert 4 < many.epsilon < 6  # the sum is 20
    both = compose([*parts[2:], pure(0.3)], 1e-6)
    exact = exact_pure_with_gaussian(0.3, 0.4, 1e-6)
    assert exact <= both.epsilon <= exact + 2e-3


def exact_pure_with_gaussian(pure_epsilon, mu, delta):
    """Worst pure mechanism is randomised response: its loss is ±ε, and δ mixes accordingly."""
    keep = 1 / (1 + mpmath.exp(-pure_epsilon))
    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        mixed = keep * extended_delta(mu, middle - pure_epsilon) + (1 - keep) * extended_delta(
            mu, middle + pure_epsilon
        )
        low, high = (middle, high) if mixed > delta else (low, middle)
    return high


def extended_delta(mu, epsilon):
    """δ(ε) also for negative ε."""
    return float(exact_delta(mu, epsilon))


def test_sum_is_used_where_it_is_all_there_is():
    parts = [pure(0.3, delta=1e-6), pure(0.3, delta=1e-6)]
    assert compose(parts, delta=2e-6).epsilon <= 0.6
    with pytest.raises(InputError, match="more than 2e-06"):  # nothing holds at δ = 0
        compose(parts, delta=0)


def test_what_is_carried_along():
    parts = [
        pure(1, assumes=("First thing holds.",)),
        pure(1, status="claimed", assumes=("First thing holds.", "Second thing holds.")),
    ]
    total = compose([*parts, replace(parts[0], reproducible=True)])
    assert total.status == "claimed"
    assert total.assumes == ("First thing holds.", "Second thing holds.")
    assert total.reproducible
    assert compose([*parts, Guarantee.none(**RATING)]).status == "none"


def test_refusals():
    with pytest.raises(InputError, match="different things"):
        compose([pure(1), pure(1, unit="user")])
    with pytest.raises(InputError, match="different things"):
        compose([pure(1), pure(1, relation="change one")])
    with pytest.raises(InputError, match="nothing to compose"):
        compose([])
    with pytest.raises(InputError, match="use Laplace"):
        gaussian_mu(1, 0)
    for call in (
        lambda: gaussian_mu(-1, 1e-6),
        lambda: gaussian_mu(inf, 1e-6),
        lambda: gaussian_mu(1, 1),
        lambda: gaussian_epsilon(0, 1e-6),
        lambda: gaussian_epsilon(1, nan),
        lambda: gaussian_delta(nan, 1),
        lambda: gaussian_delta(1, -1),
        lambda: gaussian_sigma(0, 1),
        lambda: laplace_scale(1, 0),
        lambda: compose([pure(1)], delta=-1),
    ):
        with pytest.raises(InputError, match="must be"):
            call()


# ---- against others, and never below the truth ------------------------------------------------


def laplace_delta(losses, epsilon):
    """δ(ε) of Laplace mechanisms with these losses together, convolved on a grid.

    The loss L = ln P(y)/Q(y) of one with loss l is l with probability ½, -l with e^-l/2, and has
    the density e^((L-l)/2)/4 between. Losses are rounded down, so that δ is a bound from below.
    """
    step = 1e-3
    chances = {0: 1.0}
    for loss in losses:
        cells = range(int(-loss / step) - 1, int(loss / step) + 1)
        edges = [max(-loss, min(loss, k * step)) for k in (*cells, cells[-1] + 1)]
        part = {
            k: (exp((b - loss) / 2) - exp((a - loss) / 2)) / 2
            for k, a, b in zip(cells, edges, edges[1:], strict=False)
        }
        top, low = int(loss / step), int(-loss / step) - 1
        part[top] = part.get(top, 0.0) + 0.5
        part[low] = part.get(low, 0.0) + exp(-loss) / 2
        mixed = {}
        for k, p in chances.items():
            for j, q in part.items():
                mixed[k + j] = mixed.get(k + j, 0.0) + p * q
        chances = mixed
    return sum(p * (1 - exp(epsilon - k * step)) for k, p in chances.items() if k * step > epsilon)


@pytest.mark.parametrize("losses", [[0.5], [0.2, 0.3], [0.1, 0.1, 0.1]])
def test_pure_sums_are_never_below_the_truth(losses):
    total = compose([pure(loss) for loss in losses])
    assert laplace_delta(losses, total.epsilon) == 0
    assert laplace_delta(losses, 0.8 * total.epsilon) > 0, "and not above it without need"


@pytest.mark.parametrize("losses", [[0.5], [0.2, 0.3]])
def test_the_convolution_agrees_with_dp_accounting(losses):
    together = None
    for loss in losses:
        one = pld.from_laplace_mechanism(parameter=1 / loss, value_discretization_interval=1e-4)
        together = one if together is None else together.compose(one)
    for part in (0.3, 0.6, 0.9):
        epsilon = part * sum(losses)
        theirs = together.get_delta_for_epsilon(epsilon)
        ours = laplace_delta(losses, epsilon)
        assert ours <= theirs + 1e-9
        assert ours == pytest.approx(theirs, abs=2e-3)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.01, 2), min_size=1, max_size=5), st.floats(1e-9, 1e-2))
def test_gaussian_sums_are_never_below_the_truth(mus, delta):
    total = compose([gaussian_guarantee(mu, delta, **RATING) for mu in mus], delta)
    with mpmath.workdps(50):
        true = mpmath.sqrt(sum(mpmath.mpf(mu) ** 2 for mu in mus))
    assert total.mu >= true
    assert exact_delta(true, total.epsilon) <= delta


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0.01, 20),
    st.floats(1e-12, 1e-3),
    st.lists(st.integers(1, 1000), min_size=1, max_size=6),
    st.sampled_from(["gaussian", "laplace"]),
)
def test_shares_of_a_budget_never_add_up_to_more(epsilon, delta, parts, noise):
    """In fractions: the noise that `measure` adds costs no more than the budget, all together."""
    budget = Budget(epsilon, delta, "user", noise, 1)
    shares = [part / sum(parts) for part in parts]
    statistic = ItemEffects("user", budget.norm, None)
    spent = Fraction(0)
    for turn, share in enumerate(shares):
        _, spread = budget.measure(statistic, share, np.zeros(4, np.int64), turn=turn)
        if noise == "laplace":
            spent += statistic.sensitivity / (Fraction(spread) / Fraction(sqrt(2)))
        else:
            spent += (statistic.sensitivity / Fraction(spread)) ** 2
    bound = Fraction(epsilon) if noise == "laplace" else Fraction(gaussian_mu(epsilon, delta)) ** 2
    assert spent <= bound * (1 + Fraction(1, 1 << 50))
    assert spent >= bound * (1 - Fraction(1, 1 << 40)), "nothing is left lying"
