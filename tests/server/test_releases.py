"""Releases: batches side by side, sent again without harm, corrected for their mechanisms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epicrec import wire
from epicrec.data import Catalogue, Scale, find
from epicrec.perturb import D2P, DPI, Release, SEpicRec
from epicrec.privacy import Guarantee
from epicrec.server import Settings
from epicrec.server.store import catalogue, feedback, users
from epicrec.server.store.database import Database
from epicrec.server.training import training_data
from epicrec.server.training.training_data import gather
from server.conftest import Client, Running

PROMISE = Guarantee(epsilon=1.0, unit="item", relation="change one")


def message(release: Release, identity: str, **more: Any) -> dict[str, Any]:
    return {"Release": release.public().to_dict(), "ReleaseId": identity, **more}


def sent(client: Client, release: Release, identity: str, **more: Any) -> int:
    answer = client.put(
        f"/api/user/{client.user_id}/release", json=message(release, identity, **more)
    )
    assert answer.status_code == 200, answer.text
    return int(answer.json()["RowAffected"])


def held(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/api/user/{client.user_id}/feedback").json()
    return found


def test_batches_stand_side_by_side_and_count(either: Running, films: Catalogue) -> None:
    """Two batches of 200 substitutes are 400 substitutes, though they share films."""
    client, device = either.register(), D2P(films, epsilon=3.0)
    batches = [device.release(films.item_ids[at : at + 200]) for at in (0, 200)]
    for number, release in enumerate(batches):
        assert sent(client, release, f"batch {number}") == len(release.items)
    shared = set(batches[0].items) & set(batches[1].items)
    assert shared, "or nothing is tried"
    assert sum(row["Value"] for row in held(client)) == 400
    sent(client, batches[1], "batch 1")
    assert sum(row["Value"] for row in held(client)) == 400, "sent again, it counts once"
    sent(client, batches[0], "batch 1")
    assert sum(row["Value"] for row in held(client)) == 400, "in the place of the other"
    stats = either.admin.get("/api/dashboard/stats").json()
    assert stats["guarantees"] == [{"guarantee": "ε ≤ 4 for one item, proved", "releases": 2}]
    assert client.delete(f"/api/user/{client.user_id}").json() == {"RowAffected": 1}
    assert either.admin.get("/api/dashboard/stats").json()["guarantees"] == []
    assert either.admin.get("/api/feedback").json()["Feedback"] == []


def test_feedback_and_releases_do_not_touch_each_other(either: Running, films: Catalogue) -> None:
    client = either.register()
    release = SEpicRec(films, epsilon=1.0).release(films.item_ids[:30])
    row = {"FeedbackType": "watch", "UserId": client.user_id, "ItemId": release.items[0]}
    client.put("/api/feedback", json=[row])
    sent(client, release, "one")
    assert len(held(client)) == len(release.items) + 1
    client.put("/api/feedback", json=[row | {"Value": 7}])
    assert sorted(r["Value"] for r in held(client) if r["ItemId"] == release.items[0]) == [1, 7]


def test_a_release_is_its_owners(serving: Running, films: Catalogue) -> None:
    mine, other = serving.register(), serving.register()
    release = D2P(films, epsilon=3.0).release(films.item_ids[:3])
    body = message(release, "x", UserId=other.user_id)
    assert mine.put(f"/api/user/{mine.user_id}/release", json=body).status_code == 403
    assert mine.put(f"/api/user/{other.user_id}/release", json=body).status_code == 403
    assert sent(mine, release, "x", UserId=mine.user_id) == len(release.items)


# ---- corrected for their mechanism ------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path, films: Catalogue) -> Any:
    made = Database(f"sqlite:///{tmp_path / 'store.sqlite'}")
    made.migrate()
    with made.writing() as connection:
        catalogue.fill(connection, films)
        catalogue.keep(connection, films)
    yield made
    made.stop()


def receive(database: Database, releases_of: dict[str, list[Release]], kind: str = "watch") -> None:
    with database.writing() as connection:
        users.put(connection, [wire.User(UserId=user) for user in releases_of])
        for user, own in releases_of.items():
            known = users.known(connection, user)
            assert known is not None
            for number, release in enumerate(own):
                body = message(release, str(number), FeedbackType=kind)
                feedback.receive(connection, known, wire.Released.model_validate(body))


def test_each_batch_is_corrected_for_its_own_mechanism(
    database: Database, films: Catalogue
) -> None:
    """Also after regrouping: of two catalogues, one of which is no longer in use."""
    table = films.to_table()
    older = Catalogue.from_table(table.slice(0, 400))
    with database.writing() as connection:
        catalogue.keep(connection, older)
    devices = [D2P(films, epsilon=3.0), D2P(older, epsilon=2.0)]
    seen = [films.item_ids[:60], older.item_ids[60:100]]
    drawn = [device.release(own) for device, own in zip(devices, seen, strict=True)]
    elsewhere = D2P(Catalogue.from_table(table.slice(100)), epsilon=3.0).release(films.item_ids[:9])
    receive(database, {"ann": drawn, "bob": [elsewhere]})
    with database.reading() as connection:
        found = gather(connection, Settings().feedback_rules)
    assert found.left_out == {"d2p: it was drawn by a list of items that is not known here": 1}
    assert {round(part.channels[0].epsilon, 6) for _, part in found.drawn} == {
        round(device.channel.epsilon, 6) for device in devices
    }
    for mechanism, part in found.drawn:
        device = devices[json.loads(mechanism.settings)["catalogue"] == older.version]
        assert np.allclose(part.channels[0].matrix(), device.channel.matrix())
        release = drawn[devices.index(device)]
        at = find(part.item_ids, list(release.items))
        assert part.counts.toarray()[0][at].tolist() == [
            float(count) for count in release.counts or ()
        ]
        assert mechanism.proved
    assert found.events.counts.sum() == 100
    assert found.seen.nnz == 0, "a substitute says of no film that it was watched"


def test_settings_that_nobody_can_have_are_left_out(database: Database, films: Catalogue) -> None:
    true = D2P(films, epsilon=3.0).release(films.item_ids[:9])
    wrong = [
        {"floor": 10**9}, {"floor": "many"}, {"groups": 99}, {"p": None},
        {"lam": -1}, {"hide": "no such"}, {"as_published": True}, {"more": [[[]]]},
    ]  # fmt: skip
    forged = {
        f"u{at}": [Release(**{**vars(true), "settings": {**true.settings, **change}})]
        for at, change in enumerate(wrong)
    }
    forged["v"] = [Release(**{**vars(true), "settings": {}})]
    forged["w"] = [Release(**{**vars(true), "method": "no-such-method"})]
    receive(database, forged)
    with database.reading() as connection:
        found = gather(connection, Settings().feedback_rules)
    assert found.drawn == []
    assert sum(found.left_out.values()) == len(forged)


def test_many_mechanisms_are_bounded(
    database: Database, films: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_data, "MOST_MECHANISMS", 2)
    drawn = {
        f"u{k}": [D2P(films, p=0.5 + k / 100, floor=20).release(films.item_ids[:5])]
        for k in range(4)
    }
    drawn["again"] = drawn["u3"]
    receive(database, drawn)
    with database.reading() as connection:
        found = gather(connection, Settings().feedback_rules)
    assert len(found.drawn) == 2
    assert found.left_out == {"more than 2 mechanisms": 2}


def test_epicrecs_totals_and_what_is_sent_in_clear(database: Database, films: Catalogue) -> None:
    device = SEpicRec(films, epsilon=1.0)
    noised = {f"u{k}": [device.release(films.item_ids[k : k + 40])] for k in range(5)}
    clear = device.release(films.item_ids[:7], "all release")
    receive(database, noised | {"open": [clear]})
    with database.reading() as connection:
        found = gather(connection, Settings().feedback_rules)
    [totals] = found.totals
    scales = next(iter(noised.values()))[0].settings["scales"]
    for name, (value, variance) in totals.items():
        assert value == sum(own[0].aggregates[name] for own in noised.values())
        assert variance == pytest.approx(5 * 2 * scales[name] ** 2)
    assert found.clear.counts.sum() == found.seen.nnz == 7, "stand-ins are no events"
    assert found.left_out == {}


def test_ratings_by_dpi_count_by_who_likes_them(database: Database, films: Catalogue) -> None:
    device = DPI(Scale(1, 5, 1), epsilon=4.0)
    stars = dict.fromkeys(films.item_ids[:2].tolist(), 0.0) | {str(films.item_ids[0]): 5.0}
    history = pa.table({"item_id": [*stars], "rating": [value or 1.0 for value in stars.values()]})
    receive(database, {f"u{k}": [device.release(history)] for k in range(300)}, "rating")
    with database.reading() as connection:
        found = gather(connection, Settings().feedback_rules)
    counted = found.clear.counts.sum(axis=0)[find(found.clear.item_ids, [*stars])]
    assert counted[0] > 270
    assert counted[1] < 30
    assert found.seen.nnz == 600, "what was rated is known, and left out of lists"
