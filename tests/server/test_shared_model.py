"""Leader and helper as two servers over HTTPS, and the book as tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from epicrec.collective.helper import Helper
from epicrec.collective.keys import RoundSecret, new_signing_key, verifying_key
from epicrec.collective.leader import Leader, two_servers
from epicrec.collective.messages import PROBLEM, Refusal, byte_fields, encode
from epicrec.collective.results import Aborted, Result, released, seeded
from epicrec.collective.rounds import Job, MemoryKeys
from epicrec.collective.shares import Announcement, Report, make_report
from epicrec.errors import EpicrecError, InputError
from epicrec.server import Settings, serve, shared_model
from epicrec.server.shared_model import (
    SIGNATURE,
    HelperOverHttps,
    SharedModelServer,
    runtime_folder,
    signing_key,
)
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


def test_a_helper_is_nothing_else(both: Any) -> None:
    """No registration, no recommender; its operator still sees its health and its rounds."""
    leader, helper, link = both
    anybody = helper.client()
    for path in ("/api/recommend/one", "/api/items", "/api/users", "/api/feedback", "/api/model"):
        assert anybody.get(path).status_code == 404, path
    assert anybody.post("/api/register", json={}).status_code == 404
    assert anybody.get("/api/health/ready").status_code == 200
    assert "epicrec_round_state" not in helper.admin.get("/metrics").text
    own = leader.service.shared_model.leader
    announcement = own.start(parameters(), PUBLISHED, link).announcement
    for _ in range(3):
        send(own, announcement, ZEROS)
    broken = make_report(announcement, ZEROS)
    own.upload("films", 0, replace(broken, helper=bytes(len(broken.helper))))
    own.collect("films", 0, link)
    for server in (leader, helper):
        told = server.admin.get("/metrics").text
        assert "\nepicrec_round_state 5.0" in told
        assert "\nepicrec_round_accepted 3.0" in told
        reason = "unreadable" if server is helper else "refused_by_the_helper"
        assert f"\nepicrec_round_{reason} 1.0" in told


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
        serve(
            check=True, data=str(tmp_path), http=True, role="helper", other_key=key,
            runtime=str(tmp_path / "run"),
        )  # fmt: skip


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
    leader = Leader(
        SqlStore(other), MemoryKeys(), keys[0], verifying_key(keys[1]), noise=seeded("leader", 6)
    )
    helper = Helper(
        SqlStore(database), MemoryKeys(), keys[1], verifying_key(keys[0]), noise=seeded("helper", 6)
    )
    announcement = open_round(leader, helper)
    ids = [send(leader, announcement, ZEROS + 2).id for _ in range(3)]
    result = leader.collect("films", 0, helper)
    assert result.people == 3
    assert result.total.tolist() == released(announcement.parameters, ZEROS + 6, seed=6).tolist()
    with helper.store.transaction() as book:
        assert book.burnt([*ids, bytes(16)]) == set(ids)
        assert book.jobs("films", 0) == 1
        assert book.reports("films", 0, b"", 10) == []
        assert book.count("films", 0) == 3
        assert book.published("films", 0) == PUBLISHED
        assert book.tasks() == [("films", 0)]
        assert book.last_round("songs") == -1
    other.stop()


def test_a_failed_transaction_leaves_nothing_in_the_tables(database: Database) -> None:
    store = SqlStore(database)

    def fail() -> None:
        with store.transaction() as book:
            book.burn([b"1" * 16])
            book.open("films", 0, 3)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    every = [bytes([n]) * 16 for n in range(256)]
    with store.transaction() as book:
        assert book.burnt(every) == set()
        assert book.count("films", 0) == 0
        assert not book.take_places("films", 0, 1)
        book.burn(every)
        book.burn(every[:3])
        assert book.burnt([*every, b"another"]) == set(every)
        assert book.admit("films", 0, b"token", b"1")
        assert book.admit("films", 0, b"token", b"1")
        assert not book.admit("films", 0, b"token", b"2")


def test_places_reports_and_batches_in_the_tables(database: Database) -> None:
    store = SqlStore(database)
    reports = [Report(bytes([n]) * 16, b"public", b"leader", b"helper") for n in range(5)]
    with store.uploading() as book:
        book.open("films", 0, 5)
        assert book.take_places("films", 0, 4)
        assert not book.take_places("films", 0, 2)
        assert book.take_places("films", 0, 1)
        book.add_reports("films", 0, reports[::-1])
    with store.reading() as book:
        assert book.reports("films", 0, b"", 2) == reports[:2]
        assert book.reports("films", 0, reports[1].id, 9) == reports[2:]
        assert book.report("films", 0, reports[3].id) == reports[3]
        assert book.report("films", 1, reports[3].id) is None
    with store.transaction() as book:
        book.drop_reports("films", 0, [reports[0].id])
        assert book.reports("films", 0, b"", 1) == reports[1:2]
        for index in range(2):
            assert book.jobs("films", 0) == index
            book.add_job("films", 0, index, Job(b"asked", bytes([index])))
        assert book.job("films", 0, 1) == Job(b"asked", b"\x01")
        assert book.job("films", 0, 2) is None
        book.open("films", 0, 0)
        assert not book.take_places("films", 0, 1)
        assert book.count("films", 0) == 5
        book.forget("films", 0)
        assert book.reports("films", 0, b"", 1) == []


# ---- nothing comes back -----------------------------------------------------------------------


def restart(server: Running) -> Running:
    """The same server again, as after a reboot."""
    server.stop()
    again = Running(server.settings)
    again.start()
    return again


def test_a_reboot_ends_an_open_round_and_says_so(tmp_path: Path) -> None:
    with two_running(tmp_path) as (leader, _, link):
        own = leader.service.shared_model.leader
        announcement = own.start(parameters(), PUBLISHED, link).announcement
        send(own, announcement, ZEROS)
        shutil.rmtree(tmp_path / "run")
        anybody = leader.client()
        assert problem(anybody.get("/tasks/films/round")) == "unrecognizedTask"
        with pytest.raises(Refusal, match="started again"):
            own.collect("films", 0, link)
        told = shared_model.status(leader.settings)["rounds"]
        assert [one["reports"] for one in told] == [1]
        assert [one["state"] for one in told] == ["lost"]
        assert problem(anybody.get("/tasks/films/rounds/0/abort")) == "stepMismatch"
        leader = restart(leader)
        assert leader.service.shared_model.leader.round("films", 0).state == "aborted"
        told = shared_model.abort(leader.settings, "films")
        assert told["state"] == "aborted"
        assert not told["signed by both"], "who cannot destroy its key cannot know"
        anybody = leader.client()
        assert problem(anybody.get("/tasks/films/rounds/0/abort")) == "stepMismatch"
        leader.stop()


def test_an_abort_by_both_is_open_to_anybody(both: Any) -> None:
    leader, helper, link = both
    own = leader.service.shared_model.leader
    announcement = own.start(parameters(), PUBLISHED, link).announcement
    assert shared_model.abort(leader.settings, "films")["signed by both"]
    found = Aborted.from_encoded(leader.client().get("/tasks/films/rounds/0/abort").content)
    found.check(leader.service.shared_model.key, helper.service.shared_model.key)
    assert found.announcement == announcement


def test_keys_are_in_the_runtime_folder_and_nowhere_else(tmp_path: Path) -> None:
    with two_running(tmp_path) as (leader, _, link):
        own = leader.service.shared_model.leader
        announcement = own.start(parameters(), PUBLISHED, link).announcement
        send(own, announcement, ZEROS)
        files = sorted((tmp_path / "run").rglob("*.key"))
        assert len(files) == 2
        kept = [RoundSecret.from_encoded(file.read_bytes()) for file in files]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        for role in ("leader", "helper"):
            for file in (tmp_path / role).rglob("*"):
                content = file.read_bytes() if file.is_file() else b""
                for secret in kept:
                    assert secret.sealing[:64] not in content
                    assert secret.sealing[64:] not in content
                    assert secret.half not in content
        assert own.collect("films", 0, link).people == 1
        assert not list((tmp_path / "run").rglob("*.key"))


def restored_helper(folder: Path, helper: Running, runtime: Path) -> Helper:
    """A helper on a copy of another's data."""
    settings = replace(helper.settings, data=str(folder), runtime=str(runtime))
    found = SharedModelServer(settings, Database(settings.database_url)).helper
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["backup", "folder", "database file"])
def test_a_restored_helper_cannot_open_or_add_up_anything_again(tmp_path: Path, kind: str) -> None:
    """Copied in the open round and put back when it is over, on the same machine and another."""
    with two_running(tmp_path) as (leader, helper, link):
        own = leader.service.shared_model.leader
        announcement = own.start(parameters(), PUBLISHED, link).announcement
        send(own, announcement, ZEROS)
        copied = tmp_path / "copied"

        class Copying:
            """In the round's last moment: verified, and about to be added up."""

            def __getattr__(self, name: str) -> Any:
                return getattr(link, name)

            def aggregate(self, message: bytes) -> bytes:
                if kind == "backup":
                    serve(backup=tmp_path / "backup", data=str(tmp_path / "helper"))
                    serve(restore=tmp_path / "backup", data=str(copied))
                elif kind == "folder":
                    shutil.copytree(tmp_path / "helper", copied)
                else:
                    copied.mkdir(mode=0o700)
                    for file in (tmp_path / "helper").glob("epicrec.sqlite*"):
                        shutil.copy2(file, copied)
                    shutil.copy2(tmp_path / "helper" / "collective.key", copied)
                return bytes(link.aggregate(message))

        assert own.collect("films", 0, Copying()).people == 1
        for runtime in (tmp_path / "run", tmp_path / "elsewhere"):
            restored = restored_helper(copied, helper, runtime)
            assert restored.round("films", 0).state == "verified"
            assert restored.is_lost(restored.round("films", 0))
            with pytest.raises(Refusal, match="restored from a backup"):
                restored.aggregate(encode("films", 0))
            with pytest.raises(Refusal):
                restored.verify(encode("films", 0, bytes(32), (1).to_bytes(4, "big")))


