"""Whatever goes wrong: a page that says what happened and where to go on, and nothing lost."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from errno import ENOSPC
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from client.conftest import Pages, Served, showing
from epicrec.client import store
from epicrec.client import vault as vaults
from epicrec.client.device import Device
from epicrec.client.history import History
from epicrec.client.sending.remote import Remote, RemoteError, checked_url
from epicrec.client.sending.schedule import next_moment, next_try, run_due, set_schedule
from epicrec.client.sending.shared_model_reports import SharedModelReports
from epicrec.client.web import app, jobs
from epicrec.client.web.app import Clock
from epicrec.client.web.jobs import Job
from epicrec.errors import InputError
from loopback import PATIENCE

HUGE = "9" * 30


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Pages]:
    with showing(tmp_path / "client") as pages:
        yield pages


def is_a_page(answer: httpx.Response) -> bool:
    """Ours, with a heading and a way on, and no bare text."""
    return "<h1>" in answer.text and "<a " in answer.text and 'lang="en"' in answer.text


def test_what_nobody_foresaw_has_a_page(
    alone: Pages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: History) -> int:
        raise RuntimeError("a cog broke")

    with monkeypatch.context() as patch:
        patch.setattr(History, "count", fail)
        answer = alone.http.get("/")
    assert answer.status_code == 500
    assert is_a_page(answer)
    assert "went wrong in EpicRec itself" in answer.text
    assert "a cog broke" in answer.text, "something to report"
    assert "a cog broke" in capsys.readouterr().err
    assert alone.http.get("/").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/preview/draw", 405), ("POST", "/ledger", 405),
     ("GET", f"/history?page={HUGE}", 400), ("GET", "/history?page=-1", 400),
     ("GET", f"/import/{HUGE}", 400), ("POST", f"/import/{HUGE}/keep", 400),
     ("POST", f"/import/{HUGE}/undo", 400), ("GET", "/release/nothing", 400)],
)  # fmt: skip
def test_no_address_is_answered_by_a_bare_error(
    alone: Pages, method: str, path: str, status: int
) -> None:
    answer = alone.http.request(method, path)
    assert answer.status_code == status
    assert is_a_page(answer)


@pytest.mark.parametrize("limit", ["1e999", "nan", "-1", HUGE, "0", "9" * 5000])
def test_huge_numbers_in_a_form(alone: Pages, limit: str) -> None:
    answer = alone.http.post("/privacy", data={"limit": limit})
    assert answer.status_code == 400
    assert is_a_page(answer)
    assert alone.device.ledger.limit_epsilon == 4


def test_more_fields_than_a_form_has(alone: Pages) -> None:
    answer = alone.http.post("/history/evidence", content="&".join(["a=1"] * 30_000))
    assert answer.status_code == 500
    assert is_a_page(answer)


def test_whoever_is_not_let_in_gets_a_page_too(alone: Pages) -> None:
    named = {"Host": f"{alone.door.name}:{alone.door.port}"}
    for headers in ({"Host": "evil.example"}, named):
        answer = httpx.get(f"{alone.entrance}/history", headers=headers, timeout=PATIENCE)
        assert answer.status_code in (403, 421)
        assert is_a_page(answer)
        assert f'href="{alone.entrance}/"' in answer.text


# ---- the disk -----------------------------------------------------------------------------


def test_a_full_disk_loses_nothing_and_says_so(alone: Pages) -> None:
    db = alone.device.store._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
    lines = "".join(f'"Some Film With A Long Title {k}","5/31/2024"\n' for k in range(2_000))
    files = {"file": ("h.csv", f"Title,Date\n{lines}".encode(), "text/csv")}
    refused = alone.http.post("/sources/file", files=files)
    assert refused.status_code == 500
    assert "disk is full" in refused.text
    assert alone.device.imports.batches() == []
    db.execute("PRAGMA max_page_count = 100000")
    assert alone.http.post("/sources/file", files=files).url.path.startswith("/import/")
    assert len(alone.device.imports.batches()) == 1
    assert not db.in_transaction, "it is on the disk"


def test_a_full_disk_under_a_passphrase(alone: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.device.store.seal("four words are better")

    def full(*_: Any) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(vaults, "write_private", full)
        assert "disk is full" in alone.http.post("/example").text
    assert alone.device.history.count() == 0, "what is not on the disk did not happen"
    alone.http.post("/example")
    _, content = vaults.Vault.open(alone.device.folder / store.SEALED, "four words are better")
    with closing(store._in_memory(content)) as db:
        (kept,) = db.execute("SELECT count(*) FROM viewings").fetchone()
    assert kept == alone.device.history.count() > 0


def test_a_damaged_store_has_a_page_and_a_way_on(tmp_path: Path) -> None:
    folder = tmp_path / "client"
    with showing(folder) as before:
        before.http.post("/example")
    file = folder / store.PLAIN
    content = bytearray(file.read_bytes())
    content[4096 : len(content) : 50] = b"\xff" * len(range(4096, len(content), 50))
    file.write_bytes(content)
    with showing(folder) as pages:
        for path in ("/", "/history", "/for-you"):
            answer = pages.http.get(path)
            assert "Your history cannot be read" in answer.text, path
        begun = pages.http.post("/begin-anew")
        assert begun.status_code == 200
        assert "begins anew" in begun.text
        assert pages.http.post("/example").status_code == 200
    (aside,) = folder.glob("damaged-*")
    assert (aside / store.PLAIN).read_bytes() == content
    with showing(folder) as again:
        assert again.device.history.count() > 0


def test_a_damaged_ledger_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client/ledger.jsonl").write_bytes(b"{}\n")
    with showing(tmp_path / "client") as pages:
        answer = pages.http.get("/")
        assert "The ledger cannot be read" in answer.text
        assert "begin-anew" not in answer.text, "what was spent is not forgotten by a press"
        pages.http.post("/begin-anew")
    assert (tmp_path / "client/ledger.jsonl").exists()


# ---- the server ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["https://films..example.org", "https://[::1", "https://a:99999", "https://" + "a" * 300,
            "ftp://a", "https://", "http://example.org"],
)  # fmt: skip
def test_an_impossible_address_is_not_kept(alone: Pages, url: str) -> None:
    answer = alone.http.post("/server", data={"url": url})
    assert answer.status_code == 400
    assert url in answer.text, "the person can mend it"
    assert alone.device.account is None
    with pytest.raises(InputError, match=r"address|https"):
        checked_url(url)


def test_a_server_that_does_not_answer_is_not_kept(pages: Pages, publishing: Served) -> None:
    answer = pages.http.post("/server", data={"url": "http://127.0.0.1:9"})
    assert "cannot be reached" in answer.text
    assert (pages.device.account or {})["url"] == publishing.url


def test_an_impossible_address_of_an_older_version_harms_no_page(alone: Pages) -> None:
    bad = {"url": "https://films..example.org", "certificate": "", "user_id": "", "secret": ""}
    alone.device.store.set(server=bad)
    answer = alone.http.get("/for-you")
    assert answer.status_code == 200
    assert answer.text.count("no server&#39;s address") == 1


class _Slow:
    """A line to a server that answers when it is told to."""

    def __init__(self, served: Served) -> None:
        self.served, self.go = served, threading.Event()

    def dial(self, url: str, **options: Any) -> Remote:
        assert self.go.wait(PATIENCE)
        return self.served.dial(url, **options)


def test_a_slow_server_keeps_no_page_waiting(
    pages: Pages, publishing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = _Slow(publishing)
    monkeypatch.setattr(jobs, "PATIENCE", 0.05)
    monkeypatch.setattr("epicrec.client.ranking.item_model._QUICK", 0.05)
    monkeypatch.setattr(pages.device.accounts, "_dial", slow.dial)
    pages.http.post("/example")
    waiting = pages.http.get("/for-you")
    assert waiting.text.count('<li class="film"') > 50
    assert "Fetching what the server has" in waiting.text
    pages.http.post("/preview/draw")
    assert pages.state.jobs["draw"].wait(PATIENCE)
    (stored,) = pages.device.releases.unsent()
    for _ in range(3):  # a double click is one sending
        sending = pages.http.post(f"/release/{stored.id}/send")
        assert "<progress" in sending.text
    assert pages.http.get("/history").status_code == 200
    slow.go.set()
    assert pages.state.jobs[f"send-{stored.id}"].wait(PATIENCE)
    sent = pages.http.get(f"/working/send-{stored.id}")
    assert sent.url.path == "/for-you"
    assert "Sent, exactly as shown" in sent.text
    pages.device.published.settle()
    assert "Ranked on this device" in pages.http.get("/for-you").text
    puts = [request for request in publishing.seen if request.method == "PUT"]
    assert [request.content for request in puts] == [pages.device.releases.get(stored.id).payload]
    publishing.seen.clear()


def test_an_error_is_shown_once(tmp_path: Path) -> None:
    with showing(tmp_path / "client", server="http://127.0.0.1:9") as pages:
        assert pages.http.post("/for-you/refresh").text.count("cannot be reached") == 1


# ---- the clock ----------------------------------------------------------------------------


def test_the_clock_goes_on_whatever_happens(alone: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(alone.state)
    clock.stop()
    due: list[Any] = []

    def fail(*_: Any) -> bool:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(app, "run_due", fail)
        patch.setattr(SharedModelReports, "tick", lambda *_: due.append(1))
        clock.look()
    assert due == [1], "one failure does not keep the other from its turn"
    assert "disk is full" in alone.http.get("/").text
    clock.look()
    assert "disk is full" not in alone.http.get("/").text


def test_what_a_server_did_not_take_is_sent_again_soon(
    device: Device, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.example()
    set_schedule(device, "weekly")
    due = next_moment(device.store.setting("schedule"))
    assert due is not None

    def refuse(*_: Any) -> None:
        raise RemoteError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "put_release", refuse)
        assert run_due(device, due)
    plan = device.store.setting("schedule")
    again, following = next_try(plan), next_moment(plan)
    assert again is not None
    assert due < again <= due + timedelta(hours=1)
    assert following == due + timedelta(days=7)
    assert plan["problem"] == "out of order"
    (waiting,) = device.releases.unsent()
    assert not run_due(device, again - timedelta(seconds=1))
    served.seen.clear()
    assert run_due(device, again)
    sent = [request.content for request in served.seen if request.method == "PUT"]
    assert sent == [device.releases.get(waiting.id).payload]
    plan = device.store.setting("schedule")
    assert (plan["problem"], next_try(plan), next_moment(plan)) == ("", None, following)
    assert not run_due(device, again + timedelta(hours=1))
    assert len(device.releases.all()) == 1, "nothing was drawn for the second try"


# ---- another clock ------------------------------------------------------------------------


@contextmanager
def dated_server(tmp_path: Path, *days: int) -> Iterator[tuple[str, str]]:
    """A server whose certificate is valid between two days from today; its address, and that."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    here = x509.IPAddress(ip_address("127.0.0.1"))
    since, until = (datetime.now(UTC) + timedelta(days=day) for day in days)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(since).not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([here]), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = made.public_bytes(serialization.Encoding.PEM)
    own = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "dated.pem").write_bytes(pem + own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "dated.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}", pem.decode()
        server.shutdown()


@pytest.mark.parametrize(
    ("days", "words"), [((2, 9), "not valid yet"), ((-9, -2), "no longer valid")]
)
def test_a_wrong_clock_is_told_from_another_certificate(
    alone: Pages, tmp_path: Path, days: tuple[int, int], words: str
) -> None:
    """Behind the world's, or ahead of it: nobody is asked to trust something else."""
    with dated_server(tmp_path, *days) as (url, pem):
        alone.device.accounts.use(url, pem)
        for answer in (
            alone.http.get("/server/certificate"),
            alone.http.post("/server", data={"url": url, "certificate": pem, "compared": "yes"}),
        ):
            assert answer.status_code == 400
            assert words in answer.text
            assert "Set the clock right" in answer.text
            assert "another certificate" not in answer.text
        assert words in alone.http.get("/for-you").text


def test_a_clock_that_stood_ahead_does_not_end_the_schedule(device: Device) -> None:
    device.example()
    today, ahead = datetime.now(UTC), datetime.now(UTC) + timedelta(days=3650)
    set_schedule(device, "weekly")
    assert run_due(device, ahead)
    planned = next_moment(device.store.setting("schedule"))
    assert planned is not None
    assert planned > ahead
    assert not run_due(device, today), "nothing is sent because the clock was set"
    planned = next_moment(device.store.setting("schedule"))
    assert planned is not None
    assert planned <= datetime.now(UTC) + timedelta(days=7)
    assert not run_due(device, today - timedelta(days=3650)), "nor by a clock that stands behind"
    assert len(device.releases.all()) == 1


# ---- twice --------------------------------------------------------------------------------


class Hesitating(Job):
    """A job that lets other presses come before it begins."""

    def __init__(self, *given: Any) -> None:
        time.sleep(0.2)
        super().__init__(*given)


def test_buttons_pressed_twice_and_pages_from_before(
    pages: Pages, publishing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A double click, and the back button to a page whose moment is over."""
    pages.http.post("/example")
    monkeypatch.setattr(jobs, "Job", Hesitating)
    with ThreadPoolExecutor() as fingers:
        presses = [fingers.submit(pages.http.post, "/preview/draw") for _ in range(3)]
        assert {press.result().status_code for press in presses} == {200}
    (drawn,) = pages.device.releases.unsent()
    assert 'id="payload"' in pages.http.post("/preview/draw").text, "the one that waits"
    assert [one.id for one in pages.device.releases.all()] == [drawn.id]
    publishing.seen.clear()
    with ThreadPoolExecutor() as fingers:
        sends = [fingers.submit(pages.http.post, f"/release/{drawn.id}/send") for _ in range(3)]
        for press in sends:
            assert is_a_page(press.result())
    again = pages.http.post(f"/release/{drawn.id}/send")
    assert again.status_code == 400
    assert "this release arrived" in again.text.lower()
    assert is_a_page(again)
    assert publishing.answers_of(pages.device.account) == [drawn.release.answers]
    files = {"file": ("h.csv", b"title,year\nFargo,1996\n")}
    review = pages.http.post("/sources/file", files=files).url.path
    for _ in range(2):
        assert pages.http.post(f"{review}/keep").status_code == 200
    assert pages.device.history.items().count("fargo-1996") == 1
    pages.http.post(f"{review}/undo")
    for late in ("keep", "undo"):
        assert is_a_page(pages.http.post(f"{review}/{late}"))
    assert "fargo-1996" not in pages.device.history.items()


def test_a_line_that_breaks_after_the_server_took_it(
    pages: Pages, publishing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    (drawn,) = pages.device.releases.unsent()
    put = Remote.put_release

    def breaking(self: Remote, user_id: str, payload: bytes) -> None:
        put(self, user_id, payload)
        raise RemoteError("the line broke")

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "put_release", breaking)
        told = pages.http.post(f"/release/{drawn.id}/send")
    assert told.url.path == "/preview"
    assert "not known to have arrived: the line broke" in told.text
    assert f"/release/{drawn.id}/send" in told.text, "the same is offered again"
    assert pages.http.post(f"/release/{drawn.id}/send").url.path == "/for-you"
    assert publishing.answers_of(pages.device.account) == [drawn.release.answers], "it counts once"
    assert len(pages.device.ledger.entries()) == 1


# ---- the end ------------------------------------------------------------------------------


def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epicrec", "client", "--port", "0", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "open http" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert said == ""
    assert running.returncode == 0
