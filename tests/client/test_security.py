"""Who gets in: the right host, the right cookie or token, our own pages."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from client.conftest import Pages, serving, showing
from epicrec.client.device import Device
from epicrec.client.sending.remote import (
    ChangedError,
    Remote,
    UntrustedError,
    checked_url,
    fingerprint,
    shown_certificate,
)
from epicrec.client.web import security as doors
from epicrec.client.web.forms import read_form
from epicrec.client.web.security import Door
from epicrec.data import Catalogue
from epicrec.errors import InputError
from loopback import PATIENCE, TRUSTED


def browser(pages: Pages) -> httpx.Client:
    """A browser as the pages see it: it asks by their name, which leads to this machine."""
    own = {"Host": f"{pages.door.name}:{pages.door.port}"}
    return httpx.Client(
        base_url=pages.entrance,
        headers=own,
        timeout=PATIENCE,
        verify=TRUSTED,
        limits=httpx.Limits(max_keepalive_connections=0),
    )


@contextmanager
def let_in(pages: Pages) -> Iterator[httpx.Client]:
    with browser(pages) as made:
        made.headers["Cookie"] = cookie_of(made.get("/", params=urlsplit(pages.address).query))
        made.cookies.clear()  # kept for 127.0.0.1, where a browser would not keep it
        yield made


def cookie_of(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "",
             "other.localhost:{port}", "evil.{name}:{port}"],
)  # fmt: skip
def test_a_rebound_name_gets_nothing(pages: Pages, host: str) -> None:
    told = host.replace("{port}", str(pages.door.port)).replace("{name}", pages.door.name)
    with let_in(pages) as let:
        for http in (pages.http, let):
            for method in ("GET", "POST"):
                answer = http.request(method, "/history", headers={"Host": told})
                assert answer.status_code in (400, 421)
                assert "your history" not in answer.text.lower()


@pytest.mark.parametrize("path", ["/", "/history", "/data/everything.zip", "/poster/heat-1995.svg"])
def test_without_cookie_or_token_nothing_is_told(pages: Pages, path: str) -> None:
    with browser(pages) as stranger:
        for cookie in ("", "epicrec=x", f"epicrec={pages.door.program}"):
            answer = stranger.get(path, headers={"Cookie": cookie})
            assert answer.status_code == 403
            assert not {"set-cookie", "server"} & {*answer.headers}
        assert stranger.get(path, params={"token": "guess"}).status_code == 403
        token = {"Authorization": f"Bearer {pages.door.program}"}
        assert stranger.get(path, headers=token).status_code == 403, "programs ask 127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/history", "/data/everything.zip"])
def test_127_0_0_1_has_no_cookie_and_an_entrance_only(pages: Pages, path: str) -> None:
    own = {"Cookie": f"epicrec={pages.door.session}"}
    for headers in ({}, own, {"Authorization": "Bearer x"}, {"Sec-Fetch-Site": "none"}):
        for name in ("127.0.0.1", "localhost"):
            host = {"Host": f"{name}:{pages.door.port}"}
            answer = httpx.get(
                pages.entrance + path, headers=headers | host, timeout=PATIENCE, verify=TRUSTED
            )
            assert "EpicRec runs on this machine" in answer.text
            assert "set-cookie" not in answer.headers
            assert pages.door.name not in answer.text, "the name is for the owner alone"
            assert "nav" not in answer.text


def test_programs_of_the_same_person_bring_the_token(pages: Pages) -> None:
    file = pages.door.program_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = {"Authorization": f"Bearer {file.read_text()}"}
    answer = httpx.get(f"{pages.entrance}/data/history.csv", headers=token, timeout=PATIENCE)
    assert answer.headers["content-type"].startswith("text/csv")
    assert "set-cookie" not in answer.headers


def test_an_invitation_works_once(pages: Pages) -> None:
    first = pages.address
    second = pages.address
    with browser(pages) as http:
        assert http.get("/", params=urlsplit(first).query).status_code == 403, "there is a newer"
        answer = http.get("/", params=urlsplit(second).query)
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "domain" not in cookie, "for this host alone"
        assert answer.headers["referrer-policy"] == "no-referrer"
        replayed = http.get("/", params=urlsplit(second).query)
        assert replayed.status_code == 403
        assert "set-cookie" not in replayed.headers
        http.cookies.clear()
        assert http.get("/history").status_code == 403
    assert urlsplit(second).query.removeprefix("token=") not in answer.headers["set-cookie"]


def test_each_start_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = {Door(tmp_path, 8377).name for _ in range(20)}
    assert len(names) == 20
    assert all(name.endswith(".localhost") and len(name) > 25 for name in names)


def test_the_entrance_opens_the_owners_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a file that only they may read; whoever pressed the button is told no more than where."""
    opened: list[str] = []
    monkeypatch.setattr(doors, "has_screen", lambda: True)
    monkeypatch.setattr(doors, "_PAUSE", 0.0)
    with showing(tmp_path / "client") as pages:
        monkeypatch.setattr(pages.door, "_browse", opened.append)
        cross = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        for headers in (cross, {"Sec-Fetch-Site": "same-site"}, {}):
            refused = httpx.post(pages.entrance, headers=headers, timeout=PATIENCE)
            assert refused.status_code == 403, "no other page opens windows"
        assert opened == []
        own = {"Origin": pages.entrance, "Sec-Fetch-Site": "same-origin"}
        answer = httpx.post(pages.entrance, headers=own, timeout=PATIENCE)
        file = pages.door.redirect_file
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        end = time.monotonic() + PATIENCE
        while not opened:
            assert time.monotonic() < end, "no browser was opened"
            time.sleep(0.01)
        assert opened == [file.resolve().as_uri()]
        text = file.read_text()
        assert "no-referrer" in text
        assert f"http://{pages.door.name}:" in text
        token = text.partition("token=")[2].partition('"')[0]
        assert token not in answer.text
        assert pages.door.name not in answer.text
        with browser(pages) as http:
            assert http.get("/", params={"token": token}).status_code == 200
        assert not file.exists(), "used up"
        monkeypatch.setattr(doors, "_PAUSE", 2 * PATIENCE)
        again = httpx.post(pages.entrance, headers=own, timeout=PATIENCE)
        assert again.status_code == 429


