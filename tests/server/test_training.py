"""Training: it learns, folds in without retraining, survives failures, and forgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from epicrec import wire
from epicrec.data import Catalogue, Ratings
from epicrec.disk import locked
from epicrec.server import Settings
from epicrec.server.store import catalogue, people, releases
from epicrec.server.store.database import Database
from epicrec.server.training import fit, job, lists
from server.conftest import running, wait_for


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path), factors=16, iterations=8)


@pytest.fixture
def filled(settings: Settings, films: Catalogue, viewers: Ratings) -> Iterator[Database]:
    """The embedded films and 300 viewers, all they watched released."""
    database = Database(settings.database_url)
    database.migrate()
    with database.writing() as connection:
        catalogue.fill(connection, films)
        for user in range(viewers.n_users):
            name = f"viewer-{user}"
            people.put(connection, [wire.User(UserId=name)])
            seen = films.item_ids[viewers.items[viewers.row(user)]]
            rows = [wire.Feedback(FeedbackType="watch", UserId=name, ItemId=str(i)) for i in seen]
            releases.put(connection, rows)
    yield database
    database.stop()


def opened(settings: Settings) -> lists.Lists:
    models = settings.folder / "models"
    return lists.Lists.open(models / str(lists.current(models)))


def test_lists_and_folding_in_agree(settings: Settings, filled: Database) -> None:
    result = fit.train(settings, filled)
    assert result["users"] == 300
    assert result["quality"]["held_out"] == 30
    found = opened(settings)
    # a list, the same list computed from the factors, and the list of a newcomer who released the
    # same are one list
    with filled.reading() as connection:
        for row, key in enumerate(found.arrays["user_keys"].tolist()):
            seen = releases.history_of(connection, key, settings.rating_type)
            listed = [name for name, _ in found.for_user(row, 20)]
            folded = [name for name, _ in found.for_items(seen, 20)]
            assert len(set(listed) & set(folded)) >= 16
            if row == 20:
                break
    long = found.for_user(3, 500)
    assert [name for name, _ in found.for_user(3, 20)] == [name for name, _ in long[:20]]


def test_folding_in_is_the_weighted_least_squares_of_als(
    settings: Settings, filled: Database
) -> None:
    """x minimises Σ c (p - x·y)² + λ|x|² over all items: c = α, p = 1 if released, else 1 and 0."""
    fit.train(settings, filled)
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
    ranked = found.for_items(found.arrays["item_keys"][[3, 50, 200]], 30)
    assert [score for _, score in ranked] == pytest.approx(
        [expected[name] for name, _ in ranked], rel=1e-3, abs=1e-5
    )


def test_a_category_is_cut_from_the_whole_list(settings: Settings, filled: Database) -> None:
    """As far as the kept list reaches; what it leaves out is computed, and both are one order."""
    fit.train(settings, filled)
    found = opened(settings)
    kept = found.arrays["top_items"].shape[1]
    starts = found.arrays["seen_starts"]
    for row in range(0, 300, 29):
        seen = found.arrays["seen_items"][starts[row] : starts[row + 1]]
        for category in found.categories:
            inside = set(np.array(found.item_ids)[found._items_in(category)])
            whole = [name for name, _ in found.for_user(row, kept) if name in inside]
            computed = found._best(found.arrays["user_factors"][row], seen, 500, 0, category)
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
            releases.put(
                connection,
                [
                    wire.Feedback(FeedbackType="watch", UserId=f"u{user}", ItemId=f"i{item}")
                    for item in own
                ],
                make=True,
            )
    quality = fit.train(settings, database)["quality"]
    database.stop()
    assert quality["recall_at_10"] > 1.3 * quality["recall_at_10_of_popularity"]


@pytest.mark.usefixtures("filled")
def test_a_failed_fit_keeps_the_last_good_lists(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job.run("train", settings)["state"] == "done"
    before = opened(settings).for_user(0, 10)

    def fail(*_: object) -> None:
        raise MemoryError("viewer-7 is too much")

    monkeypatch.setattr(fit, "_factorise", fail)
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
        fit.train(settings, filled)
    assert {what for what, _, _ in said} == {"reading releases", "fitting factors", "writing lists"}
    for what in {what for what, _, _ in said}:
        steps = [(done, total) for name, done, total in said if name == what]
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]


@pytest.mark.usefixtures("filled")
def test_only_one_process_trains(settings: Settings) -> None:
    with locked(settings.folder / "train.lock", wait=False):
        assert job.run("train", settings)["state"] == "never run"
    assert lists.current(settings.folder / "models") is None


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
    fit.train(settings, filled)
    with filled.writing() as connection:
        key = people.forget(connection, "viewer-5")
    with running(settings.folder, factors=16) as serving:
        found = serving.service.ranking.lists
        row = found.row_of(key)
        assert (np.asarray(found.arrays["top_items"][row]) == -1).all()
        assert found.for_user(row, 5) != []  # nothing but what everybody gets
