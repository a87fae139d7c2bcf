"""Two tabs of one person: what a change says is said in the tab that made it, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from client.conftest import Pages, showing


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Pages]:
    with showing(tmp_path / "client") as pages:
        yield pages


def change(pages: Pages, path: str, **data: str) -> str:
    """Where the tab is led; it has not gone there yet."""
    answer = pages.http.post(path, data=data, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def said(answer: httpx.Response) -> str:
    return answer.text.partition('class="said"')[2].partition("</div>")[0]


def test_each_tab_hears_of_its_own_change_once(alone: Pages) -> None:
    schedule = change(alone, "/server/schedule", every="never")
    film = change(alone, "/film", item_id="heat-1995", act="later", back="/watchlist#found")
    assert said(alone.http.get("/history")) == "", "a third tab made no change"
    assert film.endswith("#found"), "and the page is where it was"
    for where, words, other in (
        (film, "Heat: is on your watchlist", "schedule"),
        (schedule, "Saved the schedule", "watchlist"),
    ):
        first = said(alone.http.get(where))
        assert words in first
        assert other not in first
        assert said(alone.http.get(where)) == "", "not again, by reloading or going back"


def test_work_in_the_background_speaks_to_the_tab_that_waits_for_it(alone: Pages) -> None:
    alone.http.post("/example")
    led = alone.http.post("/data/erase", data={"sure": "yes"}, follow_redirects=False)
    assert said(alone.http.get("/privacy")) == ""
    assert "are deleted" in said(alone.http.get(led.headers["location"]))


def test_what_nobody_came_to_hear_is_forgotten(alone: Pages) -> None:
    first = change(alone, "/server/schedule", every="never")
    for _ in range(40):
        change(alone, "/server/schedule", every="never")
    assert len(alone.state.said) < 40
    assert said(alone.http.get(first)) == ""


def test_a_locked_program_keeps_no_message(alone: Pages) -> None:
    alone.device.store.seal("four words are better")
    film = change(alone, "/film", item_id="heat-1995", act="later", back="/watchlist")
    locked = change(alone, "/lock")
    assert "Heat" not in str(alone.state.said)
    assert "Locked." in said(alone.http.get(locked))
    assert "Heat" not in alone.http.get(film).text
