"""What the API promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epicrec.privacy import Guarantee
from epicrec.server.store import idempotency
from epicrec.server.store.users import today
from server.conftest import Client, Running, released, running

PROMISE = Guarantee(epsilon=0.9, unit="item", relation="add or remove one")


def film_ids(client: Client, n: int = 10) -> list[str]:
    return [item["ItemId"] for item in client.get("/api/items", params={"n": n}).json()["Items"]]


def rows(client: Client, items: list[str], **more: object) -> list[dict[str, object]]:
    plain = {"FeedbackType": "watch", "UserId": client.user_id, "Value": 1.0}
    return [plain | {"ItemId": item} | more for item in items]


def test_pages_of_items_meet_end_to_end(either: Running) -> None:
    client = either.register()
    found: list[str] = []
    cursor = ""
    while True:
        page = client.get("/api/items", params={"n": 100, "cursor": cursor}).json()
        found += [item["ItemId"] for item in page["Items"]]
        cursor = page["Cursor"]
        if not cursor:
            break
    assert len(found) == len(set(found)) == 536
    assert client.get("/api/items", params={"q": "GODFATHER"}).json()["Items"]
    assert client.get("/api/items", params={"q": "%"}).json()["Items"] == []
    assert client.get("/api/items", params={"cursor": "nonsense"}).status_code == 400


def test_items_are_added_changed_and_deleted_by_the_admin(either: Running) -> None:
    admin = either.admin
    item = {
        "ItemId": "new film/ü", "Categories": ["Drama"], "Timestamp": "2020-02-02T20:20:02Z",
        "Labels": {"year": 2020}, "Comment": "New Film", "IsHidden": False,
    }  # fmt: skip
    assert admin.post("/api/item", json=item).json() == {"RowAffected": 1}
    assert admin.post("/api/items", json=[item, item | {"ItemId": "b"}]).json()["RowAffected"] == 2
    assert admin.get("/api/item/b").json() == item | {"ItemId": "b"}
    assert admin.patch("/api/item/b", json={"IsHidden": True}).json()["RowAffected"] == 1
    assert admin.get("/api/item/b").json() == item | {"ItemId": "b", "IsHidden": True}
    assert admin.delete("/api/item/b").json() == {"RowAffected": 1}
    assert admin.get("/api/item/b").status_code == 404
    assert admin.patch("/api/item/b", json={"Comment": "x"}).status_code == 404
    client = either.register()
    assert client.post("/api/item", json=item).status_code == 403


def test_put_overwrites_and_post_adds(either: Running) -> None:
    client = either.register()
    films = film_ids(client, 2)
    where = f"/api/user/{client.user_id}/feedback"
    for _ in range(2):
        assert client.put("/api/feedback", json=rows(client, films, Value=2)).status_code == 200
    assert [row["Value"] for row in client.get(where).json()] == [2, 2]
    client.post("/api/feedback", json=rows(client, films, Value=3))
    assert [row["Value"] for row in client.get(where).json()] == [5, 5]
    client.post("/api/feedback", json=rows(client, [films[0]] * 2, Value=1e9))
    assert client.get(where).json()[0]["Value"] == 1e9  # bounded
    assert len(client.get(f"{where}/watch").json()) == 2
    assert client.get(f"{where}/like").json() == []


def test_a_request_with_a_name_counts_once(either: Running, monkeypatch: Any) -> None:
    client, other = either.register(), either.register()
    films = film_ids(client, 2)

    def add(who: Client, name: str, value: float) -> int:
        body, named = rows(who, films, Value=value), {"Idempotency-Key": name}
        return who.post("/api/feedback", json=body, headers=named).status_code

    def values(who: Client) -> list[float]:
        found = who.get(f"/api/user/{who.user_id}/feedback").json()
        return [row["Value"] for row in found]

    assert [add(client, "first", 2) for _ in range(3)] == [200, 200, 200]
    assert values(client) == [2, 2]
    assert add(client, "first", 3) == 400
    assert add(client, "second", 3) == 200
    assert add(other, "first", 7) == 200, "names are each user's own"
    assert (values(client), values(other)) == ([5, 5], [7, 7])
    assert add(client, "x" * 129, 1) == 422
    monkeypatch.setattr(idempotency, "MOST", 2)
    assert add(client, "third", 1) == 413
    assert values(client) == [5, 5]
    monkeypatch.setattr(idempotency, "today", lambda: today() + idempotency.DAYS)
    assert add(client, "first", 2) == 200
    assert values(client) == [7, 7], "names are forgotten after some days"


def test_feedback_comes_back_as_it_was_sent(either: Running) -> None:
    client = either.register()
    [row] = rows(client, film_ids(client, 1), Comment="é 🎬", Timestamp="2021-05-06T00:00:00Z")
    client.put("/api/feedback", json=[row])
    assert client.get(f"/api/user/{client.user_id}/feedback").json() == [row]
    film = row["ItemId"]
    assert client.get(f"/api/feedback/{client.user_id}/{film}").json() == [row]
    assert client.get(f"/api/feedback/watch/{client.user_id}/{film}").json() == row
    assert client.get(f"/api/feedback/like/{client.user_id}/{film}").status_code == 404


def test_unknown_items_store_nothing_at_all(either: Running) -> None:
    client = either.register()
    films = film_ids(client, 3)
    answer = client.put("/api/feedback", json=rows(client, [*films, "no such film"]))
    assert answer.status_code == 400
    assert "row 4" in answer.json()["detail"]
    assert client.get(f"/api/user/{client.user_id}/feedback").json() == []


def test_a_release_takes_the_place_of_the_last(either: Running) -> None:
    client = either.register()
    films = film_ids(client, 6)
    where = f"/api/user/{client.user_id}"
    client.put("/api/feedback", json=rows(client, films[:1], FeedbackType="rating", Value=4))
    client.put(f"{where}/release", json=released(films[:4], PROMISE))
    answer = client.put(f"{where}/release", json=released(films[3:]))
    assert answer.json() == {"RowAffected": 3}
    held = {(row["FeedbackType"], row["ItemId"]) for row in client.get(f"{where}/feedback").json()}
    assert held == {("rating", films[0])} | {("watch", film) for film in films[3:]}
    bad = client.put(f"{where}/release", json=released([films[0], "no such film"]))
    assert bad.status_code == 400
    assert len(client.get(f"{where}/feedback").json()) == 4  # the last release stands
    assert client.put(f"{where}/release", json=released([])).json() == {"RowAffected": 0}
    assert len(client.get(f"{where}/feedback").json()) == 1


def test_the_guarantees_received_are_counted(either: Running) -> None:
    film = film_ids(either.admin, 1)
    for stated in (PROMISE, PROMISE, replace(PROMISE, epsilon=3.0), None):
        client = either.register()
        body = released(film, stated)
        assert client.put(f"/api/user/{client.user_id}/release", json=body).status_code == 200
    stats = either.admin.get("/api/dashboard/stats").json()
    assert stats["guarantees"] == [
        {"guarantee": "ε ≤ 1 for one item, proved", "releases": 2},
        {"guarantee": "ε ≤ 4 for one item, proved", "releases": 1},
        {"guarantee": "none: sent in clear", "releases": 1},
    ]
    assert stats["counts"] == {
        "users": 4, "users_with_feedback": 4, "users_seen_in_7_days": 4, "items": 536, "feedback": 4
    }  # fmt: skip


def test_feedback_is_taken_back(either: Running) -> None:
    client = either.register()
    films = film_ids(client, 2)
    client.put("/api/feedback", json=rows(client, films) + rows(client, films, FeedbackType="like"))
    assert client.delete(f"/api/feedback/like/{client.user_id}/{films[0]}").json() == {
        "RowAffected": 1
    }
    assert client.delete(f"/api/feedback/{client.user_id}/{films[1]}").json() == {"RowAffected": 2}
    left = client.get(f"/api/user/{client.user_id}/feedback").json()
    assert [(row["FeedbackType"], row["ItemId"]) for row in left] == [("watch", films[0])]


def test_the_admin_pages_through_everything(either: Running) -> None:
    clients = [either.register() for _ in range(3)]
    films = film_ids(clients[0], 5)
    for client in clients:
        client.put("/api/feedback", json=rows(client, films))
    found, cursor = [], ""
    while True:
        page = either.admin.get("/api/feedback", params={"n": 4, "cursor": cursor}).json()
        found += [(row["UserId"], row["ItemId"]) for row in page["Feedback"]]
        cursor = page["Cursor"]
        if not cursor:
            break
    assert sorted(found) == sorted((c.user_id, film) for c in clients for film in films)
    users = either.admin.get("/api/users", params={"n": 2}).json()
    assert len(users["Users"]) == 2
    rest = either.admin.get("/api/users", params={"n": 2, "cursor": users["Cursor"]}).json()
    assert [user["UserId"] for user in users["Users"] + rest["Users"]] == [
        client.user_id for client in clients
    ]


def test_the_admin_speaks_for_users_as_with_gorse(either: Running) -> None:
    admin = either.admin
    admin.post("/api/user", json={"UserId": "bob", "Labels": {"a": 1}, "Comment": "c"})
    assert admin.get("/api/user/bob").json() == {
        "UserId": "bob", "Labels": {"a": 1}, "Comment": "c"
    }  # fmt: skip
    new = {"FeedbackType": "like", "UserId": "made on the way", "ItemId": "heat-1995"}
    assert admin.post("/api/feedback", json=[new]).status_code == 200
    assert admin.get("/api/user/made on the way/feedback").json()[0]["ItemId"] == "heat-1995"
    new |= {"UserId": "carl"}
    assert admin.post("/api/feedback", json=[new]).status_code == 200
    assert admin.delete("/api/user/carl").json() == {"RowAffected": 1}
    assert admin.get("/api/user/carl").status_code == 404


def test_lists_after_training(either: Running) -> None:
    client, newcomer = either.register(), either.register()
    films = film_ids(client, 8)
    for _ in range(6):
        other = either.register()
        other.put("/api/feedback", json=rows(other, films))
    client.put("/api/feedback", json=rows(client, films[:4]))
    assert client.get(f"/api/recommend/{client.user_id}").json() == []  # nothing is trained yet
    status = either.admin.train()
    assert status["last"]["feedback"] == 52

    found = client.get(f"/api/recommend/{client.user_id}", params={"n": 4}).json()
    assert set(found) == set(films[4:])
    scored = client.get(
        f"/api/recommend/{client.user_id}", params={"n": 4}, headers={"X-API-Version": "2"}
    ).json()
    assert [row["Id"] for row in scored] == found
    assert [row["Score"] for row in scored] == sorted((r["Score"] for r in scored), reverse=True)
    rest = client.get(f"/api/recommend/{client.user_id}", params={"n": 2, "offset": 2}).json()
    assert rest == found[2:]

    everything = client.get(f"/api/recommend/{client.user_id}", params={"n": 1000}).json()
    assert len(everything) == 536 - 4
    assert not set(everything) & set(films[:4])

    popular = newcomer.get(f"/api/recommend/{newcomer.user_id}", params={"n": 4}).json()
    assert set(popular) == set(films[:4])

    drama = client.get(f"/api/recommend/{client.user_id}/Drama", params={"n": 1000}).json()
    assert (
        drama
        == client.get(
            f"/api/recommend/{client.user_id}", params={"n": 1000, "category": "Drama"}
        ).json()
    )
    for film in drama[:5]:
        assert "Drama" in client.get(f"/api/item/{film}").json()["Categories"]
    assert [film for film in everything if film in set(drama)] == drama
    assert client.get(f"/api/recommend/{client.user_id}/Nonsense").status_code == 404

    # a release after the training counts at once, without a training
    newcomer.put("/api/feedback", json=rows(newcomer, films[:4]))
    assert set(newcomer.get(f"/api/recommend/{newcomer.user_id}?n=4").json()) == set(films[4:])
    # a session is answered alike and leaves no trace
    before = either.admin.get("/api/dashboard/stats").json()
    body = [{"FeedbackType": "watch", "UserId": "nobody", "ItemId": film} for film in films[:4]]
    session = client.post("/api/session/recommend", params={"n": 4}, json=body).json()
    assert {row["Id"] for row in session} == set(films[4:])
    assert either.admin.get("/api/dashboard/stats").json() == before

    # a hidden item disappears at once, and comes back
    either.admin.patch(f"/api/item/{found[0]}", json={"IsHidden": True})
    assert found[0] not in client.get(f"/api/recommend/{client.user_id}?n=1000").json()
    assert found[0] not in newcomer.get(f"/api/recommend/{newcomer.user_id}?n=1000").json()
    either.admin.patch(f"/api/item/{found[0]}", json={"IsHidden": False})
    assert client.get(f"/api/recommend/{client.user_id}?n=4").json() == found
    near = client.get(f"/api/item/{films[0]}/neighbors", params={"n": 7}).json()
    assert {row["Id"] for row in near} == set(films[1:])


def test_everything_is_there_after_a_restart(tmp_path: Path, database_url: str) -> None:
    settings = {"catalogue": "films", "database": database_url}
    with running(tmp_path / "server", **settings) as first:
        client = first.register()
        films = film_ids(client, 5)
        client.put("/api/feedback", json=rows(client, films))
        first.admin.train()
        found = client.get(f"/api/recommend/{client.user_id}").json()
        key, user_id = client.headers["X-API-Key"], client.user_id
        kept = client.get(f"/api/user/{user_id}/feedback").json()
    with running(tmp_path / "server", **settings) as second:
        again = second.client(key)
        assert again.get(f"/api/user/{user_id}/feedback").json() == kept
        assert again.get(f"/api/recommend/{user_id}").json() == found


def test_health(either: Running) -> None:
    client = either.client()
    for path in ("/api/health/live", "/api/health/ready"):
        assert client.get(path).json()["Ready"] is True


@pytest.mark.parametrize("name", ["/docs", "/openapi.json"])
def test_the_routes_are_documented(serving: Running, name: str) -> None:
    text = serving.client().get(name).text
    for path in ("/api/recommend/{user_id}", "/api/feedback", "/api/user/{user_id}/release"):
        assert path in text
    assert "https://" not in text
    assert "<script" not in text
