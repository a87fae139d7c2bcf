"""Dataframes: what comes in comes out, and what cannot be read is named."""

import copy
import decimal
import pickle
import uuid
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from epicrec import Catalogue, Ledger, Ratings, load, make_model
from epicrec.errors import BudgetExceededError, EpicrecWarning, InputError

BOTH = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table}


@pytest.mark.parametrize("kind", BOTH)
def test_results_are_what_was_given(kind: str, viewers: Ratings, films: Catalogue) -> None:
    make: Any = BOTH[kind]
    rated, listed = (make(t.to_pydict()) for t in (viewers.to_table(), films.to_table()))
    eager = pl.DataFrame if kind == "lazy" else type(rated)
    model = make_model("svd").fit(rated, listed)
    expected = make_model("svd").fit(viewers, films)
    lists = model.recommend(viewers.user_ids[:3].tolist(), n=4)
    assert isinstance(lists, eager)
    known = expected.recommend(viewers.user_ids[:3], n=4)
    assert list(lists["item_id"]) == (
        known["item_id"].to_pylist() if kind != "arrow" else list(known["item_id"])
    )
    assert isinstance(model.recommend(rated, n=1), type(rated))
    assert isinstance(model.predict(rated), type(rated))
    assert isinstance(expected.recommend(viewers, n=1), pa.Table)
    assert isinstance(expected.recommend(rated, n=1), type(rated))


@pytest.mark.parametrize("series", [pd.Series, pl.Series, pa.array])
def test_ids_may_be_a_series(series: Any, viewers: Ratings) -> None:
    ids, items = viewers.user_ids[:2].tolist(), viewers.item_ids[:50].tolist()
    model = make_model("item-knn").fit(viewers.to_table(), items=series(viewers.item_ids.tolist()))
    found = model.recommend(series(ids), n=3, items=series(items))
    assert set(found["user_id"]) == set(ids) if series is not pa.array else len(found) == 6
    assert {str(i) for i in found["item_id"]} <= set(items)


IDS = {
    "mixes int and str": [1, "b"],
    "has the type .*uuid|fixed_size_binary": [uuid.UUID(int=1), uuid.UUID(int=2)],
    "has the type decimal": [decimal.Decimal("1.5"), decimal.Decimal(2)],
    "beyond 64 bits; give them as text": [10**25, 3],
    "row 1: .* is 1.5": [1.5, 2.0],
    "row 2": [1.0, None],
}


@pytest.mark.parametrize("said", IDS)
def test_ids_that_cannot_be_used_are_named(said: str) -> None:
    ids = IDS[said]
    with pytest.raises(InputError, match=f"user_id.*({said})|{said}"):
        Ratings.from_columns(ids, [1, 2], [3, 4])
    with pytest.raises(InputError, match=said):
        Ratings.from_frame(pd.DataFrame({"user_id": ids, "item_id": [1, 2]}))
    with pytest.raises(InputError, match=f"catalogue.*({said})"):
        Catalogue.from_frame(pd.DataFrame({"item_id": ids, "title": ["a", "b"]}))
    if said != "mixes int and str":
        with pytest.raises(InputError, match=said if "row 2" not in said else "row 2|nan"):
            Ratings.from_frame(pl.DataFrame({"user_id": ids, "item_id": [1, 2]}))


def test_decimal_ratings_are_ratings() -> None:
    found = Ratings.from_columns([1, 2], [1, 2], [decimal.Decimal("3.5"), decimal.Decimal(4)])
    assert found.values.tolist() == [3.5, 4]


def test_a_catalogue_needs_its_ids_alone() -> None:
    plain = Catalogue.from_frame(pl.DataFrame({"item_id": [3, 1], "price": [5.0, 2.0]}))
    assert (plain.titles.tolist(), plain.categories, len(plain)) == (["1", "3"], (), 2)
    listed = {"item_id": [1, 2], "genres": [["War", "Drama"], None], "year": [1999.0, None]}
    found = Catalogue.from_frame(pd.DataFrame(listed))
    assert (found.categories, found.years.tolist()) == (("Drama", "War"), [1999, 0])
    for column, values, said in (
        ("genres", [3, 4], "column 'genres' has the type int64"),
        ("year", ["1999", "n/a"], "the year 'n/a' for item 2"),
        ("popularity", ["much", "5"], "the popularity 'much' for item 1"),
    ):
        with pytest.raises(InputError, match=said):
            Catalogue.from_frame(pd.DataFrame({"item_id": [1, 2], column: values}))


