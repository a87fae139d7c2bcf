"""Gorse's own Python client, over TLS, against our server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import ADMIN
from server.conftest import Running, running

gorse = pytest.importorskip("gorse")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gorse") / "server"
    with running(folder, http=False, catalogue="films") as started:
        yield started


@pytest.fixture
def trust(tls: Running, monkeypatch: pytest.MonkeyPatch) -> Path:
    ca = tls.settings.folder / "tls" / "ca.pem"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca))
    return ca


def test_a_shop_that_used_gorse_goes_on_with_us(tls: Running, trust: Path) -> None:
    del trust
    client = gorse.Gorse(tls.url, ADMIN)
    items = [f"thing-{at}" for at in range(8)]
    for item in items:
        made = {"ItemId": item, "IsHidden": False, "Labels": ["a"], "Categories": ["things"],
                "Timestamp": "2022-11-20T13:55:27Z", "Comment": item}  # fmt: skip
        assert client.insert_item(made) == {"RowAffected": 1}
    assert client.get_item("thing-0")["Categories"] == ["things"]
    assert client.update_item("thing-0", comment="first") == {"RowAffected": 1}
    assert client.get_item("thing-0")["Comment"] == "first"
    assert client.search_items("first")[0]["ItemId"] == "thing-0"
    client.insert_user({"UserId": "ann", "Labels": ["x"], "Comment": "c"})
    client.insert_users([{"UserId": "bob"}, {"UserId": "cy"}])
    assert client.get_user("ann")["Labels"] == ["x"]
    listed, cursor = client.get_users(2)
    assert [user["UserId"] for user in listed] == ["ann", "bob"]
    assert [user["UserId"] for user in client.get_users(2, cursor)[0]] == ["cy"]
    for user in ("bob", "cy", "dan"):  # dan is made on the way, as Gorse does
        client.insert_feedbacks(
            [
                {"FeedbackType": "like", "UserId": user, "ItemId": item, "Timestamp": ""}
                for item in items
            ]
        )
    client.insert_feedback("like", "ann", "thing-0", "2022-11-20", 2.0)
    client.insert_feedback("like", "ann", "thing-0", "2022-11-20", 1.0)
    assert client.list_feedbacks("like", "ann")[0]["Value"] == 3.0
    rows, _ = client.get_feedbacks(100)
    assert len(rows) == 25
    tls.admin.train()
    best = client.get_recommend("ann", n=7)
    assert {score.id for score in best} == set(items[1:])
    assert {score.id for score in client.get_recommend("ann", "things", n=7)} == set(items[1:])
    assert len(client.get_recommend("ann", n=2, offset=1, write_back_type="read")) == 2
    session = client.session_recommend(
        [{"FeedbackType": "like", "UserId": "x", "ItemId": "thing-1", "Timestamp": ""}], n=7
    )
    assert {row["Id"] for row in session} == set(items) - {"thing-1"}
    assert len(client.get_neighbors("thing-1", n=3)) == 3
    assert client.delete_feedback("ann", "thing-0") == {"RowAffected": 1}
    assert client.delete_user("bob") == {"RowAffected": 1}
    assert client.delete_item("thing-7") == {"RowAffected": 1}
    with pytest.raises(gorse.GorseException) as error:
        client.get_user("bob")
    assert error.value.status_code == 404


def test_what_gorsejs_calls_beyond_that(tls: Running) -> None:
    """gorsejs 0.4.8 leaves the category empty where none is meant: the path ends with a slash."""
    admin = tls.admin
    for at in range(3):
        item = {"ItemId": f"js-{at}", "Timestamp": f"210{at}-01-01T00:00:00Z", "Comment": "x"}
        admin.post("/api/item", json=item)
    assert [row["Id"] for row in admin.get("/api/latest/", params={"n": 2}).json()] == [
        "js-2", "js-1",
    ]  # fmt: skip
    for method in ("PUT", "DELETE"):
        path = "/api/item/js-0/category/Noir%2FCrime"
        assert admin.request(method, path).json() == {"RowAffected": 1}
        assert admin.request(method, path).json() == {"RowAffected": 0}
        inside = admin.get("/api/item/js-0").json()["Categories"]
        assert inside == (["Noir/Crime"] if method == "PUT" else [])
        latest = [row["Id"] for row in admin.get("/api/latest/Noir%2FCrime").json()]
        assert latest == (["js-0"] if method == "PUT" else [])
    assert admin.put("/api/item/nothing/category/x").status_code == 404
    admin.post("/api/user", json={"UserId": "jane", "Labels": ["a"], "Comment": "c"})
    assert admin.patch("/api/user/jane", json={"Labels": ["b"]}).json() == {"RowAffected": 1}
    assert admin.get("/api/user/jane").json() == {
        "UserId": "jane", "Labels": ["b"], "Comment": "c",
    }  # fmt: skip
    assert admin.patch("/api/user/jane", json={}).json() == {"RowAffected": 1}
    for nothing in ({"Comment": "x"}, {}):
        assert admin.patch("/api/user/nobody", json=nothing).status_code == 404
    rows = [
        {"FeedbackType": kind, "UserId": user, "ItemId": "js-1"}
        for kind, user in (("like", "jane"), ("read", "jane"), ("like", "joe"))
    ]
    admin.put("/api/feedback", json=rows)
    assert len(admin.get("/api/item/js-1/feedback").json()) == 3
    assert len(admin.get("/api/item/js-1/feedback/like").json()) == 2
    tls.admin.train()
    popular = [row["Id"] for row in admin.get("/api/popular/", params={"n": 20}).json()]
    assert "js-1" in popular
    assert admin.get("/api/recommend/somebody new/", params={"n": 20}).json() == popular
    drama = admin.get("/api/popular/Drama").json()
    assert {"Drama"} <= set(admin.get(f"/api/item/{drama[0]['Id']}").json()["Categories"])
    near = admin.get("/api/item/js-1/neighbors/Drama").json()
    every = {row["Id"] for row in admin.get("/api/item/js-1/neighbors/", params={"n": 1000}).json()}
    assert near
    assert {row["Id"] for row in near} < every
    body = [{"FeedbackType": "like", "UserId": "x", "ItemId": "js-1"}]
    session = admin.post("/api/session/recommend/Drama", json=body).json()
    assert {"Drama"} <= set(admin.get(f"/api/item/{session[0]['Id']}").json()["Categories"])
    refused = admin.get("/api/user/jane/neighbors")
    assert refused.status_code == 501
    assert "compared" in refused.json()["detail"]


def test_a_device_uses_it_with_its_own_key(tls: Running, trust: Path) -> None:
    del trust
    device = tls.register()
    client = gorse.Gorse(tls.url, device.headers["X-API-Key"])
    films = [item["ItemId"] for item in client.get_items(3)[0]]
    client.insert_feedbacks(
        [
            {"FeedbackType": "watch", "UserId": device.user_id, "ItemId": film, "Timestamp": ""}
            for film in films
        ]
    )
    assert len(client.list_feedbacks("watch", device.user_id)) == 3
    with pytest.raises(gorse.GorseException) as error:
        client.get_users(10)
    assert error.value.status_code == 403


def test_without_our_authority_nobody_is_trusted(tls: Running) -> None:
    import requests

    with pytest.raises(requests.exceptions.SSLError):
        gorse.Gorse(tls.url, ADMIN).get_users(1)
