"""What paired browsers tell the client: it counts once, can be undone, and nobody else is heard."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import killing
from client.conftest import Pages, showing
from epicrec.client.device import Device
from epicrec.client.imports import extension as extensions
from epicrec.client.imports.extension import NONCE, SealedKey
from epicrec.data import Catalogue
from loopback import PATIENCE, TRUSTED

ORIGIN = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"
HEAT = {"title": "Heat", "year": 1995, "kind": "film", "ids": {}, "how": "watched",
        "share": 0.62, "site": "kino.example", "when": "2026-05-01T20:15Z"}  # fmt: skip


class Paired:
    """A browser's side, written a second time from what `sealing` says."""

    def __init__(self, made: dict[str, str]) -> None:
        self.id, self.token, self.key = made["pairing"], made["token"], b64decode(made["key"])
        self.answers: list[Any] = []

    def seal(self, content: Any) -> tuple[str, bytes, bytes]:
        own = ec.generate_private_key(ec.SECP256R1())
        point = own.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), self.key)
        shared, nonce = own.exchange(ec.ECDH(), theirs), b"n" * NONCE
        key = HKDF(SHA256(), 32, point + self.key, b"epicrec extension message 1").derive(shared)
        sealed = point + nonce + AESGCM(key).encrypt(nonce, json.dumps(content).encode(), None)
        return b64encode(sealed).decode(), shared, point

    def entry(self, name: str, **about: Any) -> dict[str, str]:
        return {"id": name, "sealed": self.seal({**HEAT, **about, "id": name})[0]}

    def message(self, *entries: dict[str, str], **more: Any) -> dict[str, str]:
        sites = {"kino.example": {"seen": "2026-05-01"}}
        said = {"token": self.token, "entries": entries, "sites": sites} | more
        sealed, self._shared, self._point = self.seal(said)
        return {"pairing": self.id, "sealed": sealed}

    def opened(self, answer: str) -> Any:
        about = b"epicrec extension answer 1"
        key = HKDF(SHA256(), 32, self._point + self.key, about).derive(self._shared)
        raw = b64decode(answer)
        return json.loads(AESGCM(key).decrypt(raw[:NONCE], raw[NONCE:], None))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Pages]:
    with showing(tmp_path / "client") as running:
        yield running


def post(pages: Pages, path: str, body: Any, origin: str | None = ORIGIN) -> httpx.Response:
    headers = {} if origin is None else {"Origin": origin}
    url = f"{pages.entrance}/extension/{path}"
    return httpx.post(url, json=body, headers=headers, timeout=PATIENCE, verify=TRUSTED)


@pytest.fixture
def paired(alone: Pages) -> Paired:
    code = alone.device.extension.new_code(alone.door.port)
    return Paired(post(alone, "pair", {"code": code}).json())


def tell(pages: Pages, browser: Paired, *entries: dict[str, str], **more: Any) -> Any:
    answer = post(pages, "messages", browser.message(*entries, **more))
    assert answer.status_code == 200
    return browser.opened(answer.json()["sealed"])


def test_an_entry_arrives_once(alone: Pages, paired: Paired) -> None:
    """Also when the answer was lost and the browser tells it again."""
    one = paired.entry("one")
    for _ in range(3):
        assert tell(alone, paired, one) == {"arrived": ["one"], "off": []}
    (film,) = alone.device.history.films()
    assert (film.item_id, film.sources, film.evidence) == (
        "heat-1995",
        ("extension",),
        ("watched",),
    )
    assert film.watched_at == "2026-05-01T20:15:00+00:00"
    (batch,) = alone.device.imports.batches()
    assert (batch.about, batch.films, batch.state) == ("browser extension", 1, "kept")
    alone.http.post(f"/import/{batch.id}/undo")
    assert alone.device.history.count() == 0
    tell(alone, paired, one)
    assert alone.device.history.count() == 0, "what was undone does not come back"
    tell(alone, paired, paired.entry("again"))
    assert alone.device.history.count() == 1


