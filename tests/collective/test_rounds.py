"""Rounds between two servers: exact sums, and what neither of them can be talked into."""

from __future__ import annotations

import copy
import secrets
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from epicrec.collective import aggregators
from epicrec.collective.helper import Helper
from epicrec.collective.keys import (
    RoundSecret,
    SignedKey,
    new_signing_key,
    opener,
    sign,
    verification_key,
    verifying_key,
)
from epicrec.collective.leader import Leader, two_servers
from epicrec.collective.messages import Refusal, byte_fields, decode, encode
from epicrec.collective.proofs.field import Q
from epicrec.collective.proofs.pine import LEADER_ID, Pine, _part
from epicrec.collective.results import Result, released, seeded, set_message
from epicrec.collective.rounds import MemoryBook, MemoryKeys, MemoryStore, Round, outcomes
from epicrec.collective.shares import Announcement, Cut, make_report, open_share
from rounds_of import DELTA, PUBLISHED, open_round, parameters, send, simulate, vector

ZEROS = np.zeros(20, np.int64)


def secret_of(server, number=0):
    return RoundSecret.from_encoded(server.keys.get("films", number))


def job(leader, reports, index=0, number=0):
    """A batch as the leader sends it."""
    secret, found = secret_of(leader, number), leader.round("films", number)
    prepare = leader._preparing(found, secret, verification_key(secret.half, secret.other))
    fields = []
    for report in reports:
        part = prepare(report)
        verifier = b"" if part is None else part.verifier.tobytes()
        fields += [report.id, report.public, report.helper, verifier]
    return encode("films", number, secret.half, index.to_bytes(4, "big"), *fields)


def agreed(leader, helper, number=0):
    """Have a helper that has verified a batch sign its set, as the leader would."""
    people, chosen = helper._chosen(helper.round("films", number))
    own = sign(leader.signing_key, set_message(parameters(round=number), people, chosen))
    return helper.agree(encode("films", number, people.to_bytes(8, "big"), chosen, own))


def refused(kind, call, *given):
    with pytest.raises(Refusal) as caught:
        call(*given)
    assert caught.value.kind == kind


def victims(helper_or_leader):
    return set(helper_or_leader.store.book.used)


class Lying:
    """A helper some of whose answers are others."""

    def __init__(self, helper, **changed):
        self.helper, self.changed = helper, changed

    def __getattr__(self, name):
        return self.changed.get(name, getattr(self.helper, name))


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


def test_sums_at_the_greatest_number_of_people_do_not_overflow():
    """All of them at one end: the modulus holds, and the next one is not taken."""
    leader, helper = two_servers(seed=1)
    announcement = open_round(leader, helper, most=300, mu=5.0)
    x = ZEROS.copy()
    x[3], x[4] = -DELTA * 3 // 5, DELTA * 4 // 5
    for _ in range(300):
        send(leader, announcement, x)
    refused("reportRejected", send, leader, announcement, x)
    total = leader.collect("films", 0, helper).total
    noises = sum(seeded(role, 1)(announcement.parameters) for role in ("leader", "helper"))
    assert (total - noises).tolist() == (300 * x).tolist()


def test_at_the_greatest_bounds_of_all_the_sum_is_still_right():
    """2**32 people cannot be simulated one by one, but what they add up to can."""
    given = parameters(most=2**32)
    for end in (1, -1):
        total = ZEROS + end * given.most * given.sensitivity
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


def centred(share):
    words = np.frombuffer(share, "<u8")
    return np.where(words > Q // 2, words + np.uint64(2**64 - Q), words).astype(np.int64)


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_what_a_server_shows_has_its_own_whole_noise(role):
    """With nobody in it, a share is the noise alone."""
    leader, helper = two_servers()
    given = parameters(length=100_000)
    simulate(given, PUBLISHED, [], leader, helper)
    found = {"leader": leader, "helper": helper}[role].round("films", 0)
    shown = centred(found.share) / given.sigma
    assert np.std(shown) == pytest.approx(1, rel=0.05)
    assert abs(shown.mean()) < 0.03
    both = [centred(server.round("films", 0).share) for server in (leader, helper)]
    assert abs(np.corrcoef(*both)[0, 1]) < 0.05


# ---- lies -------------------------------------------------------------------------------------


def lie(announcement, x):
    """A report of a vector that is too long, as a device would make it that does not check."""
    return Cut(announcement, secrets.token_bytes(16), secrets.token_bytes(224), x).sealed()


def test_a_vector_that_is_too_long_is_left_out_and_counted():
    leader, helper = two_servers(seed=2)
    announcement = open_round(leader, helper)
    for number in range(4):
        send(leader, announcement, ZEROS + number)
    huge = ZEROS.copy()
    huge[5] = 300 * DELTA
    for x in (huge, ZEROS + DELTA, np.full(20, 1 << 60)):
        leader.upload("films", 0, lie(announcement, x))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 2)(announcement.parameters) for role in ("leader", "helper"))
    assert result.people == 4
    assert (result.total - noises).tolist() == [6] * 20
    with leader.store.transaction() as book:
        assert outcomes(book, "films", 0) == {"accepted": 4, "refused by the helper": 3}
    with helper.store.transaction() as book:
        assert outcomes(book, "films", 0) == {"accepted": 4, "not proved": 3}


