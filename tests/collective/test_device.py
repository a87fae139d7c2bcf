"""A device: one report a round, recorded before it leaves, the same bytes ever after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epicrec.collective.device import Pins, take_part
from epicrec.collective.in_process import seeded, two_servers
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.messages import Refusal
from epicrec.collective.shares import Report
from epicrec.errors import BudgetExceededError
from epicrec.privacy import Ledger
from rounds_of import DELTA, PUBLISHED, open_round, vector


class Drawer:
    """In memory, with a ledger that says no at ε = 4."""

    def __init__(self, limit=4.0):
        self.ledger = Ledger(None, limit_epsilon=limit, limit_delta=1e-5)
        self.reports = {}

    def sealed(self, task, number):
        return self.reports.get((task, number))

    def keep(self, cut, report, guarantee):
        given = cut.announcement.parameters
        self.ledger.spend(guarantee, about=f"{given.task} {given.round}")
        self.reports[given.task, given.round] = report


@pytest.fixture
def servers():
    return two_servers(seed=4)


def pins_of(leader, helper):
    return Pins(verifying_key(leader.signing_key), verifying_key(helper.signing_key))


def never():
    raise AssertionError("the history was read")


def test_a_retry_after_the_history_changed_sends_the_bytes_that_were_sent(servers):
    announcement = open_round(*servers)
    drawer, pins = Drawer(), pins_of(*servers)
    x = vector(np.random.default_rng(0), announcement.parameters)
    first = take_part(announcement, PUBLISHED, pins, drawer, lambda: x)
    assert take_part(announcement, PUBLISHED, pins, drawer, lambda: -x) == first
    assert take_part(announcement, PUBLISHED, pins, drawer, never) == first
    assert len(drawer.ledger.entries()) == 1
    leader, helper = servers
    for _ in range(3):
        leader.upload("films", 0, Report.from_encoded(first))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 4)(announcement.parameters) for role in ("leader", "helper"))
    assert (result.total - noises).tolist() == x.tolist()


def test_a_round_announced_again_with_another_key_gets_no_second_report(servers):
    leader, helper = servers
    announcement = open_round(leader, helper)
    drawer, pins = Drawer(), pins_of(leader, helper)
    first = take_part(announcement, PUBLISHED, pins, drawer, lambda: np.zeros(20, np.int64))
    leader.store.book.rounds.clear()
    helper.store.book.rounds.clear()
    again = open_round(leader, helper)
    assert again != announcement
    assert take_part(again, PUBLISHED, pins, drawer, never) == first


def test_the_ledger_says_what_is_used_before_anything_leaves_and_stops_at_its_limit(servers):
    drawer, pins = Drawer(limit=4.0), pins_of(*servers)
    nothing = np.zeros(20, np.int64)
    announcement = open_round(*servers, round=0, mu=0.9)
    take_part(announcement, PUBLISHED, pins, drawer, lambda: nothing)
    entries = drawer.ledger.entries()
    assert len(entries) == 1
    assert entries[0].guarantee.mu == announcement.parameters.round_mu
    dear = open_round(*servers, round=1, mu=2.0)
    with pytest.raises(BudgetExceededError, match="limit"):
        take_part(dear, PUBLISHED, pins, drawer, lambda: nothing)
    assert drawer.ledger.entries() == entries
    assert drawer.sealed("films", 1) is None
    assert entries[0].guarantee.unit == "user"


def test_swapped_keys_and_other_basis_are_refused_before_the_history_is_read(servers):
    announcement = open_round(*servers)
    drawer, pins = Drawer(), pins_of(*servers)
    stranger = verifying_key(new_signing_key())
    refused = [
        (announcement, PUBLISHED, replace(pins, helper=stranger)),
        (announcement, PUBLISHED, replace(pins, leader=stranger)),
        (replace(announcement, helper=announcement.leader), PUBLISHED, pins),
        (announcement, b"another basis", pins),
    ]
    for given in refused:
        with pytest.raises(Refusal):
            take_part(*given, drawer, never)
    assert not drawer.ledger.entries()
    with pytest.raises(Refusal, match="same key"):
        Pins(pins.helper, pins.helper)


@pytest.mark.parametrize(
    "computation",
    [
        never,
        lambda: np.full(20, np.nan),
        lambda: np.full(20, DELTA),
        lambda: np.array([1, 2], np.int64),
    ],
)
def test_whatever_goes_wrong_with_the_history_zeros_are_sent(servers, computation):
    leader, helper = servers
    announcement = open_round(leader, helper)
    sent = take_part(announcement, PUBLISHED, pins_of(*servers), Drawer(), computation)
    usual = take_part(
        announcement, PUBLISHED, pins_of(*servers), Drawer(), lambda: np.zeros(20, np.int64)
    )
    assert len(sent) == len(usual)
    leader.upload("films", 0, Report.from_encoded(sent))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 4)(announcement.parameters) for role in ("leader", "helper"))
    assert result.total.tolist() == noises.tolist()
