"""Who changed since the training: folded in once, and never served what was before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from epicrec.server.serving.ranking import Ranking
from epicrec.server.store import histories, users
from epicrec.server.store.users import StoredUser
from server.conftest import Client, Running, running


@pytest.fixture
def trained(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Running]:
    """People with two tastes, learned from."""
    folder = tmp_path_factory.mktemp("ranking") / "server"
    with running(folder, catalogue="films", database=database_url) as serving:
        rows = [
            {"FeedbackType": "like", "UserId": f"u{k}", "ItemId": film}
            for k in range(60)
            for at, film in enumerate(films_of(serving))
            if at % 2 == k % 2 and (at * 7 + k) % 5
        ]
        serving.admin.put("/api/feedback", json=rows).raise_for_status()
        assert serving.admin.train()["last"]["adopted"] == "als"
        yield serving


def films_of(serving: Running) -> list[str]:
    items = serving.admin.get("/api/items?n=40").json()["Items"]
    return [item["ItemId"] for item in items]


def like(user: Client, film: str) -> None:
    row = {"FeedbackType": "like", "UserId": user.user_id, "ItemId": film}
    user.put("/api/feedback", json=[row]).raise_for_status()


def listed(user: Client, page: str = "n=536") -> list[Any]:
    found: list[Any] = user.get(f"/api/recommend/{user.user_id}?{page}").json()
    return found


def test_who_changed_is_folded_in_once_until_the_next_change(
    trained: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    films, user = films_of(trained), trained.register()
    assert films[0] in listed(user), "nothing is known of a newcomer"
    like(user, films[0])
    first = listed(user)
    assert films[0] not in first
    read: list[int] = []
    known = histories.of_user

    def noting(connection: Any, user_key: int, *rest: Any) -> histories.UserHistory:
        read.append(user_key)
        return known(connection, user_key, *rest)

    monkeypatch.setattr(histories, "of_user", noting)
    assert listed(user) == first
    assert listed(user, "n=5&offset=3") == first[3:8]
    drama = user.get(f"/api/recommend/{user.user_id}/Drama?n=5").json()
    assert drama == [film for film in first if film in {*drama}][:5]
    assert read == [], "nothing was read again"
    like(user, films[1])
    second = listed(user)
    assert films[1] not in second
    assert len(read) == 1
    assert second != [film for film in first if film != films[1]], "the other taste"
    trained.admin.patch(f"/api/item/{second[0]}", json={"IsHidden": True})
    assert listed(user, "n=10") == second[1:11]
    trained.admin.patch(f"/api/item/{second[0]}", json={"IsHidden": False})
    assert listed(user, "n=10") == second[:10]
    user.delete(f"/api/feedback/{user.user_id}/{films[1]}").raise_for_status()
    assert listed(user) == first
    assert trained.service.ranking._folded, "there is something to forget"
    user.delete(f"/api/user/{user.user_id}").raise_for_status()
    assert not trained.service.ranking._folded


def test_a_change_while_somebody_is_folded_in_is_not_lost(
    trained: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of before may answer who asked before, and nobody afterwards."""
    films, user = films_of(trained), trained.register()
    like(user, films[0])
    read, go_on = threading.Event(), threading.Event()
    known = histories.of_user

    def slowly(*args: Any) -> histories.UserHistory:
        own = known(*args)
        read.set()
        go_on.wait()
        return own

    monkeypatch.setattr(histories, "of_user", slowly)
    asking = threading.Thread(target=listed, args=(user,))
    asking.start()
    read.wait()
    like(user, films[2])  # after the rows were read, before the list is made of them
    go_on.set()
    asking.join()
    assert films[2] not in listed(user)


def test_those_remembered_are_bounded(trained: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicrec.server.serving.ranking._MOST_FOLDED", 3)
    service = trained.service
    with service.database.reading() as connection:
        asking = [StoredUser(key, f"u{key}") for key in users.keys(connection)[:8]]

    async def ask() -> list[int]:
        ranking = Ranking(service.database, service.settings, model_alone=False)
        await ranking.open()
        ranking.changed([user.key for user in asking])
        sizes = []
        for user in asking:
            assert len(await ranking.recommend(user, 10, 0, "")) == 10
            sizes.append(len(ranking._folded))
        return sizes

    assert max(asyncio.run(ask())) == 3