def test_a_proof_for_another_round_and_swapped_shares_are_left_out():
    leader, helper = two_servers()
    first = make_report(open_round(leader, helper), ZEROS)
    leader.collect("films", 0, helper)
    announcement = open_round(leader, helper, round=1)
    one, other = (make_report(announcement, ZEROS + n) for n in (1, 2))
    swapped = replace(one, helper=other.helper), replace(other, public=one.public)
    for report in (first, *swapped):
        leader.upload("films", 1, report)
    assert leader.collect("films", 1, helper).people == 0


def test_a_leader_that_lies_about_its_part_in_the_tests_learns_nothing():
    """The attack on PINE as it is: the leader tells the helper another part of its own in the
    randomness of the tests, chosen so that a history of zeros passes and a real one does not.

    The helper's share is bound to the whole public share, so that it does not open: the answer is
    the same for both histories.
    """
    answers = set()
    for x in (ZEROS, vector(np.random.default_rng(1), parameters())):
        leader, helper = two_servers()
        announcement = open_round(leader, helper)
        report = make_report(announcement, x)
        lied = replace(report, public=bytes(32) + report.public[32:])
        answers.add(helper.verify(attack(leader, announcement, report, lied)))
    assert answers == {bytes([0])}


def test_that_attack_would_tell_histories_apart_if_the_public_share_were_not_bound(monkeypatch):
    """So that the test above is seen to be about the binding."""

    bound = Announcement.binding
    monkeypatch.setattr(
        Announcement, "binding", lambda self, role, name, _: bound(self, role, name, b"")
    )
    prepare = Pine.prepare

    def trusting(self, key, server, nonce, public, share):
        """As in the draft: a server puts its own parts in the place of those it was sent."""
        whole, _, blinds = self._expanded(server, share)
        known = self.length + 2 * self.checks.norm_bits
        parts = [public[at : at + 32] for at in range(0, 128, 32)]
        parts[server] = _part(server, blinds[0], whole[:known], nonce, 10)
        parts[2 + server] = _part(server, blinds[1], whole, nonce, 7)
        return prepare(self, key, server, nonce, b"".join(parts), share)

    monkeypatch.setattr(Pine, "prepare", trusting)
    answers = []
    for x in (ZEROS, vector(np.random.default_rng(1), parameters())):
        leader, helper = two_servers()
        announcement = open_round(leader, helper)
        report = make_report(announcement, x)
        lied = replace(report, public=bytes(32) + report.public[32:])
        answers.append(helper.verify(attack(leader, announcement, report, lied)))
    assert answers == [bytes([1]), bytes([0])]


def attack(leader, announcement, report, lied):
    """A batch whose verifier was made with the leader's own lie about the tests' randomness."""
    secret, given = secret_of(leader), announcement.parameters
    share = open_share(announcement, "leader", opener(secret.sealing), report)
    key = verification_key(secret.half, secret.other)
    verifier = verifier_with(given.proofs, key, report, share, lied.public)
    place = (0).to_bytes(4, "big")
    return encode(
        "films", 0, secret.half, place, lied.id, lied.public, lied.helper, verifier.tobytes()
    )


def verifier_with(pine, key, report, share, public):
    """The leader's verifier with the tests' randomness that these parts give."""
    honest = Pine._results
    try:
        Pine._results = lambda self, x, _: honest(self, x, public[:64])
        return pine.prepare(key, LEADER_ID, report.id, report.public, share).verifier
    finally:
        Pine._results = honest


def test_a_leader_learns_accepted_or_refused_and_nothing_else():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS), lie(announcement, ZEROS + DELTA)]
    unreadable = replace(make_report(announcement, ZEROS), helper=bytes(len(reports[0].helper)))
    answer = helper.verify(job(leader, [*reports, unreadable]))
    assert answer == bytes([1, 0, 0])


