"""Results: sums modulo q, and one that proved norms cannot give."""

from __future__ import annotations

import numpy as np
import pytest

from epicrec.collective.keys import new_signing_key, sign, verifying_key
from epicrec.collective.messages import Refusal
from epicrec.collective.results import Aborted, abort_message, check_plausible, released
from rounds_of import DELTA, parameters

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


def test_an_end_without_a_result_is_signed_by_both_for_these_parameters():
    keys = new_signing_key(), new_signing_key()
    given, pins = parameters(), [verifying_key(key) for key in keys]
    signed = [sign(key, abort_message(given)) for key in keys]
    found = Aborted.from_encoded(Aborted(given, *signed).encoded())
    found.check(*pins)
    for wrong in (
        Aborted(parameters(round=1), *signed),
        Aborted(given, signed[0], signed[0]),
        Aborted(given, signed[0], b""),
        Aborted(given, b"", signed[1]),
    ):
        with pytest.raises(Refusal, match="end of the round"):
            wrong.check(*pins)
