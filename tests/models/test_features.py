"""Public features: every column as the slow way finds it, whatever the catalogue lacks."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epicrec.data import Catalogue, Ratings, find
from epicrec.errors import InputError
from epicrec.evaluate.metrics import list_metrics
from epicrec.models import features, make_model
from epicrec.models.features import fame_of, item_features

NAMES = ["Crime", "Drama", "Art", "War"]


def films(count: int, seed: int = 0) -> Catalogue:
    rng = np.random.default_rng(seed)
    genres = ["|".join(rng.permutation(NAMES)[: rng.integers(0, 4)]) for _ in range(count)]
    years = rng.choice([0, 1931, 1987, 1994, 1999, 2008], count)
    titles = [f"A film ({year})" if year else "A film" for year in years]
    return Catalogue.from_columns(np.arange(count) * 3, titles, genres)


def slow(catalogue: Catalogue, item_ids: np.ndarray) -> list[tuple[float, ...]]:
    """The columns by the book, as a sorted list."""
    rows = catalogue.positions(item_ids)
    own = [set(catalogue.categories_of(r)) if r >= 0 else set() for r in rows]
    year = [int(catalogue.years[r]) if r >= 0 else 0 for r in rows]
    columns = [[1.0] * len(rows)]
    columns += [[float(g in genres) for genres in own] for g in catalogue.categories]
    columns += [[float(y > 0 and y // 5 == b) for y in year] for b in range(1, 500)]
    for g in catalogue.categories:
        for d in range(1, 250):
            column = [float(g in own[i] and year[i] // 10 == d) for i in range(len(rows))]
            columns.append(column if sum(column) >= 5 else [0.0] * len(rows))
    for pair in combinations(catalogue.categories, 2):
        column = [float(set(pair) <= genres) for genres in own]
        columns.append(column if sum(column) >= 10 else [0.0] * len(rows))
    return sorted(tuple(column) for column in columns if any(column))


def test_the_columns_are_those_that_the_slow_way_finds() -> None:
    catalogue = films(120)
    asked = np.array([300, 3, 7, 0, 9, *range(30, 300, 3)])  # 7 is unknown
    found = item_features(catalogue, asked).toarray()
    assert sorted(map(tuple, found.T)) == slow(catalogue, asked)


def test_without_facts_there_is_one_column() -> None:
    bare = Catalogue.from_columns([1, 2], ["a", "b"], ["", ""])
    for catalogue in (None, bare):
        assert item_features(catalogue, np.array([1, 2, 5])).toarray().tolist() == [[1.0]] * 3


def test_a_year_far_off_is_no_feature_of_its_own() -> None:
    years = [1994] * 300 + [1066]
    catalogue = Catalogue.from_columns(np.arange(301), ["t"] * 301, ["War"] * 301, year=years)
    assert item_features(catalogue, catalogue.item_ids).toarray()[300].tolist() == [1.0] * 4


def test_the_commonest_columns_are_kept_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue = films(120)
    every = item_features(catalogue, catalogue.item_ids).toarray()
    monkeypatch.setattr(features, "MOST", 6)
    kept = item_features(catalogue, catalogue.item_ids).toarray()
    assert kept.shape == (120, 6)
    np.testing.assert_array_equal(np.sort(kept.sum(0)), np.sort(every.sum(0))[-6:])


def named(**columns: list) -> Catalogue:
    return Catalogue.from_columns([1, 2, 3], ["a", "b", "c"], ["", "", ""], **columns)


def test_fame_is_a_column_by_item_and_unknown_is_least() -> None:
    catalogue = named(seen=[5, None, 7])
    np.testing.assert_array_equal(fame_of(catalogue, "seen", np.array([3, 9, 1, 2])), [7, 0, 5, 0])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["many", "few", "none"], "numbers"),
        ([1.0, -1.0, 2.0], "numbers"),
        ([1.0, float("inf"), 2.0], "numbers"),
        ([0.0, 0.0, 0.0], "not be 0"),
        ([None, float("nan"), 0.0], "not be 0"),
        ([0.0, 4.0, 0.0], "not be 0"),
    ],
    ids=["text", "below 0", "endless", "nothing", "unknown", "of other items"],
)
def test_fame_that_tells_nothing_is_refused(values: list, reason: str) -> None:
    with pytest.raises(InputError, match=f"{reason}.*'seen'"):
        fame_of(named(seen=values), "seen", np.array([1, 3]))


def test_fame_without_such_a_column_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no column 'seen'.*are: sold, year"):
        fame_of(named(sold=[1, 2, 3], year=[1, 2, 3]), "seen", np.array([1]))
    for catalogue in (None, named()):
        with pytest.raises(InputError, match=r"no column 'seen'.*none"):
            fame_of(catalogue, "seen", np.array([1]))


# ---- columns by name ----------------------------------------------------------------------------


def shop(n: int = 60) -> Catalogue:
    """Items of two kinds, which every column but `serial` and `constant` tells apart."""
    rng = np.random.default_rng(0)
    kind = np.arange(n) % 2
    return Catalogue.from_frame(
        pd.DataFrame(
            {
                "item_id": np.arange(n),
                "tags": [["red"] if k else ["blue", "cold"] for k in kind],
                "cast": ["Ann|Bob" if k else "Cyd" for k in kind],
                "price": np.where(kind, 10.0, 20.0) + rng.random(n),
                "embedding": [*(np.where(kind, 1.0, -1.0)[:, None] + rng.normal(0, 0.1, (n, 8)))],
                "serial": [f"no {i}" for i in range(n)],
                "constant": ["x"] * n,
            }
        )
    )


@pytest.mark.parametrize("name", ["tags", "cast", "price", "embedding"])
def test_columns_by_name_are_zeros_and_ones_that_tell_items_apart(name: str) -> None:
    items = shop()
    found = item_features(items, items.item_ids, [name]).toarray()
    assert set(np.unique(found)) == {0.0, 1.0}
    assert (found[:, 0] == 1).all()
    ids, kinds = np.arange(len(items)) % 2, found[:, 1:]
    assert any((column == ids).all() or (column == 1 - ids).all() for column in kinds.T) or (
        set(map(bytes, kinds[ids == 0])).isdisjoint(map(bytes, kinds[ids == 1]))
    )
    np.testing.assert_array_equal(found, item_features(items, items.item_ids, [name]).toarray())


def test_columns_that_cannot_be_features_are_refused() -> None:
    items = shop()
    for names, said in (
        (["tag"], "no column 'tag'.*the catalogue has genres, year, tags"),
        (["serial"], "tells no items from others"),
        (["constant"], "tells no items from others"),
        ("tags", r"a list of columns, such as \['tags'\]"),
    ):
        with pytest.raises(InputError, match=said):
            item_features(items, items.item_ids, names)
    with pytest.raises(InputError, match="give a catalogue"):
        item_features(None, items.item_ids, ["tags"])
    uneven = Catalogue.from_frame(pd.DataFrame({"item_id": [1, 2], "v": [[1.0], [1.0, 2.0]]}))
    with pytest.raises(InputError, match="differ in size"):
        item_features(uneven, uneven.item_ids, ["v"])


def test_a_guarantee_names_the_columns_and_the_record_those_left(viewers: Ratings) -> None:
    items = shop(viewers.n_items)
    columns = items.to_table().drop_columns(["item_id", "title", "genres"]).to_pydict()
    known = Catalogue.from_frame(pd.DataFrame({"item_id": viewers.item_ids, **columns}))
    for settings in ({}, {"task": "ratings"}):
        model = make_model("svd", epsilon=1.0, features=["tags", "price"], **settings)
        model.fit(viewers.with_items(viewers.item_ids), known)
        said = "the catalogue's columns 'tags', 'price' are public, and not computed from these"
        assert any(said in one for one in model.guarantee.assumes)
        assert "not used of the catalogue: cast, embedding, serial, constant" in model.record
    usual = make_model("private-bias").fit(viewers.with_items(viewers.item_ids), known)
    assert any("'genres', 'title' are public" in one for one in usual.guarantee.assumes)


@pytest.mark.parametrize("private", [{}, {"epsilon": 20.0, "unit": "user", "seed": 0}])
def test_items_nobody_has_seen_are_ordered_by_their_features(
    viewers: Ratings, films: Catalogue, private: dict[str, Any]
) -> None:
    """Every tenth item is held out from everybody; lists of only those find what people have."""
    history = viewers.as_history()
    held = np.arange(history.n_items) % 10 == 3
    train, test = history.select(~held[history.items]), history.select(held[history.items])
    judged = np.flatnonzero((train.user_counts > 0) & (test.user_counts > 0))
    asked = test.users_at(judged)

    def ndcg(**settings: Any) -> float:
        model = make_model("svd", **private, **settings).fit(train, films)
        lists = model.recommend(train.users_at(judged), n=10, items=history.item_ids[held])
        items = find(history.item_ids, np.asarray(lists["item_id"].to_pylist()))
        users = asked.positions(lists["user_id"].to_numpy())
        wanted = np.column_stack([asked.users, asked.items])
        return list_metrics(users, items, lists["rank"].to_numpy(), wanted, 10, len(held))["ndcg"]

    assert ndcg() > 1.3 * ndcg(features=[])
