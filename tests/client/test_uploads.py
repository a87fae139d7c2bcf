"""Files that are too large for memory: onto the disk as they come, read, and gone again."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.conftest import Pages, showing
from epicrec.client.device import UPLOADS, Device
from epicrec.client.web import forms
from epicrec.client.web.forms import Unpacking, received
from epicrec.data import Catalogue
from epicrec.errors import InputError
from loopback import PATIENCE

BOUNDARY = b"----mark"
KIND = f"multipart/form-data; boundary={BOUNDARY.decode()}"
NEARLY = [b"", b"\r\n", b"\r\n--", b"\r\n----mar", b"--mark\r\n", b"\r\n\r\n", b"\r\r\n--" * 3]


def form(files: dict[str, bytes]) -> bytes:
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="list"; filename="%s"\r\n'
        b"Content-Type: x/y\r\n\r\n%s\r\n" % (BOUNDARY, name.encode(), content)
        for name, content in files.items()
    ]
    return b"".join([*parts, b"--%s--\r\n" % BOUNDARY])


@given(
    st.lists(st.lists(st.sampled_from([*NEARLY, b"a film", b"\x00"])).map(b"".join), max_size=3),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_however_it_is_cut_the_files_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], cuts: list[int]
) -> None:
    files = {f"{k}.csv": content for k, content in enumerate(contents)}
    body, folder = form(files), tmp_path_factory.mktemp("form")
    places = [0, *sorted(cuts), len(body)]
    unpacking = Unpacking(folder, BOUNDARY)
    for start, end in pairwise(places):
        unpacking.feed(body[start:end])
    unpacking.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    unpacking = Unpacking(inner, BOUNDARY)
    names = ["../up.csv", "/etc/x.csv", "..\\..\\w.csv", "..", ".", "", "plain.csv"]
    unpacking.feed(form(dict.fromkeys(names, b"x")))
    unpacking.close()
    assert {path.name for path in inner.iterdir()} == {"up.csv", "x.csv", "w.csv", "plain.csv"}
    assert list(tmp_path.iterdir()) == [inner]


async def pieces(*given: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece
    if then is not None:
        raise then


def test_what_does_not_come_to_an_end_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = pieces(form({"a.csv": b"x" * 99})[:80], then=ConnectionError("the line broke"))
    with pytest.raises(ConnectionError):
        asyncio.run(received(dropped, KIND, tmp_path))
    with pytest.raises(InputError, match="no form"):
        asyncio.run(received(pieces(form({"a" * 20_000: b"x"})), KIND, tmp_path))
    with pytest.raises(InputError, match="choose one"):
        asyncio.run(received(pieces(b""), "text/plain", tmp_path))
    monkeypatch.setattr(forms, "MOST", 100)
    with pytest.raises(InputError, match="too large"):
        asyncio.run(received(pieces(*[form({"a.csv": b"x"})] * 3), KIND, tmp_path))
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_what_a_killed_program_left_goes_at_the_next_start(
    tmp_path: Path, films: Catalogue
) -> None:
    asyncio.run(received(pieces(form({"a.csv": b"x"})), KIND, tmp_path / UPLOADS))
    assert [path.name for path in tmp_path.rglob("*.csv")] == ["a.csv"]
    Device(tmp_path, films).close()
    assert not (tmp_path / UPLOADS).exists()


# ---- lists of films in the pages ----------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Pages]:
    with showing(tmp_path / "client", catalogue="titles") as pages:
        yield pages


def test_two_files_that_belong_together(alone: Pages) -> None:
    head = "tconst\ttitleType\tprimaryTitle\toriginalTitle\tisAdult\tstartYear\tgenres\n"
    basics = head + "tt0113277\tmovie\tHeat\tHeat\t0\t1995\tCrime\n"
    basics += "tt9999991\tmovie\tNobody Knows It\tKeiner\t0\t2001\tDrama\n"
    votes = "tconst\taverageRating\tnumVotes\ntt0113277\t8.3\t700000\ntt9999991\t7.0\t12\n"
    before = len(alone.device.catalogue)
    given = [
        ("list", (name, gzip.compress(text.encode())))
        for name, text in (("title.basics.tsv.gz", basics), ("title.ratings.tsv.gz", votes))
    ]
    added = alone.http.post("/data/catalogue", files=given)
    assert "1 title was added" in added.text
    assert len(alone.device.catalogue) == before + 1, "Heat is the one that was there"
    assert alone.device.catalogue.title_of("tt9999991") == "Nobody Knows It"
    assert list((alone.device.folder / UPLOADS).iterdir()) == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([("list", ("", b""))], "no file was chosen"),
        ([("list", ("a.csv", b"name\nHeat\n"))], "no column item_id"),
        ([("list", ("a.zip", b"no zip"))], "a.zip is no zip"),
        ([("list", ("a.csv", b"x")), ("list", ("b.csv", b"x"))], "it holds no list of films"),
    ],
)
def test_a_list_that_cannot_be_read_has_a_page(
    alone: Pages, files: list[tuple[str, tuple[str, bytes]]], words: str
) -> None:
    before = len(alone.device.catalogue)
    answer = alone.http.post("/data/catalogue", files=files)
    assert answer.status_code == 400
    assert words in answer.text.lower()
    assert UPLOADS not in answer.text, "where it lay meanwhile is nobody's concern"
    assert len(alone.device.catalogue) == before
    assert list((alone.device.folder / UPLOADS).iterdir()) == []


def test_nothing_but_a_form_with_files_is_taken(alone: Pages) -> None:
    assert alone.http.post("/data/catalogue", data={"path": "/etc"}).status_code == 400
    for path, size in (("/data/catalogue", 2**31), ("/sources/file", 2**27)):
        with closing(HTTPConnection("127.0.0.1", alone.door.port, timeout=PATIENCE)) as line:
            line.putrequest("POST", path)
            line.putheader("Authorization", alone.http.headers["Authorization"])
            line.putheader("Content-Length", str(size))
            line.endheaders()
            assert line.getresponse().status == 413, "refused before it is sent"
