"""A device's part in a shared model: one report a round, whatever happens in between."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from epicrec.client.device import Device
from epicrec.client.sending.remote import Remote
from epicrec.client.sending.shared_model_reports import EVERY, WINDOW
from epicrec.collective.contributions import one_history, statistic_of
from epicrec.collective.keys import RoundSecret, new_signing_key, opener, sign, verifying_key
from epicrec.collective.messages import Refusal, encode
from epicrec.collective.results import Aborted, Result, Taught, abort_message, seeded
from epicrec.collective.shared_model import Collective
from epicrec.collective.shares import NUMBERS, Report, open_share
from epicrec.data import Catalogue, load_dataset
from epicrec.data.embedded import titles_catalogue
from epicrec.errors import EpicrecError, InputError
from epicrec.privacy import Ledger
from epicrec.server import shared_model
from server.conftest import two_running

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + WINDOW
TASK = "common-model"
HISTORY = ["heat-1995", "alien-1979"]


class Watched(httpx.HTTPTransport):
    """Keeps what is sent, and fails to hear the answer to a report as often as it is told."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.sent: list[tuple[str, str, int]] = []
        self.named: list[bool] = []
        self.deaf = 0
        self.forged: bytes | None = None
        self.aborted: bytes | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        self.sent.append((request.method, request.url.path, len(request.content)))
        self.named.append("x-api-key" in request.headers)
        if self.forged is not None and request.url.path.endswith("/result"):
            answer.close()
            return httpx.Response(200, content=self.forged)
        if self.aborted is not None and request.url.path.endswith("/abort"):
            answer.close()
            return httpx.Response(200, content=self.aborted)
        if request.method == "PUT" and self.deaf:
            self.deaf -= 1
            answer.close()
            raise httpx.ReadError("the answer is lost")
        return answer


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Any]:
    with two_running(tmp_path, catalogue="films") as found:
        leader, helper, _ = found
        for role, server in (("leader", leader), ("helper", helper)):
            getattr(server.service.shared_model, role)._noise = seeded(role, 2)
        start(leader)
        yield found


def start(leader: Any, **given: Any) -> dict[str, Any]:
    budget = {"epsilon": 1.0, "delta": 1e-5, "most": 100} | given
    return shared_model.start(leader.settings, TASK, **budget)


def device(folder: Path, servers: Any, films: Catalogue, **keys: str) -> tuple[Device, Watched]:
    leader, helper = servers[:2]
    certificate = (Path(leader.settings.data) / "tls" / "ca.pem").read_text()
    context = ssl.create_default_context(cadata=certificate)
    wire = Watched(verify=context)
    made = Device(
        folder, films, server=leader.url, certificate=certificate,
        dial=lambda url, **options: Remote(url, transport=wire, **options),
    )  # fmt: skip
    own = {
        "leader_key": leader.service.shared_model.key.hex(),
        "helper_key": helper.service.shared_model.key.hex(),
    }
    made.shared_model.join(TASK, **(own | keys))
    return made, wire


def contributed(servers: Any, films: Catalogue, history: list[str]) -> Any:
    statistic = statistic_of(published_of(servers[0]), films.item_ids)
    return statistic(one_history(films.item_ids, history))


def published_of(server: Any) -> bytes:
    with server.service.shared_model.store.reading() as book:
        return bytes(book.published(TASK, 0))


def opened(servers: Any) -> Any:
    """What the round opens to, without the noises."""
    leader, _, link = servers
    result = leader.service.shared_model.leader.collect(TASK, 0, link)
    noises = sum(seeded(role, 2)(result.parameters) for role in ("leader", "helper"))
    return result.people, result.total - noises


def test_a_report_leaves_once_at_its_moment(servers: Any, films: Catalogue, tmp_path: Path) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.hear(NOW)
        one.shared_model.prepare(lambda: HISTORY)
        (entry,) = one.ledger.entries()
        assert entry.guarantee.unit == "user"
        assert [method for method, _, _ in wire.sent] == ["GET"]
        for moment in (LATER, LATER + WINDOW):
            one.shared_model.tick(moment, lambda: [*HISTORY, "up-2009"])
        assert [method for method, _, _ in wire.sent].count("PUT") == 1
        assert one.ledger.entries() == (entry,)
    people, total = opened(servers)
    assert people == 1
    assert total.tolist() == contributed(servers, films, HISTORY).tolist()
    assert total.any()