def test_what_was_meant_is_asked_or_counted(viewers: Ratings) -> None:
    frame = viewers.to_table().to_pandas()
    with pytest.raises(InputError, match=r"\(1, 5\) is no scale; .*scale=\"1:5:1\""):
        make_model("bias").fit(frame, scale=(1, 5))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean 'svd'"):
        make_model("SVD")
    with pytest.raises(InputError, match=r"whole number of at least 1, got 2\.5"):
        make_model("bias").fit(frame).recommend([1], n=2.5)  # type: ignore[call-overload]
    with pytest.warns(EpicrecWarning, match="all ratings are 4"):
        same = make_model("svd", task="ratings").fit(frame.assign(rating=4))
    assert same.predict(frame)["score"].round(2).eq(4).all()
    with pytest.raises(InputError, match=r"there is no file no\.npz"):
        load("no.npz")
    off = int((viewers.values > 4).sum())
    said = f"{off:,} of {len(viewers):,} ratings are off the scale 1:4:1"
    with pytest.warns(EpicrecWarning, match=said):
        make_model("bias").fit(frame, scale="1:4:1")
    with pytest.warns(EpicrecWarning, match="of items that are not listed"):
        make_model("bias").fit(frame, items=viewers.item_ids[1:])


# ---- pickles and ledgers ------------------------------------------------------------------------


def test_no_history_in_a_pickle(viewers: Ratings) -> None:
    """As in a file: the bytes have none of the users' ids, and loading says so."""
    named = viewers.to_table().to_pandas()
    named["user_id"] = [f"somebody-{user}" for user in named["user_id"]]
    private = make_model("svd", epsilon=5.0).fit(named, items=viewers.item_ids)
    assert private.histories_ is not None
    data = pickle.dumps(private)
    assert b"somebody" not in data
    with pytest.warns(EpicrecWarning, match="histories it was fitted on are not in its pickle"):
        again = pickle.loads(data)
    history = named[named["user_id"] == "somebody-1"]
    assert again.recommend(history).equals(private.recommend(history))
    assert again.guarantee == private.guarantee
    with pytest.raises(InputError, match="nobody's history"):
        again.recommend(["somebody-1"])
    assert copy.copy(private).histories_ is private.histories_
    plain = pickle.loads(pickle.dumps(make_model("svd").fit(named)))
    assert len(plain.recommend(["somebody-1"])) == 10
    assert pickle.loads(pickle.dumps(make_model("svd", epsilon=5.0))).epsilon == 5.0


def test_a_ledger_counts_fits(viewers: Ratings, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", limit_epsilon=1.5, limit_delta=1e-5)
    public = viewers.with_items(viewers.item_ids)

    def fitted(model: Any) -> Any:
        return model.fit(public, ledger=ledger)

    one = fitted(make_model("svd", epsilon=1.0, delta=1e-6))
    assert [entry.guarantee for entry in ledger.entries()] == [one.guarantee]
    with pytest.warns(EpicrecWarning, match=r"2 releases, whose budgets add up: ε = 0\.8959"):
        fitted(make_model("svd", epsilon=0.2, delta=1e-6))
    costly = make_model("svd", epsilon=3.0, delta=1e-6)
    with pytest.raises(BudgetExceededError):
        fitted(costly)
    assert len(ledger.entries()) == 2
    assert not [name for name in vars(costly) if name.endswith("_")]
    for free in (make_model("svd"), make_model("svd", epsilon=1.0, seed=1)):
        with pytest.raises(InputError, match="leave out the ledger"):
            fitted(free)


def test_fitting_again_says_that_budgets_add_up(viewers: Ratings) -> None:
    public = viewers.with_items(viewers.item_ids)
    private = make_model("popularity", epsilon=1.0).fit(public)
    with pytest.warns(EpicrecWarning, match="budgets add up"):
        private.fit(public)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (make_model("popularity"), make_model("popularity", epsilon=1.0, seed=1)):
            model.fit(public).fit(public)


def test_habits_of_the_field() -> None:
    model = make_model("item-knn", kept=7)
    assert model.get_params(deep=False)["kept"] == 7
    other = model.clone().set_params(kept=9, k=3)
    assert (other.get_params()["kept"], model.get_params()["kept"]) == (9, 7)
    with pytest.raises(InputError, match="did you mean 'kept'"):
        model.set_params(kep=1)
