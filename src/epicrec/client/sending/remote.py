"""Remote: every request to the server; nobody else is asked anything.

No request names a category or a title the person did not release: lists come whole and are cut into
rows on the device, so that what is asked for is the same for everybody.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from epicrec import wire
from epicrec.errors import EpicrecError, InputError

LIST_LENGTH = 1000
"""About three times what is shown is asked for: what was watched is taken out on the device."""
_MOST_MODEL = 512 * 2**20
_OCTETS = "application/octet-stream"
_M = TypeVar("_M")


class RemoteError(EpicrecError):
    """The server did not do what was asked; the message says what to do."""


class UntrustedError(RemoteError):
    """Nobody this machine trusts vouches for the server's certificate."""


class ChangedError(UntrustedError):
    """The server shows another certificate than the one that was trusted."""


class Remote:
    """One server, spoken to with one key; `certificate` is the one trusted instead of the system's.

    Redirects are not followed and no proxy from the environment is used: what is sent goes to the
    chosen server or nowhere.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        certificate: str = "",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = checked_url(url)
        self._http = httpx.Client(
            base_url=self.url, verify=_trusting(certificate), trust_env=False, transport=transport,
            headers={"User-Agent": "epicrec"}, timeout=httpx.Timeout(30, connect=5),
        )  # fmt: skip
        self._key = {"X-API-Key": key} if key else {}
        self._pinned = bool(certificate)

    def close(self) -> None:
        self._http.close()

    def register(self) -> wire.Registration:
        """A random id and its secret. The request tells nothing."""
        return _read(wire.Registration, self._ask("POST", "/api/register", public=True))

    def put_release(self, user_id: str, payload: bytes) -> None:
        """Store this release, in the place of the same one if it is there."""
        self._ask("PUT", f"/api/user/{quote(user_id, safe='')}/release", content=payload)

    def feedback(self, user_id: str) -> list[wire.Feedback]:
        """Everything the server holds about this client."""
        answer = self._ask("GET", f"/api/user/{quote(user_id, safe='')}/feedback")
        return _read(list[wire.Feedback], answer)

    def forget(self, user_id: str) -> None:
        self._ask("DELETE", f"/api/user/{quote(user_id, safe='')}")

    def recommend(self, user_id: str) -> list[str]:
        """The server's list for this client, best first: always the same question."""
        answer = self._ask(
            "GET", f"/api/recommend/{quote(user_id, safe='')}", params={"n": LIST_LENGTH}
        )
        try:
            return [str(one["Id"] if isinstance(one, dict) else one) for one in answer.json()]
        except (ValueError, KeyError, TypeError) as error:
            raise RemoteError(
                "the server's list cannot be read; is it the right server?"
            ) from error

    def open_round(self, task: str) -> bytes | None:
        """The round of a shared model that takes reports now, the same for everybody."""
        path = f"/tasks/{quote(task, safe='')}/round"
        answer = self._ask("GET", path, public=True, expected=(404, 405))
        return answer.content if answer.status_code == 200 else None

    def signing_key(self) -> wire.SigningKey | None:
        """The key that this server signs rounds of shared models with, if it leads any."""
        answer = self._ask("GET", "/collective/key", public=True, expected=(404, 405))
        return _read(wire.SigningKey, answer) if answer.status_code == 200 else None

    def round_result(self, task: str, number: int) -> bytes | None:
        """What a finished round taught, the same for everybody; None while it is not over."""
        return self._end_of(task, number, "result")

    def round_abort(self, task: str, number: int) -> bytes | None:
        """That a round ended without a result, signed by both servers; None where it did not."""
        return self._end_of(task, number, "abort")

    def _end_of(self, task: str, number: int, what: str) -> bytes | None:
        path = f"/tasks/{quote(task, safe='')}/rounds/{number}/{what}"
        answer = self._ask("GET", path, public=True, expected=(404, 405, 409))
        return answer.content if answer.status_code == 200 else None

    def put_report(self, task: str, number: int, report: bytes) -> bool:
        """Send a sealed report; False where the round is over. Sending it again changes nothing."""
        path = f"/tasks/{quote(task, safe='')}/rounds/{number}/reports"
        answer = self._ask("PUT", path, content=report, kind=_OCTETS, expected=(404, 409))
        return answer.status_code // 100 == 2

    def model_info(self) -> wire.ModelInfo | None:
        """Which item model is published; None where there is none, as on any other recommender."""
        answer = self._ask("GET", "/api/model/info", public=True, expected=(404, 405))
        return _read(wire.ModelInfo, answer) if answer.status_code == 200 else None

    def model(self, info: wire.ModelInfo) -> bytes:
        """The published model's file, checked against its announcement."""
        if info.Size > _MOST_MODEL:
            raise RemoteError(f"the server's model has {info.Size:,} bytes, more than is accepted")
        content = self._ask("GET", "/api/model", public=True).content
        if hashlib.sha256(content).hexdigest() != info.Hash:
            raise RemoteError("the model arrived damaged or was replaced meanwhile; try again")
        return content

    def _ask(
        self,
        method: str,
        path: str,
        *,
        public: bool = False,
        expected: tuple[int, ...] = (),
        kind: str = "application/json",
        **request: Any,
    ) -> httpx.Response:
        """What is `public` is asked for without the key: it is the same for everybody."""
        headers = {} if public else self._key
        if "content" in request:
            headers = headers | {"Content-Type": kind}
        try:
            answer = self._http.request(method, path, headers=headers, **request)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise _out_of_date(self.url, str(error)) or self._distrust() from error
            raise RemoteError(
                f"{self.url} cannot be reached ({type(error).__name__}); check that the server "
                "runs, then try again"
            ) from error
        if answer.status_code // 100 != 2 and answer.status_code not in expected:
            raise RemoteError(f"the server refused: {_detail(answer)}")
        return answer

    def _distrust(self) -> UntrustedError:
        if self._pinned:
            return ChangedError(
                f"{self.url} shows another certificate than the one you trusted, so nothing was "
                "sent. Check its certificate on the server page"
            )
        return UntrustedError(
            f"nobody vouches for the certificate of {self.url}. If the server is yours, compare "
            "the fingerprint and trust it on the server page"
        )