def test_a_device_with_another_list_adds_what_the_leader_lists(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    many = titles_catalogue()
    (unlisted, *_) = set(many.item_ids.tolist()) - set(films.item_ids.tolist())
    one, _ = device(tmp_path / "one", servers, many)
    with closing(one):
        for moment in (NOW, LATER):
            one.shared_model.tick(moment, lambda: [*HISTORY, str(unlisted)])
        (made,) = one.shared_model.made()
        assert made.state == "sent"
        assert made.item_ids.tolist() == films.item_ids.tolist()
    _, total = opened(servers)
    assert total.tolist() == contributed(servers, films, HISTORY).tolist()


def test_a_report_whose_answer_is_lost_is_sent_again_as_it_was(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        wire.deaf = 2
        for _ in range(4):
            one.shared_model.tick(LATER + WINDOW, lambda: HISTORY)
            one.shared_model.tick(LATER + WINDOW * 2, lambda: [*HISTORY, "up-2009"])
        assert [method for method, _, _ in wire.sent].count("PUT") == 3
    people, total = opened(servers)
    assert people == 1
    assert total.tolist() == contributed(servers, films, HISTORY).tolist()


def test_traffic_is_the_same_for_an_empty_and_a_full_history(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    seen = []
    for name, history in (("full", [str(one) for one in films.item_ids[:300]]), ("empty", [])):
        one, wire = device(tmp_path / name, servers, films)
        with closing(one):
            one.shared_model.hear(NOW)
            with one.store.reading() as db:
                (due,) = db.execute("SELECT due FROM rounds").fetchone()
            assert NOW.isoformat() <= due < LATER.isoformat()
            one.shared_model.tick(LATER, lambda history=history: history)
            with one.store.reading() as db:  # the moment did not move
                assert db.execute("SELECT due FROM rounds").fetchone()[0] == due
        seen.append(wire.sent)
    assert seen[0] == seen[1]


def test_sending_does_not_wait_for_the_history(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.hear(NOW)
        one.shared_model.send_due(LATER)
        assert wire.sent[-1][0] == "PUT"
        assert len(one.ledger.entries()) == 1
    people, total = opened(servers)
    assert people == 1
    assert not total.any()


def test_it_stops_at_the_ledgers_limit_and_says_so(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.set_limit(0.01)
        one.shared_model.tick(LATER, lambda: HISTORY)
        assert "limit" in one.shared_model.part["problem"]
        one.shared_model.tick(LATER + WINDOW, lambda: HISTORY)
        assert not [method for method, _, _ in wire.sent if method == "PUT"]
        assert not one.ledger.entries()


@pytest.mark.parametrize("which", ["leader_key", "helper_key"])
def test_another_key_than_the_pinned_one_is_not_trusted(
    servers: Any, films: Catalogue, tmp_path: Path, which: str
) -> None:
    stranger = {which: verifying_key(new_signing_key()).hex()}
    one, wire = device(tmp_path / "one", servers, films, **stranger)
    with closing(one):
        one.shared_model.tick(LATER, lambda: HISTORY)
        assert "not trusted" in one.shared_model.part["problem"]
        assert [method for method, _, _ in wire.sent] == ["GET"]
        with pytest.raises(Refusal, match="same key"):
            one.shared_model.join(TASK, stranger[which], stranger[which])
        with pytest.raises(InputError, match="64 figures"):
            one.shared_model.join(TASK, "12", stranger[which])


def test_nothing_leaves_before_its_entry_and_a_crash_does_not_seal_anew(
    servers: Any, films: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.hear(NOW)
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "spend", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                one.shared_model.prepare(lambda: HISTORY)
        sealed = one.shared_model.sealed(TASK, 0)
        assert sealed
        one.shared_model.tick(LATER, lambda: [])
        assert one.shared_model.sealed(TASK, 0) == sealed
        assert len(one.ledger.entries()) == 1
        assert wire.sent[-1][0] == "PUT"
    _, total = opened(servers)
    assert total.tolist() == contributed(servers, films, HISTORY).tolist()


def test_what_is_erased_does_not_send_twice_and_who_leaves_sends_nothing(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.hear(NOW)  # and not `tick`, which sends where the moment drawn is this one
        one.shared_model.prepare(lambda: HISTORY)
        server, certificate = one.account["url"], one.account["certificate"]
        part = one.shared_model.part
        one.erase()
        one.use_server(server, certificate)
        one.shared_model.join(TASK, part["leader_key"], part["helper_key"])
        one.shared_model.tick(LATER, lambda: HISTORY)
        with one.store.changing() as db:
            db.execute("DELETE FROM rounds")  # and as a copy of the store would be
        one.shared_model.tick(LATER, lambda: HISTORY)
        one.shared_model.tick(LATER + timedelta(days=9), lambda: HISTORY)
        assert not [method for method, _, _ in wire.sent if method == "PUT"]
        assert len(one.ledger.entries()) == 1
    other, wire = device(tmp_path / "other", servers, films)
    with closing(other):
        other.shared_model.hear(NOW)
        other.shared_model.prepare(lambda: HISTORY)
        other.shared_model.leave()
        other.shared_model.tick(LATER, lambda: HISTORY)
        assert not [method for method, _, _ in wire.sent if method == "PUT"]


def test_operators_lead_a_task_to_its_model(servers: Any, films: Catalogue, tmp_path: Path) -> None:
    leader, helper, _ = servers
    devices = [device(tmp_path / str(number), servers, films)[0] for number in range(3)]
    with pytest.raises(InputError, match="collect it first"):
        start(leader)
    told: dict[str, Any] = {}
    while "model" not in told:
        for one in devices:
            one.set_limit(100)
            one.shared_model.hear(NOW)
            one.shared_model.tick(LATER, lambda: HISTORY)
        told = shared_model.collect(leader.settings, TASK)
        assert told["people"] == 3
        if "model" not in told:
            assert start(leader, epsilon=77.0)["state"] == "open"
    for one in devices:
        total = one.ledger.total()["user"]
        assert total.epsilon == pytest.approx(1, abs=1e-6)  # whatever was said later
        one.close()
    from epicrec.models import load

    model = load(told["model"])
    assert model.guarantee.epsilon == pytest.approx(1, abs=1e-6)
    assert np.isfinite(model._scores(one_history(films.item_ids, HISTORY))).all()
    with pytest.raises(InputError, match="finished"):
        start(leader)
    with pytest.raises(InputError, match="by the leader"):
        shared_model.start(helper.settings, TASK, epsilon=1.0, delta=1e-5, most=3)
    found = shared_model.status(leader.settings)
    assert {one["state"] for one in found["rounds"]} == {"finished"}
    assert found["key"] == leader.service.shared_model.key.hex()


# ---- what comes out of it ---------------------------------------------------------------------


def everyone(films: Catalogue, people: int) -> Any:
    histories = load_dataset("films").ratings.as_history().with_items(films.item_ids)
    return histories.users_at(np.arange(people))


def test_over_the_network_the_model_is_that_of_the_evaluation_to_the_last_bit(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    """And every device has it from signed results alone, and ranks with it."""
    leader, people = servers[0], everyone(films, 12)
    shared_model.abort(leader.settings, TASK)
    task = "trained"
    devices = []
    for user in range(people.n_users):
        one, wire = device(tmp_path / str(user), servers, films)
        one.set_limit(100)
        part = one.shared_model.part
        one.shared_model.join(task, part["leader_key"], part["helper_key"])
        items = people.item_ids[people.items[people.indptr[user] : people.indptr[user + 1]]]
        devices.append((one, wire, [str(item) for item in items]))
    told: dict[str, Any] = {}
    moment = NOW
    while "model" not in told:
        shared_model.start(leader.settings, task, epsilon=90.0, delta=1e-5, most=100)
        for one, _, items in devices:
            one.shared_model.tick(moment, lambda items=items: items)
            one.shared_model.tick(moment + WINDOW, list)
        assert one.shared_results.model() is None
        number = one.shared_results.rounds
        leader.service.shared_model.leader.collect(task, number, servers[2])  # with seeded noise
        told = shared_model.collect(leader.settings, task)
        moment += WINDOW + EVERY
    expected = Collective(epsilon=90.0, delta=1e-5, most=100, seed=2).fit(people, films)
    assert expected.factors_.shape[1] > 0
    for one, wire, items in (devices[0], devices[-1]):
        one.history.add(items)
        assert one.refresh() == ""
        asked = len(wire.sent)
        found = one.shared_results.model()
        assert found is not None
        assert set(found.people) == {12}
        for name in ("offsets_", "factors_", "projections_"):
            assert_array_equal(getattr(found.model, name), getattr(expected, name))
        rows = one.for_you()
        assert rows.shared_model is found
        assert rows.rows[0].cards
        assert one.for_you(compare=True).shared_model is None
        one.shared_results.refresh()
        assert not [path for _, path, _ in wire.sent[asked:] if "/tasks/" in path], "all is here"
        results = [at for at, one in enumerate(wire.sent) if one[1].endswith("/result")]
        assert not any(wire.named[at] for at in results)
    one.shared_model.leave()
    assert one.for_you().shared_model is None
    for one, _, _ in devices:
        one.close()


def forgeries(true: Taught) -> dict[str, bytes]:
    result = true.result
    altered = Result(
        result.parameters, result.people, result.total + 1, result.leader, result.helper
    )
    alone = Result(result.parameters, result.people, result.total, result.leader, result.leader)
    return {
        "another sum": Taught(altered, true.published).encoded(),
        "one signature": Taught(alone, true.published).encoded(),
        "another basis": encode(result.encoded(), true.published + b"x"),
        "nothing": b"",
    }


def test_a_result_that_not_both_signed_is_not_kept(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    leader = servers[0]
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        shared_model.collect(leader.settings, TASK)
        own = leader.service.shared_model.leader.round(TASK, 0)
        true = Taught.from_encoded(leader.client().get(f"/tasks/{TASK}/rounds/0/result").content)
        assert own.people == true.result.people
        for wire.forged in forgeries(true).values():
            with pytest.raises(Refusal):
                one.shared_results.refresh()
            assert one.shared_results.rounds == 0
            one.shared_model.tick(NOW, list)
            assert "not trusted" in one.shared_model.part["problem"]
            part = one.shared_model.part
            one.shared_model.join(TASK, part["leader_key"], part["helper_key"])
        wire.forged = None
        one.shared_results.refresh()
        assert one.shared_results.people() == [0]
        assert one.shared_results.model() is None  # there are more rounds to come
        kept = one.folder / "common" / "round-0"
        kept.write_bytes(forgeries(true)["another sum"])
        one.shared_results._kept = None
        assert one.shared_results.model() is None
        assert "not signed" in one.shared_results.problem


def test_one_round_only_or_none_at_all(servers: Any, films: Catalogue, tmp_path: Path) -> None:
    leader = servers[0]
    for rounds, reports in (("one", 1), ("none", 0)):
        made, wire = device(tmp_path / rounds, servers, films)
        with closing(made):
            part = made.shared_model.part
            made.shared_model.join(TASK, part["leader_key"], part["helper_key"], rounds=rounds)
            for moment in (NOW, LATER, LATER + WINDOW):
                made.shared_model.tick(moment, lambda: HISTORY)
            assert made.shared_model.part["rounds"] == "none"
            if rounds == "one":
                shared_model.collect(leader.settings, TASK)
                start(leader)
                for moment in (LATER + WINDOW * 2, LATER + WINDOW * 3):
                    made.shared_model.tick(moment, lambda: HISTORY)
                assert made.shared_results.rounds == 1
            assert [method for method, _, _ in wire.sent].count("PUT") == reports


def test_a_round_that_costs_more_than_was_agreed_to_gets_no_report(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    leader = servers[0]
    agreed = leader.service.shared_model.leader.round(TASK, 0).parameters
    one, wire = device(tmp_path / "dear", servers, films)
    with closing(one):
        part = one.shared_model.part
        one.shared_model.join(TASK, part["leader_key"], part["helper_key"], mu=agreed.mu * 0.99)
        one.shared_model.tick(NOW, lambda: HISTORY)
        assert "costs more" in one.shared_model.part["problem"]
    two, wire = device(tmp_path / "many", servers, films)
    with closing(two):
        two.shared_model.tick(NOW, lambda: HISTORY)
        shared_model.collect(leader.settings, TASK)
        own, link = leader.service.shared_model.leader, servers[2]
        helper = servers[1].service.shared_model.helper
        more = replace(agreed, round=1, share=Fraction(1))
        with pytest.raises(Refusal, match="more rounds"):  # a helper refuses it, too
            own.start(more, published_of(leader), link)
        helper._check = lambda *_: None
        own.start(more, published_of(leader), link)
        two.shared_model.tick(NOW + EVERY, lambda: HISTORY)
        assert "more rounds" in two.shared_model.part["problem"]
        assert len(two.ledger.entries()) == 1
        assert not [method for method, _, _ in wire.sent if method == "PUT"]


def test_looking_at_a_training_names_nobody_and_trusts_nobody(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    leader, helper = servers[:2]
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.leave()
        key = helper.service.shared_model.key.hex()
        offer = one.shared_model.look(TASK, key)
        assert offer.open
        assert offer.leader_key == leader.service.shared_model.key.hex()
        assert one.shared_model.part is None, "looking is not taking part"
        one.shared_model.join(TASK, offer.leader_key, key, mu=offer.parameters.mu)
        one.shared_model.tick(NOW, lambda: HISTORY)
        (made,) = one.shared_model.made()
        assert len(made.report) == offer.size
        one.shared_model.leave()
        for wrong, says in (
            (verifying_key(new_signing_key()).hex(), "not signed"),
            (offer.leader_key, "same key"),
            ("12", "64 figures"),
        ):
            with pytest.raises(EpicrecError, match=says):
                one.shared_model.look(TASK, wrong)
        with pytest.raises(InputError, match="no round of a task"):
            one.shared_model.look("another", key)
        shared_model.collect(leader.settings, TASK)
        assert not one.shared_model.look(TASK, key).open
        assert not any(wire.named)
    certificate = (Path(helper.settings.data) / "tls" / "ca.pem").read_text()
    with (
        closing(Device(tmp_path / "two", films, server=helper.url, certificate=certificate)) as two,
        pytest.raises(InputError, match="leads no common model"),
    ):
        two.shared_model.look(TASK, key)


def test_what_can_be_looked_at_is_what_both_servers_would_open(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, _ = device(tmp_path / "one", servers, films)
    with closing(one):
        for moment in (NOW, LATER):
            one.shared_model.tick(moment, lambda: HISTORY)
        (made,) = one.shared_model.made()
    assert made.state == "sent"
    report = Report.from_encoded(made.report)
    opened_: dict[str, Any] = {}
    for role, server in zip(("leader", "helper"), servers, strict=False):
        own = server.service.shared_model.aggregator
        announcement = own.round(TASK, 0).announcement
        key = opener(RoundSecret.from_encoded(own.keys.get(TASK, 0)).sealing)
        share = open_share(announcement, role, key, report)
        opened_[role] = announcement.parameters.proofs.vector(NUMBERS[role], share)
    assert made.cut.leader.tolist() == opened_["leader"].tolist()
    assert made.cut.helper.tolist() == opened_["helper"].tolist()
    assert made.cut.numbers.tolist() == contributed(servers, films, HISTORY).tolist()


def test_a_round_that_is_given_up_by_both_costs_nothing_and_by_one_all_of_it(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    leader, helper, link = servers
    one, _ = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.tick(NOW, lambda: HISTORY)
        (cost,) = one.ledger.total().values()
        leader.service.shared_model.leader.abort(encode(TASK, 0))
        one.shared_model.tick(NOW + EVERY, lambda: HISTORY)
        assert one.ledger.total()["user"] == cost, "the leader alone may say what it likes"
        told = shared_model.abort(leader.settings, TASK)
        assert told["state"] == "aborted"
        assert told["signed by both"]
        for role, server in (("leader", leader), ("helper", helper)):
            assert getattr(server.service.shared_model, role).round(TASK, 0).state == "aborted"
        one.shared_model.tick(LATER, lambda: HISTORY)
        (made,) = one.shared_model.made()
        assert made.state == "returned"
        assert [entry.returned for entry in one.ledger.entries()] == [False, True]
        assert one.ledger.total() == {}
        one.shared_model.tick(LATER + EVERY, lambda: HISTORY)
        assert len(one.ledger.entries()) == 2
    assert shared_model.abort(leader.settings, TASK)["state"] == "aborted"
    with pytest.raises(InputError, match="given up"):
        start(leader)
    with pytest.raises(Refusal):
        leader.service.shared_model.leader.collect(TASK, 0, link)
    with pytest.raises(InputError, match="no task"):
        shared_model.abort(leader.settings, "another")
    shared_model.start(leader.settings, "another", epsilon=1.0, delta=1e-5, most=9)
    assert shared_model.abort(helper.settings, "another")["state"] == "aborted"
    with pytest.raises(Refusal):
        shared_model.collect(leader.settings, "another")


def test_an_end_that_other_servers_signed_returns_nothing(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    """A person who goes on to other servers: those cannot give back what these may have seen."""
    leader = servers[0]
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.shared_model.tick(NOW, lambda: HISTORY)
        given = leader.service.shared_model.leader.round(TASK, 0).announcement
        keys = new_signing_key(), new_signing_key()
        signed = [sign(key, abort_message(given)) for key in keys]
        wire.aborted = Aborted(given, *signed).encoded()
        one.shared_model.tick(NOW + EVERY, lambda: HISTORY)
        assert "not trusted" in one.shared_model.part["problem"]
        one.shared_model.join(TASK, *(verifying_key(key).hex() for key in keys))
        one.shared_model.take_back()
        assert [entry.returned for entry in one.ledger.entries()] == [False]
