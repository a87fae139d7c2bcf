"""Leader and helper as two servers over HTTPS, and the book as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from epicrec.collective.helper import Helper
from epicrec.collective.in_process import released, seeded
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.leader import Leader
from epicrec.collective.messages import PROBLEM, Refusal, byte_fields, encode
from epicrec.collective.results import Result
from epicrec.collective.shares import Announcement, make_report
from epicrec.errors import EpicrecError, InputError
from epicrec.server import Settings, serve
from epicrec.server.shared_model import SIGNATURE, HelperOverHttps, signing_key
from epicrec.server.store.database import Database
from epicrec.server.store.shared_model_rounds import SqlStore
from rounds_of import PUBLISHED, open_round, parameters, send, vector
from server.conftest import Running, two_running

ZEROS = np.zeros(20, np.int64)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Running, Running, HelperOverHttps]]:
    with two_running(tmp_path) as found:
        yield found


def announced(device: httpx.Client) -> tuple[Announcement, bytes]:
    encoded, published = byte_fields(device.get("/tasks/films/round").content, 2)
    return Announcement.from_encoded(encoded), published


def problem(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return str(answer.json()["type"]).removeprefix(PROBLEM)


def test_a_round_over_https_opens_to_the_sum_and_both_noises(both: Any) -> None:
    leader, helper, link = both
    for role, server in (("leader", leader), ("helper", helper)):
        getattr(server.service.shared_model, role)._noise = seeded(role, 5)
    own = leader.service.shared_model.leader
    own.start(parameters(), PUBLISHED, link)
    rng, expected = np.random.default_rng(0), ZEROS.copy()
    for number in range(6):
        device = leader.register()
        announcement, published = announced(device)
        assert published == PUBLISHED
        announcement.check(leader.service.shared_model.key, helper.service.shared_model.key)
        x = vector(rng, announcement.parameters)
        report = make_report(announcement, x).encoded()
        if number:  # the first never sends
            expected += x
            for _ in range(2):
                sent = device.put("/tasks/films/rounds/0/reports", content=report)
                assert sent.status_code == 201
            other = make_report(announcement, x).encoded()
            again = device.put("/tasks/films/rounds/0/reports", content=other)
            assert problem(again) == "reportRejected"
    result = own.collect("films", 0, link)
    noises = sum(seeded(role, 5)(announcement.parameters) for role in ("leader", "helper"))
    assert result.total.tolist() == (expected + noises).tolist()
    fetched, published = byte_fields(leader.client().get("/tasks/films/rounds/0/result").content, 2)
    found = Result.from_encoded(fetched)
    found.check(leader.service.shared_model.key, helper.service.shared_model.key)
    assert found.total.tolist() == result.total.tolist()
    assert published == PUBLISHED


def test_refusals_are_problem_documents(both: Any) -> None:
    leader, helper, link = both
    anybody, device = leader.client(), leader.register()
    where = "/tasks/films/rounds/0/reports"
    assert problem(anybody.get("/tasks/films/round")) == "unrecognizedTask"
    assert problem(device.put(where, content=b"nonsense")) == "invalidMessage"
    own = leader.service.shared_model.leader
    announcement = own.start(parameters(), PUBLISHED, link).announcement
    report = make_report(announcement, ZEROS).encoded()
    assert anybody.put(where, content=report).status_code == 401
    assert leader.admin.put(where, content=report).status_code == 403
    assert problem(anybody.get("/tasks/films/rounds/0/result")) == "stepMismatch"
    own.collect("films", 0, link)
    assert problem(device.put(where, content=report)) == "reportTooLate"
    assert problem(anybody.get("/tasks/films/round")) == "unrecognizedTask"
    for server, role in ((leader, "leader"), (helper, "helper")):
        told = server.client().get("/collective/key").json()
        assert told["Role"] == role
        assert told["Fingerprint"] == server.service.shared_model.fingerprint


def test_the_helper_listens_to_its_leader_only(both: Any) -> None:
    leader, helper, link = both
    body = encode("films", 0)
    anybody = helper.client()
    assert problem(anybody.post("/aggregation/abort", content=body)) == "unauthorizedRequest"
    for signature in ("", "00" * 64, "no figures"):
        answer = anybody.post("/aggregation/abort", content=body, headers={SIGNATURE: signature})
        assert problem(answer) == "unauthorizedRequest"
    with pytest.raises(Refusal) as caught:
        link.abort(body)  # heard, and there is no such round
    assert caught.value.kind == "unrecognizedTask"
    assert helper.client().get("/tasks/films/round").status_code == 404
    assert leader.client().post("/aggregation/abort", content=body).status_code == 404


def test_the_leader_speaks_to_the_certificate_it_trusts_only(both: Any, tmp_path: Path) -> None:
    leader, _, _ = both
    wrong = replace(leader.settings, other_certificate=str(tmp_path / "leader" / "tls" / "ca.pem"))
    with pytest.raises(EpicrecError, match="CERTIFICATE"):
        HelperOverHttps(wrong).begin(b"")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"role": "judge"}, "leader"),
        ({"role": "leader"}, "other_url"),
        ({"role": "helper"}, "other_key"),
        ({"role": "helper", "other_key": "zz"}, "This server's own"),
    ],
)
def test_a_role_needs_the_other_server(tmp_path: Path, settings: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        serve(check=True, data=str(tmp_path / "one"), http=True, **settings)


def test_a_server_does_not_work_with_itself(tmp_path: Path) -> None:
    own = Settings(data=str(tmp_path))
    key = verifying_key(signing_key(own)).hex()
    with pytest.raises(EpicrecError, match="two operators"):
        serve(check=True, data=str(tmp_path), http=True, role="helper", other_key=key)


# ---- the book as tables -----------------------------------------------------------------------


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = Database(database_url.replace("postgresql://", "postgresql+psycopg://"))
    made.migrate()
    yield made
    made.stop()


def test_a_round_with_tables_on_both_sides(database: Database, tmp_path: Path) -> None:
    keys = new_signing_key(), new_signing_key()
    other = Database(f"sqlite:///{tmp_path / 'leader.sqlite'}")
    other.migrate()
    leader = Leader(SqlStore(other), keys[0], verifying_key(keys[1]), noise=seeded("leader", 6))
    helper = Helper(SqlStore(database), keys[1], verifying_key(keys[0]), noise=seeded("helper", 6))
    announcement = open_round(leader, helper)
    for _ in range(3):
        send(leader, announcement, ZEROS + 2)
    result = leader.collect("films", 0, helper)
    assert result.people == 3
    assert result.total.tolist() == released(announcement.parameters, ZEROS + 6, seed=6).tolist()
    ids = helper.round("films", 0).ids
    assert ids == leader.round("films", 0).ids
    with helper.store.transaction() as book:
        assert book.key("films", 0) is None
        assert book.burn([*ids, bytes(16)]) == {bytes(16)}
        assert book.tasks() == [("films", 0)]
        assert book.last_round("songs") == -1
    other.stop()


def test_a_failed_transaction_leaves_nothing_in_the_tables(database: Database) -> None:
    store = SqlStore(database)

    def fail() -> None:
        with store.transaction() as book:
            book.burn([b"1" * 16])
            book.keep_key("films", 0, b"key")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    with store.transaction() as book:
        assert book.key("films", 0) is None
        assert book.burn(bytes([n]) * 16 for n in range(256)) == {
            bytes([n]) * 16 for n in range(256)
        }
        assert book.burn([b"1" * 16]) == set()
        assert book.admit("films", 0, b"token", b"1")
        assert book.admit("films", 0, b"token", b"1")
        assert not book.admit("films", 0, b"token", b"2")


def test_keys_and_reports_are_in_no_backup(tmp_path: Path) -> None:
    with two_running(tmp_path) as (leader, helper, link):
        own = leader.service.shared_model.leader
        announcement = own.start(parameters(), PUBLISHED, link).announcement
        report = send(own, announcement, ZEROS)
        backup, again = tmp_path / "backup", tmp_path / "again"
        serve(backup=backup, data=str(tmp_path / "helper"))
        serve(restore=backup, data=str(again))
        job = encode("films", 0, report.id, report.helper)
        key = helper.service.shared_model.settings.other_key
        database = Database(Settings(data=str(again)).database_url)
        restored = Helper(
            SqlStore(database),
            signing_key(Settings(data=str(again))),
            bytes.fromhex(key),
        )
        assert restored.signing_key == helper.service.shared_model.helper.signing_key
        with pytest.raises(Refusal, match="restored from a backup"):
            restored.aggregate(job)
        database.stop()
        serve(backup=tmp_path / "of leader", data=str(tmp_path / "leader"))
        copied = Database(f"sqlite:///{tmp_path / 'of leader' / 'epicrec.sqlite'}")
        with SqlStore(copied).transaction() as book:
            assert book.key("films", 0) is None
            assert book.count("films", 0) == 0
        copied.stop()
        assert own.collect("films", 0, link).people == 1
