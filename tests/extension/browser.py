"""A Chromium with the extension, a site that shows films, and a client, all on loopback."""

from __future__ import annotations

import json
import re
import shutil
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from extension.labelled import EXTENSION
from loopback import PATIENCE

SITE = "kinobox.example"
OTHER_SITE = "elsewhere.example"
KNOWN_SITE = "netflix.com"
"""One of `content/sites.js`; here its name leads to this machine."""
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--headless=new",
    "--autoplay-policy=no-user-gesture-required", "--mute-audio",
    f"--host-resolver-rules=MAP *.example 127.0.0.1, MAP *.{KNOWN_SITE} 127.0.0.1, "
    "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, "
    "EXCLUDE localhost, EXCLUDE *.localhost",
]  # fmt: skip
SECONDS = 64
"""How long the films are; a short film says its length, and so counts."""


def silence(seconds: int) -> bytes:
    """A sound file that a <video> plays like a film without pictures."""
    rate = 8000
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + rate * seconds, b"WAVE", b"fmt ", 16, 1,
                       1, rate, rate, 1, 8, b"data", rate * seconds)  # fmt: skip
    return head + b"\x80" * (rate * seconds)


PLAYER = """<script>
const video = document.querySelector("video");
function watch(share) {
  video.defaultPlaybackRate = video.playbackRate = 16;
  video.muted = true;
  video.addEventListener("timeupdate", () => {
    if (!window.met && video.currentTime >= video.duration / 2) window.met = Date.now();
    if (video.currentTime >= share * video.duration) video.pause();
  });
  return video.play();
}
</script>"""


def page(title: str, body: str, *, head: str = "", about: Any = None, seconds: int = 0) -> str:
    """A page, with data in the form of schema.org, and with a player that plays `seconds`."""
    data = f'<script type="application/ld+json">{json.dumps(about)}</script>' if about else ""
    video = f'<video src="/sound/{seconds}.wav" controls></video>{PLAYER}' if seconds else ""
    return f"""<!doctype html><meta charset="utf-8"><title>{title}</title>{head}{data}
<main>{body}{video}</main>"""


def film_page(title: str, year: int, *, seconds: int = SECONDS, declared: int = SECONDS) -> str:
    """A page of a film with a player that plays `seconds`."""
    about = {
        "@context": "https://schema.org", "@type": "Movie", "name": title,
        "dateCreated": str(year), "duration": f"PT{declared}S",
    }  # fmt: skip
    return page(f"{title} ({year}) – Kinobox", f"<h1>{title}</h1>", about=about, seconds=seconds)


def unknown_page(title: str, seconds: int) -> str:
    """A page that says nowhere, but for people, what it plays."""
    return page(f"{title} – Kinobox", "<h1>Now playing</h1>", seconds=seconds)


SESSION = """<script>video.addEventListener("play", () => {
  navigator.mediaSession.metadata = new MediaMetadata({ title: "S1 E2 The Jump", artist: "Fargo" });
});</script>"""
LIVE = """<video muted></video><script>
addEventListener("load", () => {
  const video = document.querySelector("video"), canvas = document.createElement("canvas");
  setInterval(() => canvas.getContext("2d").fillRect(0, 0, 9, 9), 100);
  video.srcObject = canvas.captureStream();
  video.play();
});
</script>"""
PAGES = {
    "/film/heat": film_page("Heat", 1995),
    "/film/alien": film_page("Alien", 1979),
    "/film/the-matrix": film_page("The Matrix", 1999),
    "/film/fargo/trailer": film_page("Fargo", 1996, seconds=30, declared=5880),
    "/plain": "<!doctype html><title>Letters</title><h1>Private letters</h1><p>Jaws (1975)</p>",
    "/watch/1": page(
        "Netflix",
        '<div data-uia="video-title"><h4>Dark</h4><span>S1:E3</span><span>Past</span></div>',
        seconds=600,
    ),
    "/session": page("Kinobox", "<h1>Kinobox</h1>", seconds=600) + SESSION,
    "/stream/1": unknown_page("Alien", 1200),
    "/stream/2": unknown_page("The Matrix (1999)", 1200),
    "/stream/trailer": unknown_page("Fargo trailer", 90),
    "/live": page("Jaws – Kinobox", "<h1>Live</h1>" + LIVE),
    "/shop/up": page(
        "Up (DVD) – Kinobox", "<h1>Up</h1>", seconds=90,
        head='<meta property="og:type" content="product">',
        about={"@type": ["Product", "Movie"], "name": "Up", "offers": {"price": "9.99"}},
    ),
}  # fmt: skip
NOT_REPORTED = ("/stream/trailer", "/live", "/shop/up")


