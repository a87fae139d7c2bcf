"""Catalogue: titles, years, categories, and identical category rows grouped."""

import pyarrow as pa
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError


def make(**columns) -> Catalogue:
    base = {
        "item_id": [3, 1, 2],
        "title": ["Up (2009)", "Heat (1995)", "Alien"],
        "genres": ["Comedy|Family", "Crime", "Family|Comedy"],
    }
    return Catalogue.from_table(pa.table(base | columns))


def test_items_stand_in_order_of_their_ids() -> None:
    films = make()
    assert films.item_ids.tolist() == [1, 2, 3]
    assert films.titles.tolist() == ["Heat (1995)", "Alien", "Up (2009)"]
    assert films.years.tolist() == [1995, 0, 2009]
    assert films.categories == ("Comedy", "Crime", "Family")
    assert films.positions([3, 9]).tolist() == [2, -1]
    assert films.title_of(9) == "9"


def test_identical_category_rows_are_one() -> None:
    rows = make().rows
    assert rows.row_of_item.tolist() == [0, 1, 1]
    assert rows.sizes.tolist() == [1, 2]
    assert rows.matrix.tolist() == [[0, 1, 0], [1, 0, 1]]


def test_rows_rebuild_the_matrix(films: Catalogue) -> None:
    rebuilt = films.rows.matrix[films.rows.row_of_item]
    assert (rebuilt == films.matrix.toarray()).all()
    assert len(films.rows.sizes) < len(films)


def test_no_category_and_extra_columns() -> None:
    films = make(
        genres=["", "(no genres listed)", None], imdb=["a", "b", "c"], year=[2009, None, 1979]
    )
    assert films.categories == ()
    assert films.years.tolist() == [0, 1979, 2009]
    assert films.extra["imdb"].to_pylist() == ["b", "c", "a"]
    assert Catalogue.from_table(films.to_table()).to_table().equals(films.to_table())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item_id": [1, 2, 1]}, "rows 1 and 3 have the same item_id 1"),
        ({"item_id": [1, None, 2]}, "the catalogue: row 2: item_id is missing"),
    ],
)
def test_bad_items_are_named(change, message) -> None:
    with pytest.raises(InputError, match=message):
        make(**change)


def test_missing_column_and_empty() -> None:
    with pytest.raises(InputError, match="no column 'genres'"):
        Catalogue.from_table(pa.table({"item_id": [1], "title": ["x"]}))
    with pytest.raises(InputError, match="empty"):
        Catalogue.from_columns([], [], [])
