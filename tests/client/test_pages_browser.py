"""The pages in a real Chromium: what a person does, what a screen reader gets, what others try."""

from __future__ import annotations

import os
import queue
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import certifi
import pytest

from client.conftest import Pages, Served, serving, showing
from client.film_site import NAME, film_site
from client.test_netflix_list import netflix_export
from epicrec.client.history import History
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.store import Store
from epicrec.client.web import security as doors
from epicrec.client.web.jobs import Job, onward
from epicrec.progress import report
from loopback import PATIENCE

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed (apt-get install chromium)", allow_module_level=True)

SCREENSHOTS = os.environ.get("EPICREC_SCREENSHOTS")
"""A folder for pictures of the pages, where somebody wants to look at them: nothing else does."""
EVERY_PAGE = (
    "", "history", "history?q=star", "sources", "extension", "privacy", "preview", "for-you",
    "for-you?compare=1", "browse?genre=Comedy", "watchlist", "film/heat-1995", "learned?look=1",
    "common", "ledger", "server", "data",
)  # fmt: skip
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
    f"--host-resolver-rules=MAP {NAME} 127.0.0.1, MAP evil.example 127.0.0.1, "
    "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost",
]  # fmt: skip


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        yield running


class Chromium:
    """A running Chromium whose pages wait as long as everything here does."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def new_context(self, **options: Any) -> Any:
        return patient(self._browser.new_context(**options))

    def new_page(self) -> Any:
        """A page in a context of its own, which ends with it."""
        page = self._browser.new_page()
        patient(page.context)
        return page


def patient(context: Any) -> Any:
    context.set_default_timeout(PATIENCE * 1000)
    return context


@pytest.fixture(scope="module")
def chromium(started: Any) -> Iterator[Chromium]:
    browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE * 1000)
    yield Chromium(browser)
    browser.close()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that this process connects to."""
    seen: list[Any] = []
    connect = socket.socket.connect

    def recording(self: socket.socket, address: Any) -> None:
        seen.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", recording)
    return seen


def keep_picture(page: Any, name: str, *, whole: bool = True) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=whole)


def enter(page: Any, pages: Pages) -> None:
    page.goto(pages.address)
    page.wait_for_url(lambda url: "token" not in url)


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name).first.click()


