"""One share says nothing, both say everything, and either opens for what it was made for only."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicrec.collective.keys import (
    RoundSecret,
    SignedKey,
    committed,
    fingerprint,
    new_signing_key,
    opener,
    verification_key,
    verifying_key,
)
from epicrec.collective.leader import two_servers
from epicrec.collective.messages import Refusal
from epicrec.collective.proofs.field import Q
from epicrec.collective.shares import (
    NUMBERS,
    Announcement,
    Cut,
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
        role: opener(RoundSecret.from_encoded(server.keys.get("films", 0)).sealing)
        for role, server in (("leader", leader), ("helper", helper))
    }
    return announcement, keys


def opened(announcement, keys, report):
    """Each server's share of the vector."""
    return {
        role: announcement.parameters.proofs.vector(
            number, open_share(announcement, role, keys[role], report)
        )
        for role, number in NUMBERS.items()
    }


def test_leader_and_helper_together_read_a_contribution(round_of):
    announcement, keys = round_of
    x = vector(np.random.default_rng(0), announcement.parameters)
    shares = opened(announcement, keys, make_report(announcement, x))
    both = [(int(a) + int(b)) % Q for a, b in zip(*shares.values(), strict=True)]
    assert both == [int(one) % Q for one in x]


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
        seeds.append(open_share(announcement, "helper", keys["helper"], report))
    assert {len(seed) for seed in seeds} == {128}
    assert len(set(seeds)) == 64
    columns = np.array([list(seed) for seed in seeds])
    # a byte that is constant, or has few values, is not drawn: 64 draws have some 56 values
    assert min(len(set(column)) for column in columns.T) > 30
    cuts = [Cut.make(announcement, np.zeros(20, np.int64)).random for _ in range(64)]
    assert min(len(set(column)) for column in np.array([list(cut) for cut in cuts]).T) > 30


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
        {"sensitivity": DELTA + 1}, {"mu": 1.0}, {"share": Fraction(1, 2)}, {"most": 9_000},
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
            open_share(other, role, keys[role], report)


def test_a_share_does_not_open_under_another_id_role_key_or_public_share(round_of):
    announcement, keys = round_of
    report = make_report(announcement, np.zeros(20, np.int64))
    another = make_key(new_signing_key(), "leader", announcement.parameters)
    turned = bytes([report.public[0] ^ 1]) + report.public[1:]
    for role in ("leader", "helper"):
        other = "helper" if role == "leader" else "leader"
        uncommitted = replace(getattr(announcement, role), committed=bytes(32))
        wrong = [
            (announcement, role, keys[role], replace(report, id=bytes(16))),
            (announcement, role, keys[role], replace(report, public=turned)),
            (announcement, other, keys[role], report),
            (announcement, role, keys[other], report),
            (replace(announcement, **{other: another}), role, keys[role], report),
            (replace(announcement, **{role: uncommitted}), role, keys[role], report),
        ]
        for attempt in wrong:
            with pytest.raises(Refusal, match="something else"):
                open_share(*attempt)


def make_key(signing_key, role, given):
    return SignedKey.make(signing_key, role, given, RoundSecret.new())


def test_the_verification_key_is_drawn_by_both_and_committed_to():
    secrets = [RoundSecret.new() for _ in range(2)]
    assert RoundSecret.from_encoded(secrets[0].encoded()) == secrets[0]
    halves = [secret.half for secret in secrets]
    assert len(set(halves)) == 2
    assert {len(half) for half in halves} == {32}
    one, other = halves
    pairs = (one, other), (other, one), (one, bytes(32)), (bytes(32), other)
    keys = {verification_key(*pair) for pair in pairs}
    assert len(keys) == 4
    assert committed("leader", halves[0]) != committed("helper", halves[0])


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
    secrets = [RoundSecret.new() for _ in range(2)]
    made = Announcement(
        limits,
        SignedKey.make(leader_key, "leader", limits, secrets[0]),
        SignedKey.make(helper_key, "helper", limits, secrets[1]),
    )
    pins = verifying_key(leader_key), verifying_key(helper_key)
    made.check(*pins)
    assert Announcement.from_encoded(made.encoded()) == made
    swapped = SignedKey.make(leader_key, "helper", limits, secrets[1])
    for wrong in (
        replace(made, helper=swapped),  # the leader stands for both
        replace(made, helper=replace(made.helper, public=made.leader.public)),
        replace(made, helper=replace(made.helper, committed=bytes(32))),
        replace(made, parameters=parameters(sensitivity=1)),
        replace(made, leader=made.helper, helper=made.leader),
        replace(made, helper=replace(made.helper, signature=b"")),
    ):
        with pytest.raises(Refusal):
            wrong.check(*pins)
    with pytest.raises(Refusal, match="same key"):
        made.check(pins[0], pins[0])
    same = SignedKey.make(helper_key, "helper", limits, secrets[0])
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
    short = replace(report, id=b"short"), replace(report, public=b"short")
    for damaged in (data[:-1], data + b"x", b"", *(one.encoded() for one in short)):
        with pytest.raises(Refusal):
            Report.from_encoded(damaged)