def test_the_verification_key_needs_both_halves_as_they_were_committed_to():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    message = decode(job(leader, [make_report(announcement, ZEROS)]))
    message[2] = bytes(32)
    refused("invalidMessage", helper.verify, encode(*message))

    def another_half(sent):
        *key, _ = byte_fields(helper.begin(sent))
        return encode(*key, bytes(32))

    with pytest.raises(Refusal, match="committed"):
        leader.start(parameters(round=1), PUBLISHED, Lying(helper, begin=another_half))


# ---- verified once, summed once ---------------------------------------------------------------


def test_a_repeat_returns_the_same_bytes():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    asked = job(leader, reports)
    assert helper.verify(asked) == helper.verify(asked) == bytes([1, 1, 1])
    assert agreed(leader, helper) == agreed(leader, helper)
    first = helper.aggregate(encode("films", 0))
    assert helper.aggregate(encode("films", 0)) == first
    shown = helper.reveal(encode("films", 0, b"commitment"))
    assert helper.reveal(encode("films", 0, b"commitment")) == shown
    refused("stepMismatch", helper.reveal, encode("films", 0, b"another"))


def test_s_then_s_without_the_victim_is_refused():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    helper.verify(job(leader, reports))
    refused("batchQueriedMultipleTimes", helper.verify, job(leader, reports[:-1]))
    refused("batchQueriedMultipleTimes", helper.verify, job(leader, reports[::-1]))
    refused("batchQueriedMultipleTimes", helper.verify, job(leader, reports, index=2))
    people, chosen = helper._chosen(helper.round("films", 0))
    fewer = encode("films", 0, (people - 1).to_bytes(8, "big"), chosen, bytes(64))
    refused("batchInvalid", helper.agree, fewer)
    agreed(leader, helper)
    refused("batchQueriedMultipleTimes", helper.agree, fewer)
    refused("stepMismatch", helper.verify, job(leader, [], index=1))


def test_a_set_that_the_leader_has_not_signed_is_not_added_up():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    helper.verify(job(leader, [make_report(announcement, ZEROS)]))
    refused("stepMismatch", helper.aggregate, encode("films", 0))
    people, chosen = helper._chosen(helper.round("films", 0))
    message = encode("films", 0, people.to_bytes(8, "big"), chosen, bytes(64))
    refused("invalidMessage", helper.agree, message)


def test_a_report_is_verified_once():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    one, other = (make_report(announcement, ZEROS) for _ in range(2))
    refused("batchInvalid", helper.verify, job(leader, [one, other, one]))
    assert not victims(helper)
    assert helper.verify(job(leader, [one])) == bytes([1])
    assert helper.verify(job(leader, [other, one], index=1)) == bytes([1, 0])
    assert helper._chosen(helper.round("films", 0))[0] == 2


def test_batches_and_rounds_are_bounded(monkeypatch):
    leader, helper = two_servers()
    announcement = open_round(leader, helper, most=2)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    refused("batchInvalid", helper.verify, job(leader, reports))
    assert not victims(helper)
    monkeypatch.setattr("epicrec.collective.helper.JOB", 1)
    refused("batchInvalid", helper.verify, job(leader, reports[:2]))
    refused("invalidMessage", helper.verify, encode("films", 0, b"half"))
    refused("invalidMessage", helper.verify, encode("films", 0, b"half", b"0", b"id"))


def test_a_round_of_many_batches_is_the_same_sum(monkeypatch):
    """However many reports are verified and added up at once."""
    monkeypatch.setattr(aggregators, "JOB", 3)
    leader, helper = two_servers(seed=5)
    announcement = open_round(leader, helper)
    for number in range(20):
        send(leader, announcement, ZEROS + number)
        if number % 3 == 0:
            leader.upload("films", 0, lie(announcement, ZEROS + DELTA))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 5)(announcement.parameters) for role in ("leader", "helper"))
    assert result.people == 20
    assert (result.total - noises).tolist() == [190] * 20
    assert leader.store.book.jobs("films", 0) == helper.store.book.jobs("films", 0) == 9


