"""A server's part in the collective: its role, its signing key, and the line to the other one."""

from __future__ import annotations

import os
import ssl

import httpx

from epicrec.collective.helper import Helper
from epicrec.collective.keys import fingerprint, new_signing_key, sign, verify, verifying_key
from epicrec.collective.leader import Leader
from epicrec.collective.messages import PROBLEM, VERSION, Refusal, encode
from epicrec.errors import EpicrecError, InputError
from epicrec.server.rights import opener
from epicrec.server.settings import Settings
from epicrec.server.store.database import Database
from epicrec.server.store.rounds import SqlStore

SIGNATURE = "X-Epicrec-Signature"
_PATIENCE = httpx.Timeout(600, connect=10)


class Part:
    """The leader or the helper that a server is."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        key = signing_key(settings)
        self.key = verifying_key(key)
        other, store = _other_key(settings), SqlStore(database)
        self.store = store
        self.leader = Leader(store, key, other) if settings.role == "leader" else None
        self.helper = Helper(store, key, other) if settings.role == "helper" else None

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)

    def check(self, step: str, body: bytes, signature: str) -> None:
        """Refuse what the leader has not signed."""
        try:
            found = bytes.fromhex(signature)
            verify(_other_key(self.settings), found, _request(step, body), "the request")
        except (ValueError, Refusal) as error:
            raise Refusal(
                "unauthorizedRequest", "this is for the leader, and signed by it"
            ) from error


class HelperOverHttps:
    """The helper as the leader reaches it. It is known by its certificate, we by our signature."""

    def __init__(self, settings: Settings, transport: httpx.BaseTransport | None = None) -> None:
        context = ssl.create_default_context(cafile=settings.other_certificate or None)
        self._key = signing_key(settings)
        self._http = httpx.Client(
            base_url=settings.other_url, verify=context, trust_env=False, timeout=_PATIENCE,
            transport=transport,
            # no connection is used again: the helper may be closing it when minutes have passed
            limits=httpx.Limits(max_keepalive_connections=0),
        )  # fmt: skip

    def close(self) -> None:
        self._http.close()

    def begin(self, message: bytes) -> bytes:
        return self._ask("begin", message)

    def aggregate(self, message: bytes) -> bytes:
        return self._ask("aggregate", message)

    def reveal(self, message: bytes) -> bytes:
        return self._ask("reveal", message)

    def confirm(self, message: bytes) -> bytes:
        return self._ask("confirm", message)

    def abort(self, message: bytes) -> bytes:
        return self._ask("abort", message)

    def _ask(self, step: str, body: bytes) -> bytes:
        signed = sign(self._key, _request(step, body)).hex()
        headers = {SIGNATURE: signed, "Content-Type": "application/octet-stream"}
        try:
            answer = self._http.post(f"/aggregation/{step}", content=body, headers=headers)
        except httpx.HTTPError as error:
            raise EpicrecError(
                f"the helper at {self._http.base_url} cannot be reached "
                f"({type(error).__name__}: {error}); the same command goes on where this one ended"
            ) from error
        if answer.status_code == 200:
            return answer.content
        try:
            problem = answer.json()
            raise Refusal(problem["type"].removeprefix(PROBLEM), problem["detail"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EpicrecError(f"the helper answers {answer.status_code}") from error


def signing_key(settings: Settings) -> bytes:
    """The key in `collective.key`, made when it is missing."""
    path = settings.folder / "collective.key"
    try:
        return bytes.fromhex(path.read_text("ascii").strip())
    except FileNotFoundError:
        key = new_signing_key()
        with open(path, "x", encoding="ascii", opener=opener) as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        return key
    except ValueError as error:
        raise InputError(f"{path} holds no key; restore it from a backup") from error


def _other_key(settings: Settings) -> bytes:
    try:
        found = bytes.fromhex(settings.other_key)
    except ValueError:
        found = b""
    if len(found) != 32:
        other = "helper" if settings.role == "leader" else "leader"
        own = verifying_key(signing_key(settings)).hex()
        raise InputError(
            f"other_key must be the {other}'s signing key, 64 figures from 0 to f, as its operator "
            f"tells it. This server's own, for that operator, is {own}"
        )
    return found


def _request(step: str, body: bytes) -> bytes:
    return encode(VERSION, "request", step, body)
