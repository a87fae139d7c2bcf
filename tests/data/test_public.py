"""The list of items and the scale are public: given from outside, or marked as read off."""

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Dataset, Ratings, Scale, load_dataset, split_random
from epicrec.data.datasets import public_of, write_dataset
from epicrec.data.public import item_list, over_public
from epicrec.errors import InputError

STARS = Scale(1, 5, 1)
ROWS = {"user_id": [1, 1, 2, 2], "item_id": ["a", "b", "a", "once"], "rating": [5.0, 1.0, 4.5, 3.0]}
TABLE = pa.table(ROWS)


def given(ratings: Ratings) -> tuple[bool, bool]:
    return ratings.items_given, ratings.scale_given


def test_ratings_remember_what_was_given() -> None:
    guessed = Ratings.from_table(TABLE)
    assert given(guessed) == (False, False)
    scaled = Ratings.from_table(TABLE, scale=Scale(0.5, 5, 0.5))
    assert given(scaled) == (False, True)
    both = scaled.with_items(np.array(["a", "b", "c"]))
    assert given(both) == (True, True)
    parts = [*split_random(both, 0.5, seed=0), both.users_at(np.array([1])), both.as_history()]
    assert {given(part) for part in parts} == {(True, True)}


def test_saved_ratings_keep_it(tmp_path) -> None:
    over_public(TABLE, ["a", "b", "c"], "1:5:1").save(tmp_path / "public")
    assert given(Ratings.open(tmp_path / "public")) == (True, True)
    Ratings.from_table(TABLE).save(tmp_path / "guessed")
    assert given(Ratings.open(tmp_path / "guessed")) == (False, False)


def test_what_is_not_public_is_left_out() -> None:
    public = over_public(TABLE, ["c", "b", "a"], "1:5:1")
    assert public.item_ids.tolist() == ["a", "b", "c"]
    assert public.to_table().to_pydict() == {
        "user_id": [1, 1], "item_id": ["a", "b"], "rating": [5.0, 1.0]
    }  # fmt: skip
    same = over_public(Ratings.from_table(TABLE), ["c", "b", "a"], STARS)
    assert same.to_table().equals(public.to_table())


def test_a_history_needs_no_scale() -> None:
    odd = TABLE.set_column(2, "rating", [[0.0, 77.0, 3.1, -9.0]])
    assert len(over_public(odd, ["a", "b"], rated=False)) == 3


def test_a_probe_survives_what_is_left_out() -> None:
    table = TABLE.append_column("probe", [[True, False, True, False]])
    public = over_public(table, ["a", "b"], "1:5:1")
    assert public.probe.tolist() == [True, False]


def test_two_scales_are_one_too_many() -> None:
    ratings = Ratings.from_columns([1], [1], [3], scale=STARS)
    with pytest.raises(InputError, match="came with the scale 1 to 5"):
        over_public(ratings, scale="1:10:1")


@pytest.mark.parametrize("items", [[], [[1, 2]], [1.5], [None], "abc"])
def test_a_list_of_items_that_is_none(items) -> None:
    with pytest.raises(InputError, match="list of items"):
        item_list(items)


# ---- folders ----------------------------------------------------------------------------------


def write(folder, **files: str):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


RATINGS = "user_id,item_id,rating\n1,a,5\n2,b,4.5\n2,once,3\n"
ITEMS = "item_id,title,genres\na,A,War\nb,B,War\nc,C,War\n"


def test_a_folder_says_what_is_public(tmp_path) -> None:
    at = write(tmp_path, ratings__csv=RATINGS, items__csv=ITEMS, dataset__toml='scale = "1:5:1"\n')
    dataset = load_dataset(at)
    assert given(dataset.ratings) == (True, True)
    assert dataset.ratings.item_ids.tolist() == ["a", "b", "c"]
    assert dataset.ratings.scale == STARS
    assert dataset.left_out == 2, "an item that is not listed, and a value off the scale"


def test_a_folder_without_a_description_is_guessed(tmp_path) -> None:
    dataset = load_dataset(write(tmp_path, ratings__csv=RATINGS, items__csv=ITEMS))
    assert given(dataset.ratings) == (True, False)
    assert given(load_dataset(tmp_path / "ratings.csv").ratings) == (False, False)


def test_options_say_what_a_file_does_not(tmp_path) -> None:
    at = write(tmp_path, ratings__csv=RATINGS, ids__csv="item_id\na\nb\n")
    dataset = load_dataset(at / "ratings.csv", items=at / "ids.csv", scale=Scale(0.5, 5, 0.5))
    assert given(dataset.ratings) == (True, True)
    assert dataset.catalogue is None
    assert (dataset.ratings.item_ids.tolist(), dataset.left_out) == (["a", "b"], 1)


def test_a_description_is_not_overruled(tmp_path) -> None:
    at = write(tmp_path, ratings__csv=RATINGS, dataset__toml='scale = "0.5:5:0.5"')
    with pytest.raises(InputError, match="is known"):
        load_dataset(at, scale=STARS)


@pytest.mark.parametrize("text", ["scale = 5", "scale 1:5", 'scale = "five"'])
def test_a_description_that_says_nothing(tmp_path, text) -> None:
    at = write(tmp_path, ratings__csv=RATINGS, dataset__toml=text)
    with pytest.raises(InputError, match="1:5:1"):
        load_dataset(at)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_converted_set_says_it_too(tmp_path, mapped) -> None:
    public = over_public(TABLE, ["a", "b", "c"], "1:5:1")
    write_dataset(Dataset("x", public, None), tmp_path / "out", mapped=mapped)
    back = load_dataset(tmp_path / "out").ratings
    assert given(back) == (True, True)
    assert back.item_ids.tolist() == ["a", "b", "c"]
    write_dataset(
        Dataset("x", Ratings.from_table(TABLE), None), tmp_path / "guessed", mapped=mapped
    )
    assert given(load_dataset(tmp_path / "guessed").ratings) == (False, False)
    assert not (tmp_path / "guessed" / "dataset.toml").exists()


def test_known_sets_have_their_scale(tmp_path) -> None:
    at = tmp_path / "ml-latest-small"
    at.mkdir()
    write(
        at, ratings__csv="userId,movieId,rating\n1,1,4\n", movies__csv="movieId,title,genres\n1,A,"
    )
    assert load_dataset(at).ratings.scale == Scale(0.5, 5, 0.5)
    assert given(load_dataset(at).ratings) == (True, True)
    assert given(load_dataset("films").ratings) == (True, True)


def test_what_is_public_is_known_without_the_ratings(tmp_path) -> None:
    at = write(tmp_path, ratings__csv="not,ratings\n", items__csv=ITEMS)
    known = public_of(at)
    assert (known.items.tolist(), known.scale) == (["a", "b", "c"], None)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "jester5k", "yelp-2013"])
def test_real_sets_rate_what_they_list(real_data, name) -> None:
    dataset = load_dataset(real_data / name)
    assert given(dataset.ratings) == (True, True)
    assert dataset.left_out == 0
