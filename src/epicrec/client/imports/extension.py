"""Extension: browsers that report what was watched in them, each paired by a code.

A browser that gave the code gets a token and a public key. Its messages are sealed to that key, the
token inside. Every entry has a name of its own, so one that arrives twice counts once. A message
may also ask for works of the catalogue, for the question "What did you watch?".

Sealing is ECDH on P-256 with a key of the sender's for each message, HKDF-SHA256, AES-256-GCM: what
the WebCrypto of every browser has. A message is the sender's public point (65 bytes), a nonce (12)
and the ciphertext; the answer is a nonce and a ciphertext under a second key of the same agreement,
so only a client that can open the message can answer it. `extension/seal.js` is the other side.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from epicrec.client.history import now
from epicrec.client.imports.csv_tables import instant
from epicrec.client.imports.reading import Reading
from epicrec.client.imports.review import Imports
from epicrec.client.matching.titles import read_title
from epicrec.client.store import Store
from epicrec.client.viewing import Evidence, Viewing
from epicrec.data.works import FILM, SERIES, texts

SOURCE = "extension"
ABOUT = "browser extension"
TRIES, LIFETIME = 5, 600.0
"""How often a code may be guessed wrongly, and how many seconds it lives."""
MOST_ENTRIES, MOST_FOUND = 500, 6
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
_SITE = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,9}")
_ORIGIN = re.compile(r"(chrome|moz|safari-web)-extension://[\w-]{1,64}")
POINT, NONCE = 65, 12
_MESSAGE, _ANSWER = b"epicrec extension message 1", b"epicrec extension answer 1"
_CURVE = ec.SECP256R1()
_EVIDENCE = {"watched": Evidence.WATCHED, "looked at": Evidence.LOOKED_UP}


@dataclass(frozen=True)
class Pairing:
    """A browser that may tell what was watched in it."""

    id: str
    created: str
    origin: str
    seen: str | None

    @property
    def browser(self) -> str:
        return "Firefox" if self.origin.startswith("moz") else "Chromium or a relative"


@dataclass(frozen=True)
class Site:
    """A site that a browser was allowed to look at."""

    name: str
    allowed: bool
    seen: str | None
    """The day on which something was last recognised there."""
    missed: str | None
    """The day on which a long video was last not recognised there."""

    @property
    def is_doubtful(self) -> bool:
        return self.missed is not None and (self.seen or "") < self.missed


@dataclass
class _Code:
    text: str
    until: float
    tries: int = TRIES


class Extension:
    """The paired browsers, their sites, and what they tell."""

    def __init__(self, store: Store, imports: Imports, reading: Reading) -> None:
        self._store, self._imports, self._reading = store, imports, reading
        self._code: _Code | None = None
        self._lock = threading.Lock()

    # ---- pairing --------------------------------------------------------------------------

    def new_code(self, port: int) -> str:
        """A code to enter in the browser, once; it begins with the port and is kept nowhere."""
        letters = "".join(secrets.choice(_LETTERS) for _ in range(12))
        parts = "-".join(letters[i : i + 4] for i in (0, 4, 8))
        with self._lock:
            self._code = _Code(letters, time.monotonic() + LIFETIME)
        return f"{port}-{parts}"

    def pair(self, code: str, origin: str, former: str = "") -> dict[str, str] | None:
        """A token and a key for the browser that gives the code; the code is used up.

        A browser that was paired before names its `former` pairing: the new one takes its place and
        has its key, so that what waits there can still be read. After a few wrong codes none is
        right any more, until a new one is made.
        """
        given = re.sub(r"[^0-9A-Z]", "", code.upper())[-12:]
        with self._lock:
            if self._code is None or time.monotonic() > self._code.until:
                return None
            if not hmac.compare_digest(given, self._code.text):
                self._code.tries -= 1
                if self._code.tries == 0:
                    self._code = None
                return None
            self._code = None
        identity, token = secrets.token_hex(8), secrets.token_urlsafe(32)
        with self._store.changing() as db:
            row = db.execute(
                "SELECT key FROM pairings WHERE id = ? AND origin = ?", (former, origin)
            ).fetchone()
            key = SealedKey.new() if row is None else SealedKey.from_text(row["key"])
            if row is not None:
                db.execute("DELETE FROM pairings WHERE id = ?", (former,))
            db.execute(
                "INSERT INTO pairings VALUES (?, ?, ?, ?, ?, NULL)",
                (identity, now(), origin, _hashed(token), key.to_text()),
            )
        return {"pairing": identity, "token": token, "key": b64encode(key.public).decode()}

    def pairings(self) -> list[Pairing]:
        with self._store.reading() as db:
            rows = db.execute("SELECT id, created, origin, seen FROM pairings ORDER BY created")
            return [Pairing(*row) for row in rows]

    def revoke(self, identity: str) -> None:
        """Forget a browser and its key: nothing it sealed can be opened any more."""
        with self._store.changing() as db:
            db.execute("DELETE FROM pairings WHERE id = ?", (identity,))

    # ---- sites ----------------------------------------------------------------------------

    def sites(self) -> list[Site]:
        with self._store.reading() as db:
            rows = db.execute("SELECT name, allowed, seen, missed FROM sites ORDER BY name")
            return [Site(row[0], bool(row[1]), row[2], row[3]) for row in rows]

    def switch(self, name: str, *, allowed: bool) -> None:
        with self._store.changing() as db:
            db.execute("UPDATE sites SET allowed = ? WHERE name = ?", (allowed, name))

    # ---- messages -------------------------------------------------------------------------

    def receive(self, identity: str, sealed: str, origin: str) -> str | None:
        """Take a message in and answer which entries are here; None if the sender is not paired.

        All of it is on the disk before the answer is given.
        """
        with self._store.reading() as db:
            row = db.execute(
                "SELECT token, key FROM pairings WHERE id = ? AND origin = ?", (identity, origin)
            ).fetchone()
        raw = _bytes(sealed)
        if row is None or raw is None:
            return None
        key = SealedKey.from_text(row["key"])
        message = _read(key.open(raw))
        if message is None:
            return None
        if not hmac.compare_digest(_hashed(_text(message.get("token"))), row["token"]):
            return None
        arrived = []
        with self._store.changing() as db:
            db.execute("UPDATE pairings SET seen = ? WHERE id = ?", (now(), identity))
            self._note_sites(message.get("sites"))
            for entry in _list(message.get("entries"))[:MOST_ENTRIES]:
                if isinstance(entry, dict) and (name := _text(entry.get("id"))):
                    self._take(name, _read(key.open(_bytes(_text(entry.get("sealed"))) or b"")))
                    arrived.append(name)
            off = [site.name for site in self.sites() if not site.allowed]
        answer: dict[str, Any] = {"arrived": arrived, "off": off}
        if wanted := _text(message.get("search")):
            answer["found"] = self._search(wanted[:300])
        return b64encode(key.answer(raw, json.dumps(answer).encode())).decode()

    def _search(self, wanted: str) -> list[dict[str, Any]]:
        """Works of the catalogue, best first. The catalogue is public, and the history has no part
        in it: whoever holds a token can add to the history, not read it."""
        matcher = self._reading.matcher
        catalogue, kinds = matcher.catalogue, texts(matcher.catalogue, "kind")
        return [
            {
                "title": read_title(str(catalogue.titles[at])).title,
                "year": int(catalogue.years[at]) or None,
                "kind": SERIES if kinds[at] == SERIES else FILM,
            }
            for at in catalogue.positions(matcher.search(wanted, MOST_FOUND)).tolist()
        ]

    def _take(self, name: str, entry: dict[str, Any] | None) -> None:
        """One entry, unless it is here already or cannot be read."""
        with self._store.changing() as db:
            fresh = db.execute(
                "INSERT OR IGNORE INTO arrivals VALUES (?, ?, NULL, NULL, NULL)", (name, now())
            ).rowcount
            if not fresh or entry is None:
                return
            if undone := _text(entry.get("undoes")):
                self._undo(undone)
                return
            viewing = _viewing(entry)
            allowed = {site.name for site in self.sites() if site.allowed}
            if viewing is None or entry.get("site") not in allowed:
                return
            match = self._reading.matcher.match(viewing, self._imports.answers())
            where = self._imports.enter(ABOUT, viewing, match)
            db.execute(
                "UPDATE arrivals SET viewing = ?, batch = ?, row = ? WHERE id = ?", (*where, name)
            )

    def _undo(self, name: str) -> None:
        """Take back what one entry brought, unless another entry says the same."""
        with self._store.changing() as db:
            row = db.execute("SELECT viewing, batch, row FROM arrivals WHERE id = ?", (name,))
            if (found := row.fetchone()) is None:
                db.execute(  # it is still under way, or never came
                    "INSERT INTO arrivals VALUES (?, ?, NULL, NULL, NULL)", (name, now())
                )
                return
            db.execute("UPDATE arrivals SET viewing = NULL, row = NULL WHERE id = ?", (name,))
            db.execute(
                "DELETE FROM viewings WHERE id = ? AND source = ? "
                "AND NOT EXISTS (SELECT 1 FROM arrivals WHERE viewing = ?)",
                (found["viewing"], SOURCE, found["viewing"]),
            )
            db.execute(
                "DELETE FROM drafts WHERE batch = ? AND row = ? AND NOT EXISTS "
                "(SELECT 1 FROM arrivals a WHERE a.batch = drafts.batch AND a.row = drafts.row)",
                (found["batch"], found["row"]),
            )

    def _note_sites(self, said: Any) -> None:
        """The sites a browser looks at, with the days it says; an earlier day changes nothing."""
        if not isinstance(said, dict):
            return
        with self._store.changing() as db:
            for name, days in list(said.items())[:MOST_ENTRIES]:
                if _SITE.fullmatch(name) and isinstance(days, dict):
                    db.execute("INSERT OR IGNORE INTO sites VALUES (?, 1, NULL, NULL)", (name,))
                    for column in ("seen", "missed"):
                        if day := _day(days.get(column)):
                            db.execute(
                                f"UPDATE sites SET {column} = max(coalesce({column}, ''), ?) "
                                "WHERE name = ?",
                                (day, name),
                            )


class SealedKey:
    """The key pair of one pairing."""

    def __init__(self, secret: int) -> None:
        self._key = ec.derive_private_key(secret, _CURVE)
        self.public = self._key.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )

    @classmethod
    def new(cls) -> SealedKey:
        return cls(ec.generate_private_key(_CURVE).private_numbers().private_value)

    @classmethod
    def from_text(cls, text: str) -> SealedKey:
        return cls(int(text, 16))

    def to_text(self) -> str:
        return f"{self._key.private_numbers().private_value:x}"

    def open(self, sealed: bytes) -> bytes | None:
        """What was sealed to this key; None where it was not, or was changed."""
        point, nonce = sealed[:POINT], sealed[POINT : POINT + NONCE]
        try:
            return self._cipher(point, _MESSAGE).decrypt(nonce, sealed[POINT + NONCE :], None)
        except (ValueError, InvalidTag):
            return None

    def answer(self, sealed: bytes, content: bytes) -> bytes:
        """An answer to a message that was opened."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + self._cipher(sealed[:POINT], _ANSWER).encrypt(nonce, content, None)

    def _cipher(self, point: bytes, about: bytes) -> AESGCM:
        sender = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, point)
        shared = self._key.exchange(ec.ECDH(), sender)
        return AESGCM(HKDF(SHA256(), 32, point + self.public, about).derive(shared))


