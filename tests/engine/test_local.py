"""The local engine: the same sum to the last bit, however the users are divided."""

import numpy as np
import pytest

from epicrec.data import Ratings
from epicrec.engine import merge
from epicrec.engine.local import local
from epicrec.errors import InputError
from epicrec.models.covariance.statistics import ItemEffects, PairSums


@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("norm", [1, 2])
def test_partitions_do_not_matter(viewers: Ratings, unit, norm) -> None:
    levels = np.arange(viewers.n_items).astype(np.int16) % 100 - 50
    for statistic in (
        ItemEffects(unit, norm, viewers.scale),
        PairSums(unit, norm, viewers.scale, levels),
    ):
        whole = local(statistic, viewers)
        assert whole.dtype == np.int64
        assert np.any(whole != 0)
        np.testing.assert_array_equal(whole, local(statistic, viewers, partitions=7))


def test_order_of_users_does_not_matter(viewers: Ratings) -> None:
    statistic = PairSums("user", 2, viewers.scale, np.zeros(viewers.n_items, np.int16))
    shuffled = viewers.users_at(np.random.default_rng(0).permutation(viewers.n_users))
    np.testing.assert_array_equal(local(statistic, viewers), local(statistic, shuffled))


def test_merge_adds_in_place() -> None:
    total = np.array([1, 2])
    assert merge(total, np.array([3, 4])) is total
    assert total.tolist() == [4, 6]


def test_partitions_must_be_positive(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="partitions"):
        local(ItemEffects("rating", 2, viewers.scale), viewers, partitions=0)
