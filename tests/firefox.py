"""A real Firefox without a window, and its own remote control."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopback import PATIENCE

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox")
MISSING = "firefox is not installed (apt-get install firefox-esr)"

PREFS = {
    "network.proxy.type": 0,
    "media.autoplay.default": 0, "dom.security.https_first": False,
    "datareporting.policy.dataSubmissionEnabled": False, "browser.aboutwelcome.enabled": False,
    "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "services.settings.server": "http://127.0.0.1:9/", "app.update.enabled": False,
    "marionette.port": 0,
}  # fmt: skip


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
def firefox(profile: Path, **names: str) -> Iterator[Marionette]:
    """A Firefox with a new profile; `localDomains` are names that lead to this machine."""
    profile.mkdir()
    prefs = PREFS | {f"network.dns.{name}": value for name, value in names.items()}
    lines = [
        f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in prefs.items()
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