def test_no_sum_is_stored_before_the_noisy_one_and_no_share_ever():
    """All that is ever written of a round: shares of reports only as they were sealed, of a batch
    only ids, a hash of what was asked, and what became of each; and one noisy sum."""
    leader, helper = two_servers(seed=5)
    announcement = open_round(leader, helper)
    for _ in range(5):
        send(leader, announcement, ZEROS + 1)
    written = {"leader": [], "helper": []}
    for server in (leader, helper):
        keep = server.store.book.keep
        server.store.book.keep = lambda found, keep=keep: (
            written[found.role].append(found), keep(found)
        )  # fmt: skip
    leader.collect("films", 0, helper)
    for server in (leader, helper):
        rounds = written[server.role]
        before = [one for one in rounds if one.state in ("open", "frozen", "verified")]
        assert {one.state for one in before} == {"frozen", "verified"}
        assert all(one.share == one.salt == one.theirs == one.total == b"" for one in before)
        assert len({one.share for one in rounds if one.share}) == 1
        (only,) = server.store.book.verified["films", 0].values()
        assert only.outcome == bytes(5)
        assert len(only.asked) == (16 if server is leader else 32)
        assert not server.store.book.inbox


def test_a_relabelled_report_does_not_count():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    one, other = (make_report(announcement, ZEROS) for _ in range(2))
    relabelled = replace(one, id=bytes(16))
    assert helper.verify(job(leader, [one, relabelled, other])) == bytes([1, 0, 1])


def test_a_replay_in_another_round_does_not_count_and_stays_burnt():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    report = send(leader, announcement, ZEROS)
    leader.collect("films", 0, helper)
    later = open_round(leader, helper, round=1)
    fresh = make_report(later, ZEROS)
    copied = replace(report, id=bytes(range(16)))
    same_id = replace(fresh, id=report.id)
    answer = helper.verify(job(leader, [fresh, copied, same_id], number=1))
    assert answer == bytes([1, 0, 0])


def test_a_burnt_id_does_not_count_again_even_if_it_opens(monkeypatch):
    leader, helper = two_servers()
    report = send(leader, open_round(leader, helper), ZEROS)
    leader.collect("films", 0, helper)
    later = open_round(leader, helper, round=1)
    with monkeypatch.context() as patched:
        patched.setattr(secrets, "token_bytes", lambda n: (report.id * 20)[:n])
        again = make_report(later, ZEROS)
    assert again.id == report.id
    assert helper.verify(job(leader, [again], number=1)) == bytes([0])
    leader.upload("films", 1, again)
    helper.store.book.verified.clear()
    send(leader, later, ZEROS)
    assert leader.collect("films", 1, helper).people == 1


def test_the_leader_leaves_out_what_does_not_open_and_counts_the_rest():
    leader, helper = two_servers(seed=2)
    announcement = open_round(leader, helper)
    x = ZEROS + 5
    good, bad, worse = (make_report(announcement, x) for _ in range(3))
    leader.upload("films", 0, good)
    leader.upload("films", 0, replace(bad, leader=worse.leader))
    leader.upload("films", 0, replace(worse, helper=bad.helper))
    result = leader.collect("films", 0, helper)
    noises = sum(seeded(role, 2)(announcement.parameters) for role in ("leader", "helper"))
    assert result.people == 1
    assert (result.total - noises).tolist() == x.tolist()


# ---- nothing comes back -----------------------------------------------------------------------


def test_after_an_abort_by_both_the_reports_are_lost_and_both_have_signed():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    report = send(leader, announcement, ZEROS)
    asked = job(leader, [report])
    found = leader.give_up("films", 0, helper)
    for server in (leader, helper):
        assert not server.keys.kept
        assert server.abort(encode("films", 0)) in found.signatures
    keys = helper.other_key, leader.other_key
    aggregators.aborted_by(found).check(*keys)
    assert leader.give_up("films", 0, helper) == found
    refused("stepMismatch", helper.verify, asked)
    refused("stepMismatch", leader.collect, "films", 0, helper)
    refused("reportTooLate", leader.upload, "films", 0, report)
    refused("outdatedConfig", leader.start, parameters(mu=0.4), PUBLISHED, helper)


def test_an_abort_says_that_nothing_was_shown_only_where_nothing_was():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    send(leader, announcement, ZEROS)

    def cut_off(_):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        leader.collect("films", 0, Lying(helper, confirm=cut_off))
    found = leader.give_up("films", 0, helper)
    assert found.signatures == (b"", b"")
    refused("stepMismatch", aggregators.aborted_by, found)


def test_a_round_that_never_opened_can_be_given_up():
    leader, helper = two_servers()

    def cut_off(message):
        helper.begin(message)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        leader.start(parameters(), PUBLISHED, Lying(helper, begin=cut_off))
    found = leader.give_up("films", 0, helper)
    assert found.state == helper.round("films", 0).state == "aborted"
    assert not found.is_signed_by_both, "no device has heard of it"


