"""The published item model: first the ledger, then the file; over the limit, no file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicrec import wire
from epicrec.data import Ratings, Scale
from epicrec.errors import BudgetExceededError, EpicrecError, InputError
from epicrec.models import load as load_model
from epicrec.privacy import Guarantee
from epicrec.server import Settings
from epicrec.server.store import catalogue, feedback
from epicrec.server.store.database import Database
from epicrec.server.training import publish
from epicrec.server.training.operator_ledger import spent
from loopback import wait_for
from server.conftest import running

CATALOGUE = ["alien-1979", "heat-1995", "not rated by anyone"]
PROMISE = Guarantee(epsilon=1.0, unit="user", relation="add or remove one")


class Fake:
    """Stands for a private model: what it learned is the number of ratings."""

    task = "lists"

    def __init__(self, ratings: Ratings, guarantee: Guarantee) -> None:
        self.item_ids_, self.guarantee, self.content = ratings.item_ids, guarantee, len(ratings)

    def save(self, path: Path) -> None:
        path.write_bytes(str(self.content).encode() * 1000)


def fitting(guarantee: Guarantee = PROMISE) -> Any:
    return lambda ratings, *_: Fake(ratings, guarantee)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "server"), train_from="films", limit_epsilon=2.5)


@pytest.fixture
def database(settings: Settings) -> Any:
    settings.folder.mkdir()
    made = Database(settings.database_url)
    made.migrate()
    with made.writing() as connection:
        catalogue.put(connection, [wire.Item(ItemId=name) for name in CATALOGUE])
    yield made
    made.stop()


def test_each_model_is_a_release_until_the_limit(settings: Settings, database: Database) -> None:
    for version in (1, 2):
        assert publish.publish(settings, database, fitting())["version"] == version
    with pytest.raises(BudgetExceededError):
        publish.publish(settings, database, fitting())
    info = publish.published(settings)
    assert info is not None
    assert info.Version == 2  # the last good one stays
    [total] = spent(settings)
    assert total.epsilon == 2.0


def test_the_ledger_comes_first(settings: Settings, database: Database) -> None:
    """A model that cannot be written was paid for and not published, never the other way round."""
    model = fitting()

    def broken(ratings: Ratings, *chosen: Any) -> Any:
        made = model(ratings, *chosen)
        made.save = lambda _: (_ for _ in ()).throw(OSError("disk full"))
        return made

    with pytest.raises(OSError, match="disk full"):
        publish.publish(settings, database, broken)
    assert publish.published(settings) is None
    assert spent(settings)[0].epsilon == 1.0


def test_what_promises_nothing_is_not_published(settings: Settings, database: Database) -> None:
    with pytest.raises(EpicrecError, match="no guarantee"):
        publish.publish(settings, database, fitting(Guarantee.none()))
    with pytest.raises(InputError, match="seed"):
        publish.publish(settings, database, fitting(PROMISE.seeded(3)))
    assert publish.published(settings) is None


def test_ratings_users_gave_are_a_source(settings: Settings, database: Database) -> None:
    settings = replace(settings, train_from="store")
    with pytest.raises(InputError, match="no user gave a rating"):
        publish.publish(settings, database, fitting())
    heat, alien = "heat-1995", "alien-1979"
    with database.writing() as connection:
        rows = [("u", heat, 4), ("u", alien, 2), ("v", heat, 99)]
        feedback.put(
            connection,
            [
                wire.Feedback(FeedbackType="rating", UserId=user, ItemId=item, Value=value)
                for user, item, value in rows
            ],
            make=True,
        )
    seen: list[Ratings] = []
    publish.publish(settings, database, lambda r, *_: seen.append(r) or Fake(r, PROMISE))
    assert seen[0].item_ids.tolist() == CATALOGUE  # not what was rated
    assert len(seen[0]) == 2  # 99 is off the scale
    assert seen[0].scale == Scale.parse(settings.rating_scale)


@pytest.mark.parametrize("task", ["lists", "ratings"])
def test_items_and_scale_of_a_set_are_the_operators(
    settings: Settings, database: Database, task: str, tmp_path: Path
) -> None:
    """Neither an item that one person rated nor the one 4.5 among whole stars is in the model."""
    file = tmp_path / "own.csv"
    rows = ["a,heat-1995,4", "a,alien-1979,2", "b,heat-1995,4.5", "b,rated by one only,5"]
    file.write_text("\n".join(["user_id,item_id,rating", *rows]))
    settings = replace(settings, train_from=str(file), publish_task=task, rating_scale="0.5:5:0.5")
    seen: list[Ratings] = []
    publish.publish(settings, database, lambda r, *_: seen.append(r) or Fake(r, PROMISE))
    assert seen[0].item_ids.tolist() == CATALOGUE
    if task == "ratings":
        assert seen[0].scale == Scale(0.5, 5, 0.5)


def test_without_a_catalogue_no_model_names_items(settings: Settings, database: Database) -> None:
    with database.writing() as connection:
        for name in CATALOGUE:
            catalogue.remove(connection, name)
    with pytest.raises(InputError, match="catalogue is empty"):
        publish.publish(settings, database, fitting())


def test_it_is_fetched_whole_in_parts_or_not_again(settings: Settings, database: Database) -> None:
    publish.publish(settings, database, fitting())
    content = (settings.folder / "published" / "item-model-1.npz").read_bytes()
    with running(settings.folder, train_from="films") as serving:
        client = serving.client()  # no key
        info = client.get("/api/model/info").json()
        assert info["Hash"] == hashlib.sha256(content).hexdigest()
        promise = Guarantee.from_dict(info["Guarantee"])
        assert replace(promise, assumes=()) == PROMISE
        assert "feedback sent in clear carries none" in " ".join(promise.assumes)
        whole = client.get("/api/model")
        assert whole.content == content
        assert whole.headers["ETag"] == f'"{info["Hash"]}"'
        assert whole.headers["X-Model-Version"] == "1"
        part = client.get("/api/model", headers={"Range": "bytes=100-199"})
        assert (part.status_code, part.content) == (206, content[100:200])
        resumed = client.get(
            "/api/model",
            headers={"Range": "bytes=100-", "If-Range": whole.headers["ETag"]},
        )
        assert content[:100] + resumed.content == content
        again = client.get("/api/model", headers={"If-None-Match": whole.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = client.get("/api/model", headers={"If-None-Match": '"another"'})
        assert other.status_code == 200


def test_there_may_be_none(tmp_path: Path) -> None:
    with running(tmp_path / "server") as serving:
        assert serving.client().get("/api/model").status_code == 404
        assert serving.client().get("/api/model/info").status_code == 404


@pytest.mark.parametrize("task", ["lists", "ratings"])
def test_a_device_ranks_with_it(tmp_path: Path, task: str) -> None:
    """Published by the job of a running server, fetched, loaded, used with a true history."""
    chosen = {"train_from": "films", "publish_task": task, "publish_epsilon": 4.0}
    with running(tmp_path / "server", catalogue="films", **chosen) as serving:
        wait_for(lambda: serving.client().get("/api/model/info").status_code == 200)
        file = tmp_path / "model.npz"
        file.write_bytes(serving.client().get("/api/model").content)
        admin = serving.admin  # a second one costs as much again, which is over the limit
        wait_for(lambda: admin.post("/api/dashboard/publish").json()["Started"])
        wait_for(lambda: admin.get("/api/dashboard/publishing").json()["state"] == "failed")
        assert "limit" in admin.get("/api/dashboard/publishing").json()["error"]
        assert admin.get("/api/model/info").json()["Version"] == 1
    model = load_model(file)
    history = Ratings.from_columns(
        ["me"] * 3, ["heat-1995", "alien-1979", "the-godfather-1972"],
        None if task == "lists" else [5, 4, 5],
    )  # fmt: skip
    found = model.recommend(history, n=5)
    assert len(found) == 5
    assert model.guarantee.status == "proved"
    assert model.histories_ is None
    assert np.isfinite(found["score"].to_numpy()).all()
