"""Rounds between two servers: exact sums, and what neither of them can be talked into."""

from __future__ import annotations

import secrets
from collections import Counter

import numpy as np
import pytest

from epicrec.collective.helper import Helper
from epicrec.collective.in_process import released, seeded, simulate, two_servers
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.leader import Leader
from epicrec.collective.messages import Refusal, byte_fields, encode
from epicrec.collective.results import Result
from epicrec.collective.rounds import MemoryBook, MemoryStore, Round
from epicrec.collective.shares import make_report
from rounds_of import DELTA, PUBLISHED, open_round, parameters, send, vector

ZEROS = np.zeros(20, np.int64)


def job(reports, task="films", number=0):
    return encode(task, number, *(part for each in reports for part in (each.id, each.helper)))


def refused(kind, call, *given):
    with pytest.raises(Refusal) as caught:
        call(*given)
    assert caught.value.kind == kind


def victims(helper_or_leader):
    return helper_or_leader.store.book.used


# ---- what comes out ---------------------------------------------------------------------------


def test_the_opened_sum_is_the_plain_sum_and_two_noises_to_the_integer():
    """With a tenth of 2,000 devices vanishing, duplicates, replays and another order."""
    rng = np.random.default_rng(0)
    leader, helper = two_servers(seed=3)
    announcement = open_round(leader, helper)
    given = announcement.parameters
    expected, reports = np.zeros(20, np.int64), []
    for number in range(2000):
        x = vector(rng, given)
        if number % 10:  # the others never arrive
            reports.append(make_report(announcement, x))
            expected += x
    for at in rng.permutation(np.concatenate([np.arange(1800), rng.integers(0, 1800, 300)])):
        leader.upload("films", 0, reports[at])
    result = leader.collect("films", 0, helper)
    noises = [seeded(role, 3)(given) for role in ("leader", "helper")]
    assert result.people == 1800
    assert result.total.tolist() == (expected + noises[0] + noises[1]).tolist()
    assert released(given, expected, seed=3).tolist() == result.total.tolist()


@pytest.mark.parametrize("sensitivity", [100, DELTA])
def test_sums_at_the_greatest_number_of_people_do_not_overflow(sensitivity):
    """All of them at one end: the modulus holds, and the next one is not taken."""
    leader, helper = two_servers(seed=1)
    most = 30 if sensitivity == 100 else 300
    announcement = open_round(leader, helper, most=most, sensitivity=sensitivity, mu=5.0)
    assert announcement.parameters.bits == (32 if sensitivity == 100 else 64)
    x = ZEROS.copy()
    x[3], x[4] = -sensitivity * 3 // 5, sensitivity * 4 // 5
    for _ in range(most):
        send(leader, announcement, x)
    refused("reportRejected", send, leader, announcement, x)
    total = leader.collect("films", 0, helper).total
    noises = sum(seeded(role, 1)(announcement.parameters) for role in ("leader", "helper"))
    assert (total - noises).tolist() == (most * x).tolist()


def test_at_the_greatest_bounds_of_all_the_sum_is_still_right():
    """2**38 people cannot be simulated one by one, but what they add up to can."""
    given = parameters(most=2**38)
    assert given.bits == 64
    for sign in (1, -1):
        total = ZEROS + sign * given.most * given.sensitivity
        noises = sum(seeded(role, 1)(given) for role in ("leader", "helper"))
        assert released(given, total, seed=1).tolist() == (total + noises).tolist()


def test_results_are_checked_by_both_signatures():
    leader, helper = two_servers()
    result = simulate(parameters(), PUBLISHED, [ZEROS] * 5, leader, helper)
    keys = helper.other_key, leader.other_key
    again = Result.from_encoded(result.encoded())
    again.check(*keys)
    assert again.total.tolist() == result.total.tolist()
    altered = Result(result.parameters, 5, result.total + 1, result.leader, result.helper)
    more = Result(result.parameters, 6, result.total, result.leader, result.helper)
    alone = Result(result.parameters, 5, result.total, result.leader, result.leader)
    for wrong in (altered, more, alone):
        refused("invalidMessage", wrong.check, *keys)
    refused("invalidMessage", Result.from_encoded, result.encoded()[:-1])
    refused("invalidMessage", Result.from_encoded, encode(b"", 1, b"", b"", "helper"))


# ---- the noise --------------------------------------------------------------------------------


