"""The guarantee printed with the model, against a spy who asks for everything anybody may ask for.

Two worlds differ in one person's ratings alone. The published model is the same file in both, as it
would be but for its noise; whatever else differs is what the guarantee does not cover.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicrec import wire
from epicrec.data import Catalogue, Ratings
from epicrec.models import Recommender, make_model
from epicrec.privacy import Guarantee
from epicrec.privacy.ledger import LedgerDamagedError
from epicrec.server import Settings, serve
from epicrec.server.main import make_server
from epicrec.server.store import catalogue, feedback, users
from epicrec.server.store.database import Database
from epicrec.server.training import folders, job, publish
from loopback import wait_for
from server.conftest import Client, Running, prepare, running

VICTIM = "victim"
WATCHED, HIDDEN = "heat-1995", "alien-1979"
Fit = Callable[[Ratings, Settings, Catalogue], Recommender]


@pytest.fixture(scope="module", params=["lists", "ratings"])
def pinned(request: pytest.FixtureRequest, films: Catalogue, viewers: Ratings) -> Fit:
    """Publishing gives this one model, whatever the ratings are."""
    made = make_model("covariance-svd", epsilon=4.0, delta=1e-6, unit="user",
                      task=request.param)  # fmt: skip
    model = made.fit(viewers.with_items(np.sort(films.item_ids)))
    return lambda *_: model


def settings_of(folder: Path, **more: Any) -> Settings:
    plain: dict[str, Any] = {
        "data": str(folder), "http": True, "catalogue": "films", "train_every": 0, "factors": 2,
        "train_from": "store",
    }  # fmt: skip
    return Settings(**(plain | more))


def world(folder: Path, **more: Any) -> Settings:
    """A server's folder in which a victim and some others rated films."""
    settings = settings_of(folder, **more)
    prepare(**settings.to_dict())
    films = [f"{name}" for name in (WATCHED, "the-godfather-1972", "fargo-1996")]
    rate(settings, {f"other-{k}": [films[k % 3], films[(k + 1) % 3]] for k in range(6)})
    rate(settings, {VICTIM: [WATCHED]})
    return settings


def rate(settings: Settings, by_user: dict[str, list[str]]) -> None:
    rows = [
        wire.Feedback(FeedbackType=kind, UserId=user, ItemId=item, Value=5)
        for user, items in by_user.items()
        for item in items
        for kind in ("rating", "watch")
    ]
    database = Database(settings.database_url)
    with database.writing() as connection:
        feedback.put(connection, rows, make=True)
    database.stop()


def published_into(settings: Settings, fit: Fit) -> None:
    database = Database(settings.database_url)
    try:
        publish.publish(settings, database, fit)
    finally:
        database.stop()


# ---- the spy ------------------------------------------------------------------------------


def test_a_spy_sees_the_same_whatever_one_person_rated(tmp_path: Path, pinned: Fit) -> None:
    one = world(tmp_path / "one")
    published_into(one, pinned)
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    other = settings_of(tmp_path / "other")
    rate(other, {VICTIM: [HIDDEN, "psycho-1960"]})
    answers = []
    for settings in (one, other):
        job.run("train", settings)  # whatever the operator tries
        with running(settings.folder, catalogue="films", train_from="store") as serving:
            answers.append(spied(serving))
    first, second = answers
    assert first.keys() == second.keys()
    assert {
        what: (first[what], second[what]) for what in first if first[what] != second[what]
    } == {}
    # and there is something to be seen
    assert sum(status == 200 for status, *_ in first.values()) > 30
    assert len({body for _, body, _ in first.values()}) > 20


