"""The extension in a real Chromium with a real client: what arrives, and who gets nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import killing
from client.conftest import showing
from client.test_pages_browser import keep_picture
from extension.browser import (
    KNOWN_SITE,
    NOT_REPORTED,
    OTHER_SITE,
    SITE,
    Browser,
    chromium,
    with_site,
)
from loopback import PATIENCE, held_port

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed (apt-get install chromium)", allow_module_level=True)


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def running(started: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    own = with_site(folder / "extension", SITE)
    with chromium(started, CHROMIUM, folder / "profile", own) as found:
        yield found


@pytest.fixture
def browser(running: Browser) -> Browser:
    """One browser for the tests that need nothing else, each time as it was installed."""
    running.forget()
    return running


def wait_for(holds: Callable[[], object], page: Any) -> None:
    """Until it holds; nothing is measured by how long that takes."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it does not come"
        page.wait_for_timeout(50)


def code_of(pages: Any) -> str:
    return str(pages.device.extension.new_code(pages.door.port))


def watch(page: Any, share: float = 0.6) -> None:
    page.evaluate(f"watch({share})")


AXE = Path(sys.prefix) / "node/node_modules/axe-core/axe.min.js"


def faults(popup: Any) -> list[str]:
    """What axe-core finds, where it is installed: faults for those who cannot see the popup."""
    if not AXE.exists():
        return []
    popup.evaluate(AXE.read_text("utf-8") + "\n;0")
    return list(popup.evaluate("axe.run(document).then((r) => r.violations.map((v) => v.id))"))