def test_an_abort_after_adding_up_does_not_allow_another_list():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    reports = [make_report(announcement, ZEROS) for _ in range(3)]
    fewer = job(leader, reports[1:], index=1)
    helper.verify(job(leader, reports))
    agreed(leader, helper)
    helper.aggregate(encode("films", 0))
    assert helper.abort(encode("films", 0)) == b"", "its key was destroyed by the sum"
    refused("stepMismatch", helper.aggregate, encode("films", 0))
    refused("stepMismatch", helper.verify, fewer)
    refused("stepMismatch", helper.reveal, encode("films", 0, b"commitment"))
    assert {report.id for report in reports} <= victims(helper)


@pytest.mark.parametrize("moment", ["open", "verified"])
def test_a_restored_book_cannot_add_up_what_was_added_up(moment):
    """Whatever came back with it: burnt ids forgotten, jobs forgotten, sealed reports there."""
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    for _ in range(2):
        send(leader, announcement, ZEROS)
    backups = {}

    def copied(message):
        for server in (leader, helper):
            server.store.book.undo = []
            backups[server.role] = copy.deepcopy(server.store.book)
        return (helper.verify if moment == "open" else helper.aggregate)(message)

    step = "verify" if moment == "open" else "aggregate"
    leader.collect("films", 0, Lying(helper, **{step: copied}))
    for server in (leader, helper):
        server.store.book = backups[server.role]
        assert server.is_lost(server.round("films", 0))
    refused("unrecognizedTask", leader.collect, "films", 0, helper)
    if moment == "verified":
        refused("unrecognizedTask", helper.aggregate, encode("films", 0))
    refused("outdatedConfig", helper.begin, _begin(leader, parameters(mu=0.1)))
    found = leader.give_up("films", 0, helper)
    assert found.signatures == (b"", b""), "what was added up was shown"
    assert open_round(leader, helper, round=1)


def verified(leader, helper):
    """A round with three reports, up to the set that both have signed."""
    announcement = open_round(leader, helper)
    helper.verify(job(leader, [make_report(announcement, ZEROS) for _ in range(3)]))
    agreed(leader, helper)
    return helper.round("films", 0)


def test_two_passes_with_one_key_give_one_sum():
    """A copy of a server beside it, with the same key: the one that destroys the key goes on."""
    leader, helper = two_servers()
    found = verified(leader, helper)
    beside = Helper(MemoryStore(), helper.keys, helper.signing_key, helper.other_key)
    helper.store.book.undo = []
    beside.store.book = copy.deepcopy(helper.store.book)
    drawn = helper._noise

    def meanwhile(given):
        beside._add_up(found)
        return drawn(given)

    helper._noise = meanwhile
    refused("stepMismatch", helper._add_up, found)
    assert helper.round("films", 0).share == b""
    assert beside.round("films", 0).share != b""


def test_other_reports_than_those_that_were_signed_are_not_added_up():
    leader, helper = two_servers()
    found = verified(leader, helper)
    inbox = helper.store.book.inbox["films", 0]
    gone = inbox.pop(min(inbox))
    refused("stepMismatch", helper.aggregate, encode("films", 0))
    inbox[gone.id] = gone
    assert helper.aggregate(encode("films", 0))
    assert found.people == 3


def test_a_key_of_another_round_is_not_used():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    send(leader, announcement, ZEROS)
    helper.keys.keep("films", 0, RoundSecret.new().encoded())
    refused("unrecognizedTask", leader.collect, "films", 0, helper)


def test_a_crash_after_the_key_is_destroyed_ends_the_round(monkeypatch):
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    send(leader, announcement, ZEROS)
    destroy = helper.keys.destroy

    def crash(*given):
        destroy(*given)
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(helper.keys, "destroy", crash)
        with pytest.raises(ConnectionError):
            leader.collect("films", 0, helper)
    assert helper.round("films", 0).share == b""
    refused("unrecognizedTask", leader.collect, "films", 0, helper)
    assert not leader.give_up("films", 0, helper).is_signed_by_both, "who knows what it wrote"


def _begin(leader, given):
    key = SignedKey.make(leader.signing_key, "leader", given, RoundSecret.new())
    return encode(given.encoded(), PUBLISHED, key.public, key.committed, key.signature)


