"""Public features: every column as the slow way finds it, whatever the catalogue lacks."""

from itertools import combinations

import numpy as np
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.models import features
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
