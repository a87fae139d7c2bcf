"""Training: it learns, folds in without retraining, survives failures, and forgets."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicrec import wire
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.data.simulate import simulate_table
from epicrec.files import locked
from epicrec.models import load
from epicrec.perturb import D2P, Perturber, RandomisedResponse, SEpicRec
from epicrec.privacy import Guarantee
from epicrec.server import Settings
from epicrec.server.serving import trained_lists
from epicrec.server.store import catalogue, feedback, histories, users
from epicrec.server.store.database import Database
from epicrec.server.store.histories import UserHistory
from epicrec.server.training import folders, job, publish, train_lists
from loopback import wait_for
from server.conftest import running


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path), factors=16, iterations=8)


@pytest.fixture(scope="module")
def everybody(tmp_path_factory: pytest.TempPathFactory, films: Catalogue, viewers: Ratings) -> Path:
    """The embedded films and 300 viewers, all they watched released."""
    settings = Settings(data=str(tmp_path_factory.mktemp("everybody")))
    database = Database(settings.database_url)
    database.migrate()
    with database.writing() as connection:
        catalogue.fill(connection, films)
        for user in range(viewers.n_users):
            name = f"viewer-{user}"
            users.put(connection, [wire.User(UserId=name)])
            seen = films.item_ids[viewers.items[viewers.row(user)]]
            rows = [wire.Feedback(FeedbackType="watch", UserId=name, ItemId=str(i)) for i in seen]
            feedback.put(connection, rows)
    database.stop()
    return settings.folder


@pytest.fixture
def filled(settings: Settings, everybody: Path) -> Iterator[Database]:
    shutil.copytree(everybody, settings.folder, dirs_exist_ok=True)
    database = Database(settings.database_url)
    yield database
    database.stop()


def opened(settings: Settings) -> trained_lists.TrainedLists:
    models = settings.folder / "models"
    return trained_lists.TrainedLists.open(models / str(folders.current(models)))


def test_lists_and_folding_in_agree(settings: Settings, filled: Database) -> None:
    result = train_lists.train(settings, filled)
    assert result["users"] == 300
    assert result["adopted"] == "als"
    assert result["quality"]["held_out"] > 200
    found = opened(settings)
    # a list, the same list computed from the factors, and the list of a newcomer who released the
    # same are one list
    with filled.reading() as connection:
        for row, key in enumerate(found.arrays["user_keys"].tolist()):
            own = histories.of_user(connection, key, settings.feedback_rules, settings.rating_type)
            listed = [name for name, _ in found.for_user(row, 20)]
            folded = [name for name, _ in found.for_own(own, 20)]
            assert len(set(listed) & set(folded)) >= 16
            if row == 20:
                break
    long = found.for_user(3, 500)
    assert [name for name, _ in found.for_user(3, 20)] == [name for name, _ in long[:20]]


def test_folding_in_is_the_weighted_least_squares_of_als(
    settings: Settings, filled: Database
) -> None:
    """x minimises Σ c (p - x·y)² + λ|x|² over all items: c = α, p = 1 if released, else 1 and 0."""
    train_lists.train(settings, filled)
    found = opened(settings)
    factors = found.arrays["item_factors"].astype(np.float64)
    released = np.zeros(len(factors))
    released[[3, 50, 200]] = 1
    weights = np.sqrt(np.where(released, settings.alpha, 1.0))
    ridge = np.sqrt(settings.regularization) * np.eye(factors.shape[1])
    taste = np.linalg.lstsq(
        np.vstack([weights[:, None] * factors, ridge]),
        np.concatenate([weights * released, np.zeros(len(ridge))]),
        rcond=None,
    )[0]
    expected = dict(zip(found.item_ids, factors @ taste, strict=True))
    liked = set(found.arrays["item_keys"][[3, 50, 200]].tolist())
    ranked = found.for_own(UserHistory(known=liked, liked=liked), 30)
    assert [score for _, score in ranked] == pytest.approx(
        [expected[name] for name, _ in ranked], rel=1e-3, abs=1e-5
    )


def test_a_category_is_cut_from_the_whole_list(settings: Settings, filled: Database) -> None:
    """As far as the kept list reaches; what it leaves out is computed, and both are one order."""
    train_lists.train(settings, filled)
    found = opened(settings)
    kept = found.arrays["top_items"].shape[1]
    starts = found.arrays["seen_starts"]
    for row in range(0, 300, 29):
        seen = found.arrays["seen_items"][starts[row] : starts[row + 1]]
        for category in found.categories:
            inside = set(np.array(found.item_ids)[found._items_in(category)])
            whole = [name for name, _ in found.for_user(row, kept) if name in inside]
            computed = found._ranked(found.arrays["user_factors"][row], seen, 500, 0, category)
            assert whole == [name for name, _ in computed][: len(whole)]
            listed = found.for_user(row, 500, category=category)
            assert [name for name, _ in listed] == [name for name, _ in computed]
            if len(whole) > 3:
                part = found.for_user(row, 2, offset=1, category=category)
                assert [name for name, _ in part] == whole[1:3]


def test_the_quality_tells_taste_from_popularity(tmp_path: Path) -> None:
    """Two groups that share nothing: the model must find the group, popularity cannot."""
    settings = Settings(data=str(tmp_path), factors=4, iterations=10)
    database = Database(settings.database_url)
    database.migrate()
    rng = np.random.default_rng(0)
    with database.writing() as connection:
        catalogue.put(connection, [wire.Item(ItemId=f"i{at}") for at in range(80)])
        for user in range(200):
            own = rng.permutation(40)[:20] + 40 * (user % 2)
            feedback.put(
                connection,
                [
                    wire.Feedback(FeedbackType="watch", UserId=f"u{user}", ItemId=f"i{item}")
                    for item in own
                ],
                make=True,
            )
    quality = train_lists.train(settings, database)["quality"]
    database.stop()
    assert quality["recall_at_10"] > 1.3 * quality["recall_at_10_of_popularity"]
    assert quality["gain_at_least"] > 0


@pytest.mark.usefixtures("filled")
def test_a_failed_fit_keeps_the_last_good_lists(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job.run("train", settings)["state"] == "done"
    before = opened(settings).for_user(0, 10)

    def fail(*_: object) -> None:
        raise MemoryError("viewer-7 is too much")

    monkeypatch.setattr(train_lists, "_learned", fail)
    status = job.run("train", settings)
    assert status["state"] == "failed"
    assert status["last"]["training"] == 1
    assert "MemoryError" in status["error"]
    assert "viewer-7" not in status["error"]
    assert opened(settings).for_user(0, 10) == before


def test_progress_is_reported(settings: Settings, filled: Database) -> None:
    from epicrec.progress import listening

    said: list[tuple[str, int, int]] = []
    with listening(lambda *progress: said.append(progress)):
        train_lists.train(settings, filled)
    assert {what for what, _, _ in said} == {"reading releases", "fitting factors", "writing lists"}
    for what in {what for what, _, _ in said}:
        steps = [(done, total) for name, done, total in said if name == what]
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]


@pytest.mark.usefixtures("filled")
def test_only_one_process_trains(settings: Settings) -> None:
    with locked(settings.folder / "train.lock", wait=False):
        assert job.run("train", settings)["state"] == "never run"
    assert folders.current(settings.folder / "models") is None


def test_who_asks_for_a_training_while_one_runs_gets_another(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came in since the first began is in the second. A new item model is not queued: each is
    a release of its own."""

    async def play() -> list[str]:
        runs: list[str] = []
        finish = asyncio.Event()

        class Process:
            returncode = 0

            async def communicate(self, _: bytes) -> None:
                runs.append("run")
                await finish.wait()

        async def exec_(*_: object, **__: object) -> Process:
            return Process()

        monkeypatch.setattr(asyncio, "create_subprocess_exec", exec_)
        one = job.Job("train", settings, lambda _: runs.append("done"))
        assert one.start(again=True)
        while not runs:
            await asyncio.sleep(0)
        assert not one.start()
        assert one.start(again=True)
        assert one.start(again=True), "twice is once"
        finish.set()
        await one.wait()
        return runs

    assert asyncio.run(play()) == ["run", "done", "run", "done"]