def test_each_server_adds_the_whole_noise_and_its_own():
    """Standard deviations within 5 %, so that half the noise, or none, or the same twice shows."""
    size = 100_000
    leader, helper = two_servers()
    given = parameters(length=size, most=3)
    x = np.zeros(size, np.int64)
    result = simulate(given, PUBLISHED, [x, x], leader, helper)
    again = simulate(parameters(length=size, most=3, round=1), PUBLISHED, [x, x], leader, helper)
    for found in (result, again):  # the shares of zeros cancel: what is left is noise
        assert np.std(found.total / given.sigma) == pytest.approx(np.sqrt(2), rel=0.05)
    assert abs(np.corrcoef(result.total, again.total)[0, 1]) < 0.05


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_what_a_server_shows_has_its_own_whole_noise(role):
    """With nobody in it, a share is the noise alone."""
    leader, helper = two_servers()
    given = parameters(length=100_000)
    simulate(given, PUBLISHED, [], leader, helper)
    found = {"leader": leader, "helper": helper}[role].round("films", 0)
    shown = np.frombuffer(found.share, "<i8") / given.sigma
    assert np.std(shown) == pytest.approx(1, rel=0.05)
    assert abs(shown.mean()) < 0.03
    both = [np.frombuffer(s.round("films", 0).share, "<i8") for s in (leader, helper)]
    assert abs(np.corrcoef(*both)[0, 1]) < 0.05


# ---- burnt for ever ---------------------------------------------------------------------------


def test_a_repeat_returns_the_same_bytes():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    first = helper.aggregate(job(reports))
    assert helper.aggregate(job(reports)) == first
    shown = helper.reveal(encode("films", 0, b"commitment"))
    assert helper.reveal(encode("films", 0, b"commitment")) == shown
    refused("stepMismatch", helper.reveal, encode("films", 0, b"another"))


def test_s_then_s_without_the_victim_is_refused():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    helper.aggregate(job(reports))
    refused("batchQueriedMultipleTimes", helper.aggregate, job(reports[:-1]))
    refused("batchQueriedMultipleTimes", helper.aggregate, job(reports[::-1]))


def test_an_id_twice_in_a_batch_is_refused():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    one, other = (make_report(announcement, ZEROS) for _ in range(2))
    refused("batchInvalid", helper.aggregate, job([one, other, one]))
    assert not victims(helper)


def test_more_reports_than_people_are_refused():
    leader, helper = two_servers()
    announcement = open_round(leader, helper, most=2)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    refused("batchInvalid", helper.aggregate, job(reports))


def test_a_relabelled_report_does_not_count():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    one, other = (make_report(announcement, ZEROS) for _ in range(2))
    relabelled = type(one)(bytes(16), one.leader, one.helper)
    answer = helper.aggregate(job([one, relabelled, other]))
    assert byte_fields(answer)[1:] == [relabelled.id]
    assert helper.round("films", 0).ids == (one.id, other.id)


def test_a_replay_in_another_round_does_not_count_and_stays_burnt():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    report = send(leader, announcement, ZEROS)
    leader.collect("films", 0, helper)
    later = open_round(leader, helper, round=1)
    fresh = make_report(later, ZEROS)
    copied = type(report)(bytes(range(16)), report.leader, report.helper)
    same_id = type(report)(report.id, fresh.leader, fresh.helper)
    answer = helper.aggregate(job([fresh, copied, same_id], number=1))
    assert byte_fields(answer)[1:] == [copied.id, same_id.id]
    assert helper.round("films", 1).ids == (fresh.id,)


def test_the_leader_does_not_count_a_burnt_id_again_even_if_it_opens(monkeypatch):
    leader, helper = two_servers()
    report = send(leader, open_round(leader, helper), ZEROS)
    leader.collect("films", 0, helper)
    later = open_round(leader, helper, round=1)
    with monkeypatch.context() as patched:
        patched.setattr(secrets, "token_bytes", lambda n: (report.id * 2)[:n])
        again = make_report(later, ZEROS)
    assert again.id == report.id
    leader.upload("films", 1, again)
    send(leader, later, ZEROS)
    assert leader.collect("films", 1, helper).people == 1


def test_the_leader_leaves_out_what_does_not_open_and_counts_the_rest():
    leader, helper = two_servers(seed=2)
    announcement = open_round(leader, helper)
    x = ZEROS + 5
    good, bad, worse = (make_report(announcement, x) for _ in range(3))
    leader.upload("films", 0, good)
    leader.upload("films", 0, type(bad)(bad.id, worse.leader, bad.helper))
    leader.upload("films", 0, type(worse)(worse.id, worse.leader, bad.helper))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 2)(announcement.parameters) for role in ("leader", "helper"))
    assert result.people == 1
    assert (result.total - noises).tolist() == x.tolist()


