"""Ratings: from anything, checked, immutable, and the same whatever the row order."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicrec.data import Ratings, Scale, find
from epicrec.errors import InputError

COLUMNS = {"user_id": ["bo", "al", "al"], "item_id": [7, 9, 7], "rating": [1.0, 5.0, 3.0]}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)
def test_any_dataframe(make) -> None:
    ratings = Ratings.from_frame(make(COLUMNS))
    assert ratings.user_ids.tolist() == ["al", "bo"]
    assert ratings.item_ids.tolist() == [7, 9]
    assert ratings.indptr.tolist() == [0, 2, 3]
    assert ratings.items.tolist() == [0, 1, 0]
    assert ratings.values.tolist() == [3, 5, 1]
    assert ratings.scale == Scale(1, 5, 1)


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="pandas, polars or pyarrow"):
        Ratings.from_frame([1, 2, 3])


def test_columns_cannot_be_written() -> None:
    ratings = Ratings.from_columns(**COLUMNS)
    with pytest.raises(ValueError, match="read-only"):
        ratings.values[0] = 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user_id": None}, "no column 'user_id'.*Rename"),
        ({"rating": [1.0, float("nan"), 3.0]}, "row 2.*NaN.*drop"),
        ({"rating": [1.0, 2.0, float("inf")]}, "row 3.*infinite.*drop"),
        ({"rating": ["good", "bad", "bad"]}, "not numeric.*numbers"),
        ({"rating": [1.0, 5.0, 300.0]}, "row 3.*300.*pass the scale"),
        ({"user_id": ["bo", None, "al"]}, "row 2.*user_id is missing"),
        ({"item_id": [7, 7, 7]}, "row 3 repeats row 2.*user al and item 7.*keep one"),
        ({"item_id": [7.0, 7.5, 9.0]}, "row 2.*item_id is 7.5"),
        ({"timestamp": [1, None, 2]}, "row 2.*timestamp is missing"),
    ],
)
def test_bad_rows_are_named(change, message) -> None:
    columns = {name: value for name, value in (COLUMNS | change).items() if value is not None}
    with pytest.raises(InputError, match=f"(?s){message}"):
        Ratings.from_table(pa.table(columns))


def test_off_the_given_scale() -> None:
    with pytest.raises(InputError, match="row 2: rating 5 is off the scale 1 to 4"):
        Ratings.from_columns(**COLUMNS, scale=Scale(1, 4, 1))
    with pytest.raises(InputError, match="row 3: rating 3 is off the scale"):
        Ratings.from_columns(**COLUMNS, scale=Scale(1, 5, 4))


def test_empty_and_uneven() -> None:
    with pytest.raises(InputError, match="no ratings"):
        Ratings.from_columns([], [], [])
    with pytest.raises(InputError, match="differ in length"):
        Ratings.from_columns([1, 2], [1], [3])
    with pytest.raises(InputError, match="low < high"):
        Scale(5, 1, 1)
    with pytest.raises(InputError, match="low:high:step"):
        Scale.parse("one to five")
    assert Scale.parse("0:100") == Scale(0, 100, 1)


def test_a_history_has_no_scale() -> None:
    history = Ratings.from_columns([1, 1], ["a", "b"])
    assert history.scale is None
    assert history.values.tolist() == [1, 1]
    with pytest.raises(InputError, match="no column 'rating'"):
        Ratings.from_columns([1], [2], scale=Scale(1, 5, 1))


def test_datetimes_become_seconds() -> None:
    frame = pd.DataFrame(COLUMNS | {"timestamp": pd.to_datetime(["1970-01-02"] * 3)})
    assert Ratings.from_frame(frame).timestamps.tolist() == [86_400] * 3


pairs = st.lists(
    st.tuples(st.integers(-5, 5), st.sampled_from("abcdef"), st.integers(1, 5)),
    min_size=1,
    unique_by=lambda row: row[:2],
)


@given(rows=pairs, seed=st.integers(0, 99))
def test_order_does_not_matter_and_the_table_comes_back(rows, seed) -> None:
    mixed = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    one, two = (
        Ratings.from_columns(*zip(*r, strict=True), scale=Scale(1, 5, 1)) for r in (rows, mixed)
    )
    assert one.to_table().equals(two.to_table())
    back = {tuple(row.values()) for row in one.to_table().to_pylist()}
    assert back == {(user, item, float(rating)) for user, item, rating in rows}


@given(rows=pairs, data=st.data())
def test_parts_agree_with_plain_filters(rows, data) -> None:
    ratings = Ratings.from_columns(*zip(*rows, strict=True), scale=Scale(1, 5, 1))
    table = ratings.to_table().to_pylist()
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    kept = ratings.select(keep)
    assert kept.to_table().to_pylist() == [row for row, k in zip(table, keep, strict=True) if k]
    assert kept.n_users == ratings.n_users
    order = np.random.default_rng(0).permutation(ratings.n_users)
    moved = ratings.users_at(order)
    assert sorted(map(str, moved.to_table().to_pylist())) == sorted(map(str, table))
    assert moved.positions(ratings.user_ids).tolist() == np.argsort(order).tolist()
    some = np.array(["b", "d", "zz"])
    over = ratings.with_items(some)
    assert over.to_table().to_pylist() == [row for row in table if row["item_id"] in "bd"]
    assert over.item_ids.tolist() == some.tolist()


def test_find_reads_numbers_typed_as_text() -> None:
    assert find(np.array([3, 5, 8]), ["5", "8", "x", "4"]).tolist() == [1, 2, -1, -1]
    assert find(np.array(["3", "5"]), [5, 4]).tolist() == [1, -1]
    assert find(np.array([], dtype=int), [5]).tolist() == [-1]


def test_save_and_open_map_the_same_ratings(tmp_path, viewers: Ratings) -> None:
    viewers.save(tmp_path)
    mapped = Ratings.open(tmp_path)
    assert isinstance(mapped.items, np.memmap)
    assert mapped.to_table().equals(viewers.to_table())
    assert mapped.scale == viewers.scale


def test_wide_ids_take_the_hashed_way() -> None:
    ratings = Ratings.from_columns([2**60, 5, 2**60], [1, 1, 2], [1, 2, 3])
    assert ratings.user_ids.tolist() == [5, 2**60]
    assert ratings.values.tolist() == [2, 1, 3]
