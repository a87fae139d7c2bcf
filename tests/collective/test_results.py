"""Results: sums modulo q, and one that proved norms cannot give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epicrec.collective.keys import sign, verifying_key
from epicrec.collective.leader import two_servers
from epicrec.collective.messages import Refusal
from epicrec.collective.results import Aborted, abort_message, check_plausible, released
from rounds_of import DELTA, open_round, parameters

PEOPLE = 400


def test_what_people_give_passes_and_what_they_cannot_give_does_not():
    given = parameters(length=50, mu=1.0)
    total = np.zeros(50, np.int64)
    for value in (PEOPLE * DELTA, -PEOPLE * DELTA):
        total[0] = value
        check_plausible(given, PEOPLE, released(given, total))
    for value in ((PEOPLE + 60) * DELTA, -(PEOPLE + 60) * DELTA):
        total[0] = value
        with pytest.raises(Refusal, match="server lies"):
            check_plausible(given, PEOPLE, total)


def test_more_people_than_can_are_refused():
    with pytest.raises(Refusal, match="11 people"):
        check_plausible(parameters(most=10), 11, np.zeros(20, np.int64))


def test_an_end_without_a_result_is_signed_by_both_for_these_keys():
    leader, helper = two_servers()
    keys = leader.signing_key, helper.signing_key
    announcements = [open_round(leader, helper, round=number) for number in range(2)]
    pins = [verifying_key(key) for key in keys]
    signed = [sign(key, abort_message(announcements[0])) for key in keys]
    found = Aborted.from_encoded(Aborted(announcements[0], *signed).encoded())
    found.check(*pins)
    assert found.announcement == announcements[0]
    for wrong in (
        Aborted(announcements[1], *signed),
        Aborted(replace(announcements[0], helper=announcements[1].helper), *signed),
        Aborted(announcements[0], signed[0], signed[0]),
        Aborted(announcements[0], signed[0], b""),
        Aborted(announcements[0], b"", signed[1]),
    ):
        with pytest.raises(Refusal, match="end of the round"):
            wrong.check(*pins)
