"""No neighbour moves the sums over tastes further than claimed, and they are sums, to the bit.

The attacker chooses the released numbers (weights, coefficients, directions) as well as the
histories.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from epicrec.data import Ratings
from epicrec.engine import contribution, local
from epicrec.models.private import tastes
from epicrec.models.private.tastes import (
    ItemTastes,
    TasteProducts,
    ceil_roots,
    in_integers,
    unit_rows,
)

N = 30


def tastes_of(seed: int, unit: str, d: int = 6) -> TasteProducts:
    """Released numbers of any size: small ones, where rounding is coarse, and the largest."""
    rng = np.random.default_rng(seed)
    features = csr_array((rng.random((N, 9)) < rng.choice([0.1, 0.9])).astype(float))
    weights = rng.integers(1, rng.choice([2, 1 << 14]) + 1, N)
    size = rng.choice([40, 1 << 20])
    return TasteProducts(unit, weights, features, rng.integers(-size, size + 1, (9, d)))


def items_of(seed: int, unit: str, k: int = 3) -> ItemTastes:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, rng.choice([2, 1 << 14]) + 1, N)
    size = rng.choice([5, 1 << 20])
    return ItemTastes(unit, weights, rng.integers(-size, size + 1, (N, k)))


def square(change: np.ndarray) -> int:
    return sum(int(x) ** 2 for x in change)


HISTORIES = st.sets(st.integers(0, N - 1), min_size=1, max_size=N)


@pytest.mark.parametrize("make", [tastes_of, items_of])
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 10**6), history=HISTORIES, item=st.integers(0, N - 1))
def test_no_neighbour_moves_the_sums_further_than_claimed(make, seed, history, item) -> None:
    whole = np.array(sorted(history | {item}))
    less = np.array(sorted((history | {item}) - {item}), int)
    for unit, change in (
        ("user", contribution(make(seed, "user"), whole, N)),
        (
            "rating",
            contribution(make(seed, "rating"), whole, N)
            - contribution(make(seed, "rating"), less, N),
        ),
    ):
        assert square(change) <= make(seed, unit).sensitivity ** 2


def worst(make, unit: str) -> float:
    """The largest change found over the claim: one item tips a taste, all else being small."""
    found = 0.0
    for seed in range(300):
        statistic = make(seed, unit)
        rng = np.random.default_rng(seed)
        for size in (1, 2, 5):
            history = rng.permutation(N)[:size]
            change = contribution(statistic, history, N)
            if unit == "rating":
                change = change - contribution(statistic, history[1:], N)
            found = max(found, square(change) / float(statistic.sensitivity) ** 2)
    return found**0.5


@pytest.mark.parametrize("make", [tastes_of, items_of])
@pytest.mark.parametrize(("unit", "reached"), [("user", 0.95), ("rating", 0.7)])
def test_the_search_comes_near_the_claim(make, unit: str, reached: float) -> None:
    assert reached < worst(make, unit) <= 1


def test_two_opposite_tastes_are_as_far_apart_as_is_charged() -> None:
    """One item more turns a taste at right angles: √2, where a whole person is 1."""
    weights, features = np.array([1, 1 << 14]), csr_array(np.eye(2))
    statistic = TasteProducts("rating", weights, features, (1 << 20) * np.eye(2, dtype=np.int64))
    change = contribution(statistic, np.array([0, 1]), 2) - contribution(
        statistic, np.array([0]), 2
    )
    assert 0.99 < square(change) ** 0.5 / float(statistic.sensitivity) <= 1
    assert square(change) > replace(statistic, unit="user").sensitivity ** 2


@pytest.mark.parametrize("make", [tastes_of, items_of])
def test_the_sum_is_the_sum_of_what_each_contributes_to_the_bit(
    make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    histories = [rng.permutation(N)[: rng.integers(0, N)] for _ in range(50)]
    users = np.repeat(np.arange(50), [len(h) for h in histories])
    ratings = Ratings.from_columns(users, np.concatenate(histories)).with_items(np.arange(N))
    monkeypatch.setattr(tastes, "_USERS_AT_ONCE", 7)
    for seed in range(8):
        statistic = make(seed, "user")
        each = sum(contribution(statistic, history, N) for history in histories)
        np.testing.assert_array_equal(local(statistic, ratings), each)
        np.testing.assert_array_equal(local(statistic, ratings, at_once=len(ratings) // 3), each)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=5))
def test_rows_have_the_length_they_may_have(row: list[int]) -> None:
    found = unit_rows(np.array([row]), np.zeros(1, np.int64), 12)
    assert square(found[0]) <= 1 << 24
    if max(map(abs, row)) > 1000:  # a length is rounded up to a whole number
        assert square(found[0]) > 0.99 * (1 << 24), "and hardly less"


def test_a_row_within_its_rounding_counts_as_nothing() -> None:
    rows = np.array([[3, -3], [4, 0]])
    np.testing.assert_array_equal(unit_rows(rows, np.array([3, 3]), 12), [[0, 0], [4096, 0]])


def test_roots_are_rounded_up() -> None:
    squares = np.array([0, 1, 2, 4, 5, (1 << 60) - 1, 1 << 60, (1 << 60) + 1])
    for found, value in zip(ceil_roots(squares), squares, strict=True):
        assert int(found) ** 2 >= int(value) > max(int(found) - 1, -1) ** 2 or value == 0


def test_matrices_are_what_the_sums_stand_for() -> None:
    """Without noise: Σ z zᵀ and Σ x yᵀ in plain floating point."""
    rng = np.random.default_rng(0)
    weights, directions = rng.random(N) + 0.5, rng.normal(size=(N, 4))
    history = np.arange(0, N, 2)
    own = np.zeros(N)
    own[history] = in_integers(weights, 14)[history]
    x = own / np.linalg.norm(own)
    statistic = ItemTastes("user", in_integers(weights, 14), in_integers(directions, 20))
    y = directions[history].sum(axis=0)
    found = statistic.matrix(contribution(statistic, history, N))
    np.testing.assert_allclose(found, np.outer(x, y / np.linalg.norm(y)), atol=1e-3)
    products = TasteProducts(
        "user", in_integers(weights, 14), csr_array(np.eye(N)), in_integers(directions, 20)
    )
    z = weights[history] @ directions[history]
    z /= np.linalg.norm(z)
    found = products.matrix(contribution(products, history, N))
    np.testing.assert_allclose(found, np.outer(z, z), atol=1e-3)


@pytest.mark.parametrize("make", [tastes_of, items_of])
def test_a_claim_that_is_too_small_is_caught(make, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = make(0, "user").sensitivity
    monkeypatch.setattr(
        type(make(0, "user")), "sensitivity", property(lambda _: honest * Fraction(9, 10))
    )
    assert worst(make, "user") > 1


def test_whole_numbers_use_all_their_bits_however_small_the_values() -> None:
    for values in (np.array([0.5, -0.001, 0.25]), np.array([-800.0, 100.0])):
        found = tastes.in_integers(values, 10)
        assert np.abs(found).max() == 1024
        assert found.tolist() == np.rint(values / np.abs(values).max() * 1024).tolist()
    assert tastes.in_integers(np.zeros(3), 10).tolist() == [0, 0, 0]
