"""Groups as published: Algorithm 1 against a full matrix, neighbouring groups, floors."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings, load_dataset, split_per_user
from epicrec.errors import InputError
from epicrec.papers.d2p.rating_groups import (
    average_cosine_distance,
    cosine_groups,
    with_neighbours,
)
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import Groups

SIX = Groups.of([[0, 1], [0, 1, 2], [2], [3, 4, 5], [3, 4], [0, 5]])


def test_cosine_groups_follow_algorithm_1(viewers: Ratings) -> None:
    groups = cosine_groups(viewers, 2.0)
    seen = viewers.as_history().csr().toarray().astype(np.float64)
    norms = np.maximum(np.linalg.norm(seen, axis=0), 1e-12)
    alike = seen.T @ seen / np.outer(norms, norms)
    for item in range(0, viewers.n_items, 37):
        with np.errstate(divide="ignore"):
            near = 1 / alike[item] - 1 <= 2.0 + 1e-12
        near[item] = True
        assert sorted(groups.members(item)) == np.flatnonzero(near).tolist()
    assert (cosine_groups(viewers, 0.0, floor=7).sizes >= 7).all()


def test_neighbouring_groups_are_those_that_share_most() -> None:
    joined = with_neighbours(Groups.of([[0, 1, 2], [1, 2], [2, 3], [3]]), 1)
    assert joined.members(0).tolist() == [0, 1, 2]  # with group 1, inside it
    assert joined.members(3).tolist() == [2, 3]  # with group 2
    assert (with_neighbours(SIX, 5).sizes >= SIX.sizes).all()


def test_groups_too_large_for_memory_are_refused(viewers: Ratings, monkeypatch) -> None:
    members = int(cosine_groups(viewers, 2.0).sizes.sum())
    monkeypatch.setattr("epicrec.perturb.d2p.groups._LARGEST", members)
    cosine_groups(viewers, 2.0)
    monkeypatch.setattr("epicrec.perturb.d2p.groups._LARGEST", members - 1)
    with pytest.raises(InputError, match="smaller floor"):
        cosine_groups(viewers, 2.0)


def test_the_average_distance_is_over_the_pairs_of_each_history() -> None:
    """A history of one item has no pair and does not count; one of two has one."""
    ratings = Ratings.from_columns([1, 1, 2, 2, 2, 3], [1, 2, 1, 2, 3, 1])
    far = {(1, 2): 6**0.5 / 2 - 1, (1, 3): 3**0.5 - 1, (2, 3): 2**0.5 - 1}
    expected = (far[1, 2] + sum(far.values()) / 3) / 2
    assert average_cosine_distance(ratings) == pytest.approx(expected)


@pytest.mark.realdata
def test_rare_items_have_groups_of_one(real_data: Any) -> None:
    ratings, _ = split_per_user(load_dataset(real_data / "ml-100k").ratings, 0.2, seed=0)
    groups = cosine_groups(ratings, 6.5)
    assert groups.sizes.min() == 1
    assert 300 < np.median(groups.sizes) < 450
    assert Channel(groups, 0.7, 0.03).epsilon_bound == pytest.approx(6.68, abs=0.01)