def test_what_was_told_survives_a_restart_and_a_passphrase(tmp_path: Path) -> None:
    with showing(tmp_path / "client") as pages:
        code = pages.device.extension.new_code(pages.door.port)
        browser = Paired(post(pages, "pair", {"code": code}).json())
        one = browser.entry("one")
        tell(pages, browser, one)
        pages.device.store.seal("four words are better")
    with showing(tmp_path / "client") as pages:
        assert post(pages, "messages", browser.message(one)).status_code == 503, "still locked"
        pages.http.post("/unlock", data={"passphrase": "four words are better"})
        tell(pages, browser, one, browser.entry("two", title="Alien", year=1979))
        found = pages.http.get("/history").text
        assert found.count('<li class="entry') == 2


@pytest.mark.slow
def test_killed_at_any_step_an_entry_arrives_once(tmp_path: Path, films: Catalogue) -> None:
    folder = tmp_path / "client"
    with closing(Device(folder, films)) as device:
        made = device.extension.pair(device.extension.new_code(1), ORIGIN)
        assert made is not None
    browser, died = Paired(made), 0
    entry = browser.entry("one")
    program = ["client", "--folder", str(folder), "--port", "0", "--catalogue", "films"]
    with closing(killing.Lives()) as lives:
        for moment in ("INSERT 1", "INSERT 3", "INSERT 5", "COMMIT 1", "UPDATE 2", killing.NEVER):
            port = urlsplit(lives.begin(moment, *program).split()[-1]).port
            try:
                httpx.post(
                    f"http://127.0.0.1:{port}/extension/messages", json=browser.message(entry),
                    headers={"Origin": ORIGIN}, timeout=PATIENCE,
                )  # fmt: skip
            except httpx.TransportError:
                died += 1
            lives.stop()
    assert died > 2, "most of the moments were reached"
    with closing(Device(folder, films)) as device:
        assert device.history.items() == ["heat-1995"]
        (batch,) = device.imports.batches()
        assert batch.films == 1
        assert [site.name for site in device.extension.sites()] == ["kino.example"]


def test_looking_is_not_watching_and_a_series_is_no_film(alone: Pages, paired: Paired) -> None:
    tell(
        alone, paired, paired.entry("a", how="looked at"),
        paired.entry("b", title="Alien", year=1979, kind="series"),
        paired.entry("c", title="No Such Film At All", year=1911),
        paired.entry("d", title="Alien", year=1979, how="dreamt"),
    )  # fmt: skip
    history = alone.device.history
    assert history.items() == []
    assert [film.item_id for film in history.films()] == ["heat-1995"]


@pytest.fixture
def with_series(tmp_path: Path) -> Iterator[Pages]:
    """A client whose catalogue has series, also one of a film's title and two of one title."""
    pq.write_table(pa.table({
        "item_id": ["fargo-film", "fargo-series", "office-1", "office-2"],
        "title": ["Fargo", "Fargo", "The Office", "The Office"],
        "year": [1996, 2014, 2001, 2005], "genres": ["Crime", "Crime", "Comedy", "Comedy"],
        "kind": ["film", "series", "series", "series"],
    }), tmp_path / "titles.parquet")  # fmt: skip
    with showing(tmp_path / "client", catalogue=tmp_path / "titles.parquet") as running:
        yield running


