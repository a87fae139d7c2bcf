"""The local engine: the same sum to the last bit, however the users are divided."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicrec.data import Ratings
from epicrec.engine import local, merge
from epicrec.errors import InputError
from epicrec.models.private.pairs import PairSums
from epicrec.models.private.statistics import ItemEffects


@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("norm", [1, 2])
def test_blocks_do_not_matter(viewers: Ratings, unit, norm) -> None:
    levels = np.arange(viewers.n_items).astype(np.int16) % 100 - 50
    for statistic in (
        ItemEffects(unit, norm, viewers.scale),
        PairSums(unit, norm, viewers.scale, levels),
    ):
        whole = local(statistic, viewers)
        assert whole.dtype == np.int64
        assert np.any(whole != 0)
        np.testing.assert_array_equal(whole, local(statistic, viewers, at_once=999))


def test_order_of_users_does_not_matter(viewers: Ratings) -> None:
    statistic = PairSums("user", 2, viewers.scale, np.zeros(viewers.n_items, np.int16))
    shuffled = viewers.users_at(np.random.default_rng(0).permutation(viewers.n_users))
    np.testing.assert_array_equal(local(statistic, viewers), local(statistic, shuffled))


def test_merge_adds_in_place() -> None:
    total = np.array([1, 2])
    assert merge(total, np.array([3, 4])) is total
    assert total.tolist() == [4, 6]


def test_blocks_hold_something(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="at_once"):
        local(ItemEffects("rating", 2, viewers.scale), viewers, at_once=0)


@given(at_once=st.integers(1, 60), counts=st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_blocks_are_whole_users_in_order(at_once, counts) -> None:
    """Also where some have nothing, and where one has more than a block."""
    user = np.repeat(np.arange(len(counts)), counts)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    items = np.concatenate([np.arange(c) for c in counts]).astype(np.int32)
    ratings = Ratings(np.arange(len(counts)), np.arange(9), indptr, items, user + 1.0, None)
    blocks = [*ratings.blocks(at_once)]
    assert np.concatenate([block.user_ids for block in blocks]).tolist() == [*range(len(counts))]
    assert np.concatenate([block.items for block in blocks]).tolist() == items.tolist()
    assert all(len(block) <= at_once or block.n_users == 1 for block in blocks)
    assert all(block.indptr[0] == 0 and block.indptr[-1] == len(block) for block in blocks)


def test_ratings_on_the_disk_are_added_up_in_constant_memory(
    tmp_path, monkeypatch, viewers: Ratings
) -> None:
    """Four times as many people: the same peak, and the sums of ratings in memory."""
    monkeypatch.setattr("epicrec.engine.AT_ONCE", 2000)
    statistic, peaks = ItemEffects("user", 2, viewers.scale), []
    for times in (1, 4):
        many = viewers.users_at(np.tile(np.arange(viewers.n_users), times))
        many.save(tmp_path / f"{times}")
        mapped = Ratings.open(tmp_path / f"{times}")
        assert mapped.mapped
        expected = local(statistic, many)
        assert np.array_equal(local(statistic, mapped), expected)
        assert np.array_equal(local(statistic, mapped.first_users(10**9)), expected)
        tracemalloc.start()
        local(statistic, mapped)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_history_on_the_disk_costs_no_memory(tmp_path, viewers: Ratings) -> None:
    viewers.save(tmp_path)
    history = Ratings.open(tmp_path).as_history()
    assert history.values.strides == (0,)
    assert history.to_table().equals(viewers.as_history().to_table())
    statistic = ItemEffects("user", 2, None)
    assert np.array_equal(local(statistic, history), local(statistic, viewers.as_history()))
