"""A device: what it refuses before its history is read, and zeros where nothing was computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epicrec.collective.device import JoinLink, Pins, take_part
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.leader import two_servers
from epicrec.collective.messages import Refusal
from epicrec.collective.results import seeded
from epicrec.collective.shares import Cut, Report
from epicrec.errors import InputError
from rounds_of import DELTA, PUBLISHED, open_round, vector


@pytest.fixture
def servers():
    return two_servers(seed=4)


def pins_of(leader, helper):
    return Pins(verifying_key(leader.signing_key), verifying_key(helper.signing_key))


def never():
    raise AssertionError("the history was read")


def test_a_report_is_sealed_again_from_what_is_kept(servers):
    """What a person can look at later is what was sent."""
    announcement = open_round(*servers)
    x = vector(np.random.default_rng(0), announcement.parameters)
    cut = take_part(announcement, PUBLISHED, pins_of(*servers), lambda: x)
    again = Cut.from_encoded(announcement, cut.encoded())
    assert again.shares == cut.shares
    assert again.numbers.tolist() == x.tolist()
    halves = [int(a) + int(b) for a, b in zip(again.leader, again.helper, strict=True)]
    assert [half % (2**64 - 2**32 + 1) for half in halves] == [
        int(one) % (2**64 - 2**32 + 1) for one in x
    ]


def test_swapped_keys_and_other_basis_are_refused_before_the_history_is_read(servers):
    announcement, pins = open_round(*servers), pins_of(*servers)
    stranger = verifying_key(new_signing_key())
    refused = [
        (announcement, PUBLISHED, replace(pins, helper=stranger)),
        (announcement, PUBLISHED, replace(pins, leader=stranger)),
        (replace(announcement, helper=announcement.leader), PUBLISHED, pins),
        (announcement, b"another basis", pins),
    ]
    for given in refused:
        with pytest.raises(Refusal):
            take_part(*given, never)
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
    announcement, pins = open_round(leader, helper), pins_of(*servers)
    sent, usual = (
        take_part(announcement, PUBLISHED, pins, one).sealed().encoded()
        for one in (computation, lambda: np.zeros(20, np.int64))
    )
    assert len(sent) == len(usual)
    leader.upload("films", 0, Report.from_encoded(sent))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 4)(announcement.parameters) for role in ("leader", "helper"))
    assert result.people == 1
    assert result.total.tolist() == noises.tolist()


def test_a_join_link_is_read_back_and_another_text_is_refused():
    link = JoinLink("https://leader.example.org:8088", "ab" * 32, "common model & more")
    assert JoinLink.parse(f"  {link.text()}\n") == link
    for wrong in ("", "https://leader.example.org", link.text()[1:], link.text().split("&")[0]):
        with pytest.raises(InputError, match="no join link"):
            JoinLink.parse(wrong)
