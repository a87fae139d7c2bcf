from __future__ import annotations

import numpy as np
import pytest

from epicrec.errors import InputError
from epicrec.privacy import audit_epsilon, discrete_laplace, gaussian_epsilon, integer_gaussian

RUNS = 100_000


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_laplace_is_within_its_claim_and_half_the_noise_is_caught(epsilon):
    def outputs(scale):
        return discrete_laplace(RUNS, scale, seed=1), 1 + discrete_laplace(RUNS, scale, seed=2)

    result = audit_epsilon(*outputs(1 / epsilon))
    assert result.holds(epsilon)
    assert result.lower_bound > 0.85 * epsilon  # and the audit is not blind
    assert not audit_epsilon(*outputs(0.5 / epsilon)).holds(epsilon)


def test_gaussian_at_delta():
    delta = 0.01

    def outputs(sigma):
        return integer_gaussian(RUNS, sigma, seed=1), 1000 + integer_gaussian(RUNS, sigma, seed=2)

    claimed = gaussian_epsilon(1.0, delta)
    result = audit_epsilon(*outputs(1000), delta=delta)
    assert result.holds(claimed)
    assert result.lower_bound > 0.8 * claimed
    assert not audit_epsilon(*outputs(500), delta=delta).holds(claimed)
    assert audit_epsilon(*outputs(1000), delta=0.0).lower_bound > claimed  # δ is needed


def test_finds_a_leak_that_no_threshold_shows():
    rng = np.random.default_rng(1)
    even, odd = 2 * rng.integers(0, 20, RUNS), 2 * rng.integers(0, 20, RUNS) + 1
    assert audit_epsilon(even, odd).lower_bound > 8
    leak = np.where(rng.random(RUNS) < 0.001, 10**9, rng.integers(0, 2, RUNS))
    assert not audit_epsilon(leak, rng.integers(0, 2, RUNS)).holds(1.0)
    assert audit_epsilon(leak, rng.integers(0, 2, RUNS), delta=0.002).holds(0.05)


def test_false_alarms_are_as_rare_as_stated():
    """True ε is 0.5; at 80 % confidence the bound may exceed it in at most a fifth of audits."""
    alarms = sum(
        not audit_epsilon(
            discrete_laplace(2000, 2, seed=2 * i),
            1 + discrete_laplace(2000, 2, seed=2 * i + 1),
            confidence=0.8,
        ).holds(0.5)
        for i in range(200)
    )
    assert alarms <= 55


def test_says_what_it_saw():
    result = audit_epsilon(np.zeros(1000), np.ones(1000))
    assert result.runs == 1000
    assert result.event in {
        "output in [-inf, 0.5), likelier under a",
        "output in [0.5, inf), likelier under b",
    }
    assert audit_epsilon(np.zeros(1000), np.zeros(1000)).lower_bound == 0


def test_a_value_that_comes_late_counts_for_the_nearest():
    """One output of 9 after many of 10 is no output of 0: all of those are a's."""
    late = np.append(np.full(999, 10), 9)
    assert audit_epsilon(np.zeros(1000), late) == audit_epsilon(np.zeros(1000), np.full(1000, 10))


@pytest.mark.parametrize("bad", [np.zeros(10), np.zeros((200, 2)), np.full(200, np.nan)])
def test_refuses_unusable_outputs(bad):
    with pytest.raises(InputError, match="outputs_b must be at least 100 numbers"):
        audit_epsilon(np.zeros(200), bad)


def test_refuses_unusable_levels():
    for options in ({"delta": 1.0}, {"confidence": 1.0}):
        with pytest.raises(InputError, match="delta must be in"):
            audit_epsilon(np.zeros(200), np.zeros(200), **options)
