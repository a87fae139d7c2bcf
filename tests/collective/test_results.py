"""Results that honest people cannot give are refused, and those they can give are not."""

from __future__ import annotations

import numpy as np
import pytest

from epicrec.collective.in_process import released, two_servers
from epicrec.collective.messages import Refusal, encode
from epicrec.collective.results import implausible
from rounds_of import DELTA, open_round, parameters, send

PEOPLE, SIDE = 400, 12


def counts(**changes):
    return parameters(statistic="counts", length=50, mu=1.0, **changes)


def products():
    return parameters(
        statistic="products", length=SIDE * (SIDE + 1) // 2, sensitivity=5 * DELTA, mu=1.0
    )


def honest_products():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(PEOPLE, SIDE))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    whole = np.trunc(np.einsum("ui,uj->uij", z, z) * DELTA * 0.99).sum(axis=0)
    whole *= np.where(np.eye(SIDE), 5, 7)
    return whole[np.tril_indices(SIDE)].astype(np.int64)


def test_what_honest_people_give_passes():
    given = counts()
    one = np.zeros(50, np.int64)
    one[0] = PEOPLE * DELTA
    assert implausible(given, PEOPLE, released(given, one)) is None
    given = products()
    assert implausible(given, PEOPLE, released(given, honest_products())) is None


@pytest.mark.parametrize("value", [-60 * DELTA, (PEOPLE + 60) * DELTA])
def test_a_count_of_less_than_nobody_or_more_than_all_is_refused(value):
    given = counts()
    total = np.zeros(50, np.int64)
    total[7] = value
    assert implausible(given, PEOPLE, total)


def test_a_square_below_zero_and_a_trace_beyond_all_are_refused():
    given = products()
    total = honest_products()
    diagonal = np.cumsum(np.arange(1, SIDE + 1)) - 1
    down, up = total.copy(), total.copy()
    down[diagonal[3]] = -40 * 5 * DELTA
    up[diagonal] += 10 * 5 * DELTA
    assert "negative" in str(implausible(given, PEOPLE, down))
    assert "trace" in str(implausible(given, PEOPLE, up))


def test_more_people_than_can_are_refused():
    given = counts(most=10)
    assert implausible(given, 11, np.zeros(50, np.int64))


def test_a_liar_who_shows_ruins_the_round_and_nothing_is_signed(monkeypatch):
    leader, helper = two_servers()
    announcement = open_round(leader, helper, statistic="counts")
    for _ in range(5):
        send(leader, announcement, np.zeros(20, np.int64))
    with monkeypatch.context() as patched:
        patched.setattr("epicrec.collective.shares.allowed", lambda _, vector: vector)
        send(leader, announcement, np.full(20, 10_000 * DELTA))
    with pytest.raises(Refusal, match="honest"):
        leader.collect("films", 0, helper)
    assert helper.round("films", 0).total is None
    leader.abort(encode("films", 0))