def test_a_restored_postgresql_dump_cannot_add_up_again(
    postgresql: Any, postgresql_control: Any
) -> None:
    urls = [postgresql().replace("postgresql://", "postgresql+psycopg://") for _ in range(2)]
    databases = [Database(url) for url in urls]
    databases[0].migrate()
    own, other = new_signing_key(), new_signing_key()
    keys = MemoryKeys()
    helper = Helper(SqlStore(databases[0]), keys, own, verifying_key(other))
    leader, _ = two_servers()
    leader = Leader(leader.store, leader.keys, other, verifying_key(own))
    announcement = open_round(leader, helper)
    send(leader, announcement, ZEROS)
    dump = f"/tmp/{Path(urls[0]).name}.dump"

    class Dumping:
        def __getattr__(self, name: str) -> Any:
            return getattr(helper, name)

        def aggregate(self, message: bytes) -> bytes:
            postgresql_control("pg_dump", "-Fc", "-f", dump, "-d", Path(urls[0]).name)
            postgresql_control("pg_restore", "-d", Path(urls[1]).name, dump)
            return helper.aggregate(message)

    assert leader.collect("films", 0, Dumping()).people == 1
    restored = Helper(SqlStore(databases[1]), keys, own, verifying_key(other))
    assert restored.round("films", 0).state == "verified"
    with pytest.raises(Refusal, match="restored from a backup"):
        restored.aggregate(encode("films", 0))
    for database in databases:
        database.stop()
    Path(dump).unlink()


def test_a_server_without_a_runtime_folder_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="in memory"):
        runtime_folder(Settings(data=str(tmp_path)))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert runtime_folder(Settings(data=str(tmp_path))) == Path("/run/user/7/epicrec")
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/epicrec-one:/run/more")
    assert runtime_folder(Settings(data=str(tmp_path))) == Path("/run/epicrec-one")
    assert runtime_folder(Settings(runtime="/run/own")) == Path("/run/own")