def test_where_the_name_is_not_known_127_0_0_1_warns(pages: Pages) -> None:
    plain = pages.door.invite(plain=True)
    assert plain.startswith(pages.entrance)
    with browser(pages) as http:
        assert http.get("/", params=urlsplit(plain).query).status_code == 403, "for that host only"
    with httpx.Client(base_url=pages.entrance, timeout=PATIENCE) as http:
        answer = http.get("/", params=urlsplit(pages.door.invite(plain=True)).query)
        http.cookies.clear()
        http.headers["Cookie"] = cookie_of(answer)
        assert "other programs that listen on this machine may get" in http.get("/history").text
        http.headers["Cookie"] = f"epicrec={pages.door.session}"
        assert "EpicRec runs on this machine" in http.get("/history").text
    with let_in(pages) as named:
        assert "other programs that listen" not in named.get("/history").text
        named.headers["Cookie"] = cookie_of(answer)
        assert named.get("/history").status_code == 403, "each cookie for its own host"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8377"}, {}],
)  # fmt: skip
def test_changes_come_from_our_own_pages(pages: Pages, headers: dict[str, str]) -> None:
    before = pages.device.history.count()
    with let_in(pages) as http:
        assert http.post("/example", headers=headers).status_code == 403
        assert pages.device.history.count() == before
        ours = {"Origin": pages.url, "Sec-Fetch-Site": "same-origin"}
        assert http.post("/example", headers=ours).status_code == 303
        assert http.get("/history", headers={"Sec-Fetch-Site": "same-site"}).status_code == 403
        assert http.get("/history").status_code == 200


def test_headers_of_every_answer(pages: Pages) -> None:
    for path in ("/", "/static/style.css", "/poster/heat-1995.svg", "/nothing-here"):
        answer = pages.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
    assert pages.http.get("/history").headers["cache-control"] == "no-store"