def spied(serving: Running) -> dict[str, tuple[int, str, dict[str, str]]]:
    """Every route's answer to whoever has no key, and to one who just registered."""
    spy = serving.register()
    row = {"FeedbackType": "rating", "UserId": spy.user_id, "ItemId": "rocky-1976", "Value": 4}
    found = {}

    def ask(client: Client, method: str, path: str, **content: Any) -> None:
        for name, value in {"{feedback_type}": "rating", "{category}": "Drama"}.items():
            path = path.replace(name, value)
        for user in (spy.user_id, VICTIM, "nobody") if "{user_id}" in path else ("",):
            for item in (WATCHED, HIDDEN, "unheard-of") if "{item_id}" in path else ("",):
                place = path.replace("{user_id}", user).replace("{item_id}", item)
                answer = client.request(method, place, **content)
                body = answer.text if "octet" not in str(answer.headers) else answer.content.hex()
                kept = {k: v for k, v in answer.headers.items() if k != "date"}
                about = f"{client is spy} {method} {place} {sorted(content)}"
                hide = partial(_without, spy)
                found[hide(about)] = answer.status_code, hide(body), kept

    paths = serving.client().get("/openapi.json").json()["paths"]
    asked = [(method.upper(), path) for path in paths for method in paths[path]]
    reading = [(m, p) for m, p in asked if m == "GET"]
    for client in (serving.client(), spy):
        for method, path in reading:
            many = {"params": {"n": 600}} if "recommend" in path or "neighbors" in path else {}
            ask(client, method, path, **many)
        ask(client, "POST", "/api/session/recommend", json=[row], params={"n": 600})
        ask(client, "POST", "/api/session/recommend", json=[], headers={"X-API-Version": "2"})
    ask(spy, "PUT", "/api/feedback", json=[row])
    for method, path in reading:  # with something of their own
        ask(spy, method, path, headers={"X-API-Version": "2"})
    for method in ("PUT", "POST"):
        ask(spy, method, "/api/feedback", json=[row | {"UserId": VICTIM}])
    ask(spy, "PUT", "/api/user/{user_id}/release", json={})
    ask(spy, "DELETE", "/api/feedback/{user_id}/{item_id}")
    for method, path in asked:
        if path.startswith("/api/dashboard"):
            ask(spy, method, path)
    return found


def _without(spy: Client, text: str) -> str:
    return text.replace(spy.user_id, "me").replace(spy.headers["X-API-Key"], "my key")


def test_lists_come_from_the_model_and_ones_own_rows(tmp_path: Path, pinned: Fit) -> None:
    settings = world(tmp_path / "server")
    published_into(settings, pinned)
    model = pinned(None, settings, None)  # type: ignore[arg-type]
    with running(settings.folder, catalogue="films", train_from="store") as serving:
        me = serving.register()
        place = f"/api/recommend/{me.user_id}"
        popular = me.get(place, params={"n": 20}).json()
        assert len(set(popular)) == 20
        assert (
            me.post("/api/session/recommend", params={"n": 20}, json=[]).json()[3]["Id"] in popular
        )
        own = ["the-godfather-1972", "casablanca-1942"]
        rows = [
            {"FeedbackType": "rating", "UserId": me.user_id, "ItemId": item, "Value": 5}
            for item in own
        ]
        assert me.put("/api/feedback", json=rows).status_code == 200
        history = Ratings.from_columns(
            ["me"] * 2, own, [5, 5] if model.task == "ratings" else None, scale=model.scale_
        )
        order = model.recommend(history, n=600)["item_id"].to_pylist()
        expected = order[:20]
        assert me.get(place, params={"n": 20}).json() == expected
        assert me.get(place, params={"n": 5, "offset": 10}).json() == expected[10:15]
        drama = me.get(f"{place}/Drama", params={"n": 5}).json()
        assert drama == sorted(drama, key=order.index)
        assert len(me.get(f"/api/item/{own[0]}/neighbors").json()) == 10
        serving.admin.patch(f"/api/item/{expected[0]}", json={"IsHidden": True})
        assert me.get(place, params={"n": 19}).json() == expected[1:]
        refused = serving.admin.post("/api/dashboard/train")
        assert (refused.status_code, "no lists are learned" in refused.text) == (400, True)
        assert serving.admin.get("/api/dashboard/training").json()["state"] == "off"
        page = serving.admin.get("/operator")
        assert "computed from that model" in page.text


# ---- from one way to the other ------------------------------------------------------------


def info_of(serving: Running) -> Guarantee:
    info = serving.client().get("/api/model/info").json()
    return Guarantee.from_dict(info["Guarantee"])


