"""The labelled pages have the form that their README promises, in each half alike.

What fails is told by file names alone, so that nobody reads a sealed page by accident.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import combinations, pairwise
from typing import Any
from unicodedata import decimal
from urllib.parse import unquote, urlsplit

import pytest

from extension.labelled import OPEN, SCRIPTS, SEALED, read

Label = dict[str, Any]
HALVES = {name: read(name) for name in (OPEN, *SEALED)}
FIELDS = {"file", "address", "playback", "expected", "why"}
SHOWS = {"film", "advert", "trailer", "preview", "clip", "music", "live", "other"}
NEEDS = {
    "play": set(), "pause": set(), "ended": set(), "seeked": {"to"}, "ratechange": {"rate"},
    "volumechange": {"muted"}, "source": {"src", "duration", "shows", "to"},
    "enterpictureinpicture": set(), "leavepictureinpicture": set(),
}  # fmt: skip
SELECTOR = re.compile(r"(?=.)(?P<tag>[a-z][a-z0-9-]*)?(?:#(?P<id>[\w-]+)|\.(?P<cls>[\w-]+))?")


class Tags(HTMLParser):
    """Every start tag of a page, those in shadow roots too."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def count(self, selector: str) -> int:
        """How many elements `tag`, `#id`, `.class` or `tag.class` selects."""
        said = SELECTOR.fullmatch(selector)
        assert said, "a selector of another form"
        return sum(
            said["tag"] in (None, tag)
            and said["id"] in (None, attrs.get("id"))
            and (said["cls"] is None or said["cls"] in (attrs.get("class") or "").split())
            for tag, attrs in self.found
        )


each_half = pytest.mark.parametrize("half", HALVES)


def files_of(label: Label) -> list[str]:
    return [label["file"], *(frame["file"] for frame in label.get("frames", []))]


def verdict(label: Label) -> str:
    return label["expected"]["how"] if label["expected"] else "nothing"


def assert_all(labels: list[Label], holds: Callable[[Label], bool]) -> None:
    """A failure names files alone: neither its frames nor an error of `holds` may show a label."""
    __tracebackhide__ = True
    wrong = []
    for label in labels:
        try:
            right = holds(label)
        except (AssertionError, KeyError, ValueError):
            right = False
        if not right:
            wrong.append(label["file"])
    assert not wrong


def test_there_are_enough_and_the_halves_are_alike() -> None:
    labels = {name: found for name, (found, _) in HALVES.items()}
    assert all(len(found) >= 80 for found in labels.values())
    verdicts = {name: Counter(map(verdict, found)) for name, found in labels.items()}
    for what in ("nothing", "watched", "looked at"):
        shares = [verdicts[name][what] / len(found) for name, found in labels.items()]
        assert max(shares) <= 1.25 * min(shares), f"{what} is not expected about equally often"


def test_no_page_is_in_two_halves() -> None:
    for one, other in combinations(HALVES, 2):
        pages = set(HALVES[other][1].values())
        assert not [name for name, text in HALVES[one][1].items() if text in pages]


@pytest.mark.parametrize("half", SEALED)
def test_no_rule_names_an_expected_work(half: str) -> None:
    """Works may come again on other pages, since no rule is of a work; one word may be any word."""
    rules = words(SCRIPTS)

    def holds(label: Label) -> bool:
        titles = [label["expected"]["title"]] if label["expected"] else []
        return not [one for one in titles if len(one.split()) > 1 and words(one) in rules]

    assert_all(HALVES[half][0], holds)


@each_half
def test_labels_have_the_fields_and_only_those(half: str) -> None:
    def holds(label: Label) -> bool:
        expected, url = label["expected"], urlsplit(label["address"])
        if label.keys() - {"states", "frames"} != FIELDS or not label["why"]:
            return False
        if url.scheme != "https" or not url.hostname or not url.path.startswith("/"):
            return False
        if expected is None:
            return True
        fields = {"title", "year", "kind", "ids", "how"}
        if expected["kind"] == "episode":
            fields |= {"season", "number"}
        if expected["how"] == "watched":
            fields |= {"share"}
        return (
            expected.keys() - {"also", "episode"} == fields
            and expected["kind"] in ("film", "series", "episode")
            and expected["how"] in ("watched", "looked at")
            and expected["ids"].keys() <= {"imdb", "tmdb", "wikidata"}
        )

    assert_all(HALVES[half][0], holds)


@each_half
def test_every_file_is_there_and_belongs_to_one_label(half: str) -> None:
    labels, files = HALVES[half]
    assert sorted(files) == sorted(name for label in labels for name in files_of(label))


@each_half
def test_frames_are_framed(half: str) -> None:
    labels, files = HALVES[half]

    def holds(label: Label) -> bool:
        sources = {attrs.get("src") for tag, attrs in Tags(files[label["file"]]).found}
        frames = {frame["address"] for frame in label.get("frames", [])}
        return (
            frames <= sources
            and {video["frame"] for video in label["playback"] if "frame" in video} == frames
        )

    assert_all(labels, holds)


@each_half
def test_selectors_select_one_element(half: str) -> None:
    labels, files = HALVES[half]

    def holds(label: Label) -> bool:
        states = label.get("states", [])
        frames = {frame["address"]: files[frame["file"]] for frame in label.get("frames", [])}

        def there(selector: str, page: str, before: float) -> bool:
            later = [
                Tags(change.get("html", "")).count(selector)
                for state in states if state["t"] < before for change in state.get("change", [])
            ]  # fmt: skip
            return Tags(page).count(selector) == 1 or (
                Tags(page).count(selector) == 0 and later.count(1) == 1
            )

        page = files[label["file"]]
        return all(
            there(video["video"], frames.get(video.get("frame"), page), video["events"][0]["t"])
            for video in label["playback"]
        ) and all(
            there(change["select"], page, state["t"])
            for state in states for change in state.get("change", [])
        )  # fmt: skip

    assert_all(labels, holds)


