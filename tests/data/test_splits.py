"""Splits: nothing lost, nothing twice, the right share, the same for the same seed."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from epicrec.data import Ratings, split_last, split_per_user, split_probe, split_random, split_users
from epicrec.errors import InputError

SPLITS = {
    "random": lambda r, seed: split_random(r, 0.25, seed=seed),
    "per user": lambda r, seed: split_per_user(r, 0.25, seed=seed),
    "users": lambda r, seed: split_users(r, 0.25, seed=seed),
    "last": lambda r, _seed: split_last(r, 3),
}


def keys(ratings: Ratings) -> list[int]:
    return (ratings.users.astype(int) * ratings.n_items + ratings.items).tolist()


@pytest.mark.parametrize("name", SPLITS)
def test_the_parts_make_the_whole(name, viewers: Ratings) -> None:
    train, test = SPLITS[name](viewers, 0)
    assert sorted(keys(train) + keys(test)) == keys(viewers)
    assert train.user_ids is viewers.user_ids
    again, _ = SPLITS[name](viewers, 0)
    assert keys(again) == keys(train)
    if name != "last":
        assert keys(SPLITS[name](viewers, 1)[0]) != keys(train)


def test_shares(viewers: Ratings) -> None:
    assert len(split_random(viewers, 0.25, seed=0)[1]) == round(0.25 * len(viewers))
    _, test = split_per_user(viewers, 0.25, seed=0)
    assert (test.user_counts == viewers.user_counts // 4).all()
    train, test = split_users(viewers, 0.25, seed=0)
    assert ((train.user_counts == 0) | (test.user_counts == 0)).all()
    assert (test.user_counts > 0).sum() == 75


def test_last_takes_the_latest(viewers: Ratings) -> None:
    train, test = split_last(viewers, 3)
    for user in range(20):
        if train.row(user).stop > train.row(user).start:
            assert train.timestamps[train.row(user)].max() <= test.timestamps[test.row(user)].min()
    assert (train.user_counts >= 1).all()


def test_last_leaves_everyone_one_to_learn_from() -> None:
    users, items = np.array([0, 1, 1, 2, 2, 2, 2]), np.array([0, 0, 1, 0, 1, 2, 3])
    times = np.array([5, 9, 8, 1, 2, 3, 4])
    train, test = split_last(Ratings.from_columns(users, items, timestamp=times), 3)
    assert train.user_counts.tolist() == [1, 1, 1]
    assert test.user_counts.tolist() == [0, 1, 3]
    assert keys(test) == [1 * 4 + 0, 2 * 4 + 1, 2 * 4 + 2, 2 * 4 + 3]


def test_the_least_fraction_holds_out_one(viewers: Ratings) -> None:
    assert len(split_random(viewers, 1e-9, seed=0)[1]) == 1
    _, test = split_users(viewers, 1e-9, seed=0)
    assert (test.user_counts > 0).sum() == 1


def test_probe(viewers: Ratings) -> None:
    probe = np.random.default_rng(0).random(len(viewers)) < 0.1
    train, test = split_probe(replace(viewers, probe=probe))
    assert len(test) == probe.sum()
    assert len(train) + len(test) == len(viewers)


def test_errors(viewers: Ratings) -> None:
    for split, fraction in product((split_random, split_per_user, split_users), (0.0, 1.0, 1.5)):
        with pytest.raises(InputError, match="between 0 and 1"):
            split(viewers, fraction, seed=0)
    with pytest.raises(InputError, match="at least 1"):
        split_last(viewers, 0)
    with pytest.raises(InputError, match="no timestamps"):
        split_last(replace(viewers, timestamps=None), 2)
    with pytest.raises(InputError, match="no probe column"):
        split_probe(viewers)
