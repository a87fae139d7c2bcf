"""Simulated viewers: repeatable, plausible, and worth learning from."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from epicrec.data import simulate
from epicrec.data.embedded import embedded_items
from epicrec.data.simulate import simulate_batches, simulate_table, write_simulation
from epicrec.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
USERS = 2000


def joined(batches: object) -> pa.Table:
    return pa.concat_tables(batches).combine_chunks()


# --- what it promises ------------------------------------------------------------------------


def test_columns_types_and_ranges() -> None:
    table = simulate_table(users=50)
    assert table.schema == simulate.RATINGS_SCHEMA
    assert sum(column.null_count for column in table.columns) == 0
    assert table["user_id"].unique().to_pylist() == list(range(1, 51))
    assert set(table["item_id"].to_pylist()) <= set(embedded_items()["item_id"].to_pylist())
    assert set(table["rating"].to_pylist()) == {1, 2, 3, 4, 5}
    start = np.datetime64("2025-01-01").astype("datetime64[s]").astype(int)
    end = np.datetime64("2026-01-01").astype("datetime64[s]").astype(int)
    assert start <= min(table["timestamp"].to_pylist())
    assert max(table["timestamp"].to_pylist()) < end


def test_nobody_rates_a_film_twice() -> None:
    table = simulate_table(users=300)
    assert table.group_by(["user_id", "item_id"]).aggregate([]).num_rows == table.num_rows


def test_batch_size_does_not_change_the_result() -> None:
    items = embedded_items()
    whole = joined(simulate_batches(items, users=2500, seed=4))
    for size in (700, 1024, 1999):
        batches = list(simulate_batches(items, users=2500, seed=4, batch_users=size))
        assert all(len(batch["user_id"].unique()) == size for batch in batches[:-1])
        assert joined(batches) == whole


def test_more_users_leave_the_first_ones_as_they_were() -> None:
    few, many = simulate_table(users=30), simulate_table(users=1500)
    assert many.slice(0, few.num_rows).combine_chunks() == few.combine_chunks()


def test_blocks_of_viewers_differ() -> None:
    """Viewers of the second block must not repeat those of the first."""
    table = simulate_table(users=2048)
    lengths = np.bincount(table["user_id"].to_numpy())[1:]
    assert (lengths[:1024] != lengths[1024:]).mean() > 0.9


def test_seed_fixes_the_result_and_changes_it() -> None:
    assert simulate_table(users=20, seed=1) == simulate_table(users=20, seed=1)
    assert simulate_table(users=20, seed=1) != simulate_table(users=20, seed=2)


def test_catalogue_of_one_item_and_one_without_genres() -> None:
    items = embedded_items().slice(0, 1).set_column(3, "genres", [[""]])
    table = joined(simulate_batches(items, users=3))
    assert table["user_id"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"users": 0}, "users is 0"),
        ({"users": -3}, "users is -3"),
        ({"users": 2.5}, "users is 2.5"),
        ({"users": 5, "batch_users": 0}, "batch_users is 0"),
        ({"users": 5, "seed": -1}, "seed is -1"),
        ({"users": 5, "mean_history": 10}, "mean_history is 10"),
        ({"users": 5, "mean_history": float("nan")}, "mean_history is nan"),
    ],
)
def test_wrong_numbers_are_refused_at_the_call(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate_batches(embedded_items(), **wrong)


def test_wrong_catalogues_are_refused() -> None:
    items = embedded_items()
    with pytest.raises(InputError, match="lacks the column\\(s\\) genres, popularity"):
        simulate_batches(items.drop_columns(["genres", "popularity"]), users=5)
    with pytest.raises(InputError, match="empty"):
        simulate_batches(items.slice(0, 0), users=5)
    years = [1999, None, *items["year"].to_pylist()[2:]]
    with pytest.raises(InputError, match="row 1 has no year"):
        simulate_batches(items.set_column(2, "year", [years]), users=5)
    with pytest.raises(InputError, match="year as string"):
        simulate_batches(items.set_column(2, "year", items["year"].cast("string")), users=5)
    with pytest.raises(InputError, match="genres that are not text"):
        simulate_batches(items.set_column(3, "genres", [[["Drama"]] * len(items)]), users=5)
    with pytest.raises(InputError, match="more than once"):
        simulate_batches(pa.concat_tables([items, items.slice(3, 1)]), users=5)


# --- files -----------------------------------------------------------------------------------


def test_written_files_hold_the_simulation(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    count = write_simulation(
        tmp_path / "made" / "here", users=9000, seed=3, progress=lambda *done: seen.append(done)
    )
    ratings = pq.read_table(tmp_path / "made" / "here" / "ratings.parquet")
    assert count == ratings.num_rows
    assert ratings == joined(simulate_batches(embedded_items(), users=9000, seed=3))
    assert pq.read_table(tmp_path / "made" / "here" / "items.parquet") == embedded_items()
    assert seen == [(8192, 9000), (9000, 9000)]


def test_a_crash_leaves_nothing(tmp_path: Path) -> None:
    def fail(done: int, users: int) -> None:
        raise RuntimeError(f"stopped at {done} of {users}")

    with pytest.raises(RuntimeError, match="stopped at 5 of 5"):
        write_simulation(tmp_path, users=5, progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "ratings.parquet").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write_simulation(tmp_path, users=5)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_made_up_catalogue_resembles_the_embedded_one(tmp_path: Path) -> None:
    write_simulation(tmp_path, users=40, items=3000, seed=1)
    items, like = pq.read_table(tmp_path / "items.parquet"), embedded_items()
    assert items.schema.equals(like.schema)
    assert items["item_id"][122].as_py() == "film-000123"
    assert items["title"][122].as_py() == "Film 000123"
    assert len(items["item_id"].unique()) == 3000
    assert set(items["genres"].to_pylist()) <= set(like["genres"].to_pylist())
    made, own = items["popularity"].to_numpy(), like["popularity"].to_numpy()
    assert abs(made.mean() - own.mean()) < 2
    rated = pq.read_table(tmp_path / "ratings.parquet")
    assert set(rated["item_id"].to_pylist()) <= set(items["item_id"].to_pylist())


def test_smaller_catalogue_holds_the_most_popular_films(tmp_path: Path) -> None:
    write_simulation(tmp_path, users=5, items=50)
    kept = pq.read_table(tmp_path / "items.parquet")
    by_popularity = np.sort(embedded_items()["popularity"].to_numpy())[::-1]
    assert np.sort(kept["popularity"].to_numpy())[::-1].tolist() == by_popularity[:50].tolist()


@pytest.mark.parametrize("items", [0, -1, 1.5])
def test_impossible_catalogue_sizes_are_refused(tmp_path: Path, items: int) -> None:
    with pytest.raises(InputError, match=f"items is {items}"):
        write_simulation(tmp_path / "new", users=5, items=items)
    assert not (tmp_path / "new").exists()


# --- what the data look like -----------------------------------------------------------------


@pytest.fixture(scope="module", params=[0, 1])
def events(request: pytest.FixtureRequest) -> tuple[Ints, Ints, Floats]:
    """User index, item index and rating of every event of 2,000 viewers."""
    return indexed(simulate_table(users=USERS, seed=request.param))


def indexed(table: pa.Table) -> tuple[Ints, Ints, Floats]:
    item = pc.index_in(table["item_id"], embedded_items()["item_id"])
    rating = table["rating"].to_numpy().astype(float)
    return table["user_id"].to_numpy() - 1, item.to_numpy().astype(np.int64), rating


def test_ratings_histories_and_popularity_are_plausible(
    events: tuple[Ints, Ints, Floats],
) -> None:
    user, item, rating = events
    assert rating.mean() == pytest.approx(3.6, abs=0.1)
    assert rating.std() == pytest.approx(1.1, abs=0.08)
    history = np.bincount(user)
    assert history.min() >= 10
    assert history.mean() == pytest.approx(simulate.MEAN_HISTORY, rel=0.1)
    assert np.median(history) < 0.8 * history.mean()
    views = np.sort(np.bincount(item, minlength=embedded_items().num_rows))[::-1]
    assert views.min() > 0
    assert views[: len(views) // 10].sum() > 0.25 * views.sum()


def test_popular_films_in_the_catalogue_are_watched_more(
    events: tuple[Ints, Ints, Floats],
) -> None:
    views = np.bincount(events[1], minlength=embedded_items().num_rows)
    popularity = embedded_items()["popularity"].to_numpy()
    ranks = [np.argsort(np.argsort(column)) for column in (views, popularity)]
    assert np.corrcoef(*ranks)[0, 1] > 0.6


def recall_at_10(scores: Floats, seen: Floats, held_out: Floats) -> float:
    top = np.argsort(-np.where(seen > 0, -np.inf, scores), axis=1)[:, :10]
    wanted = held_out.sum(axis=1)
    found = np.take_along_axis(held_out, top, axis=1).sum(axis=1)
    return float((found[wanted > 0] / wanted[wanted > 0]).mean())


def recalls(user: Ints, item: Ints) -> tuple[float, float]:
    """Recall@10 of popularity and of item-item cosine, a fifth of the events held out."""
    test = np.random.default_rng(0).random(len(user)) < 0.2
    seen, held_out = np.zeros((2, USERS, embedded_items().num_rows))
    seen[user[~test], item[~test]] = 1
    held_out[user[test], item[test]] = 1
    norms = np.sqrt(seen.sum(axis=0)) + 1e-9
    cosine = seen.T @ seen / np.outer(norms, norms)
    np.fill_diagonal(cosine, 0)
    popularity = np.broadcast_to(seen.sum(axis=0), seen.shape)
    return recall_at_10(popularity, seen, held_out), recall_at_10(seen @ cosine, seen, held_out)


def test_neighbours_recommend_better_than_popularity(events: tuple[Ints, Ints, Floats]) -> None:
    popularity, cosine = recalls(events[0], events[1])
    assert cosine > 1.3 * popularity


def rmses(user: Ints, item: Ints, rating: Floats) -> tuple[float, float]:
    """RMSE of damped user and item means, and of them plus six factors (alternating least squares).

    A fifth of the ratings is held out.
    """
    items, rank = embedded_items().num_rows, 6
    test = np.random.default_rng(0).random(len(user)) < 0.2
    u, i, r = user[~test], item[~test], rating[~test]
    user_mean, item_mean, mean = np.zeros(USERS), np.zeros(items), r.mean()
    for _ in range(10):
        rest = r - mean - user_mean[u]
        item_mean = np.bincount(i, rest, items) / (np.bincount(i, minlength=items) + 5)
        rest = r - mean - item_mean[i]
        user_mean = np.bincount(u, rest, USERS) / (np.bincount(u, minlength=USERS) + 5)
    residual, known = np.zeros((2, USERS, items))
    residual[u, i] = r - mean - user_mean[u] - item_mean[i]
    known[u, i] = 1

    def solve(known: Floats, residual: Floats, other: Floats) -> Floats:
        pairs = (other[:, :, None] * other[:, None, :]).reshape(len(other), -1)
        gram = (known @ pairs).reshape(-1, rank, rank) + 12 * np.eye(rank)
        return np.linalg.solve(gram, (residual @ other)[:, :, None])[:, :, 0]

    item_factors = np.random.default_rng(1).normal(0, 0.1, (items, rank))
    for _ in range(8):
        user_factors = solve(known, residual, item_factors)
        item_factors = solve(known.T, residual.T, user_factors)
    means = (mean + user_mean[user] + item_mean[item])[test]
    factors = (user_factors[user[test]] * item_factors[item[test]]).sum(axis=1)
    errors = [rating[test] - means, rating[test] - means - factors]
    return float(np.sqrt(np.mean(errors[0] ** 2))), float(np.sqrt(np.mean(errors[1] ** 2)))


def test_factors_predict_better_than_means(events: tuple[Ints, Ints, Floats]) -> None:
    means, factors = rmses(*events)
    assert factors < 0.98 * means


def test_without_tastes_there_is_nothing_to_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gains above come from tastes: viewers without any make the same measurements fail."""
    monkeypatch.setattr(simulate, "GENRE_WEIGHT", 0)
    monkeypatch.setattr(simulate, "FACTOR_WEIGHT", 0)
    user, item, rating = indexed(simulate_table(users=USERS))
    popularity, cosine = recalls(user, item)
    means, factors = rmses(user, item, rating)
    assert cosine < 1.05 * popularity
    assert factors > 0.995 * means
