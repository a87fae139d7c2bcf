"""One share says nothing, both say everything, and either opens for what it was made for only."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicrec.collective.in_process import two_servers
from epicrec.collective.keys import (
    SignedKey,
    fingerprint,
    new_round_key,
    new_signing_key,
    opener,
    public_part,
    unseal,
    verifying_key,
)
from epicrec.collective.messages import Refusal
from epicrec.collective.shares import (
    Announcement,
    Report,
    allowed,
    make_report,
    open_share,
    squared_norm,
)
from rounds_of import DELTA, open_round, parameters, vector


@pytest.fixture
def round_of():
    """An announced round, and both servers' keys for it."""
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    keys = {
        role: opener(server.store.book.key("films", 0))
        for role, server in (("leader", leader), ("helper", helper))
    }
    return announcement, keys


def opened(announcement, keys, report):
    return {
        role: open_share(announcement, role, keys[role], report.id, getattr(report, role))
        for role in ("leader", "helper")
    }


@pytest.mark.parametrize("bits", [32, 64])
def test_leader_and_helper_together_read_a_contribution(bits):
    leader, helper = two_servers()
    small = {"sensitivity": 1000, "most": 1000} if bits == 32 else {}
    announcement = open_round(leader, helper, **small)
    assert announcement.parameters.bits == bits
    keys = {
        "leader": opener(leader.store.book.key("films", 0)),
        "helper": opener(helper.store.book.key("films", 0)),
    }
    x = vector(np.random.default_rng(0), announcement.parameters)
    shares = opened(announcement, keys, make_report(announcement, x))
    both = (shares["leader"] + shares["helper"]).view(f"<i{bits // 8}")
    assert both.tolist() == x.tolist()


def test_one_share_is_the_same_whatever_was_sent(round_of):
    """The leader's share is uniform: it is no closer to the contribution than to any other."""
    announcement, keys = round_of
    x = np.zeros(20, np.int64)
    x[0] = DELTA
    shares = [
        opened(announcement, keys, make_report(announcement, value))["leader"]
        for value in [x, np.zeros(20, np.int64)] * 100
    ]
    bits = np.unpackbits(np.array(shares).view(np.uint8).reshape(2, 100, -1), axis=-1)
    ones = bits.sum(axis=(1, 2)) / bits[0].size
    assert np.abs(ones - 0.5).max() < 0.5 * 7 / np.sqrt(bits[0].size)  # by chance: below 1e-9


def test_seeds_are_long_and_never_the_same(round_of):
    announcement, keys = round_of
    seeds = []
    for _ in range(64):
        report = make_report(announcement, np.zeros(20, np.int64))
        bound = announcement.binding("helper", report.id)
        seeds.append(unseal(keys["helper"], report.helper, bound))
    assert {len(seed) for seed in seeds} == {32}
    assert len(set(seeds)) == 64
    columns = np.array([list(seed) for seed in seeds])
    # a byte that is constant, or has few values, is not drawn: 64 draws have some 56 values
    assert min(len(set(column)) for column in columns.T) > 30


def test_a_report_says_nothing_by_its_length(round_of):
    announcement, _ = round_of
    full = vector(np.random.default_rng(0), announcement.parameters)
    sizes = {
        len(make_report(announcement, value).encoded()) for value in (full, np.zeros(20, np.int64))
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"sensitivity": DELTA * 2}, {"mu": 1.0}, {"share": Fraction(1, 2)}, {"most": 9_000},
        {"statistic": "other"}, {"basis": bytes(32)}, {"task": "songs"}, {"round": 1},
        {"delta": 1e-6},
    ],
)  # fmt: skip
def test_a_share_does_not_open_for_other_parameters(round_of, change):
    announcement, keys = round_of
    report = make_report(announcement, np.zeros(20, np.int64))
    other = replace(announcement, parameters=parameters(**change))
    for role in ("leader", "helper"):
        with pytest.raises(Refusal, match="something else"):
            open_share(other, role, keys[role], report.id, getattr(report, role))


