"""Rounds in one process: both servers with all their steps, or only the sums they open."""

from __future__ import annotations

from collections.abc import Iterable

from epicrec.arrays import Integers
from epicrec.collective.aggregator import Noise
from epicrec.collective.helper import Helper
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.leader import Leader
from epicrec.collective.results import Result, noisy_sum, opened, server_noise
from epicrec.collective.rounds import MemoryStore
from epicrec.collective.shares import Report, as_words, make_report
from epicrec.collective.task import Role, RoundParameters
from epicrec.seeds import derived


def seeded(role: Role, seed: int | None) -> Noise:
    """A server's noise: private without a seed, repeatable with one."""
    return lambda parameters: server_noise(parameters, derived(seed, role, parameters.round))


def two_servers(seed: int | None = None) -> tuple[Leader, Helper]:
    """A leader and a helper that know each other's keys, with books in memory."""
    one, other = new_signing_key(), new_signing_key()
    return (
        Leader(MemoryStore(), one, verifying_key(other), noise=seeded("leader", seed)),
        Helper(MemoryStore(), other, verifying_key(one), noise=seeded("helper", seed)),
    )


def simulate(
    parameters: RoundParameters,
    published: bytes,
    vectors: Iterable[Integers],
    leader: Leader,
    helper: Helper,
) -> Result:
    """A whole round over sealed shares, one vector a device."""
    announcement = leader.start(parameters, published, helper).announcement
    for vector in vectors:
        sent = make_report(announcement, vector).encoded()
        leader.upload(parameters.task, parameters.round, Report.from_encoded(sent))
    return leader.collect(parameters.task, parameters.round, helper)


def released(parameters: RoundParameters, total: Integers, seed: int | None = None) -> Integers:
    """What a round opens to, from everyone's plain sum: that sum with both servers' noises.

    The same integers as with shares, which cancel, at a cost that does not grow with people.
    """
    one = noisy_sum(parameters, [as_words(parameters, total)], seeded("leader", seed)(parameters))
    other = noisy_sum(parameters, [], seeded("helper", seed)(parameters))
    return opened(parameters, one.tobytes(), other.tobytes())