def test_after_an_abort_the_reports_are_lost():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    report = send(leader, announcement, ZEROS)
    for server in (leader, helper):
        server.abort(encode("films", 0))
        assert server.store.book.key("films", 0) is None
        assert server.abort(encode("films", 0)) == b""
    assert report.id in victims(leader)
    refused("stepMismatch", helper.aggregate, job([report]))
    refused("stepMismatch", leader.collect, "films", 0, helper)
    refused("reportTooLate", leader.upload, "films", 0, report)
    refused("outdatedConfig", leader.start, parameters(mu=0.4), PUBLISHED, helper)


def test_an_abort_after_adding_up_does_not_allow_another_list():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    helper.aggregate(job(reports))
    helper.abort(encode("films", 0))
    refused("stepMismatch", helper.aggregate, job(reports))
    refused("batchQueriedMultipleTimes", helper.aggregate, job(reports[1:]))
    refused("stepMismatch", helper.reveal, encode("films", 0, b"commitment"))
    assert {report.id for report in reports} <= victims(helper)


def test_a_helper_restored_from_a_backup_refuses_all_earlier_rounds():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(2)]
    backup = MemoryBook()
    backup.rounds, backup.used = dict(helper.store.book.rounds), set(helper.store.book.used)
    helper.aggregate(job(reports))
    helper.store.book = backup  # keys are in no backup
    refused("unrecognizedTask", helper.aggregate, job(reports[1:]))
    refused("unrecognizedTask", helper.aggregate, job(reports))
    refused("outdatedConfig", helper.begin, _begin(leader, parameters(mu=0.1)))
    assert open_round(leader, helper, round=1)


def _begin(leader, given):
    from epicrec.collective.keys import SignedKey

    key = SignedKey.make(leader.signing_key, "leader", given, leader.round("films", 0).own.public)
    return encode(given.encoded(), key.public, key.signature)


def test_keys_are_gone_after_collection():
    leader, helper = two_servers()
    simulate(parameters(), PUBLISHED, [ZEROS], leader, helper)
    for server in (leader, helper):
        assert not server.store.book.keys
        assert not server.store.book.inbox


# ---- who may say what -------------------------------------------------------------------------


def test_a_helper_opens_rounds_for_its_leader_only():
    leader, helper = two_servers()
    stranger = Leader(MemoryStore(), new_signing_key(), leader.other_key)
    refused("invalidMessage", stranger.start, parameters(), PUBLISHED, helper)


def test_one_operator_with_one_key_is_refused():
    key = new_signing_key()
    with pytest.raises(Refusal, match="two operators"):
        Helper(MemoryStore(), key, verifying_key(key))


def test_shares_are_committed_to_before_either_is_shown():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    report = send(leader, announcement, ZEROS)
    refused("stepMismatch", helper.reveal, encode("films", 0, b"too early"))

    class Lying:
        def __init__(self, **changed):
            self.changed = changed

        def __getattr__(self, name):
            return self.changed.get(name, getattr(helper, name))

    def another(message):
        share, salt = byte_fields(helper.reveal(message))
        return encode((np.frombuffer(share, "<u8") + 1).tobytes(), salt)

    with pytest.raises(Refusal, match="committed"):
        leader.collect("films", 0, Lying(reveal=another))
    refused("invalidMessage", leader.collect, "films", 0, Lying(confirm=lambda _: bytes(64)))
    assert leader.collect("films", 0, helper).people == 1
    assert report.id in victims(leader) & victims(helper)


def test_a_helper_signs_only_what_both_shares_open_to():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    send(leader, announcement, ZEROS)
    seen = []

    class Watching:
        def __getattr__(self, name):
            return getattr(helper, name)

        def confirm(self, message):
            seen.append(message)
            return helper.confirm(message)

    result = leader.collect("films", 0, Watching())
    from epicrec.collective.messages import decode

    task, number, share, salt, signature = decode(seen[0])
    moved = (np.frombuffer(share, "<u8") + 1).tobytes()
    with pytest.raises(Refusal, match="committed"):
        helper.confirm(encode(task, number, moved, salt, signature))
    refused("invalidMessage", helper.confirm, encode(task, number, share, salt, bytes(64)))
    assert helper.confirm(seen[0]) == result.helper