class _Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        sound = re.fullmatch(r"/sound/(\d+)\.wav", self.path)
        body = silence(int(sound[1])) if sound else PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "audio/wav" if sound else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def film_site() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def with_site(folder: Path, *sites: str) -> Path:
    """A copy of the extension to which sites are allowed from the beginning: nobody can press the
    browser's own question here. Nothing else differs."""
    shutil.copytree(EXTENSION, folder)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["host_permissions"] += [f"*://*.{site}/*" for site in sites]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


class Browser:
    """A running Chromium with extensions; `worker` is that of the first."""

    def __init__(self, context: Any, port: int) -> None:
        self.context, self.port = context, port
        self.worker = context.service_workers[0] if context.service_workers else (
            context.wait_for_event("serviceworker")
        )  # fmt: skip

    @property
    def id(self) -> str:
        return str(self.worker.url.split("/")[2])

    def open(self, path: str, site: str = SITE) -> Any:
        page = self.context.new_page()
        page.goto(f"http://www.{site}:{self.port}{path}")
        return page

    def popup(self, page: Any | None = None) -> Any:
        """The popup over a page, as a page of its own."""
        shown = self.context.new_page()
        shown.set_viewport_size({"width": 352, "height": 640})
        query = "" if page is None else f"?tab={self.tab_of(page)}"
        shown.goto(f"chrome-extension://{self.id}/popup.html{query}")
        shown.wait_for_selector("body[data-ready]")
        return shown

    def tab_of(self, page: Any) -> int:
        return int(self.worker.evaluate(
            "async (url) => (await chrome.tabs.query({})).findLast((t) => t.url === url).id",
            page.url,
        ))  # fmt: skip

    def newest_tab(self) -> int:
        newest = "async () => Math.max(...(await chrome.tabs.query({})).map((tab) => tab.id))"
        return int(self.worker.evaluate(newest))

    def pair(self, code: str) -> Any:
        popup = self.popup()
        popup.get_by_label("The code").fill(code)
        popup.get_by_role("button", name="Pair").click()
        return popup

    def looked_at(self) -> list[str]:
        """The sites on which the extension's scripts run."""
        asked = (
            "async () => (await chrome.scripting.getRegisteredContentScripts()).map((s) => s.id)"
        )
        return list(self.worker.evaluate(asked))

    def forget(self) -> None:
        """As it was installed: no pages, no scripts, nothing kept, and nothing under way."""
        for page in self.context.pages[1:]:  # without any page the browser ends
            page.close()
        asked = self.popup()  # is ready when the delivery that was under way has ended
        self.worker.evaluate("""async () => {
          const scripts = await chrome.scripting.getRegisteredContentScripts();
          await chrome.scripting.unregisterContentScripts({ ids: scripts.map((s) => s.id) });
          await Promise.all([chrome.storage.local.clear(), chrome.storage.session.clear()]);
        }""")
        asked.close()

    def kept(self, name: str, area: str = "local") -> Any:
        return self.worker.evaluate(
            "async ([area, name]) => (await chrome.storage[area].get(name))[name] ?? null",
            [area, name],
        )

    def badge(self, page: Any) -> str:
        """What the button shows over a page."""
        shown = "(tabId) => chrome.action.getBadgeText({ tabId })"
        return str(self.worker.evaluate(shown, self.tab_of(page)))


@contextmanager
def chromium(
    started: Any, executable: str, profile: Path, *extensions: Path, log: Path | None = None
) -> Iterator[Browser]:
    loaded = ",".join(map(str, extensions))
    flags = [*FLAGS, f"--load-extension={loaded}", f"--disable-extensions-except={loaded}",
             "--disable-features=DisableLoadExtensionCommandLineSwitch"]  # fmt: skip
    if log is not None:
        flags += [f"--log-net-log={log}", "--net-log-capture-mode=Everything"]
    with film_site() as port:
        context = started.chromium.launch_persistent_context(
            str(profile), executable_path=executable, headless=False, args=flags,
            ignore_default_args=["--disable-extensions"], timeout=PATIENCE * 1000,
        )  # fmt: skip
        context.set_default_timeout(PATIENCE * 1000)
        try:
            yield Browser(context, port)
        finally:
            context.close()