def test_an_episode_counts_for_its_series(with_series: Pages) -> None:
    """Its year and numbers are its own; the film of the same title is another work."""
    code = with_series.device.extension.new_code(with_series.door.port)
    browser, history = Paired(post(with_series, "pair", {"code": code}).json()), (
        with_series.device.history
    )  # fmt: skip
    episode = {"kind": "episode", "season": 3, "number": 2, "ids": {"imdb": "tt5640958"}}
    told = [browser.entry(name, title="Fargo", year=2017, **episode) for name in ("a", "b")]
    tell(with_series, browser, *told)
    assert history.items() == ["fargo-series"]
    tell(with_series, browser, browser.entry("c", title="Fargo", year=1996))
    assert history.items() == ["fargo-film", "fargo-series"]
    tell(with_series, browser, browser.entry("d", title="The Office", **episode))
    imports = with_series.device.imports
    (batch,) = imports.batches()
    (line,) = imports.drafts(batch.id)
    assert (line.status, set(line.candidates)) == ("ambiguous", {"office-1", "office-2"})
    tell(with_series, browser, browser.entry("u", undoes="a"), browser.entry("v", undoes="b"))
    assert history.items() == ["fargo-film"]


def test_a_name_of_which_the_page_does_not_say_the_kind_is_a_film_or_a_series(
    with_series: Pages,
) -> None:
    """It counts where one work has it; the film and the series of one title wait for review."""
    code = with_series.device.extension.new_code(with_series.door.port)
    browser = Paired(post(with_series, "pair", {"code": code}).json())
    unsaid = {"kind": "work", "year": None}
    tell(with_series, browser, browser.entry("a", title="Fargo (1996)", **unsaid))
    assert with_series.device.history.items() == ["fargo-film"]
    tell(with_series, browser, browser.entry("b", title="Fargo", **unsaid))
    (batch,) = with_series.device.imports.batches()
    (line,) = with_series.device.imports.drafts(batch.id)
    assert set(line.candidates) == {"fargo-film", "fargo-series"}


def test_the_catalogue_is_searched_and_the_history_has_no_part_in_it(with_series: Pages) -> None:
    code = with_series.device.extension.new_code(with_series.door.port)
    browser = Paired(post(with_series, "pair", {"code": code}).json())
    works = [
        {"title": "Fargo", "year": 1996, "kind": "film"},
        {"title": "Fargo", "year": 2014, "kind": "series"},
    ]
    for seen in ([], ["fargo-series"]):
        with_series.device.history.add(seen)
        assert tell(with_series, browser, search="fargo")["found"] == works
    assert tell(with_series, browser, search="Nothing Like It")["found"] == []
    assert "found" not in tell(with_series, browser, search="")
    assert "found" not in tell(with_series, browser, search=["fargo"])
    asked = post(with_series, "messages", browser.message(search="fargo", token="guess"))
    assert (asked.status_code, asked.content) == (403, b"")
    for chosen in works:
        tell(with_series, browser, browser.entry(str(chosen["year"]), **chosen))
    assert with_series.device.history.items() == ["fargo-film", "fargo-series"]


def test_a_series_that_the_catalogue_lacks_is_named_in_the_review(
    alone: Pages, paired: Paired
) -> None:
    """Once, however many episodes were seen, and until the last of them is undone."""
    for name in ("a", "b"):
        tell(alone, paired, paired.entry(name, title="Night Ferries", kind="episode", number=name))
    (batch,) = alone.device.imports.batches()
    page = alone.http.get(f"/import/{batch.id}").text
    assert page.count("Night Ferries: no series of this title in the catalogue") == 1
    assert alone.device.history.count() == 0
    tell(alone, paired, paired.entry("u", undoes="a"))
    assert len(alone.device.imports.drafts(batch.id)) == 1
    tell(alone, paired, paired.entry("v", undoes="b"))
    assert alone.device.imports.drafts(batch.id) == []


def test_what_is_unsure_waits_for_review(alone: Pages, paired: Paired) -> None:
    tell(alone, paired, paired.entry("a", title="Titanic", year=None))
    (batch,) = alone.device.imports.batches()
    assert (batch.films, batch.waiting) == (0, 1)
    assert "Titanic" in alone.http.get(f"/import/{batch.id}").text
    tell(alone, paired, paired.entry("u", undoes="a"))
    assert alone.device.imports.drafts(batch.id) == []