def test_keys_and_reports_are_gone_after_collection():
    leader, helper = two_servers()
    simulate(parameters(), PUBLISHED, [ZEROS], leader, helper)
    for server in (leader, helper):
        assert not server.keys.kept
        assert not server.store.book.inbox


# ---- who may say what -------------------------------------------------------------------------


def test_a_helper_opens_rounds_for_its_leader_only():
    leader, helper = two_servers()
    stranger = Leader(MemoryStore(), MemoryKeys(), new_signing_key(), leader.other_key)
    refused("invalidMessage", stranger.start, parameters(), PUBLISHED, helper)


def test_one_operator_with_one_key_is_refused():
    key = new_signing_key()
    with pytest.raises(Refusal, match="two operators"):
        Helper(MemoryStore(), MemoryKeys(), key, verifying_key(key))


def test_shares_are_committed_to_before_either_is_shown():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    report = send(leader, announcement, ZEROS)
    refused("stepMismatch", helper.reveal, encode("films", 0, b"too early"))

    def another(message):
        share, salt = byte_fields(helper.reveal(message))
        return encode(bytes(8) + share[8:], salt)

    with pytest.raises(Refusal, match="committed"):
        leader.collect("films", 0, Lying(helper, reveal=another))
    refused(
        "invalidMessage", leader.collect, "films", 0, Lying(helper, confirm=lambda _: bytes(64))
    )
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
    task, number, share, salt, signature = decode(seen[0])
    moved = bytes(8) + share[8:]
    with pytest.raises(Refusal, match="committed"):
        helper.confirm(encode(task, number, moved, salt, signature))
    refused("invalidMessage", helper.confirm, encode(task, number, share, salt, bytes(64)))
    assert helper.confirm(seen[0]) == result.helper


def test_steps_out_of_turn_and_unknown_rounds_are_refused():
    leader, helper = two_servers()
    refused("unrecognizedTask", leader.collect, "films", 0, helper)
    for step in (helper.aggregate, helper.abort):
        refused("unrecognizedTask", step, encode("films", 0))
    refused("invalidMessage", helper.aggregate, encode("films", "0"))
    refused("invalidMessage", helper.reveal, encode("films", 0, b"", b""))
    announcement = open_round(leader, helper, round=4)
    refused("outdatedConfig", leader.start, parameters(round=3), PUBLISHED, helper)
    report = send(leader, announcement, ZEROS)
    forged = replace(report, helper=bytes(len(report.helper)))
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
        replace(report, leader=report.leader + b"x"),
        replace(report, helper=report.helper[:-1]),
    ):
        refused("reportRejected", leader.upload, "films", 0, wrong)


def test_a_round_is_read_back_as_it_was_written():
    leader, helper = two_servers()
    announcement = open_round(leader, helper)
    states = [leader.round("films", 0), helper.round("films", 0)]
    send(leader, announcement, ZEROS)
    leader.collect("films", 0, helper)
    states += [leader.round("films", 0), helper.round("films", 0)]
    open_round(leader, helper, round=1)
    states.append(leader.give_up("films", 1, helper))
    helper.begin(_begin(leader, parameters(round=2)))
    states.append(
        Leader(MemoryStore(), MemoryKeys(), new_signing_key(), leader.other_key)._new_round(
            MemoryBook(), parameters(), PUBLISHED
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
    report = make_report(open_round(*two_servers()), ZEROS)
    with store.transaction() as book:
        book.burn([b"1"])
        book.open("films", 0, 3)
        book.add_reports("films", 0, [report])

    def fail():
        with store.transaction() as book:
            book.take_places("films", 0, 2)
            book.forget("films", 0)
            book.burn([b"2", b"1"])
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    assert set(store.book.used) == {b"1"}
    assert store.book.count("films", 0) == 0
    assert store.book.report("films", 0, report.id) == report


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
        left = Counter(verify=1, agree=1, aggregate=1, reveal=1, confirm=1)

        def __getattr__(self, name):
            def call(message):
                answer = getattr(helper, name)(message)
                self.left[name] -= 1
                if self.left[name] >= 0:
                    raise ConnectionError(name)
                return answer

            return call

    link = CutOff()
    for _ in range(5):
        with pytest.raises(ConnectionError):
            leader.collect("films", 0, link)
    result = leader.collect("films", 0, link)
    noises = sum(seeded(role, 9)(announcement.parameters) for role in ("leader", "helper"))
    assert (result.total - noises).tolist() == [21] * 20
    assert drawn == {"leader": 1, "helper": 1}
