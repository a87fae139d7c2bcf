"""Take client.png, the README's picture: *For you* of the made-up viewer, on the embedded films.

Needs playwright and Debian's chromium. Nothing of it leaves this machine.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from epicrec.client.main import make_client

PICTURE = Path(__file__).parent / "client.png"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        client, address = make_client(Path(folder), catalogue="films")
        assert client.state.device is not None
        client.state.device.example()
        thread = threading.Thread(target=client.run)
        thread.start()
        try:
            while not client.started:
                time.sleep(0.05)
            with sync_playwright() as running:
                browser = running.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                page = browser.new_page(viewport={"width": 1000, "height": 625})
                page.goto(address)
                page.get_by_role("navigation", name="Places").get_by_text("For you").click()
                page.wait_for_load_state("networkidle")
                page.screenshot(path=PICTURE)
                browser.close()
        finally:
            client.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