def test_nothing_to_learn_from_gives_popular_lists(tmp_path: Path) -> None:
    with running(tmp_path / "server", catalogue="films") as serving:
        user = serving.register()
        assert serving.admin.train()["last"]["feedback"] == 0
        assert len(user.get(f"/api/recommend/{user.user_id}").json()) == 10


def test_an_interrupted_training_is_taken_up_again(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "train.json").write_text('{"state": "running", "what": "fitting factors"}')
    with running(folder, catalogue="films") as serving:
        admin = serving.admin
        wait_for(lambda: admin.get("/api/dashboard/training").json()["serving"] == 1)
        assert admin.get("/api/dashboard/training").json()["state"] == "done"


def test_someone_deleted_while_a_training_ran_is_not_in_it(
    settings: Settings, filled: Database
) -> None:
    train_lists.train(settings, filled)
    with filled.writing() as connection:
        key = users.forget(connection, "viewer-5")
    with running(settings.folder, factors=16) as serving:
        found = serving.service.ranking.lists
        row = found.row_of(key)
        assert (np.asarray(found.arrays["top_items"][row]) == -1).all()
        assert found.for_user(row, 5) != []  # nothing but what everybody gets


# ---- what is adopted ----------------------------------------------------------------------------


def released(
    settings: Settings, films: Catalogue, people_: Ratings, device: Perturber, **levels: Any
) -> Database:
    """Everybody's release, with seeds so that the test is the same every time."""
    database = Database(settings.database_url)
    database.migrate()
    with database.writing() as connection:
        catalogue.fill(connection, films)
        catalogue.keep(connection, films)
        users.put(connection, [wire.User(UserId=f"u{k}") for k in range(people_.n_users)])
        for k in range(people_.n_users):
            known = users.known(connection, f"u{k}")
            assert known is not None
            seen = people_.item_ids[people_.items[people_.row(k)]]
            drawn = device.release(seen, seed=k, **levels)
            drawn = replace(drawn, guarantee=replace(drawn.guarantee, reproducible=False))
            feedback.receive(connection, known, wire.Released(Release=drawn.public().to_dict()))
    return database