def test_undoing_takes_back_one_entry_alone(alone: Pages, paired: Paired) -> None:
    history = alone.device.history
    tell(alone, paired, paired.entry("a"), paired.entry("b"))
    tell(alone, paired, paired.entry("u1", undoes="a"))
    assert history.items() == ["heat-1995"], "the other entry says the same"
    tell(alone, paired, paired.entry("u2", undoes="b"))
    assert history.items() == []
    tell(alone, paired, paired.entry("u3", undoes="late"), paired.entry("late"))
    assert history.items() == [], "undone before it came"
    history.add(["heat-1995"])
    tell(alone, paired, paired.entry("u4", undoes="a"))
    assert history.items() == ["heat-1995"], "what came from elsewhere stays"


def test_sites_are_switched_off_and_show_when_they_last_worked(
    alone: Pages, paired: Paired
) -> None:
    tell(alone, paired)
    alone.http.post("/extension/sites", data={})
    told = tell(alone, paired, paired.entry("a"), sites={"kino.example": {"missed": "2026-06-01"}})
    assert told == {"arrived": ["a"], "off": ["kino.example"]}
    assert alone.device.history.count() == 0
    page = alone.http.get("/extension").text
    assert "last worked on 2026-05-01" in page
    assert "the site may have changed" in page
    alone.http.post("/extension/sites", data={"site": "kino.example"})
    assert tell(alone, paired, paired.entry("b"))["off"] == []
    assert alone.device.history.count() == 1
    tell(alone, paired, paired.entry("c", title="Alien", year=1979, site="unknown.example"))
    assert alone.device.history.count() == 1, "no browser said that it looks there"


@pytest.mark.parametrize(
    "days", [{"seen": "yesterday"}, {"seen": 5}, "x", {"seen": "2026-05-01' --"}]
)
def test_sites_of_another_form_are_not_taken(alone: Pages, paired: Paired, days: Any) -> None:
    tell(alone, paired, sites={"other.example": days, "<b>": {"seen": "2026-05-01"}, "x": {}})
    assert [s.seen for s in alone.device.extension.sites() if s.name != "kino.example"] in (
        [], [None],
    )  # fmt: skip
    assert tell(alone, paired, sites=[1, 2]) == {"arrived": [], "off": []}


# ---- who is heard -------------------------------------------------------------------------


def test_a_code_works_once_and_is_not_kept(alone: Pages, tmp_path: Path) -> None:
    page = alone.http.post("/extension/code").text
    code = page.partition('<p class="code"><code>')[2].partition("<")[0]
    assert code.startswith(f"{alone.door.port}-")
    assert code not in alone.http.get("/extension").text
    made = post(alone, "pair", {"code": code.lower()})
    assert made.status_code == 200
    assert post(alone, "pair", {"code": code}).status_code == 403
    token = made.json()["token"].encode()
    files = b"".join(f.read_bytes() for f in (tmp_path / "client").rglob("*") if f.is_file())
    assert token not in files
    assert code.encode() not in files


def test_paired_anew_a_browser_keeps_its_key(alone: Pages, paired: Paired) -> None:
    """What it sealed before can still be read; the pairing before is gone. A stranger that names a
    pairing, and one that was revoked, get keys of their own."""
    extension, waiting = alone.device.extension, paired.entry("waits")
    again = {"code": extension.new_code(1), "former": paired.id}
    now = Paired(post(alone, "pair", again).json())
    assert now.key == paired.key
    assert [pairing.id for pairing in extension.pairings()] == [now.id]
    assert post(alone, "messages", paired.message(waiting)).status_code == 403
    assert tell(alone, now, waiting, waiting)["arrived"] == ["waits", "waits"]
    assert alone.device.history.items() == ["heat-1995"]
    other = {"code": extension.new_code(1), "former": now.id}
    stranger = Paired(post(alone, "pair", other, "moz-extension://other").json())
    assert stranger.key != now.key
    assert len(extension.pairings()) == 2
    extension.revoke(now.id)
    fresh = {"code": extension.new_code(1), "former": now.id}
    assert Paired(post(alone, "pair", fresh).json()).key != now.key


