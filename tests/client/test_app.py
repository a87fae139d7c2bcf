"""The pages over HTTP, without a browser: every one answers, and the whole round works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from client.conftest import Pages, Served, serving, showing, shown_payload
from epicrec.client.main import make_client
from epicrec.client.sending.remote import shown_certificate
from epicrec.errors import InputError
from epicrec.perturb.randomised_response import answers_about

EVERY_PAGE = (
    "/", "/history", "/sources", "/extension", "/privacy", "/preview", "/for-you",
    "/browse", "/browse?genre=Comedy", "/watchlist", "/film/heat-1995",
    "/learned", "/learned?q=alien", "/learned?look=1", "/ledger", "/server",
    "/data", "/history?q=alien",
)  # fmt: skip


def test_every_page_answers_before_and_after_a_round(pages: Pages) -> None:
    for path in EVERY_PAGE:
        assert pages.http.get(path).status_code == 200, path
    pages.http.post("/example")
    pages.http.post("/preview/draw")
    for path in EVERY_PAGE:
        assert pages.http.get(path).status_code == 200, path


def test_one_click_to_rows_and_two_to_a_release(pages: Pages, publishing: Served) -> None:
    first = pages.http.post("/example")
    assert first.url.path == "/for-you"
    assert "Ranked on this device" in first.text
    assert pages.device.releases.all() == [], "rows need no release"
    drawn = pages.http.post("/preview/draw")
    stored = pages.device.releases.unsent()[0]
    assert shown_payload(drawn.text) == stored.payload, "what is shown is what is sent"
    sent = pages.http.post(f"/release/{stored.id}/send")
    assert sent.url.path == "/for-you"
    assert "Ranked on this device" in sent.text
    assert sent.text.count('<li class="film"') > 50
    assert publishing.answers_of(pages.device.account) == [stored.release.answers]
    name = (pages.device.account or {})["user_id"].encode()
    named = stored.payload.replace(b'"UserId":""', b'"UserId":"' + name + b'"')
    assert pages.http.get(f"/release/{stored.id}").content == named, "all but the name was shown"


def test_the_preview_of_answers_says_what_is_true_of_them(pages: Pages, publishing: Served) -> None:
    """How many films are reported, denied and claimed, what is said of a title, and the bytes."""
    pages.http.post("/example")
    drawn = pages.http.post("/preview/draw")
    stored = pages.device.releases.unsent()[0]
    assert shown_payload(drawn.text) == stored.payload, "what is shown is what is sent"
    films, watched = pages.device.sendable, set(pages.device.history.items())
    said = set(films.item_ids[answers_about(stored.release, films)].tolist())
    text = " ".join(re.sub("<[^>]*>", "", drawn.text).split())
    mine = [item for item in films.item_ids.tolist() if item in watched]
    reported = len([item for item in mine if item in said])
    assert f"Of your {len(mine)} films on the list, {reported} are reported" in text
    assert f"and {len(mine) - reported} denied. {len(said - watched)} that you never saw" in text
    found = pages.http.get("/preview", params={"q": "Alien"}).text
    answer = "seen" if "alien-1979" in said else "not seen"
    assert re.search(rf"Alien \(1979\)</th><td[^>]*>[^<]*</td><td[^>]*>{answer}</td>", found)
    pages.http.post(f"/release/{stored.id}/send", data={"again": "yes"})
    assert pages.device.store.setting("schedule")["every"] == "every three months"
    looked = pages.http.get("/learned", params={"look": "1"}).text
    assert "the answers of 1 of your releases" in looked
    assert publishing.held(pages.device) == []
    assert len(publishing.answers_of(pages.device.account)) == 1


@pytest.mark.parametrize("name", ["style.css", "client.js"])
def test_static_files(pages: Pages, name: str) -> None:
    assert pages.http.get(f"/static/{name}").status_code == 200
    assert pages.http.get("/static/../main.py").status_code == 404


def test_a_release_over_the_limit_is_refused_and_explained(pages: Pages) -> None:
    pages.http.post("/example")
    pages.http.post("/privacy", data={"strength": "weak", "limit": "1"})
    refused = pages.http.post("/preview/draw")
    assert refused.status_code == 409
    assert "Your limit does not allow this" in refused.text
    assert pages.device.releases.all() == []
    assert pages.http.post("/privacy", data={"limit": "nonsense"}).status_code == 400


def test_levels_are_saved_with_their_exceptions(pages: Pages) -> None:
    data = {"overall": "perturbed release", "level-Horror": "no release", "level-War": ""}
    pages.http.post("/privacy", data=data)
    assert pages.device.choice.exceptions == {"Horror": "no release"}
    shown = pages.http.get("/privacy/odds", params={"overall": "no release"})
    assert "Nothing about your history leaves" in shown.text
    assert pages.http.post("/privacy", data={"overall": "nonsense"}).status_code == 400


def test_how_often_the_truth_is_told_is_said_of_answers_alone(pages: Pages) -> None:
    assert pages.http.get("/privacy").text.count("tells the truth in") == 4
    pages.http.post("/privacy", data={"mechanism": "epicrec", "strength": "balanced"})
    shown = pages.http.get("/privacy").text
    assert "tells the truth in" not in shown
    assert "ε = 1</span>" in shown
    assert pages.device.choice.epsilon(pages.device.sendable) == 1.0


def test_an_unknown_certificate_is_shown_then_pinned(tmp_path: Path) -> None:
    with serving(tmp_path / "server", http=False) as own, showing(tmp_path / "client") as pages:
        asked = pages.http.post("/server", data={"url": own.url})
        pem, fingerprint = shown_certificate(own.url)
        assert fingerprint in asked.text
        assert pages.device.account is None, "it is tried before it is kept"
        assert "The server shows another certificate" not in asked.text
        trusted = pages.http.post("/server", data={"url": own.url, "certificate": pem})
        assert "The server answers" in trusted.text
        pages.http.post("/example")
        pages.http.post("/preview/draw")
        assert pages.device.releases.unsent()


def test_no_page_needs_the_server_to_be_there(tmp_path: Path) -> None:
    with showing(tmp_path / "client", server="http://127.0.0.1:9") as pages:
        pages.http.post("/example")
        for path in EVERY_PAGE:
            assert pages.http.get(path).status_code == 200, path
        assert "cannot be reached" in pages.http.get("/for-you").text
        drawn = pages.http.post("/preview/draw")
        assert drawn.status_code == 200, "drawing asks nobody"
        (stored,) = pages.device.releases.unsent()
        assert "not known to have arrived" in pages.http.post(f"/release/{stored.id}/send").text
        assert pages.device.releases.unsent()


def test_a_taken_port_says_so(tmp_path: Path, pages: Pages) -> None:
    port = pages.door.port
    with pytest.raises(InputError, match="taken"):
        make_client(tmp_path / "other", port=port)
