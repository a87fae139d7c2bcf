"""Who gets in: the right host, the right token, our own pages."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from client.conftest import Pages, serving
from epicrec.client.device import Device
from epicrec.client.remote import (
    Remote,
    UntrustedError,
    checked_url,
    shown_certificate,
)
from epicrec.client.web import read_form
from epicrec.data import Catalogue
from epicrec.errors import InputError


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_a_rebound_name_gets_nothing(pages: Pages, host: str) -> None:
    port = pages.url.rpartition(":")[2]
    for method in ("GET", "POST"):
        answer = pages.http.request(
            method, "/history", headers={"Host": host.replace("{port}", port)}
        )
        assert answer.status_code in (400, 421)
        assert "history" not in answer.text.lower()


def test_localhost_is_this_machine_too(pages: Pages) -> None:
    port = pages.url.rpartition(":")[2]
    assert pages.http.get("/history", headers={"Host": f"localhost:{port}"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/history", "/static/style.css", "/poster/heat-1995.svg"])
def test_without_the_token_nothing_is_told(pages: Pages, path: str) -> None:
    stranger = httpx.get(pages.url + path)
    assert stranger.status_code == 403
    wrong = httpx.get(pages.url + path, params={"token": "guess"})
    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    port = pages.url.rpartition(":")[2]
    assert httpx.get(pages.url + path, cookies={f"epicrec-{port}": "x"}).status_code == 403


def test_the_cookie_is_for_our_pages_alone(pages: Pages) -> None:
    answer = httpx.get(pages.address)
    assert answer.status_code == 303
    assert "token" not in answer.headers["location"]
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_changes_come_from_our_own_pages(pages: Pages, headers: dict[str, str]) -> None:
    before = pages.device.history.count()
    assert pages.http.post("/example", headers=headers).status_code == 403
    assert pages.device.history.count() == before


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
        with pytest.raises(UntrustedError):
            unknown.register()
        unknown.close()
        pem, fingerprint = shown_certificate(served.url)
        assert len(fingerprint.split(":")) == 32
        for trusted in (pem, (tmp_path / "one" / "tls" / "ca.pem").read_text()):
            remote = Remote(served.url, certificate=trusted)
            assert remote.register().Secret
            remote.close()
        device = Device(tmp_path / "d", films, server=served.url, certificate=pem)
        assert device.accounts.registered()["user_id"]
    with serving(tmp_path / "two", http=False) as other:
        impostor = Remote(other.url, certificate=pem)
        with pytest.raises(UntrustedError):
            impostor.register()
        impostor.close()
    device.close()


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