def is_extension(origin: str) -> bool:
    """Whether a browser says that an extension asks. A page cannot say so; a program can."""
    return _ORIGIN.fullmatch(origin) is not None


def _viewing(entry: Mapping[str, Any]) -> Viewing | None:
    """What an entry tells, as of any source; None where it is not as it must be.

    An episode counts for its series. Its year and numbers are its own, so they are left out. A work
    is a film or a series: the page did not say which.
    """
    evidence, title = _EVIDENCE.get(_text(entry.get("how"))), _text(entry.get("title")).strip()
    kind = _text(entry.get("kind"))
    if evidence is None or not title or kind not in (FILM, SERIES, "episode", "work"):
        return None
    numbers = entry.get("ids")
    ids = numbers if isinstance(numbers, dict) and kind != "episode" else {}
    imdb, tmdb = _text(ids.get("imdb")), _text(ids.get("tmdb"))
    year = None if kind == "episode" else entry.get("year")
    return Viewing(
        title[:300], SOURCE, evidence,
        year=year if isinstance(year, int) and 1870 < year < 2100 else None,
        imdb_id=imdb if re.fullmatch(r"tt\d{7,10}", imdb) else None,
        tmdb_id=tmdb if re.fullmatch(r"\d{1,10}", tmdb) else None,
        watched_at=instant(_text(entry.get("when"))),
        film=kind == FILM,
        series=title[:300] if kind in (SERIES, "episode") else "",
    )  # fmt: skip


def _day(value: Any) -> str | None:
    try:
        return date.fromisoformat(_text(value)).isoformat()
    except ValueError:
        return None


def _read(content: bytes | None) -> dict[str, Any] | None:
    try:
        read = json.loads(content or b"")
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _bytes(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _text(value: Any) -> str:
    return value[:100_000] if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _hashed(token: str) -> str:
    """A token is random and long, so that its plain hash tells nothing."""
    return hashlib.sha256(token.encode()).hexdigest()
