"""The extension in a real Firefox, as a temporary add-on: paired, and a film arrives."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from client.conftest import showing
from extension.browser import SITE, film_site
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


def test_a_site_is_allowed_a_film_arrives_and_the_site_is_left(tmp_path: Path) -> None:
    """The extension as it is given away; the browser itself is told that the person allows a site,
    which stands for their yes to its question."""
    with (
        film_site() as port,
        showing(tmp_path / "client") as pages,
        firefox(tmp_path / "profile", localDomains=f"www.{SITE}") as control,
    ):
        control.run(RECORD, chrome=True)
        name = control.ask("Addon:Install", path=str(EXTENSION), temporary=True)["value"]
        host = control.run(
            "return WebExtensionPolicy.getByID(arguments[0]).mozExtensionHostname", name,
            chrome=True,
        )  # fmt: skip
        control.ask("WebDriver:Navigate", url=f"moz-extension://{host}/popup.html")
        wait_for(lambda: control.run("return document.body.dataset.ready"))
        code = pages.device.extension.new_code(pages.door.port)
        control.run(
            "document.getElementById('code').value = arguments[0];"
            "document.getElementById('pair').requestSubmit();",
            code,
        )
        said = "return document.querySelector('main').innerText"
        wait_for(lambda: "Connected to EpicRec" in control.run(said))
        (pairing,) = pages.device.extension.pairings()
        assert pairing.origin == f"moz-extension://{host}"
        control.ask("WebDriver:Navigate", url=f"http://www.{SITE}:{port}/film/alien")
        control.run("watch(0.6)")
        wait_for(lambda: control.run(PLAYED))
        control.run(ALLOW, name, f"*://*.{SITE}/*", chrome=True)
        wait_for(lambda: SITE in control.run(ORIGINS, name, chrome=True))
        wait_for(pages.device.extension.sites)
        control.ask("WebDriver:Navigate", url=f"http://www.{SITE}:{port}/film/heat")
        control.run("watch(0.6)")
        wait_for(lambda: pages.device.history.items() == ["heat-1995"])
        took = time.time() - control.run("return window.met") / 1000
        print(f"in the history {took:.2f} s after half was played")
        (site,) = pages.device.extension.sites()
        assert site.name == SITE
        leave = "return browser.runtime.sendMessage({ ask: 'leave', site: arguments[0] })"
        control.ask("WebDriver:Navigate", url=f"moz-extension://{host}/popup.html")
        wait_for(lambda: control.run("return document.body.dataset.ready"))
        control.run(leave, SITE)
        wait_for(lambda: SITE not in control.run(ORIGINS, name, chrome=True))
        control.ask("WebDriver:Navigate", url=f"http://www.{SITE}:{port}/film/the-matrix")
        control.run("watch(0.6)")
        wait_for(lambda: control.run(PLAYED))
        assert pages.device.history.items() == ["heat-1995"]
        asked: dict[str, set[str]] = {}
        for who, where in control.run("return window.asked", chrome=True):
            asked.setdefault(who, set()).add(where)
        assert asked[f"moz-extension://{host}"] == {f"127.0.0.1:{pages.door.port}"}
        film_pages = f"www.{SITE}:{port}"
        assert asked[f"http://{film_pages}"] == {film_pages}, "its pages ask nobody else"