def test_a_share_does_not_open_under_another_id_role_or_key(round_of):
    announcement, keys = round_of
    report = make_report(announcement, np.zeros(20, np.int64))
    another = SignedKey(public_part(new_round_key()), b"")
    for role, sealed in (("leader", report.leader), ("helper", report.helper)):
        other = "helper" if role == "leader" else "leader"
        wrong = [
            (announcement, role, keys[role], bytes(16)),
            (announcement, other, keys[role], report.id),
            (announcement, role, keys[other], report.id),
            (replace(announcement, **{other: another}), role, keys[role], report.id),
        ]
        for attempt in wrong:
            with pytest.raises(Refusal, match="something else"):
                open_share(*attempt, sealed)


def test_a_stream_is_bound_even_where_a_seed_repeats(round_of):
    """Two reports with one seed have different streams: their difference tells nothing."""
    from epicrec.collective.shares import stream

    announcement, _ = round_of
    one, other = (
        stream(announcement.parameters, bytes(32), announcement.binding("helper", bytes([n]) * 16))
        for n in (1, 2)
    )
    assert (one != other).all()


@given(st.lists(st.integers(-(2**40), 2**40), max_size=40))
def test_the_squared_norm_is_exact(values):
    assert squared_norm(np.array(values, np.int64)) == sum(value**2 for value in values)


def test_the_squared_norm_is_exact_over_many_large_entries():
    values = np.full(9000, -(2**40), np.int64)
    assert squared_norm(values) == 9000 * 2**80


@settings(max_examples=200)
@given(st.lists(st.integers(-8, 8), min_size=6, max_size=6))
def test_whatever_is_sent_has_at_most_the_norm_it_may_have(values):
    """The attack on the sensitivity: any vector at all, and its norm counted by hand."""
    out = allowed(parameters(length=6, sensitivity=9), np.array(values, np.int64))
    assert out.tolist() == (values if sum(value**2 for value in values) <= 81 else [0] * 6)


@pytest.mark.parametrize(
    "wrong",
    [
        np.full(20, np.nan), np.zeros(19, np.int64), np.zeros(20, np.float64),
        np.full(20, np.iinfo(np.int64).min), np.full(20, np.iinfo(np.int64).max),
        np.zeros((20, 1), np.int64),
    ],
)  # fmt: skip
def test_what_is_no_vector_of_the_round_is_sent_as_zeros(wrong):
    assert allowed(parameters(), wrong).tolist() == [0] * 20


def test_keys_are_checked_with_the_pinned_ones():
    leader_key, helper_key = new_signing_key(), new_signing_key()
    limits = parameters()
    publics = [public_part(new_round_key()) for _ in range(2)]
    made = Announcement(
        limits,
        SignedKey.make(leader_key, "leader", limits, publics[0]),
        SignedKey.make(helper_key, "helper", limits, publics[1]),
    )
    pins = verifying_key(leader_key), verifying_key(helper_key)
    made.check(*pins)
    assert Announcement.from_encoded(made.encoded()) == made
    swapped = SignedKey.make(leader_key, "helper", limits, publics[1])
    for wrong in (
        replace(made, helper=swapped),  # the leader stands for both
        replace(made, helper=replace(made.helper, public=publics[0])),
        replace(made, parameters=parameters(sensitivity=1)),
        replace(made, leader=made.helper, helper=made.leader),
        replace(made, helper=replace(made.helper, signature=b"")),
    ):
        with pytest.raises(Refusal):
            wrong.check(*pins)
    with pytest.raises(Refusal, match="same key"):
        made.check(pins[0], pins[0])
    same = SignedKey.make(helper_key, "helper", limits, publics[0])
    with pytest.raises(Refusal, match="same key"):
        replace(made, helper=same).check(*pins)


def test_a_fingerprint_tells_keys_apart_and_can_be_read_out():
    one, other = (verifying_key(new_signing_key()) for _ in range(2))
    assert fingerprint(one) != fingerprint(other)
    assert [len(group) for group in fingerprint(one).split()] == [4] * 8


def test_a_report_is_read_back_and_damage_is_refused(round_of):
    announcement, _ = round_of
    report = make_report(announcement, np.zeros(20, np.int64))
    data = report.encoded()
    assert Report.from_encoded(data) == report
    for damaged in (data[:-1], data + b"x", b"", replace(report, id=b"short").encoded()):
        with pytest.raises(Refusal):
            Report.from_encoded(damaged)
