"""The pages in a real Firefox: the same journey as in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.conftest import Pages, Served, showing
from firefox import MISSING, PROGRAM, Marionette, firefox
from loopback import wait_for

if PROGRAM is None:
    pytest.skip(MISSING, allow_module_level=True)

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ASKED = """
window.asked = [];
Services.obs.addObserver((channel) => {
  const { loadInfo, URI } = channel.QueryInterface(Ci.nsIHttpChannel);
  window.asked.push([loadInfo.triggeringPrincipal?.origin ?? "", URI.hostPort]);
}, "http-on-modify-request");
"""


class Person:
    """Somebody before Firefox: presses what is shown, and reads."""

    def __init__(self, control: Marionette, pages: Pages) -> None:
        self._control, self._pages = control, pages

    def open(self, address: str) -> None:
        self._control.ask("WebDriver:Navigate", url=address)

    def go(self, path: str) -> None:
        self.open(self._pages.url + path)

    def find(self, css: str) -> str:
        wait_for(lambda: self.count(css))
        found = self._control.ask("WebDriver:FindElement", using="css selector", value=css)
        return str(found["value"][ELEMENT])

    def press(self, css: str) -> None:
        self._control.ask("WebDriver:ElementClick", id=self.find(css))

    def choose(self, css: str, file: Path) -> None:
        self._control.ask("WebDriver:ElementSendKeys", id=self.find(css), text=str(file))

    def count(self, css: str) -> int:
        """Of a page that stands still: one that is just being left tells nothing."""
        found: list[int] = []
        counted = "return [document.querySelectorAll(arguments[0]).length]"
        wait_for(lambda: bool(found.extend(self.script(counted, css) or ()) or found))
        return found[0]

    def text(self, css: str = "main") -> str:
        return str(self.script("return document.querySelector(arguments[0])?.innerText", css))

    def at(self, path: str) -> None:
        """Wait for this page, loaded."""
        here = "return document.readyState === 'complete' && location.pathname === arguments[0]"
        wait_for(lambda: self.script(here, path))

    def script(self, script: str, *given: Any) -> Any:
        return self._control.run(script, *given)


def test_from_the_first_page_to_rows_to_a_release_and_back(
    tmp_path: Path, publishing: Served
) -> None:
    own = tmp_path / "mine.csv"
    own.write_text("title,year,rating\nHeat,1995,5\nAlien,1979,4\nUp,2009,1\n", "utf-8")
    with (
        showing(tmp_path / "client", server=publishing.url) as pages,
        firefox(tmp_path / "profile") as control,
    ):
        control.run(ASKED, chrome=True)
        device, person = pages.device, Person(control, pages)
        person.open(pages.address)
        person.at("/")
        person.choose("#file", own)
        person.press("#file ~ p button")
        person.find(".figures")
        assert "What was found" in person.text("h1")
        person.press("form[action$='/keep'] button")
        person.at("/for-you")
        assert device.history.items() == ["alien-1979", "heat-1995", "up-2009"]
        assert person.count(".film") > 50
        assert "3 new entries" in person.text(".said")
        assert "said=" not in person.script("return location.href")

        person.press("#row-3 .film button[value='no']")
        wait_for(lambda: "Noted" in person.text("#row-3 .film [role=status]"))
        assert len(device.shelf.unwanted()) == 1, "in place"
        person.go("/film/fargo-1996")
        person.press(".stars button[value='4']")
        person.find(".stars [aria-pressed]")
        assert device.history.ratings()["fargo-1996"] == 4

        person.go("/privacy")
        person.press("#privacy > details > summary")
        person.press("input[value='balanced']")
        wait_for(lambda: "89 of 100" in person.text("#odds"))
        assert device.choice.strength == "recommended", "nothing is saved by looking"
        person.press("button[name='onward']")
        person.at("/preview")
        person.press("form[action='/preview/draw'] button")
        person.find("#payload")
        (drawn,) = device.releases.unsent()
        shown = person.script("return document.getElementById('payload').textContent")
        assert shown.encode() == drawn.payload
        assert device.accounts.named == [], "no server knows this device yet"
        person.press(f"form[action='/release/{drawn.id}/send'] button")
        person.at("/for-you")
        assert "Sent, exactly as shown" in person.text(".said")
        assert publishing.answers_of(device.account) == [drawn.release.answers]

        person.script("history.back()")
        person.at("/preview")
        assert person.count("form[action$='/send']") == 0, "the back button offers nothing twice"
        person.go("/data")
        name = dict(device.account or {})
        person.press("input[name='sure']")
        person.press("form[action='/data/erase'] button")
        person.at("/")
        assert "are deleted" in person.text(".said")
        assert device.history.count() == 0
        assert not publishing.rows_of(name)
        ours = f"{pages.door.name}:{pages.door.port}"
        asked = control.run("return window.asked", chrome=True)
        assert {where for who, where in asked if who == f"http://{ours}"} == {ours}, (
            "the pages ask nobody else"
        )
