from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from epicrec.data import load_dataset
from epicrec.errors import InputError
from epicrec.perturb.epicrec.calibrate import (
    category_scales,
    check_epsilon,
    checked_scales,
    exact_cost,
    holds_exactly,
    maximal_rows,
    optimal_shares,
)

FIGURE_4 = np.array(
    [[1, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 0, 0, 1], [0, 1, 0, 1, 0]], np.uint8
)


def scales_of(matrix, epsilon=1.0):
    rows = maximal_rows(matrix)
    return category_scales(rows, optimal_shares(rows), epsilon)


@st.composite
def catalogues(draw):
    """Random item × category matrices in which every category has an item."""
    n, c = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    matrix = draw(arrays(np.uint8, (n, c), elements=st.integers(0, 1)))
    return np.vstack([matrix, np.eye(c, dtype=np.uint8)])


def test_figure_4():
    found = scales_of(FIGURE_4)
    np.testing.assert_allclose(found, [3.6131, 2.3604, 3.3381, 2.3604, 1.3827], atol=5e-5)
    assert found.mean() == pytest.approx(2.61, abs=0.005)


@pytest.mark.realdata
def test_movielens_mean_scale(real_data):
    matrix = load_dataset(real_data / "ml-1m").catalogue.rows.matrix
    assert matrix.shape == (301, 18)
    assert scales_of(matrix).mean() == pytest.approx(4.536, abs=0.001)


@given(catalogues())
@settings(max_examples=25, deadline=None)
def test_against_an_independent_solver(matrix):
    import cvxpy

    w = cvxpy.Variable(matrix.shape[1], pos=True)
    program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.inv_pos(w))), [matrix @ w <= 1])
    program.solve(solver="CLARABEL")
    assert scales_of(matrix).sum() == pytest.approx(program.value, rel=1e-5)


@given(catalogues(), st.floats(0.01, 5), st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_no_neighbour_changes_the_noisy_totals_by_more_than_epsilon(matrix, epsilon, seed):
    """Search histories and single items for a larger weighted change than claimed."""
    scales = scales_of(matrix, epsilon)
    inverse = [1 / Fraction(float(z)) for z in scales]
    rng = np.random.default_rng(seed)
    for _ in range(5):
        history = rng.random(len(matrix)) < 0.5
        totals = history @ matrix.astype(int)
        for item in range(len(matrix)):
            neighbour = history.copy()
            neighbour[item] = not neighbour[item]
            change = np.abs(neighbour @ matrix.astype(int) - totals)
            loss = sum(int(d) * w for d, w in zip(change, inverse, strict=True))
            assert loss <= Fraction(epsilon)
            assert loss == exact_cost(matrix[item], scales)


def test_the_exact_check_sees_what_floats_do_not():
    rows = np.ones((1, 10), np.uint8)
    z = np.full(10, 100.0)
    assert holds_exactly(rows, z, 0.1)  # the float 0.1 is a little above 1/10
    assert not holds_exactly(rows, np.nextafter(z, 0) * (1 - 1e-15), 0.1)
    three = np.full(3, 3.0)
    assert not holds_exactly(np.ones((1, 3), np.uint8), three, np.nextafter(1.0, 0))
    assert (checked_scales(np.ones((1, 3), np.uint8), three, np.nextafter(1.0, 0)) > 3).all()


def test_halved_noise_fails_the_check():
    rows = maximal_rows(FIGURE_4)
    assert holds_exactly(rows, scales_of(FIGURE_4), 1.0)
    assert not holds_exactly(rows, scales_of(FIGURE_4) / 2, 1.0)
    assert not holds_exactly(rows, scales_of(FIGURE_4) * (1 - 1e-6), 1.0)


@given(catalogues())
@settings(max_examples=40, deadline=None)
def test_dropped_rows_are_contained_in_a_kept_one(matrix):
    kept = maximal_rows(matrix)
    assert all((row <= kept).all(axis=1).any() for row in matrix)
    contained = (kept[:, None] <= kept[None, :]).all(axis=2)
    assert contained.sum() == len(kept), "no kept row lies inside another"


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, "1", 1e-9, 1e6])
def test_bad_budgets_are_refused(epsilon):
    with pytest.raises(InputError, match="epsilon"):
        check_epsilon(epsilon)
