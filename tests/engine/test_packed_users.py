"""Users packed into Arrow: what a cluster's machines compute, without a cluster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Ratings, Scale
from epicrec.engine import packed_users as packed
from epicrec.engine.packed_users import merged, packed_users, partial_sum, ratings_of, sliced
from epicrec.errors import InputError
from epicrec.models.private.pairs import PairSums
from epicrec.models.private.statistics import ItemEffects

STARS = Scale(1, 5, 1)


def rows(*ratings: tuple[object, object, float | None], size: int = 2) -> list[pa.RecordBatch]:
    user, item, rating = zip(*ratings, strict=True)
    table = pa.table({"user": user, "item": item, "rating": pa.array(rating, pa.float32())})
    return table.to_batches(max_chunksize=size)


def together(batches: object, scale: Scale | None = STARS, ids=(10, 20, 30)) -> pa.Table:
    return pa.Table.from_batches([*packed_users(batches, np.array(ids), scale)])


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_users_are_whole_wherever_the_batches_end(viewers: Ratings, monkeypatch, at_once) -> None:
    monkeypatch.setattr(packed, "ROWS_AT_ONCE", at_once)
    whole = viewers.to_table().select(["user_id", "item_id", "rating"])
    turned = whole.take(np.lexsort((-np.arange(len(whole)), viewers.users)))  # items backwards
    batches = turned.rename_columns(["user", "item", "rating"]).to_batches(max_chunksize=7)
    found = together(batches, viewers.scale, viewers.item_ids)
    back = ratings_of(found, viewers.item_ids, viewers.scale)
    assert found["user"].to_pylist() == viewers.user_ids.tolist()
    for name in ("indptr", "items", "values"):
        np.testing.assert_array_equal(getattr(back, name), getattr(viewers, name))


def test_what_is_not_public_is_left_out_and_who_has_nothing_left_stays() -> None:
    found = together(rows(("a", 10, 5), ("a", 99, 5), ("b", 20, 7), ("c", 30, 1)))
    back = ratings_of(found, np.array([10, 20, 30]), STARS)
    assert back.user_counts.tolist() == [1, 0, 1]
    assert back.items.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, 10, 3.0), "no user"),
        (("a", None, 3.0), "no item"),
        (("a", 10, None), "no rating"),
        (("a", 10, float("nan")), "NaN"),
        (("b", 20, 3.0), "user b has item 20 more than once"),
    ],
)
def test_bad_rows_are_named(row, message) -> None:
    with pytest.raises(InputError, match=message):
        together(rows(("b", 20, 4.0), row))


def test_a_million_ratings_of_one_user_are_one_row(monkeypatch) -> None:
    monkeypatch.setattr(packed, "ROWS_AT_ONCE", 1000)
    n = 1_000_000
    one = pa.table({"user": pa.array(np.zeros(n, np.int64)), "item": np.arange(n)})
    found = pa.Table.from_batches([*packed_users(one.to_batches(10_000), np.arange(n), None)])
    assert len(found) == 1
    assert ratings_of(found, np.arange(n), None).items.tolist() == list(range(n))


@pytest.mark.parametrize("at_once", [1, 1 << 24])
def test_sums_of_parts_and_their_slices_are_the_sum(viewers: Ratings, monkeypatch, at_once) -> None:
    monkeypatch.setattr(packed, "RATINGS_AT_ONCE", at_once)
    rated = viewers.to_table().select(["user_id", "item_id", "rating"])
    rated = rated.rename_columns(["user", "item", "rating"])
    all_of = together(rated.to_batches(), viewers.scale, viewers.item_ids)
    levels = np.arange(viewers.n_items).astype(np.int16) % 100 - 50
    for statistic in (
        ItemEffects("user", 2, viewers.scale),
        PairSums("rating", 1, viewers.scale, levels),
    ):
        slices = [
            batch
            for part in (all_of[:7], all_of[7:20], all_of[20:20], all_of[20:])
            for batch in partial_sum(
                part.to_batches(max_chunksize=5), statistic, viewers.n_items, viewers.scale
            )
        ]
        slots = pa.Table.from_batches([*merged(slices)]).sort_by("slot")
        found = np.frombuffer(b"".join(slots["part"].to_pylist()), np.int64)
        np.testing.assert_array_equal(found, statistic(viewers))


def test_slices_hold_all_numbers_once() -> None:
    total = np.arange(3_000_000)
    slots = pa.Table.from_batches([*sliced(total)])
    assert slots["slot"].to_pylist() == list(range(len(slots)))
    found = np.frombuffer(b"".join(slots["part"].to_pylist()), np.int64)
    np.testing.assert_array_equal(found, total)
