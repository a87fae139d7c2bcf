"""TrainedLists asked for plainly and otherwise: two doors, one answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from epicrec.server.authentication import Callers
from epicrec.server.serving.trained_lists import TrainedLists
from epicrec.server.store import users
from epicrec.server.store.database import UNAVAILABLE, Database
from server.conftest import Running, running

FILMS = ["heat-1995", "alien-1979", "fargo-1996", "the-matrix-1999", "se7en-1995", "dune-2021"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Running:
    """People with two tastes, learned from."""
    with running(tmp_path_factory.mktemp("plain") / "server", catalogue="films") as serving:
        films = [item["ItemId"] for item in serving.admin.get("/api/items?n=40").json()["Items"]]
        rows = [
            {"FeedbackType": "like", "UserId": f"u{k}", "ItemId": film}
            for k in range(60)
            for at, film in enumerate(films)
            if at % 2 == k % 2 and (at * 7 + k) % 5
        ]
        serving.admin.put("/api/feedback", json=rows).raise_for_status()
        assert serving.admin.train()["last"]["adopted"] == "als"
        yield serving


def essence(answer: httpx.Response) -> tuple[int, object, list[tuple[str, str]]]:
    headers = [(name, value) for name, value in answer.headers.items() if name != "date"]
    return answer.status_code, answer.json(), sorted(headers)


@pytest.mark.parametrize("page", ["n=10", "n=3&offset=2", "offset=7", "n=999", "n=5&offset=999999"])
@pytest.mark.parametrize("path", ["u1", "u2/Drama", "u2/No%20such", "nobody", "u1/", "%C3%BC"])
def test_the_plain_door_answers_as_the_careful_one(trained: Running, path: str, page: str) -> None:
    for key in ("admin-key-of-the-tests", "wrong", None):
        client = trained.client(key)
        for headers in ({}, {"X-API-Version": "2"}):
            plain, careful = (
                client.get(f"/api/recommend/{path}?{page}{more}", headers=headers)
                for more in ("", "&more=1")
            )
            assert essence(plain) == essence(careful)


@pytest.mark.parametrize("page", ["n=0", "n=1001", "n=x", "offset=-1", "n=1%00", "n=٣"])
def test_what_is_wrong_is_said(trained: Running, page: str) -> None:
    answer = trained.admin.get(f"/api/recommend/u1?{page}")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("query.")


def test_a_hidden_item_costs_no_new_order(trained: Running) -> None:
    """What is left of a list is served from it, as a ranking of all items would have it."""
    lists = trained.service.ranking.lists
    assert isinstance(lists, TrainedLists)
    row = next(k for k in range(60) if lists.arrays["user_factors"][k].any())
    before = lists.for_user(row, 20)
    try:
        lists.show_item(before[3][0], False)
        after = lists.for_user(row, 19)
        assert [name for name, _ in after] == [
            name for at, (name, _) in enumerate(before) if at != 3
        ]
        top, scores = (lists.arrays[name][row] for name in ("top_items", "top_scores"))
        assert lists._listed(top, scores, 19, 0, "") == after
    finally:
        lists.show_item(before[3][0], True)


def test_keys_that_come_together_are_looked_up_together(database_url: str) -> None:
    database = Database(database_url.replace("postgresql://", "postgresql+psycopg://"))
    database.migrate()
    with database.writing() as connection:
        given = [users.register(connection) for _ in range(30)]
    asked: list[int] = []
    look_up = database.look_up

    async def counting(function: Any, digests: list[bytes]) -> Any:
        asked.append(len(digests))
        return await look_up(function, digests)

    database.look_up = counting  # type: ignore[assignment,method-assign]

    async def ask() -> list[users.StoredUser | None]:
        callers = Callers(database, lambda noting: noting.close())
        secrets = [*(one.Secret for one in given), "nobody's"]
        return await asyncio.gather(*(callers.whose(users.digest(one)) for one in secrets))

    found = asyncio.run(ask())
    database.stop()
    assert [one and one.id for one in found] == [*(one.UserId for one in given), None]
    assert asked == [31]


def test_a_database_that_is_gone_is_no_wrong_key(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'no' / 'folder' / 'store.sqlite'}")

    async def ask() -> list[object]:
        callers = Callers(database, lambda noting: noting.close())
        asked = (callers.whose(bytes([k])) for k in range(3))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [isinstance(one, UNAVAILABLE) for one in asyncio.run(ask())] == [True] * 3
    database.stop()


def test_whoever_gives_up_leaves_nobody_with_a_wrong_key(tmp_path: Path) -> None:
    """One of those who are looked up together may go away; the others are answered."""
    database = Database(f"sqlite:///{tmp_path / 'store.sqlite'}")

    async def ask() -> list[object]:
        callers = Callers(database, lambda noting: noting.close())
        asking, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(_: object, digests: list[bytes]) -> dict[bytes, users.StoredUser]:
            asking.set()
            await go_on.wait()
            return {one: users.StoredUser(one[0], f"user {one[0]}") for one in digests}

        database.look_up = slowly  # type: ignore[assignment,method-assign]
        tasks = [asyncio.create_task(callers.whose(bytes([k]))) for k in range(3)]
        await asking.wait()
        tasks[0].cancel()
        go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    gone, *others = asyncio.run(ask())
    assert isinstance(gone, asyncio.CancelledError)
    assert [getattr(one, "id", one) for one in others] == ["user 1", "user 2"]
    database.stop()