def test_lists_served_before_are_gone_and_no_promise_is_made(tmp_path: Path, pinned: Fit) -> None:
    settings = world(tmp_path / "server", train_from="")
    assert job.run("train", settings)["state"] == "done"
    models = settings.folder / "models"
    assert folders.current(models) == 1
    with running(settings.folder, catalogue="films", train_from="store") as serving:
        assert serving.service.ranking.lists is None
        me = serving.register()
        assert me.get(f"/api/recommend/{me.user_id}").json() == []
        assert me.get(f"/api/item/{WATCHED}/neighbors").status_code == 404
        assert list(models.iterdir()) == []
        admin = serving.admin
        wait_for(lambda: admin.get("/api/dashboard/publishing").json()["state"] == "failed")
        said = serving.admin.get("/api/dashboard/publishing").json()["error"]
        assert "no guarantee about the same ratings holds any more" in said
        assert serving.client().get("/api/model/info").status_code == 404
    backup = serve(backup=tmp_path / "backup", data=str(settings.folder))
    assert backup["rows"]["users"]
    serve(restore=tmp_path / "backup", data=str(tmp_path / "moved"))  # it is not forgotten there
    with pytest.raises(Exception, match="no guarantee about the same ratings"):
        published_into(settings_of(tmp_path / "moved"), pinned)


def test_after_a_promise_no_lists_are_learned(tmp_path: Path, pinned: Fit) -> None:
    settings = world(tmp_path / "server")
    published_into(settings, pinned)
    later = settings_of(settings.folder, train_from="")
    assert job.run("train", later)["state"] == "failed"
    assert folders.current(settings.folder / "models") is None
    with running(settings.folder, catalogue="films", train_from="") as serving:
        assert serving.admin.post("/api/dashboard/train").status_code == 400
        me = serving.register()
        assert len(me.get(f"/api/recommend/{me.user_id}").json()) == 10  # the model's
        assert info_of(serving).status == "proved"
        assert "a user is an account" in " ".join(info_of(serving).assumes)


def test_a_promise_that_lists_on_disk_break_is_taken_back(tmp_path: Path, pinned: Fit) -> None:
    """The ledger was lost, and with it the record of lists learned from the same ratings."""
    settings = world(tmp_path / "server", train_from="")
    assert job.run("train", settings)["state"] == "done"
    (settings.folder / "ledger.jsonl").unlink()
    database = Database(settings.database_url)
    publish.publish(settings_of(settings.folder), database, pinned)
    database.stop()
    with running(settings.folder, catalogue="films", train_from="store") as serving:
        assert info_of(serving).status == "none"
        me = serving.register()
        assert len(me.get(f"/api/recommend/{me.user_id}").json()) == 10  # the model's
    assert folders.current(settings.folder / "models") is None


def test_lists_from_nothing_break_no_promise(tmp_path: Path, pinned: Fit) -> None:
    """A server is usually started before its operator sets train_from."""
    settings = settings_of(tmp_path / "server", train_from="")
    prepare(data=settings.data, http=True, catalogue="films")
    assert job.run("train", settings)["state"] == "done"
    rate(settings, {VICTIM: [WATCHED]})
    published_into(settings_of(tmp_path / "server"), pinned)


@pytest.mark.parametrize("train_from", ["", "store"])
def test_over_a_damaged_ledger_nothing_is_served(tmp_path: Path, train_from: str) -> None:
    """Which promises were made is not certain any more, and so nor is what may be shown."""
    settings = settings_of(tmp_path / "server", train_from=train_from)
    settings.folder.mkdir()
    (settings.folder / "ledger.jsonl").write_text('{"at": "altered"}\n')
    with pytest.raises(LedgerDamagedError, match="line 1"):
        make_server(settings)


# ---- the catalogue ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_feedback_makes_no_items(serving: Running, method: str) -> None:
    """Not the admin's either: the catalogue is public, and what was watched is not."""
    rows = [
        {"FeedbackType": "rating", "UserId": "somebody", "ItemId": item, "Value": 5}
        for item in (WATCHED, "only-one-person-knows-it")
    ]
    answer = serving.admin.request(method, "/api/feedback", json=rows)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("row 2: the item is not in the catalogue")
    assert serving.admin.get("/api/item/only-one-person-knows-it").status_code == 404
    with serving.service.database.reading() as connection:
        assert catalogue.count(connection) == 536
        assert users.counts(connection)["users"] == 0  # all or nothing