def test_steps_out_of_turn_and_unknown_rounds_are_refused():
    leader, helper = two_servers()
    refused("unrecognizedTask", leader.collect, "films", 0, helper)
    refused("unrecognizedTask", helper.aggregate, encode("films", 0))
    refused("invalidMessage", helper.aggregate, encode("films", "0"))
    refused("invalidMessage", helper.reveal, encode("films", 0, b"", b""))
    announcement = open_round(leader, helper, round=4)
    refused("outdatedConfig", leader.start, parameters(round=3), PUBLISHED, helper)
    report = send(leader, announcement, ZEROS)
    forged = type(report)(report.id, report.leader, bytes(len(report.helper)))
    refused("reportRejected", leader.upload, "films", 4, forged)
    leader.upload("films", 4, report)
    result = leader.collect("films", 4, helper)
    assert result.people == 1
    assert leader.collect("films", 4, helper).encoded() == result.encoded()
    refused("stepMismatch", leader.abort, encode("films", 4))


def test_a_token_admits_one_report_a_round():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    one, other = (make_report(announcement, ZEROS) for _ in range(2))
    leader.upload("films", 0, one, b"token")
    leader.upload("films", 0, one, b"token")
    refused("reportRejected", leader.upload, "films", 0, other, b"token")
    leader.upload("films", 0, other, b"another")
    assert leader.collect("films", 0, helper).people == 2


def test_a_report_of_another_length_is_not_stored():
    leader, helper = two_servers()
    report = make_report(open_round(leader, helper), ZEROS)
    for wrong in (
        type(report)(report.id, report.leader + b"x", report.helper),
        type(report)(report.id, report.leader, report.helper[:-1]),
    ):
        refused("reportRejected", leader.upload, "films", 0, wrong)


def test_a_round_is_read_back_as_it_was_written():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    states = [leader.round("films", 0), helper.round("films", 0)]
    send(leader, announcement, ZEROS)
    leader.collect("films", 0, helper)
    states += [leader.round("films", 0), helper.round("films", 0)]
    helper.begin(_begin(leader, parameters(round=1)))
    states.append(
        Leader(MemoryStore(), new_signing_key(), leader.other_key)._new_round(
            MemoryBook(), parameters()
        )
    )
    for state in states:
        assert Round.from_encoded(state.encoded()) == state


def test_a_start_that_was_cut_short_goes_on():
    leader, helper = two_servers()

    class Dead:
        def begin(self, message):
            self.heard = message
            raise ConnectionError

    dead = Dead()
    with pytest.raises(ConnectionError):
        leader.start(parameters(), PUBLISHED, dead)
    assert (
        leader.start(parameters(), PUBLISHED, helper).announcement.leader
        == leader.round("films", 0).own
    )
    assert helper.begin(dead.heard) == helper.begin(dead.heard)


def test_a_transaction_that_fails_leaves_nothing_behind():
    store = MemoryStore()
    with store.transaction() as book:
        book.burn([b"1"])
        book.keep_key("films", 0, b"key")

    def fail():
        with store.transaction() as book:
            book.keep_key("films", 0, b"another")
            book.forget("films", 0)
            assert book.burn([b"2", b"1"]) == {b"2"}
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    assert store.book.used == {b"1"}
    assert store.book.keys == {("films", 0): b"key"}


def test_nothing_is_counted_twice_however_often_a_crash_repeats_it():
    """Every call of a collection is answered, and then cut off once before it is heard."""
    leader, helper = two_servers(seed=9)
    announcement = open_round(leader, helper)
    for _ in range(3):
        send(leader, announcement, ZEROS + 7)
    drawn = Counter()
    for server in (leader, helper):
        draw = server._noise
        server._noise = lambda given, role=server.role, draw=draw: (
            drawn.update([role]) or draw(given)
        )

    class CutOff:
        left = Counter(aggregate=1, reveal=1, confirm=1)

        def __getattr__(self, name):
            def call(message):
                answer = getattr(helper, name)(message)
                self.left[name] -= 1
                if self.left[name] >= 0:
                    raise ConnectionError(name)
                return answer

            return call

    link = CutOff()
    for _ in range(3):
        with pytest.raises(ConnectionError):
            leader.collect("films", 0, link)
    result = leader.collect("films", 0, link)
    noises = sum(seeded(role, 9)(announcement.parameters) for role in ("leader", "helper"))
    assert (result.total - noises).tolist() == [21] * 20
    assert drawn == {"leader": 1, "helper": 1}