def test_a_model_of_answers_is_published_and_devices_rank_with_it(
    tmp_path: Path, films: Catalogue
) -> None:
    """1,500 simulated viewers: their answers tell tastes, and the item model of nothing else is
    published with the devices' own guarantee. The lists that the server itself has are alike."""
    settings = Settings(data=str(tmp_path))
    viewers = Ratings.from_table(simulate_table(1500), scale=Scale(1, 5, 1))
    device = RandomisedResponse(films, epsilon=2.0)
    database = released(settings, films, viewers.with_items(films.item_ids), device)
    result = train_lists.train(settings, database)
    assert (result["adopted"], result["published"]["note"]) == ("popularity", "")
    found = publish.offered(settings)
    assert found is not None
    info, path = found
    promise = Guarantee.from_dict(info.Guarantee)
    assert (promise.status, promise.unit, info.Method) == ("proved", "item", "randomised-response")
    assert (promise.epsilon, promise.reproducible) == (2.0, False)
    model = load(path)
    histories_ = viewers.users_at(np.arange(300)).as_history()
    ranked = model.recommend(histories_, n=5)["item_id"].to_numpy().reshape(300, 5)
    assert len({tuple(row) for row in ranked}) > 100, "each their own"
    first = [name for name, _ in opened(settings).for_user(0, 30)]
    often = viewers.with_items(films.item_ids).item_counts
    assert often[films.positions(first)].mean() > 2 * often.mean(), "by counts, corrected"
    database.stop()


def test_answers_that_cannot_be_are_left_out_and_counted(tmp_path: Path, films: Catalogue) -> None:
    settings = Settings(data=str(tmp_path))
    few = Ratings.from_table(simulate_table(40), scale=Scale(1, 5, 1)).with_items(films.item_ids)
    database = released(settings, films, few, RandomisedResponse(films, epsilon=3.0))
    good = RandomisedResponse(films, epsilon=3.0).release([])
    wrong = [
        replace(good, answers=(good.answers or b"")[1:]),
        replace(good, settings=good.settings | {"works": "1-0"}),
        replace(good, settings=good.settings | {"epsilon": 30.0}),
        replace(good, guarantee=replace(good.guarantee, status="claimed")),
    ]
    with database.writing() as connection:
        for k, release in enumerate(wrong):
            known = users.known(connection, f"u{k}")
            assert known is not None
            stored = wire.Released(Release=release.public().to_dict(), ReleaseId="wrong")
            feedback.receive(connection, known, stored)
    result = train_lists.train(settings, database)
    assert sum(n for why, n in result["left_out"].items() if "randomised-response" in why) == 3
    assert result["published"]["method"] == "randomised-response"
    database.stop()


