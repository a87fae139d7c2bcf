"""What the extension says on the labelled pages: nothing wrong, and what it knows or asks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from extension.labelled import EXTENSION, PAGES, PLAY, SCRIPTS, outcome, outcomes, read
from loopback import PATIENCE

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed (apt-get install chromium)", allow_module_level=True)


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page that has the scripts which run in a tab."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"],
            timeout=PATIENCE * 1000,
        )  # fmt: skip
        made = browser.new_page()
        made.set_default_timeout(PATIENCE * 1000)
        made.evaluate(SCRIPTS + "\n;0")
        yield made
        browser.close()


def test_no_page_is_reported_wrongly(page: Any) -> None:
    labels = read()
    found = dict(zip((label["file"] for label in labels), outcomes(page, labels), strict=True))
    assert not {file: said for file, said in found.items() if said.startswith("wrong")}
    assert found == {label["file"]: label["outcome"] for label in labels}


def test_the_pages_are_few_and_small_and_each_has_a_label() -> None:
    labels, files = read(), {path.name: path for path in PAGES.glob("*.html")}
    framed = [frame["file"] for one in labels for frame in one.get("frames", [])]
    assert sorted(files) == sorted([*framed, *(one["file"] for one in labels)])
    fields = {"file", "address", "playback", "expected", "why", "outcome"}
    assert all(one.keys() - {"states", "frames"} == fields for one in labels)
    assert len(labels) <= 120
    assert sum(path.stat().st_size for path in PAGES.iterdir()) < 1_000_000


@pytest.mark.parametrize(
    "change", [{"title": "Other"}, {"kind": "series"}, {"how": "looked at"}, {"year": 1996},
               {"ids": {"imdb": "tt0000001"}}],
)  # fmt: skip
def test_a_wrong_report_is_called_wrong(change: Any) -> None:
    right = {"title": "Heat", "year": 1995, "kind": "film", "season": None, "number": None,
             "ids": {}, "how": "watched"}  # fmt: skip
    label = {"expected": right}
    assert outcome(label, [{"said": {"seen": right}}]) == "named"
    assert outcome(label, [{"said": {"seen": right | change}}]).startswith("wrong")
    assert outcome({"expected": None}, [{"said": {"seen": right}}]).startswith("wrong")


def test_a_video_is_asked_about_once(page: Any) -> None:
    """Also where the page shows the next name while the video is still there, and not in the half
    of it that nobody played."""
    events = [{"t": 1, "at": 0, "event": "play"}]
    video = {"video": "video", "duration": 1200, "shows": "film", "events": events}
    states = [{"t": 710, "title": "Alien – Kino"}, {"t": 720, "title": "Up – Kino"}]
    label = {"address": "https://kino.example/f/1", "playback": [video], "states": states}
    shown = {"frame": None, "frames": [], "html": "<title>Heat – Kino</title><video></video>"}
    for until, asked in ((700, ["Heat – Kino"]), (500, [])):
        events[1:] = [{"t": until + 1, "at": until, "event": "pause"}]
        (told,) = page.evaluate(PLAY, [shown | {"label": label}])
        assert [one["said"]["unnamed"]["texts"]["title"] for one in told] == asked


def test_what_the_page_before_left_in_the_head_names_nothing(page: Any) -> None:
    """But a page below it, where its film is played, is about the same."""
    film = '{"@type": "Movie", "name": "Heat", "dateCreated": "1995"}'
    html = f'<script type="application/ld+json">{film}</script><h1>Heat</h1><video></video>'
    events = [{"t": 9, "at": 0, "event": "play"}, {"t": 4009, "at": 4000, "event": "pause"}]
    video = {"video": "video", "duration": 6000, "shows": "film", "events": events}
    for player, said in (("/f/heat/play", "watched"), ("/f/alien", None)):
        states = [{"t": 5, "address": f"https://kino.example{player}"}]
        label = {"address": "https://kino.example/f/heat", "playback": [video], "states": states}
        (told,) = page.evaluate(
            PLAY, [{"frame": None, "frames": [], "html": html, "label": label}]
        )  # fmt: skip
        assert told[0]["said"]["seen"]["how"] == "looked at"
        assert told[1]["said"].get("seen", {}).get("how") == said
        assert len(told) == 2


# ---- what a page states -------------------------------------------------------------------------

READ = """([head, body, media]) => globalThis.epicrec.page.read(
  Document.parseHTMLUnsafe(`<head>${head}</head><body>${body}</body>`), "https://kino.example/f/1",
  { media },
)"""
GRAPH = '<meta property="og:type" content="{}"><meta property="og:title" content="Heat (1995)">'
DIRECTED = '<meta property="video:director" content="Michael Mann">'


@pytest.mark.parametrize(
    ("head", "media", "found"),
    [
        (GRAPH.format("video.movie") + DIRECTED, None, ("Heat", 1995, "film")),
        (GRAPH.format("video.movie"), None, None),  # so many sites call each of their videos
        (GRAPH.format("video.other") + DIRECTED, None, None),
        ("", {"title": "S01E02 Lies", "artist": "Dark"}, ("Dark", None, "episode")),
        ("", {"title": "Dark 1x02", "artist": ""}, ("Dark", None, "episode")),
        ("", {"title": "Dark", "artist": "Kino", "album": "S1:E2"}, ("Kino", None, "episode")),
        ("", {"title": "Dark", "artist": "Netzkino"}, None),
        ("", {"title": "S1 E2", "artist": ""}, None),
    ],
)
def test_open_graph_and_the_media_session(page: Any, head: str, media: Any, found: Any) -> None:
    said = page.evaluate(READ, [head, "<h1>Heat (1995)</h1>", media])
    assert (said and (said["title"], said["year"], said["kind"])) == found


# ---- what is learned from an answer --------------------------------------------------------------


@pytest.fixture(scope="module")
def learned(page: Any) -> Any:
    """`learned.js`, as one script."""
    source = (EXTENSION / "learned.js").read_text("utf-8").partition("\n\n")[2]
    page.evaluate(f"{source.replace('export ', '')}\nglobalThis.learned = {{ placeOf, named }};0")
    return page


def texts(title: str = "", heading: str = "", og: str = "") -> dict[str, str]:
    return {"title": title, "heading": heading, "og": og}


@pytest.mark.parametrize(
    ("answered", "name", "place", "other", "found"),
    [
        (texts("Heat – Kino"), "heat", "title", texts("Alien – Kino"), ("Alien", None, "work")),
        (texts("Watch Heat (1995) | Kino"), "Heat", "title", texts("Watch Up (2009) | Kino"),
         ("Up", 2009, "work")),
        (texts("Heat – Kino", "Heat"), "Heat", "heading", texts("?", "Alien"),
         ("Alien", None, "work")),
        (texts("Kino", "Kino", "Heat now"), "Heat", "og", texts(og="Dark S1 E2 now"),
         ("Dark", None, "episode")),
        (texts("Heat – Kino"), "Heat", "title", texts("Alien | Kino"), None),
        (texts("Heat – Kino"), "Heat", "title", texts(" – Kino"), None),
        (texts("Theatre – Kino"), "Heat", None, None, None),
        (texts("Heat, " + "which everybody should see once " * 3), "Heat", None, None, None),
    ],
)  # fmt: skip
def test_a_name_is_found_where_the_answer_was(
    learned: Any, answered: Any, name: str, place: str | None, other: Any, found: Any
) -> None:
    """And nothing where a page has another form, so that the person is asked again."""
    rule = learned.evaluate("([texts, name]) => learned.placeOf(texts, name)", [answered, name])
    assert (rule and rule["place"]) == place
    if place:
        said = learned.evaluate("([texts, rule]) => learned.named(texts, rule)", [other, rule])
        assert (said and (said["title"], said["year"], said["kind"])) == found
    assert learned.evaluate("() => learned.named({}, null)") is None
