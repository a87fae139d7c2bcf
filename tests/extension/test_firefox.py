"""The extension in a real Firefox, as a temporary add-on: what arrives, and what is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from client.conftest import showing
from extension.browser import KNOWN_SITE, NOT_REPORTED, SITE, film_site
from extension.labelled import EXTENSION
from firefox import MISSING, PROGRAM, firefox
from loopback import wait_for

if PROGRAM is None:
    pytest.skip(MISSING, allow_module_level=True)

PLAYED = "return Boolean(window.met) && document.querySelector('video').paused"
ORIGINS = """
const { patterns } = WebExtensionPolicy.getByID(arguments[0]).allowedOrigins;
return patterns.map((one) => one.pattern).join(" ");
"""
ALLOW = """
const at = "resource://gre/modules/ExtensionPermissions.sys.mjs";
const { ExtensionPermissions } = ChromeUtils.importESModule(at);
const { extension } = WebExtensionPolicy.getByID(arguments[0]);
const wanted = { permissions: [], origins: [arguments[1]], data_collection: [] };
return ExtensionPermissions.add(extension.id, wanted, extension).then(() => true);
"""


RECORD = """
window.asked = [];
Services.obs.addObserver((channel) => {
  const { loadInfo, URI } = channel.QueryInterface(Ci.nsIHttpChannel);
  window.asked.push([loadInfo.triggeringPrincipal?.origin ?? "", URI.hostPort]);
}, "http-on-modify-request");
"""


READY = "return document.body.dataset.ready"
SAID = "return document.querySelector('main').innerText"
POPUP = """
return browser.tabs.query({}).then((tabs) => tabs.findLast((tab) => tab.url === arguments[0]))
  .then((tab) => `${location.origin}/popup.html?tab=${tab?.id ?? ""}`);
"""
BADGE = """
return browser.tabs.query({}).then((tabs) => tabs.findLast((tab) => tab.url === arguments[0]))
  .then(({ id }) => browser.action.getBadgeText({ tabId: id }));
"""


@contextmanager
def paired(tmp_path: Path) -> Iterator[Firefox]:
    """Firefox with the extension as it is given away, paired with a client."""
    names = f"www.{SITE},www.{KNOWN_SITE}"
    with (
        film_site() as port,
        showing(tmp_path / "client") as pages,
        firefox(tmp_path / "profile", localDomains=names) as control,
    ):
        control.run(RECORD, chrome=True)
        name = control.ask("Addon:Install", path=str(EXTENSION), temporary=True)["value"]
        host = control.run(
            "return WebExtensionPolicy.getByID(arguments[0]).mozExtensionHostname", name,
            chrome=True,
        )  # fmt: skip
        running = Firefox(control, pages, name, f"moz-extension://{host}", port)
        running.go(f"{running.origin}/popup.html")
        wait_for(lambda: control.run(READY))
        control.run(
            "document.getElementById('code').value = arguments[0];"
            "document.getElementById('pair').requestSubmit();",
            pages.device.extension.new_code(pages.door.port),
        )
        wait_for(lambda: "Connected to EpicRec" in control.run(SAID))
        yield running


@dataclass
class Firefox:
    control: Any
    pages: Any
    name: str
    origin: str
    port: int

    def go(self, address: str) -> None:
        self.control.ask("WebDriver:Navigate", url=address)

    def play(self, path: str, site: str = SITE, *, end: bool = True) -> str:
        """Play a page's video, to the end of what is played there; its address."""
        address = f"http://www.{site}:{self.port}{path}"
        self.go(address)
        self.control.run("return watch(0.6).then(() => true)")
        if end:
            wait_for(lambda: self.control.run(PLAYED))
        return address

    def allow(self, site: str) -> None:
        """The browser itself is told, which stands for a person's yes to its question."""
        self.control.run(ALLOW, self.name, f"*://*.{site}/*", chrome=True)
        wait_for(lambda: site in self.control.run(ORIGINS, self.name, chrome=True))


