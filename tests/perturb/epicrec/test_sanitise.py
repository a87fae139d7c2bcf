import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array

from epicrec.perturb.epicrec.sanitise import choose_items, fit_rows, round_keeping_totals


def rows(rng, n=60, c=8):
    return np.unique(rng.random((n, c)) < 0.3, axis=0).astype(float)


@given(st.integers(0, 2**20), st.floats(0.1, 300), st.booleans())
@settings(max_examples=60, deadline=None)
def test_totals_are_as_near_as_an_independent_solver_gets_them(seed, spread, sparse):
    rng = np.random.default_rng(seed)
    matrix = rows(rng)
    capacity = rng.integers(0, 30, len(matrix)).astype(float)
    target = rng.normal(40, spread, matrix.shape[1])
    usual = rng.random(len(matrix)) * capacity
    given_matrix = csr_array(matrix) if sparse else matrix
    x = fit_rows(given_matrix, target, capacity, usual, usual + 0.01, 1e-6)
    assert (x >= 0).all()
    assert (x <= capacity).all()
    oracle = lsq_linear(matrix.T, target, (0, capacity + 1e-12), tol=1e-12).x
    ours, best = (np.linalg.norm(matrix.T @ v - target) for v in (x, oracle))
    assert ours <= best + 1e-3 * (1 + best)


def test_among_equals_the_usual_mixture_is_taken():
    matrix = np.array([[1.0], [1.0]])
    x = fit_rows(matrix, np.array([10.0]), np.array([9.0, 9.0]), np.array([6.0, 2.0]), np.ones(2))
    np.testing.assert_allclose(x, [7, 3], atol=0.01)


@pytest.mark.parametrize("sparse", [False, True])
def test_rounding_keeps_the_category_totals(sparse):
    """Independent rounding of the same numbers is several times further off."""
    rng = np.random.default_rng(1)
    matrix = rows(rng, 120, 10)
    capacity = rng.integers(1, 12, len(matrix))
    ours, independent = [], []
    for _ in range(30):
        x = rng.random(len(matrix)) * capacity * (rng.random(len(matrix)) < 0.7)
        target = matrix.T @ x
        counts = round_keeping_totals(
            csr_array(matrix) if sparse else matrix, x, target, capacity, rng
        )
        assert (counts >= 0).all()
        assert (counts <= capacity).all()
        assert (np.abs(counts - x) <= 2).all()
        ours.append(np.abs(matrix.T @ counts - target).mean())
        drawn = rng.binomial(capacity, x / capacity)
        independent.append(np.abs(matrix.T @ drawn - target).mean())
    assert np.mean(ours) < 0.4
    assert np.mean(independent) > 4 * np.mean(ours)


def test_stand_ins_come_from_their_rows_and_the_popular_first():
    rng = np.random.default_rng(0)
    row_of_item = np.array([0, 0, 0, 1, 1, -1])
    weights = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    seen = np.zeros(6)
    for _ in range(200):
        chosen = choose_items(np.array([1, 2]), row_of_item, weights, rng)
        assert row_of_item[chosen].tolist() == [0, 1, 1]
        seen[chosen] += 1
    assert seen[0] > 180
    assert seen[5] == 0
    assert choose_items(np.array([0, 0]), row_of_item, weights, rng).size == 0


def test_rounding_leaves_rows_empty_and_full_where_the_totals_call_for_it():
    one, rng = np.ones((1, 1)), np.random.default_rng(0)
    for target, count in ((0.0, 0), (1.0, 1), (2.0, 2), (9.0, 2)):
        counts = round_keeping_totals(one, np.array([1.0]), np.array([target]), np.array([5]), rng)
        assert counts.tolist() == [count], "within one step of x"
    assert round_keeping_totals(one, np.array([3.0]), np.array([9.0]), np.array([3]), rng) == 3
