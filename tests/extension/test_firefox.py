"""The extension in a real Firefox, as a temporary add-on: paired, and a film arrives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from client.conftest import PATIENCE, showing
from extension.browser import SITE, film_site
from extension.figure import EXTENSION

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox")
if PROGRAM is None:
    pytest.skip("firefox is not installed (apt-get install firefox-esr)", allow_module_level=True)

PREFS = {
    "network.dns.localDomains": f"www.{SITE}", "network.proxy.type": 0,
    "media.autoplay.default": 0, "dom.security.https_first": False,
    "datareporting.policy.dataSubmissionEnabled": False, "browser.aboutwelcome.enabled": False,
    "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "services.settings.server": "http://127.0.0.1:9/", "app.update.enabled": False,
    "marionette.port": 0,
}  # fmt: skip


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


class Marionette:
    """Firefox's own remote control: one JSON message after another, each with its length."""

    def __init__(self, told: Path, running: subprocess.Popen[bytes]) -> None:
        """Where it listens is told in a file: any port that is free."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                port = int(told.read_text())
                self._line = socket.create_connection(("127.0.0.1", port), PATIENCE)
                break
            except (OSError, ValueError):
                assert running.poll() is None, "Firefox did not start"
                assert time.monotonic() < end, "Firefox hangs"
                time.sleep(0.1)
        self._read()
        self._count = 0
        self.ask("WebDriver:NewSession")

    def ask(self, command: str, **given: Any) -> Any:
        self._count += 1
        said = json.dumps([0, self._count, command, given]).encode()
        self._line.sendall(b"%d:%s" % (len(said), said))
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def run(self, script: str, *given: Any, chrome: bool = False) -> Any:
        """The value of a script in the page, or in the browser itself."""
        self.ask("Marionette:SetContext", value="chrome" if chrome else "content")
        found = self.ask("WebDriver:ExecuteScript", script=script, args=list(given))
        self.ask("Marionette:SetContext", value="content")
        return found["value"]

    def _read(self) -> Any:
        size = b""
        while not size.endswith(b":"):
            size += self._line.recv(1) or pytest.fail("Firefox hung up")
        body = b""
        while len(body) < int(size[:-1]):
            body += self._line.recv(int(size[:-1]) - len(body)) or pytest.fail("Firefox hung up")
        return json.loads(body)

    def close(self) -> None:
        self._line.close()


@contextmanager
def firefox(profile: Path) -> Iterator[Marionette]:
    profile.mkdir()
    lines = [
        f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFS.items()
    ]
    (profile / "user.js").write_text("\n".join(lines))
    assert PROGRAM is not None
    running = subprocess.Popen(
        [PROGRAM, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote",
         "--profile", str(profile)],
        env=os.environ | {"MOZ_CRASHREPORTER_DISABLE": "1", "HOME": str(profile.parent)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        with closing(Marionette(profile / "MarionetteActivePort", running)) as control:
            yield control
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(PATIENCE)


def wait_for(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.1)


def test_a_site_is_allowed_a_film_arrives_and_the_site_is_left(tmp_path: Path) -> None:
    """The extension as it is given away; the browser itself is told that the person allows a site,
    which stands for their yes to its question."""
    with (
        film_site() as port,
        showing(tmp_path / "client") as pages,
        firefox(tmp_path / "profile") as control,
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