def test_epicrec_and_d2p_count_towards_popularity_and_no_more(
    tmp_path: Path, films: Catalogue
) -> None:
    settings = Settings(data=str(tmp_path))
    rng = np.random.default_rng(5)
    usual = rng.dirichlet(np.full(len(films), 0.3))
    seen = [rng.choice(len(films), 20, replace=False, p=usual) for _ in range(400)]
    alike = Ratings.from_columns(
        np.repeat(np.arange(400), 20), films.item_ids[np.concatenate(seen)], np.ones(8000)
    ).with_items(films.item_ids)
    database = released(settings, films, alike, D2P(films, epsilon=3.0))
    result = train_lists.train(settings, database)
    assert (result["adopted"], result["published"]) == ("popularity", None)
    assert publish.learned(settings) is None
    found = opened(settings)
    first = [name for name, _ in found.for_user(0, 30)]
    assert first == [name for name, _ in found.for_user(399, 30)]
    assert usual[films.positions(first)].mean() > 2 * usual.mean(), "by counts, corrected"
    database.stop()


def test_one_client_cannot_move_a_category_far(tmp_path: Path, films: Catalogue) -> None:
    """With 400 people of 20 films each, a claim of 10,000 westerns moves them by little."""
    shares = []
    for claimed in (0, 10_000):
        settings = Settings(data=str(tmp_path / str(claimed)))
        settings.folder.mkdir()
        viewers = Ratings.from_table(simulate_table(400), scale=Scale(1, 5, 1))
        device = SEpicRec(films, epsilon=1.0)
        database = released(settings, films, viewers.with_items(films.item_ids), device)
        liar = device.release([], seed=1)
        totals = {name: 0 for name in liar.aggregates} | {"Western": claimed}
        with database.writing() as connection:
            known = users.known(connection, "u0")
            assert known is not None
            said = replace(liar, aggregates=totals, items=(), counts=None)
            feedback.receive(connection, known, wire.Released(Release=said.public().to_dict()))
        train_lists.train(settings, database)
        found = opened(settings)
        western = films.matrix[:, [films.categories.index("Western")]].toarray().ravel() > 0
        order = films.positions(found.item_ids)
        popularity = found.arrays["popularity"]
        shares.append(popularity[western[order]].sum() / popularity.sum())
        database.stop()
    assert shares[1] < shares[0] + 0.05, shares


def test_dislikes_never_put_a_film_first(tmp_path: Path) -> None:
    with running(tmp_path / "server", catalogue="films") as serving:
        films = [item["ItemId"] for item in serving.admin.get("/api/items?n=5").json()["Items"]]
        rows = [
            {"FeedbackType": kind, "UserId": f"{kind} {k}", "ItemId": films[at], "Value": value}
            for at, (kind, value, times) in enumerate(
                [("dislike", 0, 30), ("like", 0, 2), ("rating", 1, 30), ("rating", 5, 3)]
            )
            for k in range(times)
        ]
        rows.append({"FeedbackType": "like", "UserId": "dislike 0", "ItemId": films[0]})
        rows.append({"FeedbackType": "look", "UserId": "dislike 0", "ItemId": films[1]})
        assert serving.admin.post("/api/feedback", json=rows).status_code == 200
        last = serving.admin.train()["last"]
        assert last["adopted"] == "popularity"
        assert last["left_out"] == {
            "rows of type look that say neither yes nor no": 1,
            "rows of type rating that say neither yes nor no": 30,
        }
        user = serving.register()
        popular = user.get(f"/api/recommend/{user.user_id}?n=536").json()
        assert popular[:2] == [films[3], films[1]]
        assert min(popular.index(films[0]), popular.index(films[2])) > 1
        own = serving.admin.get("/api/recommend/dislike 0?n=536").json()
        assert not {films[0], films[1]} & set(own), "and nobody is shown what they dislike"