@lru_cache(maxsize=8)
def _trusting(certificate: str) -> ssl.SSLContext:
    """Made once: to read all that the system trusts takes longer than most requests."""
    context = ssl.create_default_context(cadata=certificate or None)
    if certificate:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _out_of_date(url: str, error: str) -> RemoteError | None:
    """The error if a certificate is refused because of its dates, and not because of its owner."""
    wrong = next((words for words in ("not yet valid", "expired") if words in error), None)
    if wrong is None:
        return None
    return RemoteError(
        f"by this machine's clock it is {datetime.now(UTC):%Y-%m-%d}, and the certificate of {url} "
        f"is {'not valid yet' if wrong == 'not yet valid' else 'no longer valid'}, so nothing was "
        "sent. Set the clock right; if it is right, whoever runs the server must renew it"
    )


def checked_url(url: str) -> str:
    """The address of a server: https, or http on this machine."""
    try:
        parts = urlsplit(url.strip().rstrip("/"))
        host = (parts.hostname or "").encode("idna")  # refuses `films..example.org`
        usable = bool(host) and not (parts.query or parts.username) and parts.port != 0
        httpx.URL(parts.geturl())
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable or parts.scheme not in ("http", "https"):
        raise InputError(f"{url!r} is no server's address; write one such as https://example.org")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise InputError("plain http is for a server on this machine; write https://")
    return parts.geturl()


def shown_certificate(url: str) -> tuple[str, str]:
    """The certificate a server shows, as PEM, and its SHA-256 fingerprint. Nothing is sent to it
    but a greeting."""
    parts = urlsplit(checked_url(url))
    try:
        pem = ssl.get_server_certificate((parts.hostname or "", parts.port or 443), timeout=10)
    except (OSError, ValueError) as error:
        raise RemoteError(f"{url} cannot be reached: {error}") from error
    return pem, fingerprint(pem)


def fingerprint(pem: str) -> str:
    """The SHA-256 fingerprint of a certificate, the first of a file, in pairs of digits."""
    found = re.search("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)
    if found is None:
        raise InputError("this is no certificate; give one in PEM form")
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(found.group())).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _read(kind: type[_M], answer: httpx.Response) -> _M:
    try:
        return TypeAdapter(kind).validate_json(answer.content)
    except ValidationError as error:
        raise RemoteError("the server's answer cannot be read; is it the right one?") from error


def _detail(answer: httpx.Response) -> str:
    try:
        return f"{answer.json()['detail']} ({answer.status_code})"
    except (ValueError, KeyError, TypeError):
        return f"{answer.reason_phrase} ({answer.status_code})"
