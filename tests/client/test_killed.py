"""The running program, killed while a person uses its pages: what they were told still holds."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import killing
from client.conftest import Served, shown_payload
from epicrec.client.device import UPLOADS, Device
from epicrec.client.main import catalogue_of
from epicrec.client.store import PLAIN
from epicrec.data import Catalogue
from epicrec.server.store import feedback
from loopback import PATIENCE, TRUSTED

MOMENTS = ("20", "write 1", "answer 2", "COMMIT 9", "fsync 4", "answer 9")
FILMS = 5
"""How many are imported at once."""

Rows = tuple[tuple[str, str, float], ...]


class Person:
    """Imports, previews and sends as a browser would, and notes what the pages acknowledged."""

    def __init__(self, films: Catalogue, *, lists: bool = False) -> None:
        self.films, self.lists = films, lists
        self.next = 0
        self.draft: tuple[str, set[str]] | None = None
        self.kept: set[str] = set()
        self.drawn = False
        self.shown: dict[str, bytes] = {}
        self.presses: Counter[str] = Counter()
        self.sent: set[str] = set()
        self.last = len(films) - 1
        self.stars: dict[str, float] = {}
        self.later: set[str] = set()
        self.unwanted: set[str] = set()
        self.limit = 4.0
        self.listed: set[str] = set()

    def use(self, address: str) -> None:
        """Until the program is gone."""
        parts = urlsplit(address)
        url = f"http://127.0.0.1:{parts.port}"  # where the name leads, in a browser
        own = {"Host": parts.netloc, "Origin": f"http://{parts.netloc}"}
        with httpx.Client(
            base_url=url,
            headers=own,
            timeout=PATIENCE,
            verify=TRUSTED,
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as http:
            letting_in = http.get("/", params=parts.query)
            assert letting_in.status_code == 200
            http.headers["Cookie"] = letting_in.headers["set-cookie"].partition(";")[0]
            for identity, payload in self.shown.items():
                assert nameless(http.get(f"/release/{identity}").content) == payload
            while True:
                self.send_what_waits(http)
                self.bring_films(http)
                self.say_what_they_think(http)
                if self.lists:
                    self.add_a_list(http)
                assert self.post(http, "/preview/draw") == "/preview"
                self.drawn = True

    def send_what_waits(self, http: httpx.Client) -> None:
        page = http.get("/preview").text
        if 'id="payload"' not in page:
            assert not self.drawn, "a draw was acknowledged and is gone"
            return
        payload = nameless(shown_payload(page))
        (identity,) = re.findall(r'action="/release/(\w+)/send"', page)
        assert self.shown.setdefault(identity, payload) == payload, "drawn anew"
        assert identity not in self.sent, "offered again after it was sent"
        self.drawn = False
        self.presses[identity] += 1
        assert self.post(http, f"/release/{identity}/send") == "/for-you"
        self.sent.add(identity)
        assert http.get("/for-you").status_code == 200

    def bring_films(self, http: httpx.Client) -> None:
        if self.draft is None:
            chosen = range(self.next, self.next + FILMS)
            self.next += FILMS
            lines = [f'"{self.films.titles[j]}",{self.films.years[j]},,,,,mine' for j in chosen]
            text = "\n".join(["title,year,imdb_id,tmdb_id,watched_at,rating,source", *lines])
            review = self.post(http, "/sources/file", files={"file": ("own.csv", text.encode())})
            self.draft = review, {str(self.films.item_ids[j]) for j in chosen}
        review, items = self.draft
        assert http.get(review).status_code == 200
        assert self.post(http, f"{review}/keep") in ("/for-you", "/history")
        self.kept |= items
        self.draft = None

    def say_what_they_think(self, http: httpx.Client) -> None:
        """Of films from the end of the list, each of them once; and another limit."""
        rated, later, unwanted = (
            str(self.films.item_ids[self.last - k]) for k in range(3)
        )  # fmt: skip
        self.last -= 3
        stars = 1 + self.last % 5
        self.post(http, "/film", data={"item_id": rated, "act": "stars", "stars": str(stars)})
        self.stars[rated] = stars
        self.kept.add(rated)
        self.post(http, "/film", data={"item_id": later, "act": "later"})
        self.later.add(later)
        self.post(http, "/film", data={"item_id": unwanted, "act": "no"})
        self.unwanted.add(unwanted)
        chosen = {"limit": f"{self.limit + 0.5}", "mechanism": "epicrec"}  # rows tell draws apart
        assert self.post(http, "/privacy", data=chosen) == "/privacy"
        self.limit += 0.5

    def add_a_list(self, http: httpx.Client) -> None:
        title = f"Nobody Knows Number {len(self.listed)}"
        text = f"item_id,title,genres,year\n1,{title},Drama,2001\n".encode()
        assert self.post(http, "/data/catalogue", files={"list": ("l.csv", text)}) == "/data"
        self.listed.add(title)

    def post(self, http: httpx.Client, path: str, **form: Any) -> str:
        """Where the page leads to; that it leads on is the acknowledgement."""
        answer = http.post(path, **form)
        while "<progress" in answer.text:  # it goes on in the background
            answer = http.get(answer.text.partition('data-live="')[2].partition('"')[0])
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"]).partition("?")[0]


def nameless(payload: bytes) -> bytes:
    """The server gives the name at the first sending; all else is shown before."""
    return re.sub(rb'"UserId":"\w*"', b'"UserId":""', payload)


def live(lives: killing.Lives, moment: str, program: list[str], person: Person) -> None:
    """One life of the program, until it reaches the step at which it dies."""
    said = lives.begin(moment, *program)
    if "open http" in said:  # else it died before it was ready
        with suppress(httpx.TransportError):
            person.use(said.split()[-1])
    assert lives.end() == -signal.SIGKILL, "it ended by itself"


def due(folder: Path) -> set[str]:
    """The releases in the ledger that are not called sent yet."""
    ledger = folder / "ledger.jsonl"
    entered = ledger.read_text() if ledger.exists() else ""
    with closing(sqlite3.connect(f"file:{folder / PLAIN}?mode=ro", uri=True)) as db:
        recorded = db.execute("SELECT id FROM releases WHERE state = 'recorded'").fetchall()
    return {identity for (identity,) in recorded if identity in entered}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moments", "catalogue"),
    [
        (MOMENTS, "films"),
        pytest.param([str(k) for k in range(1, 900, 6)], "films", marks=pytest.mark.soak),
        pytest.param([str(k) for k in range(5, 755, 15)], "titles", marks=pytest.mark.soak),
    ],
    ids=["some steps", "every sixth step", "fifty steps with lists"],
)
def test_killed_while_the_pages_are_used(
    tmp_path: Path,
    films: Catalogue,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    moments: Sequence[str],
    catalogue: str,
) -> None:
    folder, put = tmp_path / "client", feedback.put
    arrived: list[tuple[Rows, set[str]]] = []

    def note(connection: Any, rows: list[Any], **options: Any) -> set[int]:
        """What arrives at the server, and which releases may: read from the disk at that moment."""
        arrived.append((tuple((row.UserId, row.ItemId, row.Value) for row in rows), due(folder)))
        return put(connection, rows, **options)

    monkeypatch.setattr(feedback, "put", note)
    program = ["client", "--folder", str(folder), "--server", served.url, "--port", "0"]
    program += ["--catalogue", catalogue]
    person = Person(films, lists=catalogue == "titles")
    with closing(killing.Lives()) as lives:
        for moment in moments:
            live(lives, moment, program, person)
    assert len(person.sent) > 1, "the kills left room for some releases"

    device = Device(folder, catalogue_of(folder, catalogue), server=served.url)
    assert person.listed <= set(device.catalogue.titles.tolist()), "no list is lost"
    assert not (folder / UPLOADS).exists(), "and nothing lies about"
    assert person.stars.items() <= device.history.ratings().items()
    assert person.later <= set(device.shelf.watchlist())
    assert person.unwanted <= set(device.shelf.unwanted())
    assert device.ledger.limit_epsilon >= person.limit
    stored = {one.id: one for one in device.releases.all()}
    assert person.kept <= set(device.history.items()), "nothing kept is lost"
    kept = {one.id: nameless(one.payload) for one in stored.values()}
    assert person.shown.items() <= kept.items()
    assert {stored[identity].state for identity in person.sent} == {"sent"}

    entered = [entry.about.split()[1].rstrip(":") for entry in device.ledger.entries()]
    assert sorted(entered) == sorted(stored), "one entry for each release, and no other"
    epsilons = [one.release.guarantee.epsilon for one in stored.values()]
    assert device.ledger.total()["item"].epsilon == pytest.approx(max(epsilons))

    ids: dict[Rows, list[str]] = {}
    for one in stored.values():
        sent = zip(one.release.items, one.release.values, strict=True)
        rows = tuple((one.user_id or "", item, value) for item, value in sent)
        ids.setdefault(rows, []).append(one.id)
    for rows, allowed in arrived:
        assert allowed & set(ids[rows]), "in the ledger before it arrives, called sent afterwards"
    for rows, times in Counter(rows for rows, _ in arrived).items():
        assert times <= sum(person.presses[i] for i in ids[rows]), "sent only when told to"

    held = served.held(device)
    certain = {i for one in stored.values() if one.state == "sent" for i in one.release.items}
    drawn = {i for one in stored.values() for i in one.release.items}
    assert certain <= {row.ItemId for row in held} <= drawn, "nothing there that is not recorded"
    assert {row.Value for row in held} == {1.0}, "what was sent again counts once"
    for one in device.releases.unsent():
        device.send(one.id)
    assert {row.ItemId for row in served.held(device)} == drawn
    device.close()
