"""A private model's items and scale are those that were given, never those that were rated."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.models import Recommender, load, make_model

LISTED = [f"film-{i}" for i in range(8)]
FILMS = Catalogue.from_columns(LISTED, LISTED, ["War"] * 8)
PRIVATE: dict[str, dict[str, Any]] = {
    "private-bias": {"epsilon": 1.0},
    "covariance-svd": {"epsilon": 1.0, "task": "ratings"},
    "covariance-knn": {"as_published": True, "theta": 1.0},
    "dpi-avg": {"epsilon": 1.0},
    "dpm-avg": {"epsilon": 1.0},
    "d2p": {"p": 0.5, "p_star": 0.1},
}


def table(*extra: tuple[int, str, float]) -> pa.Table:
    rows = [
        (user, LISTED[(user + i) % 6], 1.0 + (user * i) % 5)
        for user in range(20)
        for i in (1, 2, 3)
    ]
    user, item, rating = zip(*rows, *extra, strict=True)
    return pa.table({"user_id": user, "item_id": item, "rating": rating})


ONCE, HALF = (3, "rated-once-4711", 4.0), (3, LISTED[7], 4.5)
"""An item that only one person rated, and a value between the steps: each a neighbour's rating."""


@pytest.fixture(params=PRIVATE)
def model(request: Any) -> Recommender:
    return make_model(request.param, **PRIVATE[request.param])


@pytest.mark.parametrize("extra", [(), (ONCE,), (HALF,), (ONCE, HALF)])
def test_what_one_person_rated_is_not_in_the_file(model: Any, extra: Any, tmp_path: Any) -> None:
    model.fit(table(*extra), items=LISTED, scale="1:5:1").save(tmp_path / "model.npz")
    saved = load(tmp_path / "model.npz")
    assert saved.item_ids_.tolist() == LISTED
    assert saved.scale_ == (Scale(1, 5, 1) if model.task == "ratings" else None)
    held = (tmp_path / "model.npz").read_bytes()
    assert not any("rated-once-4711".encode(code) in held for code in ("ascii", "utf-32-le"))


def test_a_catalogue_says_which_items_there_are(model: Any) -> None:
    assert model.fit(table(ONCE), FILMS, scale="1:5:1").item_ids_.tolist() == LISTED


def test_items_go_before_the_catalogue(model: Any) -> None:
    learned = model.fit(table(ONCE), FILMS, items=LISTED[:4], scale="1:5:1")
    assert learned.item_ids_.tolist() == LISTED[:4]


def test_the_list_that_ratings_came_with_stays(model: Any) -> None:
    ratings = Ratings.from_table(table(), scale=Scale(1, 5, 1)).with_items(np.array(LISTED[:5]))
    assert model.fit(ratings, FILMS).item_ids_.tolist() == LISTED[:5]


def test_nothing_is_guessed(model: Any) -> None:
    """Neither from a frame nor from ratings that guessed; and the refusal tells nothing of them."""
    secret = table(ONCE, HALF)
    texts = set()
    for ratings in (secret, Ratings.from_table(secret), table()):
        with pytest.raises(InputError) as refused:
            model.fit(ratings)
        texts.add(str(refused.value))
    (text,) = texts
    assert "items=" in text
    assert ("scale=" in text) == (model.task == "ratings")
    assert "4711" not in text
    assert not hasattr(model, "item_ids_")


def test_only_what_is_missing_is_asked_for() -> None:
    with pytest.raises(InputError, match="takes the rating scale from outside") as refused:
        make_model("private-bias").fit(table(), items=LISTED)
    assert "items=" not in str(refused.value)


def test_an_experiment_may_guess() -> None:
    learned = make_model("private-bias", seed=1).fit(table(ONCE))
    assert "rated-once-4711" in learned.item_ids_.tolist()
    assert learned.guarantee.reproducible


def test_without_a_promise_there_is_nothing_to_break() -> None:
    for method in ("covariance-svd", "bias", "item-knn"):
        assert len(make_model(method).fit(table(ONCE)).item_ids_) == 7


def test_new_items_of_an_update_are_the_catalogues() -> None:
    model = make_model("d2p", p=0.5, p_star=0.1).fit(table(), items=LISTED[:6])
    model.update(Ratings.from_table(table(ONCE)), catalogue=FILMS)
    assert model.item_ids_.tolist() == LISTED