def test_what_people_type_is_shown_as_text(pages: Pages) -> None:
    answer = pages.http.get("/history", params={"q": "<script>alert(1)</script>"})
    assert "<script>alert" not in answer.text


def test_plain_http_is_for_this_machine() -> None:
    assert checked_url("http://127.0.0.1:80/") == "http://127.0.0.1:80"
    assert checked_url("https://example.org") == "https://example.org"
    for bad in ("http://example.org", "ftp://example.org", "nonsense", "https://a:b@example.org"):
        with pytest.raises(InputError):
            checked_url(bad)


def test_certificates_are_verified_and_pinned(tmp_path: Path, films: Catalogue) -> None:
    with serving(tmp_path / "one", http=False) as served:
        unknown = Remote(served.url)
        with pytest.raises(UntrustedError) as first:
            unknown.register()
        assert not isinstance(first.value, ChangedError)
        unknown.close()
        pem, shown = shown_certificate(served.url)
        assert len(shown.split(":")) == 32
        assert fingerprint(pem) == shown
        for trusted in (pem, (tmp_path / "one" / "tls" / "ca.pem").read_text()):
            remote = Remote(served.url, certificate=trusted)
            assert remote.register().Secret
            remote.close()
        device = Device(tmp_path / "d", films, server=served.url, certificate=pem)
        assert device.accounts.registered()["user_id"]
    with serving(tmp_path / "two", http=False) as other:
        impostor = Remote(other.url, certificate=pem)
        with pytest.raises(ChangedError, match="another certificate than the one you trusted"):
            impostor.register()
        impostor.close()
    device.close()


def test_a_changed_certificate_is_refused_until_it_is_compared(tmp_path: Path) -> None:
    with serving(tmp_path / "one", http=False) as served:
        old, old_shown = shown_certificate(served.url)
    with (
        serving(tmp_path / "two", http=False) as other,
        showing(tmp_path / "client") as pages,
    ):
        accounts = pages.device.accounts
        accounts.use(other.url, old)
        new, new_shown = shown_certificate(other.url)
        for answer in (
            pages.http.post("/server", data={"url": other.url}),
            pages.http.get("/server/certificate"),
        ):
            assert answer.status_code == 409
            assert "The server shows another certificate" in answer.text
            assert "Do you know this server" not in answer.text
            assert old_shown in answer.text
            assert new_shown in answer.text
        assert accounts.chosen()["certificate"] == old, "refused"
        unticked = pages.http.post("/server", data={"url": other.url, "certificate": new})
        assert unticked.status_code == 400
        assert accounts.chosen()["certificate"] == old, "also where somebody forgot to compare"
        with pytest.raises(ChangedError), closing(accounts.dial()) as remote:
            remote.register()
        given = {"url": other.url, "certificate": new, "compared": "yes"}
        assert "and is trusted" in pages.http.post("/server", data=given).text
        assert accounts.chosen()["certificate"] == new
        assert "is trusted" in pages.http.get("/server/certificate").text
        # one that authorities vouched for so far, and now nobody does, is no first use either
        accounts._keep({**accounts.chosen(), "certificate": "", "user_id": "known there"})
        vouched = pages.http.post("/server", data={"url": other.url})
        assert vouched.status_code == 409
        assert "authorities vouched for" in vouched.text


def test_forms_in_both_ways() -> None:
    assert read_form("application/x-www-form-urlencoded", b"a=1&a=2&b=") == (
        {"a": ["1", "2"], "b": [""]}, [],
    )  # fmt: skip
    content = bytes(range(256)) * 3 + b"\r\n--almost\r\n"
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="h.zip"\r\n'
        b"Content-Type: application/zip\r\n\r\n" + content + b"\r\n--xyz--\r\n"
    )
    form, files = read_form("multipart/form-data; boundary=xyz", body)
    assert form == {"a": ["1"]}
    assert files == [("h.zip", content)]