def test_guessing_a_code_ends_it(alone: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    extension = alone.device.extension
    code = extension.new_code(1)
    for _ in range(extensions.TRIES):
        assert post(alone, "pair", {"code": "8377-AAAA-BBBB-CCCC"}).status_code == 403
    assert post(alone, "pair", {"code": code}).status_code == 403
    code = extension.new_code(1)
    assert post(alone, "pair", {"code": ""}).status_code == 403
    assert post(alone, "pair", {"code": code}, "https://evil.example").status_code == 403
    assert post(alone, "pair", {"code": code}).status_code == 200
    monkeypatch.setattr(extensions, "LIFETIME", -1.0)
    assert post(alone, "pair", {"code": extension.new_code(1)}).status_code == 403, "too late"


def test_wrong_old_and_revoked_tokens_get_nothing(alone: Pages, paired: Paired) -> None:
    entry = paired.entry("a")
    wrong = [
        paired.message(entry, token="guess"), paired.message(entry, token=""),
        paired.message(entry, token=None), paired.message(entry) | {"pairing": "other"},
        {"pairing": paired.id, "sealed": "AAAA"}, {"pairing": paired.id, "sealed": "*"},
        {"pairing": paired.id}, {}, [], "x", None,
    ]  # fmt: skip
    for body in wrong:
        answer = post(alone, "messages", body)
        assert (answer.status_code, answer.content) == (403, b"")
    changed = bytearray(b64decode(paired.message(entry)["sealed"]))
    changed[-1] ^= 1
    body = {"pairing": paired.id, "sealed": b64encode(changed).decode()}
    assert post(alone, "messages", body).status_code == 403
    alone.http.post("/extension/revoke", data={"pairing": paired.id})
    answer = post(alone, "messages", paired.message(entry))
    assert (answer.status_code, answer.content) == (403, b"")
    assert alone.device.history.count() == 0


@pytest.mark.parametrize(
    "origin", [None, "", "null", "https://kino.example", "http://127.0.0.1:8377",
               "chrome-extension://ponmlkjihgfedcbaponmlkjihgfedcba", "moz-extension://x"],
)  # fmt: skip
def test_other_pages_and_other_extensions_get_nothing(
    alone: Pages, paired: Paired, origin: str | None
) -> None:
    """Also with the right token, which belongs to the extension that was paired."""
    answer = post(alone, "messages", paired.message(paired.entry("a")), origin)
    assert (answer.status_code, answer.content) == (403, b"")
    assert "access-control-allow-origin" not in answer.headers
    assert alone.device.history.count() == 0


def test_only_a_post_to_127_0_0_1_is_heard(alone: Pages, paired: Paired) -> None:
    message = paired.message(paired.entry("a"))
    url = f"{alone.entrance}/extension/messages"
    got = httpx.get(url, params=message, headers={"Origin": ORIGIN}, timeout=PATIENCE)
    assert "EpicRec runs on this machine" in got.text, "the entrance, as for anybody"
    named = {"Origin": ORIGIN, "Host": f"{alone.door.name}:{alone.door.port}"}
    refused = httpx.post(url, json=message, headers=named, timeout=PATIENCE)
    assert refused.status_code == 403
    assert alone.device.history.count() == 0


def test_large_messages_are_refused(alone: Pages, paired: Paired) -> None:
    answer = post(alone, "messages", {"pairing": paired.id, "sealed": "A" * 2**21})
    assert answer.status_code == 413


def test_a_sealed_message_is_for_one_key(tmp_path: Path, films: Catalogue) -> None:
    with closing(Device(tmp_path, films)) as device:
        made = device.extension.pair(device.extension.new_code(1), ORIGIN)
        assert made is not None
        browser = Paired(made)
        assert SealedKey.new().open(b64decode(browser.message()["sealed"])) is None
        stored = device.store.copy()
        assert browser.token.encode() not in stored
