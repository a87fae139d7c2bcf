"""What each server can tell of one person from all it ever sees, held against the claim.

One victim among invented devices. Each of many victims sends either Δ in an entry of their own or
zeros; the adversary invented all the others, so it takes their parts away, and the entries of the
noise are independent: every victim is a run of its own, and one round has them all.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.stats import beta, norm

from epicrec.collective.keys import RoundSecret, opener
from epicrec.collective.leader import two_servers
from epicrec.collective.proofs.field import Q
from epicrec.collective.shares import NUMBERS, make_report, open_share
from rounds_of import PUBLISHED, parameters

RUNS = 2000
SHARES = (Fraction(7, 100), Fraction(18, 100), Fraction(75, 100))
MU = 3.0
SURE = 1e-10
"""The chance that a bound is above the truth; with so many runs, that it is below 0.6 of it is
rarer still."""


def mu_at_least(told, had):
    """A lower bound on μ: a test at a threshold has Φ⁻¹(power) - Φ⁻¹(false alarms) ≤ μ."""
    found, false = np.sum(told[had] > MU**2 / 2), np.sum(told[~had] > MU**2 / 2)
    power = beta.ppf(SURE, found, had.sum() - found + 1)
    alarms = beta.ppf(1 - SURE, false + 1, (~had).sum() - false)
    return norm.ppf(power) - norm.ppf(alarms)


def views(shares, runs, leader, helper):
    """What each server knows of every victim after all rounds, as one number, and who had what.

    The number is the logarithm of the likelihood ratio, but for a constant: no other function of
    what was seen tells the two histories apart as well.
    """
    had = np.arange(runs) % 2 == 1
    told = {"leader": np.zeros(runs), "helper": np.zeros(runs)}
    servers = {"leader": leader, "helper": helper}
    for number, share in enumerate(shares):
        given = parameters(length=runs, mu=MU, share=share, round=number)
        announcement = leader.start(given, PUBLISHED, helper).announcement
        keys = {role: opener(secret_of(servers[role], number).sealing) for role in servers}
        known = {role: np.zeros(runs, object) for role in servers}
        for victim in range(runs):
            x = np.zeros(runs, np.int64)
            x[victim] = given.sensitivity * had[victim]
            report = make_report(announcement, x)
            leader.upload("films", number, report)
            for role, sum_of in known.items():
                share = open_share(announcement, role, keys[role], report)
                sum_of += given.proofs.vector(NUMBERS[role], share).astype(object)
        leader.collect("films", number, helper)
        for role, other in (("leader", helper), ("helper", leader)):
            shown = np.frombuffer(other.round("films", number).share, np.uint64)
            seen = (known[role] + shown.astype(object) + Q // 2) % Q - Q // 2
            told[role] += seen.astype(np.float64) * (given.sensitivity / given.sigma**2)
    return told, had


def secret_of(server, number):
    return RoundSecret.from_encoded(server.keys.get("films", number))


def test_the_whole_view_of_a_server_tells_no_more_than_is_claimed_and_hardly_less():
    told, had = views(SHARES, RUNS, *two_servers())
    for role in told:
        assert 0.6 * MU < mu_at_least(told[role], had) < MU, role


def test_the_audit_sees_a_helper_with_half_the_noise():
    leader, helper = two_servers()
    helper._noise = lambda given, draw=helper._noise: draw(replace(given, mu=2 * given.mu))
    told, had = views([Fraction(1)], 1300, leader, helper)  # of 1000, too few show in 1e-5
    assert mu_at_least(told["leader"], had) > MU
    assert mu_at_least(told["helper"], had) < MU
