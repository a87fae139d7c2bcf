"""No neighbour moves the sums over tastes further than claimed, and they are sums, to the bit.

The attacker chooses the released numbers (weights, coefficients, features) as well as the
histories.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from epicrec.data import Ratings
from epicrec.engine import contribution, local
from epicrec.models.private import tastes
from epicrec.models.private.lists import moments_of
from epicrec.models.private.statistics import MOST_USERS
from epicrec.models.private.tastes import (
    LONGEST,
    TASTE_BITS,
    TasteProducts,
    ceil_roots,
    in_integers,
    scaled_rows,
)

N = 30
UNITS = ["user", "rating"]


def released(seed: int, unit: str) -> TasteProducts:
    """Released numbers of any size and shape: tiny ones, where rounding is coarse, and the largest;
    items that point anywhere, alike, or at right angles."""
    rng = np.random.default_rng(seed)
    d, shape = int(rng.choice([1, 2, 6, 20])), rng.choice(["any", "alike", "apart", "uneven"])
    features = csr_array(np.eye(N) if rng.random() < 0.5 else rng.random((N, N)) < 0.2, dtype=float)
    rows = rng.normal(size=(N, d))
    if shape == "alike":
        rows = rng.normal(size=d) + 0.2 * rows
    elif shape == "apart":
        rows = np.eye(d)[rng.integers(0, d, N)] * rng.uniform(0.3, 1, (N, 1))
    elif shape == "uneven":
        rows *= np.exp(3 * rng.normal(size=(N, 1)))
    size = rng.choice([1, 3, 40, 1 << 20])
    weights = rng.integers(1, rng.choice([2, 1 << 14]) + 1, N)
    coefficients = np.rint(rows / np.abs(rows).max() * size).astype(np.int64)
    return TasteProducts(unit, weights, features, coefficients)


def of_rows(unit: str, rows: np.ndarray) -> TasteProducts:
    """Each item is a feature, of weight 1: its row is what it adds to a taste."""
    n = len(rows)
    return TasteProducts(unit, np.ones(n, np.int64), csr_array(np.eye(n)), np.asarray(rows))


def square(change: np.ndarray) -> int:
    return sum(int(x) ** 2 for x in change)


def moved(statistic: TasteProducts, history: list[int]) -> float:
    """How far one unit moves the sum, over the claim: the whole history, or its last item."""
    n = len(statistic.weights)
    change = contribution(statistic, np.array(history, int), n)
    if statistic.unit == "rating":
        change = change - contribution(statistic, np.array(history[:-1], int), n)
    return (square(change) / statistic.sensitivity**2) ** 0.5


HISTORIES = st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True)


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 10**6), history=HISTORIES)
def test_no_neighbour_moves_the_sums_further_than_claimed(unit, seed, history) -> None:
    assert moved(released(seed, unit), history) <= 1


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=400, deadline=None)
@given(
    rows=st.integers(1, 3).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(-5, 5) | st.integers(-(1 << 20), 1 << 20), min_size=d, max_size=d),
            min_size=1,
            max_size=8,
        )
    ),
    times=st.integers(1, 12),
)
def test_nor_does_any_history_of_items_that_are_drawn_one_by_one(unit, rows, times) -> None:
    """The first item many times over, so that histories are longer than they may count as."""
    every = np.array([rows[0]] * times + rows[1:])
    assert moved(of_rows(unit, every), [*range(len(every))]) <= 1


def turning(long: int, size: int = 1 << 20) -> tuple[TasteProducts, list[int]]:
    """So many items of one kind, and at last one at right angles to them."""
    rows = np.array([[size, 0]] * long + [[0, size]])
    return of_rows("rating", rows), [*range(len(rows))]


def small_and_large() -> tuple[TasteProducts, list[int]]:
    """A history of one item that hardly counts, and one that counts in full, at right angles."""
    return of_rows("rating", np.array([[1 << 10, 0], [0, 1 << 20]])), [0, 1]


def worst(unit: str) -> float:
    """The largest change found over the claim."""
    if unit == "user":
        return max(moved(released(seed, unit), [*range(9)]) for seed in range(50))
    cases = [turning(long) for long in (1, 2, 4, 8, 15)]
    return max(moved(*case) for case in [*cases, small_and_large()])


@pytest.mark.parametrize("unit", UNITS)
def test_the_search_comes_near_the_claim(unit: str) -> None:
    assert 0.99 < worst(unit) <= 1


@pytest.mark.parametrize("unit", UNITS)
def test_a_claim_that_is_a_tenth_too_small_is_caught(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = TasteProducts.sensitivity
    monkeypatch.setattr(
        TasteProducts, "sensitivity", property(lambda self: honest.fget(self) * Fraction(9, 10))
    )
    assert worst(unit) > 1


def test_one_item_more_moves_a_taste_further_than_a_single_item_does() -> None:
    """√2 where a history of one item is 1, whether the history is short or long; 7/5 below the
    diagonal, where a long one moves."""
    one = 5 << (2 * TASTE_BITS["rating"])
    for (statistic, history), reached in ((small_and_large(), 1.41), (turning(15), 1.39)):
        assert moved(statistic, history) * statistic.sensitivity > reached * one
        assert square(contribution(statistic, np.array([1]), len(history))) <= one**2


@pytest.mark.parametrize("items", [1, 2, 7, 16, 17, 400])
def test_a_longer_history_weighs_more_up_to_a_bound(items: int) -> None:
    """As much as its length in items that are alike, and never more than 16."""
    rows = np.full((items, 2), 1 << 19)
    history = np.arange(items)
    weight = np.trace(moments_of(of_rows("rating", rows), Ratings.of_one(history, history)))
    assert weight == pytest.approx(min(items, LONGEST), rel=1e-3)
    alone = np.trace(moments_of(of_rows("user", rows), Ratings.of_one(history, history)))
    assert alone == pytest.approx(1, rel=1e-3)


def test_items_that_cancel_out_weigh_as_one() -> None:
    rows = np.array([[1 << 20, 0], [-(1 << 20) + 1000, 0], [0, 1 << 20]])
    weigh = [
        square(contribution(of_rows("rating", rows), np.array(history), 3)) ** 0.5 / (5 << 30)
        for history in ([0], [0, 1], [0, 1, 2])
    ]
    assert weigh == pytest.approx([1, 1, 1], rel=1e-3)


def test_what_is_within_its_rounding_is_nothing_but_a_quarter_of_an_item_never_is() -> None:
    """Coefficients so coarse that all tastes are within their rounding: were they nothing up to
    there, the item that makes one something would add the whole history at once."""
    rows = np.full((20, 1), 3)
    for size in range(1, 21):
        statistic = of_rows("rating", rows)
        assert moved(statistic, [*range(size)]) <= 1
        assert contribution(statistic, np.arange(size), 20).any()
    least = np.array([3, 3])
    given = np.array([[3, -3], [4, 0]])
    np.testing.assert_array_equal(scaled_rows(given, least, 12), [[0, 0], [4096, 0]])
    np.testing.assert_array_equal(
        scaled_rows(np.array([[30], [3]]), np.array([100, 100]), 15, unit=80), [[1 << 15], [0]]
    )


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**6), history=HISTORIES)
def test_rounding_is_no_more_than_is_charged(seed: int, history: list[int]) -> None:
    """√d + 3 steps from the taste that the proof is about."""
    statistic = released(seed, "rating")
    d = statistic.coefficients.shape[1]
    part = Ratings.of_one(np.arange(N), np.sort(history))
    items = statistic.weights[:, None] * (statistic.features @ statistic.coefficients)
    y, unit = items[history].sum(axis=0), np.linalg.norm(items, axis=1).max()
    found = statistic.tastes(part)[0]
    length = float(np.linalg.norm(y))
    if not found.any():
        assert length <= unit / 4 + 1
        return
    longest = statistic.longest_item
    assert unit * (1 - 1e-12) <= longest <= unit * (1 + d**0.5 / 2**23) + 1
    exact = y / length * np.sqrt(np.clip(length / longest, 1, LONGEST)) * 2**15
    assert np.linalg.norm(found - exact) <= d**0.5 + 3


@pytest.mark.parametrize("unit", UNITS)
def test_the_sum_is_the_sum_of_what_each_contributes_to_the_bit(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    histories = [rng.permutation(N)[: rng.integers(0, N)] for _ in range(50)]
    users = np.repeat(np.arange(50), [len(h) for h in histories])
    ratings = Ratings.from_columns(users, np.concatenate(histories)).with_items(np.arange(N))
    monkeypatch.setattr(tastes, "_USERS_AT_ONCE", 7)
    for seed in range(12):
        statistic = released(seed, unit)
        each = sum(contribution(statistic, history, N) for history in histories)
        np.testing.assert_array_equal(local(statistic, ratings), each)
        np.testing.assert_array_equal(local(statistic, ratings, at_once=len(ratings) // 3), each)


def test_the_longest_item_is_the_same_however_items_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(12):
        whole = released(seed, "rating").longest_item
        monkeypatch.setattr(tastes, "_ITEMS_AT_ONCE", 7)
        parts = released(seed, "rating").longest_item
        monkeypatch.undo()
        assert parts == pytest.approx(whole, rel=1e-6)
        assert isinstance(whole, int)


def test_no_entry_overflows_with_as_many_people_as_may_take_part() -> None:
    """By the longest taste there can be: entries of a block are exact floats, and those of all
    people, seven times as large, stay below 2⁶²."""
    for unit, weigh in (("user", 1), ("rating", LONGEST)):
        longest = weigh << (2 * TASTE_BITS[unit])
        assert tastes._USERS_AT_ONCE * longest < 1 << 53
        assert 7 * MOST_USERS * longest < 1 << 62
        rows = np.full((40, 2), 1 << 20)
        found = contribution(of_rows(unit, rows), np.arange(40), 40)
        assert np.abs(found).max() <= 7 * longest


@pytest.mark.parametrize("size", [1 << 20, 1 << 39])
def test_weights_are_halved_until_all_items_together_are_an_exact_float(size: int) -> None:
    """Also where their sum would not fit into 64 bits. Items of weight 0 then move nothing."""
    n = 100
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 1 << 14, n)
    weights[0] = 1
    coefficients = rng.integers(-size, size + 1, (n, 3))
    for unit in UNITS:
        statistic = TasteProducts(unit, weights, csr_array(np.tri(n)), coefficients)
        exact = statistic.exact_weights
        reach = [int(x) for x in np.cumsum(np.abs(coefficients).max(axis=1).astype(object))]
        whole = sum(int(w) * r for w, r in zip(exact, reach, strict=True))
        assert whole < 1 << 53
        assert whole > 1 << 51 or (exact == weights).all(), "and no further"
        assert (exact == weights).all() == (size == 1 << 20)
        assert exact[0] == (size == 1 << 20)
        for history in ([*range(n)], [*range(n)][::-1], [1, 0]):
            assert moved(statistic, history) <= 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=5))
def test_rows_have_the_length_they_may_have(row: list[int]) -> None:
    rows, least = np.array([row]), np.zeros(1, np.int64)
    found = scaled_rows(rows, least, 12)
    assert square(found[0]) <= 1 << 24
    if any(row):
        assert square(found[0]) > 0.99 * (1 << 24), "and hardly less"
        assert (np.sign(found[0]) * np.sign(rows[0]) >= 0).all()
        for unit in (1, 1 << 61):
            long = square(scaled_rows(rows, least, 15, unit)[0]) / (1 << 30)
            expected = np.clip(np.linalg.norm(rows[0].astype(float)) / unit, 1, LONGEST)
            assert 0.99 * expected < long <= expected * (1 + 1e-6)


def test_roots_are_rounded_up() -> None:
    squares = np.array([0, 1, 2, 4, 5, (1 << 60) - 1, 1 << 60, (1 << 60) + 1])
    for found, value in zip(ceil_roots(squares), squares, strict=True):
        assert int(found) ** 2 >= int(value) > max(int(found) - 1, -1) ** 2 or value == 0


@pytest.mark.parametrize(("unit", "long"), [("user", None), ("rating", LONGEST)])
def test_matrices_are_what_the_sums_stand_for(unit: str, long: int | None) -> None:
    """Without noise: Σ w z zᵀ in plain floating point."""
    rng = np.random.default_rng(0)
    weights, directions = rng.random(N) + 0.5, rng.normal(size=(N, 4))
    history = np.arange(0, N, 2)
    products = TasteProducts(
        unit, in_integers(weights, 14), csr_array(np.eye(N)), in_integers(directions, 20)
    )
    z = weights[history] @ directions[history]
    weight = 1.0
    if long is not None:
        longest = np.linalg.norm(weights[:, None] * directions, axis=1).max()
        weight = np.clip(np.linalg.norm(z) / longest, 1, long)
        assert 1 < weight < long
    z /= np.linalg.norm(z)
    found = products.matrix(contribution(products, history, N))
    np.testing.assert_allclose(found, weight * np.outer(z, z), atol=1e-3)


def test_released_numbers_of_nothing_measure_nothing() -> None:
    for unit in UNITS:
        empty = of_rows(unit, np.zeros((3, 2), np.int64))
        assert not contribution(empty, np.arange(3), 3).any()
        assert moved(of_rows(unit, np.eye(3, dtype=np.int64)), [0]) <= 1
        assert len(contribution(of_rows(unit, np.zeros((3, 0), np.int64)), np.arange(3), 3)) == 0


def test_whole_numbers_use_all_their_bits_however_small_the_values() -> None:
    for values in (np.array([0.5, -0.001, 0.25]), np.array([-800.0, 100.0])):
        found = tastes.in_integers(values, 10)
        assert np.abs(found).max() == 1024
        assert found.tolist() == np.rint(values / np.abs(values).max() * 1024).tolist()
    assert tastes.in_integers(np.zeros(3), 10).tolist() == [0, 0, 0]
