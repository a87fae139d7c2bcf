"""A device's part in a common model: one report a round, whatever happens in between."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from epicrec.client.common import WINDOW
from epicrec.client.device import Device
from epicrec.client.remote import Remote
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.refusals import Refusal
from epicrec.collective.simulation import seeded
from epicrec.collective.statistics import one_history, statistic_of
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.privacy import Ledger
from epicrec.server import operating
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
        self.deaf = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        self.sent.append((request.method, request.url.path, len(request.content)))
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
            getattr(server.service.collective, role)._noise = seeded(role, 2)
        start(leader)
        yield found


def start(leader: Any, **given: Any) -> dict[str, Any]:
    budget = {"epsilon": 1.0, "delta": 1e-5, "most": 100} | given
    return operating.start(leader.settings, TASK, **budget)


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
        "leader_key": leader.service.collective.key.hex(),
        "helper_key": helper.service.collective.key.hex(),
    }
    made.common.join(TASK, **(own | keys))
    return made, wire


def contributed(servers: Any, films: Catalogue, history: list[str]) -> Any:
    round_ = servers[0].service.collective.leader.round(TASK, 0)
    statistic = statistic_of(round_.published, films.item_ids)
    return statistic(one_history(films.item_ids, history))


def opened(servers: Any) -> Any:
    """What the round opens to, without the noises."""
    leader, _, link = servers
    result = leader.service.collective.leader.collect(TASK, 0, link)
    noises = sum(seeded(role, 2)(result.parameters) for role in ("leader", "helper"))
    return result.people, result.total - noises


def test_a_report_leaves_once_at_its_moment(servers: Any, films: Catalogue, tmp_path: Path) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.common.hear(NOW)
        one.common.prepare(lambda: HISTORY)
        (entry,) = one.ledger.entries()
        assert entry.guarantee.unit == "user"
        assert [method for method, _, _ in wire.sent] == ["GET"]
        for moment in (LATER, LATER + WINDOW):
            one.common.tick(moment, lambda: [*HISTORY, "up-2009"])
        assert [method for method, _, _ in wire.sent].count("PUT") == 1
        assert one.ledger.entries() == (entry,)
    people, total = opened(servers)
    assert people == 1
    assert total.tolist() == contributed(servers, films, HISTORY).tolist()
    assert total.any()


def test_a_report_whose_answer_is_lost_is_sent_again_as_it_was(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        wire.deaf = 2
        for _ in range(4):
            one.common.tick(LATER + WINDOW, lambda: HISTORY)
            one.common.tick(LATER + WINDOW * 2, lambda: [*HISTORY, "up-2009"])
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
            one.common.hear(NOW)
            with one.store.reading() as db:
                (due,) = db.execute("SELECT due FROM rounds").fetchone()
            assert NOW.isoformat() <= due < LATER.isoformat()
            one.common.tick(LATER, lambda history=history: history)
            with one.store.reading() as db:  # the moment did not move
                assert db.execute("SELECT due FROM rounds").fetchone()[0] == due
        seen.append(wire.sent)
    assert seen[0] == seen[1]


def test_sending_does_not_wait_for_the_history(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.common.hear(NOW)
        one.common.send_due(LATER)
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
        one.common.tick(LATER, lambda: HISTORY)
        assert "limit" in one.common.part["problem"]
        one.common.tick(LATER + WINDOW, lambda: HISTORY)
        assert not [method for method, _, _ in wire.sent if method == "PUT"]
        assert not one.ledger.entries()


@pytest.mark.parametrize("which", ["leader_key", "helper_key"])
def test_another_key_than_the_pinned_one_is_not_trusted(
    servers: Any, films: Catalogue, tmp_path: Path, which: str
) -> None:
    stranger = {which: verifying_key(new_signing_key()).hex()}
    one, wire = device(tmp_path / "one", servers, films, **stranger)
    with closing(one):
        one.common.tick(LATER, lambda: HISTORY)
        assert "not trusted" in one.common.part["problem"]
        assert [method for method, _, _ in wire.sent] == ["GET"]
        with pytest.raises(Refusal, match="same key"):
            one.common.join(TASK, stranger[which], stranger[which])
        with pytest.raises(InputError, match="64 figures"):
            one.common.join(TASK, "12", stranger[which])


def test_nothing_leaves_before_its_entry_and_a_crash_does_not_seal_anew(
    servers: Any, films: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.common.hear(NOW)
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "spend", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                one.common.prepare(lambda: HISTORY)
        sealed = one.common.sealed(TASK, 0)
        assert sealed
        one.common.tick(LATER, lambda: [])
        assert one.common.sealed(TASK, 0) == sealed
        assert len(one.ledger.entries()) == 1
        assert wire.sent[-1][0] == "PUT"
    _, total = opened(servers)
    assert total.tolist() == contributed(servers, films, HISTORY).tolist()


def test_what_is_erased_does_not_send_twice_and_who_leaves_sends_nothing(
    servers: Any, films: Catalogue, tmp_path: Path
) -> None:
    one, wire = device(tmp_path / "one", servers, films)
    with closing(one):
        one.common.tick(NOW, lambda: HISTORY)
        server, certificate = one.account["url"], one.account["certificate"]
        part = one.common.part
        one.erase()
        one.use_server(server, certificate)
        one.common.join(TASK, part["leader_key"], part["helper_key"])
        one.common.tick(LATER, lambda: HISTORY)
        with one.store.changing() as db:
            db.execute("DELETE FROM rounds")  # and as a copy of the store would be
        one.common.tick(LATER, lambda: HISTORY)
        one.common.tick(LATER + timedelta(days=9), lambda: HISTORY)
        assert not [method for method, _, _ in wire.sent if method == "PUT"]
        assert len(one.ledger.entries()) == 1
    other, wire = device(tmp_path / "other", servers, films)
    with closing(other):
        other.common.tick(NOW, lambda: HISTORY)
        other.common.leave()
        other.common.tick(LATER, lambda: HISTORY)
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
            one.common.hear(NOW)
            one.common.tick(LATER, lambda: HISTORY)
        told = operating.collect(leader.settings, TASK)
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
        operating.start(helper.settings, TASK, epsilon=1.0, delta=1e-5, most=3)
    found = operating.status(leader.settings)
    assert {one["state"] for one in found["rounds"]} == {"finished"}
    assert found["key"] == leader.service.collective.key.hex()