def asked_hosts(log: Path) -> dict[str, set[str]]:
    """Every host that this browser made a request to, by who asked: the extension's own worker and
    pages, a site's pages, or (under another name) the browser itself."""
    text = log.read_text("utf-8")
    read = json.loads(text if text.rstrip().endswith("}") else text.rstrip().rstrip(",") + "]}")
    start = read["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked: dict[str, set[str]] = {}
    for event in read["events"]:
        params = event.get("params", {})
        if event["type"] == start and params.get("url", "").startswith("http"):
            who = params.get("initiator", "")
            asked.setdefault(who, set()).add(urlsplit(params["url"]).netloc)
    return asked


def test_a_film_is_in_the_history_and_nothing_else_is(started: Any, tmp_path: Path) -> None:
    own, log = with_site(tmp_path / "extension", SITE), tmp_path / "net.json"
    with (
        showing(tmp_path / "client") as pages,
        chromium(started, CHROMIUM, tmp_path / "profile", own, log=log) as browser,
    ):
        history = pages.device.history
        paired = browser.pair(code_of(pages))
        paired.get_by_text("Connected to EpicRec").wait_for()
        for page in (browser.open("/plain"), browser.open("/film/heat", OTHER_SITE)):
            page.wait_for_timeout(300)
        film, trailer = browser.open("/film/heat"), browser.open("/film/fargo/trailer")
        watch(trailer, 1.0)
        watch(film)
        wait_for(lambda: history.items() == ["heat-1995"], film)
        took = time.time() - film.evaluate("window.met") / 1000
        print(f"in the history {took:.2f} s after half was played")
        wait_for(lambda: history.count() == 2, film)  # looked at, which does not count
        (fargo,) = history.films(["fargo-1996"])
        assert fargo.evidence == ("looked up",)
        assert not fargo.counts
        popup = browser.popup(film)
        assert "Kept: Heat (1995): film, watched." in popup.inner_text("main")
        keep_picture(popup, "extension-popup")
        assert [batch.about for batch in pages.device.imports.batches()] == ["browser extension"]
        wait_for(lambda: not browser.kept("queue"), film)
        stored = browser.worker.evaluate("chrome.storage.local.get()")
        client, own_origin = pages.door.port, f"chrome-extension://{browser.id}"
        sites = {f"http://www.{site}:{browser.port}" for site in (SITE, OTHER_SITE)}
    for drawn in ("id", "token", "key"):  # which may have any letters in them
        del stored["pairing"][drawn]
    kept = json.dumps(stored)
    assert "Heat" not in kept
    assert "Fargo" not in kept
    assert "plain" not in kept
    assert "elsewhere" not in kept
    asked = asked_hosts(log)
    assert asked[own_origin] == {f"127.0.0.1:{client}"}
    for site in sites & asked.keys():
        assert asked[site] == {urlsplit(site).netloc}, "its pages were made to ask nobody else"


@pytest.mark.slow
def test_three_layers_in_a_real_browser(started: Any, tmp_path: Path) -> None:
    """A known site, what a page states, and a name that is asked for once; a trailer, a live stream
    and a shop are not told of."""
    own = with_site(tmp_path / "extension", SITE, KNOWN_SITE)
    with (
        showing(tmp_path / "client") as pages,
        chromium(started, CHROMIUM, tmp_path / "profile", own) as browser,
    ):
        history = pages.device.history
        browser.pair(code_of(pages)).get_by_text("Connected to EpicRec").wait_for()
        silent = [browser.open(path) for path in NOT_REPORTED]
        for page in (silent[0], silent[2]):
            watch(page, 1.0)
        known, session = browser.open("/watch/1", KNOWN_SITE), browser.open("/session")
        schema, asked = browser.open("/film/heat"), browser.open("/stream/1")
        for page in (known, session, schema, asked):
            watch(page)
        wait_for(lambda: browser.badge(asked) == "?", asked)
        for page, said in (
            (known, "Dark, season 1 episode 3: episode, watched."),
            (session, "Fargo, season 1 episode 2: episode, watched."),
            (schema, "Heat (1995): film, watched."),
        ):
            assert f"Kept: {said}" in browser.popup(page).inner_text("main")
        popup = browser.popup(asked)
        name = popup.get_by_label("What did you watch?")
        assert name.input_value() == "Alien"
        keep_picture(popup, "extension-popup-question")
        assert faults(popup) == []
        name.fill("No such name")
        popup.get_by_role("button", name="Search").click()
        popup.get_by_text("The catalogue has nothing of this name.").wait_for()
        keep_picture(popup, "extension-popup-nothing-found")
        name.fill("Alien")
        popup.get_by_role("button", name="Search").click()
        popup.get_by_role("button", name="Alien (1979)").click()
        popup.get_by_text("Kept: Alien (1979): film, watched.").wait_for()
        assert not popup.get_by_label("What did you watch?").is_visible()
        again = browser.open("/stream/2")
        watch(again)
        wait_for(lambda: "the-matrix-1999" in history.items(), again)
        assert browser.badge(again) == "✓"
        assert sorted(history.items()) == ["alien-1979", "heat-1995", "the-matrix-1999"]
        popup = browser.popup(again)
        assert "Kept: The Matrix (1999): watched." in popup.inner_text("main")
        keep_picture(popup, "extension-popup-learned")
        titles = {json.loads(one)[1] for one in browser.kept("told", "session")}
        assert titles == {"Dark", "Fargo", "Heat", "Alien", "The Matrix"}, "and nothing else"
        assert browser.kept("sites")[SITE]["learned"] == {
            "place": "title", "before": "", "after": " – Kinobox",
        }  # fmt: skip
        popup.get_by_role("button", name="Undo").click()
        wait_for(lambda: "the-matrix-1999" not in history.items(), again)
        wait_for(lambda: browser.kept("sites")[SITE]["learned"] is None, again)


def test_the_popup_asks_for_one_site_and_says_why(browser: Browser, tmp_path: Path) -> None:
    """Also for those who cannot see it."""
    unpaired = browser.popup()
    keep_picture(unpaired, "extension-popup-unpaired")
    assert "nothing is read or kept" in unpaired.inner_text("main")
    assert browser.looked_at() == []
    unpaired.get_by_label("The code").fill("8377-AAAA")
    with showing(tmp_path / "client") as pages:
        wrong = browser.pair(f"{pages.door.port}-AAAA-BBBB-CCCC")
        wrong.get_by_text("did not accept this code").wait_for()
        browser.pair(code_of(pages)).get_by_text("Connected").wait_for()
        page = browser.open("/film/heat")
        shown = [unpaired, browser.popup(page)]
        asking = browser.context.new_page()
        asking.set_viewport_size({"width": 352, "height": 620})
        other = browser.open("/film/heat", OTHER_SITE)
        asking.goto(f"chrome-extension://{browser.id}/popup.html?tab={browser.newest_tab()}")
        asking.wait_for_selector("body[data-ready]")
        assert not asking.get_by_role("button", name="Look for films").is_visible(), (
            "without a click it does not even know the address"
        )
        assert other.url.endswith("/film/heat")
        assert [faults(popup) for popup in shown] == [[], []]


def test_what_was_kept_is_undone_paused_and_left(browser: Browser, tmp_path: Path) -> None:
    with showing(tmp_path / "client") as pages:
        history = pages.device.history
        browser.pair(code_of(pages)).get_by_text("Connected").wait_for()
        film = browser.open("/film/heat")
        watch(film)
        wait_for(history.items, film)
        popup = browser.popup(film)
        popup.get_by_role("button", name="Undo").click()
        wait_for(lambda: history.count() == 0, film)
        popup.get_by_role("button", name="Pause for an hour").click()
        popup.get_by_role("button", name="Resume now").wait_for()
        keep_picture(popup, "extension-popup-paused")
        paused = browser.open("/film/alien")
        watch(paused)
        paused.wait_for_function("document.querySelector('video').paused && window.met")
        popup.get_by_role("button", name="Resume now").click()
        popup.get_by_role("button", name="Pause for an hour").wait_for()
        other = browser.open("/film/the-matrix")
        watch(other)
        wait_for(history.items, other)
        assert history.items() == ["the-matrix-1999"], "nothing of the pause"
        (site,) = pages.device.extension.sites()
        assert (site.name, site.allowed, site.missed) == (SITE, True, None)
        assert site.seen is not None
        pages.device.extension.switch(SITE, allowed=False)
        popup.reload()
        popup.wait_for_selector("body[data-ready]")
        assert "Switched off in EpicRec" in popup.inner_text("main")
        assert browser.looked_at() == []
        pages.device.extension.switch(SITE, allowed=True)
        popup.reload()
        wait_for(lambda: browser.looked_at() == [SITE], popup)


SEALED_FOR_IT = re.compile("entr(?:y waits|ies wait) here, sealed for it")


def watched(pages: Any) -> list[str]:
    """What the history has as watched, each as often as it is there. On a slow machine the page was
    looked at too, before half was played."""
    found = pages.device.history.viewings()
    return [one["item_id"] for one in found if one["evidence"] == "watched"]


TRIED = range(8377, 8387)
"""Ports that the extension tries when the client is not where it was."""


@contextmanager
def killed_client(folder: Path) -> Iterator[str]:
    """A client that dies in the end; it makes a code for whoever has the token of its folder."""
    command = [sys.executable, killing.__file__, killing.NEVER, "client", "--folder", str(folder)]
    with subprocess.Popen(
        [*command, "--port", "0"], stderr=subprocess.PIPE, text=True, env=killing.ENVIRONMENT
    ) as client:
        assert client.stderr is not None
        port = urlsplit(client.stderr.readline().split()[-1]).port
        token = {"Authorization": f"Bearer {(folder / 'token').read_text()}"}
        url = f"http://127.0.0.1:{port}/extension/code"
        page = httpx.post(url, headers=token, timeout=PATIENCE).text
        yield page.partition('<p class="code"><code>')[2].partition("<")[0]
        client.kill()


def test_what_waited_arrives_once_on_another_port(browser: Browser, tmp_path: Path) -> None:
    """The first client is killed, not stopped."""
    with killed_client(tmp_path / "client") as code:
        browser.pair(code).get_by_text("Connected").wait_for()
    film = browser.open("/film/heat")
    watch(film)
    wait_for(lambda: browser.kept("queue"), film)
    popup = browser.popup(film)
    popup.get_by_text(SEALED_FOR_IT).wait_for()
    keep_picture(popup, "extension-popup-waiting")
    with held_port(TRIED) as port, showing(tmp_path / "client", port=port) as pages:
        browser.popup(film)
        wait_for(lambda: watched(pages) and not browser.kept("queue"), film)
        assert watched(pages) == ["heat-1995"]
        assert browser.kept("pairing")["port"] == pages.door.port


def pair_again(browser: Browser, code: str) -> Any:
    """As a person does whose client is where the extension does not look."""
    popup = browser.popup()
    popup.get_by_role("button", name="Forget the pairing").click()
    popup.get_by_text("Pair that one again").wait_for()
    keep_picture(popup, "extension-popup-forgotten")
    popup.get_by_label("The code").fill(code)
    popup.get_by_role("button", name="Pair", exact=True).click()
    popup.get_by_text("Connected").wait_for()
    return popup


def test_paired_anew_what_waited_arrives_once(browser: Browser, tmp_path: Path) -> None:
    """At the same client, on a port that the extension does not try; another cannot read it."""
    with killed_client(tmp_path / "client") as code:
        browser.pair(code).get_by_text("Connected").wait_for()
    film = browser.open("/film/heat")
    watch(film)
    wait_for(lambda: browser.kept("queue"), film)
    with showing(tmp_path / "client") as pages:
        pair_again(browser, code_of(pages))
        wait_for(lambda: watched(pages) and not browser.kept("queue"), film)
        assert watched(pages) == ["heat-1995"]
        assert len(pages.device.extension.pairings()) == 1
    other = browser.open("/film/alien")
    watch(other)
    wait_for(lambda: browser.kept("queue"), other)
    with showing(tmp_path / "other client") as pages:
        popup = pair_again(browser, code_of(pages))
        popup.get_by_text(re.compile("nobody can read (?:it|them) any more")).wait_for()
        keep_picture(popup, "extension-popup-lost")
        assert pages.device.history.count() == 0


class _Impostor(BaseHTTPRequestHandler):
    """Another program on the client's port: it says yes to everything."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append(str(self.headers).encode() + body)  # type: ignore[attr-defined]
        answer = json.dumps({"sealed": "A" * 200}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as own:
        yield own


def test_whoever_sits_on_the_port_learns_nothing(
    browser: Browser, tmp_path: Path, port: int
) -> None:
    """What is looked for cannot stand in sealed text by chance: each is long, or has a space, a dot
    or a quotation mark."""
    with showing(tmp_path / "client", port=port) as pages:
        browser.pair(code_of(pages)).get_by_text("Connected").wait_for()
    token = browser.kept("pairing")["token"]
    with ThreadingHTTPServer(("127.0.0.1", port), _Impostor) as impostor:
        impostor.heard = []  # type: ignore[attr-defined]
        threading.Thread(target=impostor.serve_forever, daemon=True).start()
        film = browser.open("/film/the-matrix")
        watch(film)
        wait_for(lambda: browser.kept("queue"), film)
        browser.popup(film)
        wait_for(lambda: impostor.heard, film)  # type: ignore[attr-defined]
        heard = b"".join(impostor.heard)  # type: ignore[attr-defined]
        impostor.shutdown()
    for secret in (token, "The Matrix", '"year"', SITE):
        assert secret.encode() not in heard
    assert browser.kept("queue"), "nothing counts as delivered"
    with showing(tmp_path / "client", port=port) as pages:
        browser.popup(film)
        wait_for(lambda: pages.device.history.items() == ["the-matrix-1999"], film)


def test_the_queue_is_bounded(browser: Browser, tmp_path: Path) -> None:
    with showing(tmp_path / "client") as pages:
        browser.pair(code_of(pages)).get_by_text("Connected").wait_for()
    popup = browser.popup()
    most, kept, dropped = popup.evaluate("""async () => {
      const { keep, MOST, state } = await import("/client.js");
      for (let i = 0; i < MOST + 7; i += 1) await keep({ title: "x" });
      const { queue, dropped } = await state();
      return [MOST, queue.length, dropped];
    }""")
    assert (kept, dropped) == (most, 7)


ATTACK = """async (client) => {
  const got = [];
  for (const path of ["pair", "messages"]) {
    for (const mode of ["cors", "no-cors"]) {
      for (const type of ["text/plain", "application/json"]) {
        try {
          const body = JSON.stringify({ code: "x", pairing: "x", sealed: "x" });
          const answer = await fetch(`${client}/extension/${path}`,
            { method: "POST", mode, body, headers: { "Content-Type": type } });
          got.push(answer.type + (await answer.text()));
        } catch { got.push("failed"); }
      }
    }
  }
  got.push(typeof globalThis.chrome?.runtime?.sendMessage);
  got.push(typeof globalThis.epicrec);
  return got;
}"""


def test_a_page_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    """Neither from the client nor from the extension, also on a site that is allowed."""
    with showing(tmp_path / "client") as pages:
        browser.pair(code_of(pages)).get_by_text("Connected").wait_for()
        page = browser.open("/film/heat")
        assert set(page.evaluate(ATTACK, pages.entrance)) <= {"failed", "opaque", "undefined"}
        own = f"chrome-extension://{browser.id}/"
        for file in ("popup.html", "content/page.js", "icons/16.png", "manifest.json"):
            read = "(url) => fetch(url).then(() => 'read', () => 'failed')"
            told = page.evaluate(read, own + file)
            assert told == "failed"
        told = page.evaluate(
            """(id) => new Promise((done) => {
              if (!globalThis.chrome?.runtime) return done("no way");
              chrome.runtime.sendMessage(id, { ask: "unpair" },
                () => done(chrome.runtime.lastError ? "no way" : "heard"));
            })""",
            browser.id,
        )
        assert told == "no way"
        assert browser.kept("pairing")


def test_another_extension_gets_nothing(started: Any, tmp_path: Path) -> None:
    """Also one that has the whole pairing of ours, and one that asks ours."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text(json.dumps({
        "manifest_version": 3, "name": "other", "version": "1",
        "background": {"service_worker": "w.js"}, "host_permissions": ["http://127.0.0.1/*"],
    }))  # fmt: skip
    (other / "w.js").write_text(
        "self.onmessage = () => {}; chrome.runtime.onInstalled.addListener(() => {});"
    )
    (tmp_path / "own").mkdir()
    own = with_site(tmp_path / "own" / "extension", SITE)
    with (
        showing(tmp_path / "client") as pages,
        chromium(started, CHROMIUM, tmp_path / "profile", own, other) as browser,
    ):
        workers = browser.context.service_workers
        while len(workers) < 2:
            browser.context.wait_for_event("serviceworker")
            workers = browser.context.service_workers
        named = {w.evaluate("chrome.runtime.getManifest().name"): w for w in workers}
        browser.worker, stranger = named["EpicRec"], named["other"]
        browser.pair(code_of(pages)).get_by_text("Connected").wait_for()
        popup = browser.popup()
        message = popup.evaluate("""async () => {
          const { seal } = await import("/seal.js");
          const { state } = await import("/client.js");
          const { pairing } = await state();
          const entry = { id: "a", title: "Heat", year: 1995, kind: "film", how: "watched" };
          const { sealed } = await seal(entry, pairing.key);
          const said = { token: pairing.token, entries: [{ id: "a", sealed }] };
          const made = await seal(said, pairing.key);
          return { pairing: pairing.id, sealed: made.sealed };
        }""")
        post = """async ([client, message]) => {
          const body = JSON.stringify(message);
          const answer = await fetch(`${client}/extension/messages`, { method: "POST", body });
          return [answer.status, await answer.text()];
        }"""
        assert stranger.evaluate(post, [pages.entrance, message]) == [403, ""]
        assert popup.evaluate(post, [pages.entrance, message])[0] == 200
        heard = stranger.evaluate(
            """(id) => chrome.runtime.sendMessage(id, { ask: "unpair" })
              .then(() => "heard", () => "no way")""",
            browser.id,
        )
        assert heard == "no way"
        assert browser.kept("pairing")
