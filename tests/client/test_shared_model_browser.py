"""The page of the shared model in a real Chromium, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from client.conftest import showing
from client.test_pages_browser import axe, chromium, enter, keep_picture, press, started  # noqa: F401  (fixtures)
from epicrec.client.sending.shared_model_reports import EVERY, WINDOW
from epicrec.server import shared_model
from server.conftest import two_running

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with two_running(tmp_path_factory.mktemp("servers"), catalogue="films") as found:
        yield found


@pytest.mark.parametrize(
    ("scheme", "width", "script"),
    [
        ("light", 1280, True),
        ("dark", 1280, True),
        ("light", 390, True),
        ("dark", 390, True),
        ("light", 800, False),
    ],
    ids=["light wide", "dark wide", "light phone", "dark phone", "without script"],
)
def test_from_looking_to_leaving(
    servers: Any, tmp_path: Path, chromium: Any, axe: str, scheme: str, width: int, script: bool,  # noqa: F811
) -> None:  # fmt: skip
    leader = servers[0]
    task = f"{scheme} {width}"
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 844}, bypass_csp=True,
        java_script_enabled=script,
    )  # fmt: skip
    found: list[str] = []

    def look(name: str) -> None:
        if not script:
            return
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
        page.evaluate(axe)
        outcome = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found.extend(
            f"{name}: {v['id']}: {v['nodes'][0]['html'][:160]}" for v in outcome["violations"]
        )
        over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if over > 0:
            found.append(f"{name}: {over} pixels too wide")
        keep_picture(page, f"{scheme}-{width}-common-{name}")

    certificate = Path(leader.settings.data) / "tls" / "ca.pem"
    with showing(tmp_path / "client", server=leader.url, certificate=certificate) as pages:
        device = pages.device
        page = context.new_page()
        enter(page, pages)
        press(page, "Try with an example history")
        page.goto(f"{pages.url}/privacy")
        page.get_by_role("link", name="Common model").click()
        assert "Take part in the common model" in page.inner_text("h1")
        look("off")
        shared_model.start(leader.settings, task, epsilon=1.0, delta=1e-5, most=10)
        link = shared_model.join_link(leader.settings, task, leader.url)["link"]
        page.get_by_label("Join link").fill(link)
        press(page, "Show me this training")
        look("offer")
        assert device.shared_model.part is None
        page.get_by_role("radio", name="in every round").check()
        press(page, "Save this choice")
        assert urlsplit(page.url).path == "/common"
        device.shared_model.tick(NOW, device.history.items)
        page.goto(f"{pages.url}/common")
        assert "prepared for" in page.inner_text("main")
        look("taking part")
        told: dict[str, Any] = {}
        moment = NOW
        while "model" not in told:
            device.shared_model.tick(moment + WINDOW, device.history.items)
            told = shared_model.collect(leader.settings, task)
            moment += WINDOW + EVERY
            if "model" not in told:
                shared_model.start(leader.settings, task, epsilon=1.0, delta=1e-5, most=10)
            device.shared_model.tick(moment, device.history.items)
        page.goto(f"{pages.url}/common")
        assert "The common model is there" in page.inner_text("main")
        look("trained")
        if not script:
            page.get_by_text("Your numbers and their two halves").first.click()
        with page.expect_download() as download:
            page.get_by_role("link", name="All of it as a file").first.click()
        assert download.value.suggested_filename == "common-model-round-0.json"
        problem = {"problem": "the servers were not trusted"}
        device.store.set(common=device.shared_model.part | problem)
        page.goto(f"{pages.url}/common")
        assert page.get_by_role("alert").inner_text() == "The servers were not trusted."
        look("problem")
        press(page, "Try again")
        assert page.get_by_role("alert").count() == 0
        press(page, "Leave the common model")
        assert device.shared_model.part is None
        look("left")
    assert found == []
    context.close()