def test_a_site_is_allowed_a_film_arrives_and_the_site_is_left(tmp_path: Path) -> None:
    with paired(tmp_path) as browser:
        control, pages = browser.control, browser.pages
        (pairing,) = pages.device.extension.pairings()
        assert pairing.origin == browser.origin
        browser.play("/film/alien")
        browser.allow(SITE)
        wait_for(pages.device.extension.sites)
        browser.play("/film/heat", end=False)
        wait_for(lambda: pages.device.history.items() == ["heat-1995"])
        took = time.time() - control.run("return window.met") / 1000
        print(f"in the history {took:.2f} s after half was played")
        (site,) = pages.device.extension.sites()
        assert site.name == SITE
        leave = "return browser.runtime.sendMessage({ ask: 'leave', site: arguments[0] })"
        browser.go(f"{browser.origin}/popup.html")
        wait_for(lambda: control.run(READY))
        control.run(leave, SITE)
        wait_for(lambda: SITE not in control.run(ORIGINS, browser.name, chrome=True))
        browser.play("/film/the-matrix")
        assert pages.device.history.items() == ["heat-1995"]
        asked: dict[str, set[str]] = {}
        for who, where in control.run("return window.asked", chrome=True):
            asked.setdefault(who, set()).add(where)
        assert asked[browser.origin] == {f"127.0.0.1:{pages.door.port}"}
        film_pages = f"www.{SITE}:{browser.port}"
        assert asked[f"http://{film_pages}"] == {film_pages}, "its pages ask nobody else"


@pytest.mark.slow
def test_three_layers_in_a_real_browser(tmp_path: Path) -> None:
    """A known site, what a page states, and a name that is asked for once; a trailer, a live stream
    and a shop are not told of."""
    with paired(tmp_path) as browser:
        control, history = browser.control, browser.pages.device.history
        for site in (SITE, KNOWN_SITE):
            browser.allow(site)
        for path in NOT_REPORTED:
            if path == "/live":
                browser.go(f"http://www.{SITE}:{browser.port}{path}")
                wait_for(lambda: control.run("return document.querySelector('video').currentTime"))
            else:
                browser.play(path)
        browser.play("/watch/1", KNOWN_SITE)
        browser.play("/session")
        browser.play("/film/heat")
        wait_for(lambda: history.items() == ["heat-1995"])
        (film,) = control.ask("WebDriver:GetWindowHandles")
        popup = control.ask("WebDriver:NewWindow", type="tab")["handle"]

        def open_popup(address: str) -> None:
            control.ask("WebDriver:SwitchToWindow", handle=popup)
            browser.go(f"{browser.origin}/popup.html")
            wait_for(lambda: control.run(READY))
            browser.go(control.run(POPUP, address))
            wait_for(lambda: control.run(READY))

        address = browser.play("/stream/1")
        open_popup(address)
        assert control.run(BADGE, address) == "?"
        assert control.run("return document.getElementById('name').value") == "Alien"
        answer = "return document.querySelector('#found button')?.textContent"
        wait_for(lambda: control.run(answer) == "Alien (1979)")
        control.run("document.querySelector('#found button').click()")
        wait_for(lambda: "Kept: Alien (1979): film, watched." in control.run(SAID))
        control.ask("WebDriver:SwitchToWindow", handle=film)
        address = browser.play("/stream/2")
        wait_for(lambda: "the-matrix-1999" in history.items())
        assert sorted(history.items()) == ["alien-1979", "heat-1995", "the-matrix-1999"]
        open_popup(address)
        assert control.run(BADGE, address) == "✓"
        told = control.run("return browser.storage.session.get('told').then(({ told }) => told)")
        titles = {json.loads(one)[1] for one in told}
        assert titles == {"Dark", "Fargo", "Heat", "Alien", "The Matrix"}, "and nothing else"