def test_from_a_running_browsers_history_to_rows_and_back(
    tmp_path: Path, publishing: Served, started: Any, connections: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The same Chromium that visited the films shows our pages, and stays open throughout."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    asked: list[str] = []
    with film_site() as port, showing(tmp_path / "client", server=publishing.url) as pages:
        person = started.chromium.launch_persistent_context(
            str(tmp_path / ".config/chromium"), executable_path=CHROMIUM, headless=False,
            args=["--headless=new", *FLAGS], timeout=PATIENCE * 1000,
        )  # fmt: skip
        try:
            tab = patient(person).new_page()
            for film in ("heat", "alien", "matrix"):
                tab.goto(f"http://{NAME}:{port}/m/{film}")
            person.on("request", lambda request: asked.append(request.url))
            page = person.new_page()
            enter(page, pages)
            assert "token" not in page.url
            found = 0
            for _ in range(2000):  # Chromium writes its history a little later
                page.goto(f"{pages.url}/sources")
                box = page.get_by_role("checkbox", name="Chromium: Default")
                if box.count():
                    box.check()
                    press(page, "Read what is ticked")
                    found = page.get_by_role("checkbox", name="Leave out").count()
                    if found == 3:
                        break
                    if "/import/" in page.url:
                        press(page, "Discard this import")
                page.wait_for_timeout(300)
            assert found == 3
            keep_picture(page, "review")
            press(page, "Keep these in my history")
            page.get_by_role("checkbox", name="looked up their page").check()
            press(page, "Save")
            assert sorted(pages.device.history.items()) == [
                "alien-1979", "heat-1995", "the-matrix-1999",
            ]  # fmt: skip
            page.goto(f"{pages.url}/privacy")
            page.get_by_text("More ways").click()
            page.get_by_role("radio", name="Balanced").check()
            page.get_by_role("combobox", name="Horror").select_option(label="Keep to myself")
            press(page, "Save and look at what would be sent")
            press(page, "Draw the noise")
            assert page.locator("table tbody tr").count() == 3, "what is said of each film"
            shown = page.locator("#payload").text_content()
            (stored,) = pages.device.releases.unsent()
            assert shown.encode() == stored.payload
            assert pages.device.accounts.named == [], "no server knows this device yet"
            keep_picture(page, "preview")
            press(page, "Send this to")
            page.wait_for_url("**/for-you")
            assert page.locator(".film").count() > 50
            page.wait_for_load_state("networkidle")
            keep_picture(page, "for-you")
            assert publishing.answers_of(pages.device.account) == [stored.release.answers]
            assert len(tab.context.pages) >= 2, "the browser is still open"
            page.goto(f"{pages.url}/learned?look=1")
            keep_picture(page, "learned")
            assert "the answers of 1 of your releases" in page.inner_text("main")
            page.goto(f"{pages.url}/data")
            name = dict(pages.device.account)
            assert publishing.rows_of(name)
            page.get_by_role("checkbox", name="I am sure").first.check()
            press(page, "Delete there, then here")
            assert pages.device.history.count() == 0
            assert not publishing.rows_of(name)
        finally:
            person.close()
    ours = urlsplit(pages.url).netloc
    assert {urlsplit(url).netloc for url in asked} == {ours}, "the pages ask nobody else"
    assert connections
    assert {address[0] for address in connections if isinstance(address, tuple)} == {"127.0.0.1"}


def test_a_few_clicks_and_live_odds(pages: Pages, chromium: Any) -> None:
    page = chromium.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    enter(page, pages)
    keep_picture(page, "start")
    press(page, "Try with an example history")
    page.wait_for_url("**/for-you")
    assert page.locator(".film").count() > 50
    page.goto(f"{pages.url}/preview")
    for click in ("Draw the noise", "Send this to"):
        press(page, click)
    page.wait_for_url("**/for-you")
    assert "Sent, exactly as shown" in page.inner_text("main")
    page.goto(f"{pages.url}/privacy")
    before = page.locator("#odds").inner_text()
    assert "74 of 100" in before
    page.get_by_text("More ways").click()
    page.get_by_role("radio", name="Balanced").check()
    page.locator("#odds", has_text="89 of 100").wait_for()
    assert page.locator("#odds circle.on").count() == 89
    assert page.locator("#odds circle.other").count() == 11
    page.get_by_role("radio", name="Nothing", exact=True).check()
    page.locator("#odds", has_text="Nothing about your history leaves").wait_for()
    assert pages.device.choice.strength == "recommended", "nothing is saved by looking"
    assert problems == [], "no error, and nothing the content policy had to stop"
    page.close()


WORDS_A_SECOND = 200 / 60
CLICK, CHOOSING_A_FILE = 3, 10
"""Seconds to find a button and press it, and to find a file in the system's own window."""
READ = """() => {
  const others = [...document.querySelectorAll(".hidden, .skip, table, .films")];
  for (const part of others) part.style.display = "none";
  const text = document.body.innerText;
  for (const part of others) part.style.display = "";
  return text.split("\\n");
}"""
"""The lines that a page shows, but for a person's own films, which are looked through."""


class Reader:
    """Somebody who never saw the pages and reads every line of them, each once."""

    def __init__(self, page: Any) -> None:
        self._page, self._known = page, set[str]()
        self.words = self.clicks = 0

    def read(self) -> None:
        lines = {line.strip() for line in self._page.evaluate(READ)} - self._known
        self._known |= lines
        self.words += sum(any(c.isalnum() for c in word) for s in lines for word in s.split())

    def press(self, name: str) -> None:
        self.read()
        self.clicks += 1
        press(self._page, name)

    @property
    def seconds(self) -> float:
        return self.words / WORDS_A_SECOND + self.clicks * CLICK


@pytest.mark.parametrize("width", [1280, 390])
def test_who_never_saw_it_has_rows_within_a_minute(
    tmp_path: Path, chromium: Any, width: int
) -> None:
    """At 200 words a minute: a count, and no stopwatch. As `epicrec client` is started first."""
    with showing(tmp_path / "client", catalogue="titles") as pages:
        for own in (False, True):
            context = chromium.new_context(viewport={"width": width, "height": 844})
            page = context.new_page()
            enter(page, pages)
            reader, seconds = Reader(page), 0.0
            if own:
                export = {"name": "NetflixViewingHistory.csv", "mimeType": "text/csv"}
                page.set_input_files("#file", {**export, "buffer": netflix_export().encode()})
                reader.press("Read this file")
                page.get_by_role("heading", name="What was found").wait_for()
                reader.press("Keep these in my history")
                seconds = CHOOSING_A_FILE
            else:
                reader.press("Try with an example history")
            page.wait_for_url("**/for-you")
            assert page.locator(".film").count() > 50
            seconds += reader.seconds
            print(f"own file: {own}, {reader.clicks} clicks, {reader.words} words, {seconds:.0f} s")
            assert reader.clicks <= 4
            assert seconds <= 60
            pages.device.erase()
            context.close()


def test_everything_works_without_script(pages: Pages, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    enter(page, pages)
    press(page, "Try with an example history")
    page.goto(f"{pages.url}/privacy")
    page.get_by_text("More ways").click()
    page.get_by_role("radio", name="Balanced").check()
    press(page, "Save and look at what would be sent")
    assert "89 of 100" in page.inner_text("main")
    press(page, "Draw the noise")
    press(page, "Send this to")
    page.wait_for_url("**/for-you?said=*")
    assert page.locator(".film").count() > 50
    page.locator("#row-3").get_by_role("button", name="Not interested").first.click()
    assert page.url.endswith("#row-3"), "no jump to the top"
    page.locator("#row-3").wait_for(state="attached")
    assert len(pages.device.shelf.unwanted()) == 1
    page.goto(f"{pages.url}/sources")
    page.set_input_files("#file", {
        "name": "h.csv", "mimeType": "text/csv",
        "buffer": b'Title,Date\n"Blade Runner","5/31/2024"\n',
    })  # fmt: skip
    press(page, "Read this file")
    press(page, "Keep these in my history")
    assert "blade-runner-1982" in pages.device.history.items()
    page.goto(f"{pages.url}/browse")
    page.get_by_role("searchbox").fill("Alien")
    press(page, "Search")
    page.get_by_role("link", name="Alien", exact=True).click()
    press(page, "Put on my watchlist")
    press(page, "4 of 5 stars")
    assert pages.device.history.ratings()["alien-1979"] == 4
    assert pages.device.shelf.watchlist() == [], "what is rated was seen"
    with long_work(pages, onward("/watchlist")):
        page.goto(f"{pages.url}/working/browsers")
        page.get_by_role("link", name="Look again").click()
        page.get_by_role("progressbar").wait_for()
    page.get_by_role("link", name="Look again").click()
    page.wait_for_url("**/watchlist")
    context.close()


def test_what_is_said_about_a_film_is_said_in_place(pages: Pages, chromium: Any) -> None:
    page = chromium.new_page()
    enter(page, pages)
    press(page, "Try with an example history")
    page.goto(f"{pages.url}/for-you")
    third = page.locator("#row-3 .film").first
    third.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    third.get_by_role("button", name="Not interested").click()
    third.get_by_text("Noted, on this device only.").wait_for()
    assert page.evaluate("scrollY") == before
    second = page.locator("#row-1 .film").nth(1)
    second.get_by_role("button", name="I liked it").click()
    second.get_by_text("Your stars are saved.").wait_for()
    assert len(pages.device.shelf.unwanted()) == 1
    assert 4.0 in pages.device.history.ratings().values()
    page.close()


def test_a_program_that_does_not_answer_or_is_locked_is_told_of(
    pages: Pages, chromium: Any
) -> None:
    """By the script of a page that stood open meanwhile."""
    context = chromium.new_context()
    page = context.new_page()
    enter(page, pages)
    press(page, "Try with an example history")
    other = context.new_page()
    other.goto(f"{pages.url}/privacy")
    context.set_offline(True)
    card = page.locator("#row-1 .film").first
    card.get_by_role("button", name="Not interested").click()
    card.get_by_text("Not saved. EpicRec does not answer.").wait_for()
    other.get_by_role("radio", name="Nothing", exact=True).check()
    other.locator("#odds", has_text="EpicRec does not answer.").wait_for()
    context.set_offline(False)
    other.get_by_role("radio", name="Everything", exact=True).check()
    other.locator("#odds", has_text="Nothing is hidden by noise").wait_for()
    assert pages.device.shelf.unwanted() == []
    pages.device.store.seal("four words are better")
    other.goto(f"{pages.url}/data")
    press(other, "Lock")
    card.get_by_role("button", name="Not interested").click()
    page.wait_for_url("**/unlock")
    context.close()


def test_a_films_page_asks_nobody(pages: Pages, chromium: Any) -> None:
    page = chromium.new_page()
    enter(page, pages)
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(urlsplit(request.url).netloc))
    page.goto(f"{pages.url}/film/alien-1979")
    page.wait_for_load_state("networkidle")
    page.get_by_role("link", name="IMDb").hover()
    page.wait_for_timeout(300)
    assert set(asked) == {urlsplit(pages.url).netloc}
    page.get_by_role("button", name="4 of 5 stars").click()
    page.get_by_text("4 of 5", exact=True).wait_for()
    assert pages.device.history.ratings()["alien-1979"] == 4
    page.context.close()


def reach(page: Any, words: str) -> None:
    """Press Tab until what has the focus says so."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText").strip().startswith(words):
            return
    raise AssertionError(f"nothing that says {words!r} can be reached by Tab on {page.url}")


def test_keyboard_alone(pages: Pages, publishing: Served, chromium: Any) -> None:
    """From the first page to a release that arrived, without a mouse."""
    page = chromium.new_page()
    enter(page, pages)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    page.wait_for_url("**/#main")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Try with an example history"
    page.keyboard.press("Enter")
    page.wait_for_url("**/for-you")
    reach(page, "Not interested")
    page.keyboard.press("Space")
    page.get_by_text("Noted, on this device only.").wait_for()
    page.reload()
    reach(page, "Privacy")
    page.keyboard.press("Enter")
    page.wait_for_url("**/privacy")
    page.locator("input[name=overall]:checked").focus()  # where Tab stops within a group of choices
    page.keyboard.press("ArrowDown")
    page.locator("#odds", has_text="Nothing is hidden by noise").wait_for()
    page.keyboard.press("ArrowUp")
    reach(page, "Save and look")
    page.keyboard.press("Enter")
    page.wait_for_url("**/preview")
    reach(page, "Draw the noise")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What will be sent").wait_for()
    reach(page, "Send this to")
    page.keyboard.press("Enter")
    page.wait_for_url("**/for-you")
    assert "Sent, exactly as shown" in page.inner_text("main")
    (sent,) = pages.device.releases.all()
    assert publishing.answers_of(pages.device.account) == [sent.release.answers]
    page.close()


@contextmanager
def long_work(pages: Pages, result: Any = None) -> Iterator[Callable[[str, int, int], None]]:
    """Work that goes on until the block ends, and then has this result. It reports what the block
    tells it to: progress is heard only by who listens to the same work."""
    steps: queue.Queue[tuple[str, int, int] | None] = queue.Queue()

    def work() -> Any:
        while (step := steps.get()) is not None:
            report(*step)
            steps.task_done()
        return result

    def tell(what: str, done: int, total: int) -> None:
        steps.put((what, done, total))
        steps.join()

    pages.state.jobs["browsers"] = Job("reading browsers", work)
    try:
        yield tell
    finally:
        steps.put(None)


def test_progress_moves_in_place_and_the_page_goes_on(pages: Pages, chromium: Any) -> None:
    batch = pages.device.reading.file("h.csv", b"Title,Date\nHeat,5/31/2024\n", {})
    page = chromium.new_page()
    enter(page, pages)
    with long_work(pages, onward(f"/import/{batch}")) as tell:
        page.goto(f"{pages.url}/working/browsers")
        bar = page.get_by_role("progressbar")
        bar.evaluate("(bar) => { bar.seen = true }")
        assert bar.get_attribute("value") is None
        tell("reading pages", 300, 4000)
        page.get_by_text("reading pages: 300 of 4,000").wait_for()
        assert bar.evaluate("(bar) => [bar.value, bar.max, bar.seen]") == [300, 4000, True]
    page.wait_for_url(f"**/import/{batch}")
    page.close()


# ---- others -------------------------------------------------------------------------------

ATTACK = """async (target) => {
  const got = [];
  for (const mode of ["cors", "no-cors"]) {
    for (const path of ["/history", "/data/history.csv", "/poster/heat-1995.svg"]) {
      try {
        const answer = await fetch(target + path, {credentials: "include", mode});
        got.push(answer.type + ":" + (await answer.text()).length);
      } catch (error) { got.push("failed"); }
    }
    try {
      await fetch(target + "/example", {method: "POST", credentials: "include", mode});
    } catch (error) {}
  }
  const frame = document.createElement("iframe");
  frame.src = target + "/history";
  document.body.append(frame);
  await new Promise((done) => setTimeout(done, 400));
  try { got.push("frame:" + frame.contentDocument.body.textContent.length); }
  catch (error) { got.push("failed"); }
  const image = new Image();
  image.src = target + "/poster/heat-1995.svg";
  await new Promise((done) => { image.onload = image.onerror = done; });
  got.push("image:" + image.naturalWidth);
  const form = document.createElement("form");
  form.action = target + "/example"; form.method = "post"; form.target = "other";
  document.body.append(form);
  form.submit();
  await new Promise((done) => setTimeout(done, 400));
  return got;
}"""


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1"])
def test_a_forged_page_gets_nothing(pages: Pages, chromium: Any, name: str) -> None:
    """Also one on another port of this machine."""
    context = chromium.new_context()
    page = context.new_page()
    enter(page, pages)
    with film_site() as port:
        forged = context.new_page()
        forged.goto(f"http://{name}:{port}/evil")
        got = forged.evaluate(ATTACK, pages.url)
    assert set(got) <= {"failed", "opaque:0", "image:0", "frame:0"}, got
    assert pages.device.history.count() == 0
    page.goto(f"{pages.url}/history")
    assert "Your history" in page.inner_text("h1"), "the person's own page still works"
    context.close()


def test_a_rebound_name_gets_nothing(pages: Pages, chromium: Any) -> None:
    page = chromium.new_page()
    port = urlsplit(pages.url).port
    for path in ("/history", f"/?{urlsplit(pages.address).query}", "/"):
        answer = page.goto(f"http://evil.example:{port}{path}")
        assert answer.status == 421
        assert "History" not in page.content()
    assert page.context.cookies() == []
    page.close()


class _Listening(BaseHTTPRequestHandler):
    """Another web application on this machine: it notes what browsers bring."""

    def do_GET(self) -> None:
        self.server.brought.append(self.headers.get("Cookie"))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def another_application() -> Iterator[tuple[int, list[str | None]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Listening) as server:
        server.brought = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], server.brought  # type: ignore[attr-defined]
        server.shutdown()


def test_another_application_of_this_machine_gets_no_cookie(pages: Pages, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    address = pages.address
    pages.door.open(address)  # no screen here, so it only writes the file
    page.goto(pages.door.redirect_file.as_uri())
    page.wait_for_url(f"{pages.url}/")
    page.goto(f"{pages.url}/history")
    assert page.inner_text("h1") == "Your history"
    (cookie,) = context.cookies()
    assert cookie["domain"] == pages.door.name
    with another_application() as (port, brought):
        for name in ("127.0.0.1", "localhost", "other.localhost"):
            page.goto(f"http://{name}:{port}/")
        assert len(brought) >= 3
        assert set(brought) == {None}
        # the same browser does bring it where it belongs: only the name keeps others out
        # (at any place in the list: it may still ask the others for an icon)
        page.goto(f"http://{pages.door.name}:{port}/")
        assert any(cookie["value"] in (found or "") for found in brought)
    replayed = chromium.new_context().new_page()
    assert replayed.goto(address).status == 403, "the invitation was used"
    assert "Your history" not in replayed.content()
    replayed.context.close()
    context.close()


def test_a_bookmark_leads_back_in(
    pages: Pages, chromium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    opened: list[str] = []
    monkeypatch.setattr(doors, "has_screen", lambda: True)
    monkeypatch.setattr(doors, "_PAUSE", 0.0)
    monkeypatch.setattr(pages.door, "_browse", opened.append)
    page.goto(f"{pages.entrance}/history")
    keep_picture(page, "entrance")
    press(page, "Open them in my browser")
    page.get_by_text("A window opens").wait_for()
    assert context.cookies() == []
    page.goto(opened[-1])
    page.wait_for_url(f"{pages.url}/")
    assert "other programs" not in page.inner_text("main")
    page.goto(pages.entrance)
    page.get_by_text("its address was not found").click()
    press(page, "Show them here all the same")
    page.get_by_text("A window opens").wait_for()
    page.goto(opened[-1])
    page.wait_for_url(f"{pages.entrance}/")
    assert "other programs that listen on this machine may get" in page.inner_text("main")
    press(page, "Try with an example history")
    assert pages.device.history.count() > 0
    context.close()


# ---- for everybody ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core, which `make system` puts beside the environment the tests run in."""
    script = Path(sys.prefix) / "node/node_modules/axe-core/axe.min.js"
    if not script.exists():
        pytest.skip(f"axe-core is not at {script}: run make system where npm is")
    return script.read_text("utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_is_accessible_and_fits(
    pages: Pages, publishing: Served, chromium: Any, axe: str, width: int, scheme: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Colours do not depend on the width, nor anything else on colours: each once."""
    context = chromium.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    found: list[str] = []

    def look(name: str) -> None:
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
        page.evaluate(axe)
        file = name.replace("/", "-").replace("?", "-") or "again"
        outcome = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found.extend(
            f"{name}, {scheme}: {v['id']}: {v['nodes'][0]['html'][:160]}"
            for v in outcome["violations"]
        )
        for colours in ("light", "dark") if SCREENSHOTS else ():
            page.emulate_media(color_scheme=colours)
            keep_picture(page, f"{colours}-{width}-{file}", whole=False)
        page.emulate_media(color_scheme=scheme)
        over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if over > 0:
            found.append(f"{name}: {over} pixels too wide")

    enter(page, pages)
    look("start")
    press(page, "Try with an example history")
    page.goto(f"{pages.url}/preview")
    press(page, "Draw the noise")
    look("preview of a draw")
    press(page, "Send this to")
    for path in EVERY_PAGE:
        page.goto(f"{pages.url}/{path}")
        look(path)
    pages.device.choose(Choice(mechanism="d2p", exceptions={"Horror": "no release"}))
    page.goto(f"{pages.url}/privacy")
    look("privacy with other choices")
    pages.device.set_limit(0.01)
    page.goto(f"{pages.url}/preview")
    press(page, "Draw the noise")
    assert "Your limit does not allow this" in page.inner_text("main")
    look("over the limit")
    page.goto(f"{pages.url}/sources")
    page.set_input_files("#file", {
        "name": "h.csv", "mimeType": "text/csv",
        "buffer": b"title,year,imdb_id,tmdb_id,watched_at,rating,source\n"
                  b"Titanic,,,,,,mine\nHeat,1995,,,,,mine\nNo Such Film,,,,,,mine\n",
    })  # fmt: skip
    press(page, "Read this file")
    look("review")
    page.goto(f"{pages.url}/history/fix?item_id=heat-1995")
    look("fix")
    page.goto(f"{pages.url}/import/999999")
    look("problem")
    page.goto(f"{pages.url}/history")
    press(page, "Undo")
    look("undone")
    page.goto(f"{pages.url}/sources")
    page.set_input_files("#file", {
        "name": "h.csv", "mimeType": "text/csv", "buffer": b'Title,Date\n"Heat","05/06/2024"\n',
    })  # fmt: skip
    press(page, "Read this file")
    assert page.locator("legend").count() == 1
    look("question about a file")
    with long_work(pages) as tell:
        page.goto(f"{pages.url}/working/browsers")
        look("working, nobody knows how long")
        tell("reading pages", 300, 4000)
        page.goto(f"{pages.url}/working/browsers")
        look("working")
        page.goto(f"{pages.url}/server")
    page.get_by_role("textbox", name="Address").fill("https://films..example.org")
    press(page, "Use this server")
    assert page.get_by_role("alert").count() == 1
    look("an impossible server")
    with serving(tmp_path / "own server", http=False) as own:
        page.get_by_role("textbox", name="Address").fill(own.url)
        press(page, "Use this server")
        assert "Do you know this server?" in page.inner_text("main")
        look("question about a server")
        pages.device.accounts.use(own.url, Path(certifi.where()).read_text("utf-8"))
        page.goto(f"{pages.url}/server/certificate")
        assert "another certificate" in page.inner_text("h1")
        look("another certificate")
        pages.device.use_server(publishing.url)
    page.goto(f"{pages.url}/data")
    page.get_by_role("checkbox", name="I am sure").first.check()
    press(page, "Delete there, then here")
    look("deleted")
    page.goto(f"{pages.url}/data")
    look("data without a name")
    page.goto(f"{pages.url}/nothing")
    look("no such page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "count", None)
        page.goto(pages.url)
        assert "went wrong in EpicRec itself" in page.inner_text("main")
        look("what nobody foresaw")
    (pages.device.folder / "ledger.jsonl").write_text("no ledger\n")
    page.goto(f"{pages.url}/ledger")
    assert page.inner_text("h1") == "The ledger cannot be read"
    look("a damaged ledger")
    page.goto(f"{pages.url}/?token=guess")
    look("a used invitation")
    page.goto(f"http://evil.example:{pages.door.port}/")
    assert page.inner_text("h1") == "Not this way"
    look("another name")
    page.goto(pages.entrance)
    look("entrance")
    press(page, "Open them in my browser")
    assert page.inner_text("h1") == "A window opens"
    look("a window opens")
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "history.sqlite").write_bytes(b"no database" * 1000)
    with showing(folder) as damaged:
        enter(page, damaged)
        look("a damaged history")
    store = Store(tmp_path / "sealed")
    store.seal("four words are better")
    store.close()
    with showing(tmp_path / "sealed") as sealed:
        enter(page, sealed)
        assert page.url.endswith("/unlock")
        look("unlock")
        page.get_by_label("Passphrase").fill("wrong one")
        press(page, "Open")
        look("unlock with a wrong passphrase")
    assert found == []
    context.close()