@each_half
def test_states_follow_each_other(half: str) -> None:
    def holds(label: Label) -> bool:
        states = label.get("states", [])
        return all(a["t"] < b["t"] for a, b in pairwise(states)) and all(
            state.keys() <= {"t", "address", "title", "change"} and len(state) > 1
            and all(
                change.keys() in ({"select", "html"}, {"select", "set"})
                for change in state.get("change", [])
            )
            for state in states
        )  # fmt: skip

    assert_all(HALVES[half][0], holds)


Part = tuple[str, str, float | None, float, float]


def played(video: Label) -> Iterator[Part]:
    """Each part that was played: of which source, what it shows, its length, from, to.

    A script in which time and position do not agree is no script: ValueError.
    """
    shows, duration, src = video["shows"], video["duration"], video.get("src", "")
    now, at, rate, on = 0.0, float(video.get("at", 0)), 1.0, False
    for event in video["events"]:
        said = event["event"]
        moved = at + rate * (event["t"] - now) * on
        # times are given to a tenth of a second, and it may play at twice the speed
        if event["t"] < now or abs(moved - event["at"]) > 0.05 or shows not in SHOWS:
            raise ValueError("the video cannot be there at that time")
        if event.keys() != {"t", "at", "event"} | NEEDS[said]:
            raise ValueError("fields are missing, or are too many")
        if on:
            yield src, shows, duration, at, event["at"]
        if duration is not None and event["at"] > duration + 0.05:
            raise ValueError("beyond the end")
        if said == "ended" and abs(event["at"] - duration) > 0.05:
            raise ValueError("ended before the end")
        if (said == "play" and on) or (said in ("pause", "ended") and not on):
            raise ValueError("it already plays, or already stands")
        now, at = event["t"], event.get("to", event["at"])
        rate = event.get("rate", rate)
        on = (on or said == "play") and said not in ("pause", "ended", "source")
        if said == "source":
            src, shows, duration = event["src"], event["shows"], event["duration"]
    if on:
        raise ValueError("it plays on for ever")


def share(label: Label) -> float:
    """The largest part of a film's length that was played, each piece of it counted once."""
    pieces: dict[tuple[str, str, float], list[tuple[float, float]]] = {}
    for video in label["playback"]:
        for src, shows, duration, begin, end in played(video):
            if shows == "film" and duration is not None:
                pieces.setdefault((video["video"], src, duration), []).append((begin, end))
    shares = [0.0]
    for (_, _, duration), parts in pieces.items():
        total = upto = 0.0
        for begin, end in sorted(parts):
            total += max(0.0, end - max(begin, upto))
            upto = max(upto, end)
        shares.append(total / duration)
    return max(shares)


@each_half
def test_watched_is_what_was_played_for_half_its_length(half: str) -> None:
    def holds(label: Label) -> bool:
        seen = share(label)
        if verdict(label) == "watched":
            return seen >= 0.5 and abs(seen - label["expected"]["share"]) < 0.011
        return seen < 0.5

    assert_all(HALVES[half][0], holds)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"t": 11, "at": 50, "event": "pause"}, "at that time"),
        ({"t": 51, "at": 50, "event": "ended"}, "before the end"),
        ({"t": 121, "at": 120, "event": "pause"}, "beyond"),
        ({"t": 51, "at": 50, "event": "seeked"}, "missing"),
        ({"t": 51, "at": 50, "event": "play"}, "already"),
        ({"t": 51, "at": 50, "event": "ratechange", "rate": 2}, "for ever"),
    ],
)
def test_a_script_that_cannot_be_is_refused(event: Label, why: str) -> None:
    events = [{"t": 1, "at": 0, "event": "play"}, event]
    with pytest.raises(ValueError, match=why):
        list(played({"video": "video", "duration": 100, "shows": "film", "events": events}))


def words(text: str) -> str:
    """The words of a text in lower case, each with a space on both sides."""
    return " " + " ".join(re.findall(r"[^\W_]+", text.casefold())) + " "


def all_text(label: Label, files: dict[str, str]) -> str:
    """Of every state of a page and its frames, and their addresses; entities read."""
    texts = [files[name] for name in files_of(label)] + [unquote(label["address"])]
    for state in label.get("states", []):
        texts += [unquote(state.get("address", "")), state.get("title", "")]
        texts += [change.get("html", "") for change in state.get("change", [])]
    return html.unescape(" ".join(texts))


@each_half
def test_what_is_expected_stands_on_the_page_or_in_its_address(half: str) -> None:
    labels, files = HALVES[half]

    def holds(label: Label) -> bool:
        expected = label["expected"]
        if expected is None:
            return True
        text = all_text(label, files)
        titles = [expected["title"], *expected.get("also", []), expected.get("episode", "")]
        numbers = [expected[name] for name in ("year", "season", "number") if expected.get(name)]
        counted = "".join(str(decimal(one)) if one.isdecimal() else one for one in text)
        return (
            all(words(title) in words(text) for title in titles if title)
            and all(re.search(rf"(?<!\d)0*{number}(?!\d)", counted) for number in numbers)
            and all(one in text for one in expected["ids"].values())
        )

    assert_all(labels, holds)
