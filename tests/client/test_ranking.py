"""Rows on the device: by the true history, without what was watched or is not wanted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client.conftest import Served
from epicrec.client.device import Device
from epicrec.client.ranking.content import popularity_of
from epicrec.client.ranking.rows import Rows, positions
from epicrec.client.ranking.scores import (
    Row,
    best,
    lone_scores,
    model_scores,
    reasons,
    well_liked,
    with_unknown,
)
from epicrec.data import Catalogue, Ratings
from epicrec.data.catalogue import with_text_ids
from epicrec.models import Recommender, model_class


def rows_of(
    films: Catalogue, scores: Any, items: list[str], unwanted: list[str] | None = None, *,
    liked: list[str] | None = None, loved: list[str] | None = None,
    model: Recommender | None = None, n: int = 12,
) -> list[Row]:  # fmt: skip
    """Rows for who watched `items` and, unless told, liked all of them."""
    places = [
        positions(films, given)
        for given in (items, items if liked is None else liked, loved or [], unwanted or [])
    ]
    return Rows(films, scores, *places, model=model, n=n).all()


def test_on_device_scores_are_the_models_own(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    user = viewers.user_ids[3]
    items = [str(i) for i in viewers.item_ids[viewers.items[viewers.users == 3]]]
    expected = model.recommend([user], n=10)["item_id"].to_pylist()
    scores = model_scores(model, films, items, {})
    rows = rows_of(films, scores, items, model=model, n=10)
    assert [card.item_id for card in rows[0].cards] == expected


def test_explicit_models_get_ratings_on_their_scale(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="ratings", factors=10).fit(viewers)
    items = [str(i) for i in films.item_ids[:20]]
    loved = model_scores(model, films, items, dict.fromkeys(items, 5.0))
    hated = model_scores(model, films, items, dict.fromkeys(items, 0.5))
    assert loved.mean() > hated.mean()


def test_models_with_numbers_for_ids() -> None:
    films = with_text_ids(
        Catalogue.from_columns(
            ["2", "10", "1", "own"], ["B", "J", "A", "Mine"], ["X", "Y", "X|Y", "X"],
            popularity=[3, 2, 1, 1],
        )
    )  # fmt: skip
    assert films.item_ids.tolist() == ["1", "10", "2", "own"]
    ratings = Ratings.from_columns([1, 1, 2, 2, 3, 3], [1, 2, 1, 2, 10, 1], [5, 5, 4, 4, 3, 2])
    model = model_class("popularity")().fit(ratings)
    scores = model_scores(model, films, ["2"], {})
    assert np.argmax(scores) == 0, "item 1 was rated most often"
    assert scores[3] == -np.inf, "a model with numbers knows no such film"


def test_rows_hide_the_watched_and_the_unwanted(films: Catalogue) -> None:
    items = [str(i) for i in films.item_ids[:50]]
    unwanted = [str(i) for i in films.item_ids[50:60]]
    rows = rows_of(films, np.arange(len(films), dtype=float)[::-1].copy(), items, unwanted)
    shown = {card.item_id for row in rows for card in row.cards}
    assert not shown & {*items, *unwanted}
    assert rows[0].category is None
    named = [row for row in rows if row.category]
    assert named
    for row in named:
        for card in row.cards:
            at = int(films.positions([card.item_id])[0])
            assert row.category in films.categories_of(at)


def test_no_film_is_in_two_rows(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    for k in range(5):
        items = [str(i) for i in viewers.item_ids[viewers.items[viewers.users == k]]]
        rows = rows_of(films, model_scores(model, films, items, {}), items, model=model)
        shown = [card.item_id for row in rows for card in row.cards]
        assert len(shown) == len(set(shown))
        assert len(rows) >= 6
        assert all(len(row.cards) >= 6 for row in rows)


def test_there_are_rows_of_every_kind(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    items = ["heat-1995", "pulp-fiction-1994", "fargo-1996", "alien-1979", "toy-story-1995"]
    rows = rows_of(
        films, model_scores(model, films, items, {}), items, loved=["heat-1995"], model=model
    )
    titles = [row.title for row in rows]
    assert titles[0] == "The best for you"
    assert "Because you liked Heat" in titles
    assert any(title.startswith("Because you watched ") for title in titles)
    assert "From the 1990s" in titles
    assert "Hidden gems" in titles
    assert titles[-1].startswith("Something different: ")
    by_title = {row.title: films.positions([c.item_id for c in row.cards]) for row in rows}
    years = set(films.years[by_title["From the 1990s"]].tolist())
    assert {year // 10 for year in years} == {199}
    assert len(years) > 1
    assert films.popularity is not None
    median = np.median(films.popularity)
    assert (films.popularity[by_title["Hidden gems"]] < median).all()
    usual = {row.category for row in rows if row.category}
    different = {c for k in by_title[titles[-1]] for c in films.categories_of(int(k))}
    assert not usual & different


def test_films_like_one_are_those_it_speaks_for(films: Catalogue, viewers: Ratings) -> None:
    """The row of a film has what its part in the score is greatest for, of what is left."""
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    scores = model_scores(model, films, ["heat-1995"], {})
    rows = rows_of(films, scores, ["heat-1995"], model=model)
    (row,) = [row for row in rows if row.title == "Because you watched Heat"]
    assert all("Heat" in card.why for card in row.cards)


def test_what_was_rated_low_is_cited_nowhere(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    items = [str(i) for i in films.item_ids[:40]]
    low = {films.title_of(i) for i in items[:20]} - {films.title_of(i) for i in items[20:]}
    for used in (model, None):
        rows = rows_of(
            films, model_scores(model, films, items, {}), items, liked=items[20:], model=used
        )
        assert not {title for row in rows for card in row.cards for title in card.why} & low
        assert not [row.title for row in rows if row.title.split(" ", 3)[-1] in low]


def test_low_stars_are_below_three() -> None:
    stars = {"a": 2.9, "b": 3.0, "c": 0.5, "d": 5.0}
    assert well_liked(["a", "b", "c", "d", "unrated"], stars) == ["b", "d", "unrated"]


def test_rows_come_in_the_order_of_what_was_watched(films: Catalogue) -> None:
    western = [str(films.item_ids[i]) for i in range(len(films))
               if films.categories_of(i) == ("Western",)][:5]  # fmt: skip
    assert western
    rows = rows_of(films, popularity_of(films), western)
    assert next(row.category for row in rows if row.category) == "Western"


def test_reasons_name_watched_films(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    items = [str(i) for i in films.item_ids[:40]]
    titles = {films.title_of(i) for i in items}
    rows = rows_of(films, model_scores(model, films, items, {}), items, model=model)
    assert all(set(card.why) <= titles for row in rows for card in row.cards)
    assert any(card.why for card in rows[0].cards)


def test_rows_without_a_history_cite_nothing(films: Catalogue) -> None:
    rows = rows_of(films, lone_scores(films, [], {}, []), [])
    assert rows[0].title == "Popular"
    assert not any(card.why for row in rows for card in row.cards)


def test_a_model_without_factors_is_explained_by_categories(
    films: Catalogue, viewers: Ratings
) -> None:
    model, items = model_class("popularity")().fit(viewers), ["heat-1995"]
    rows = rows_of(films, model_scores(model, films, items, {}), items, model=model)
    assert any(card.why == ("Heat",) for row in rows for card in row.cards)


def test_without_history_popularity_decides(films: Catalogue) -> None:
    order = best(lone_scores(films, [], {}, []), np.zeros(0, np.int64), 10)
    assert films.popularity is not None
    assert films.popularity[order].tolist() == sorted(films.popularity, reverse=True)[:10]


def test_the_servers_list_is_a_hint(films: Catalogue) -> None:
    plain = lone_scores(films, [], {}, [])
    unpopular = str(films.item_ids[int(np.argmin(plain))])
    hinted = lone_scores(films, [], {}, [unpopular, "unknown"])
    assert hinted[int(films.positions([unpopular])[0])] > plain.min()


def test_the_first_of_the_servers_list_counts_most() -> None:
    films = Catalogue.from_columns(["a", "b", "c"], ["A", "B", "C"], ["X"] * 3)
    scores = lone_scores(films, [], {}, ["c", "b", "a"])
    assert scores[2] > scores[1] > scores[0] > lone_scores(films, [], {}, [])[0]


def test_popularity_is_a_share_of_all_viewing() -> None:
    films = Catalogue.from_columns(
        ["a", "b", "c"], ["A", "B", "C"], ["X"] * 3, popularity=[0.75, 0.25, 0]
    )
    np.testing.assert_allclose(popularity_of(films), [0.76 / 1.03, 0.26 / 1.03, 0.01 / 1.03])


def test_the_hint_moves_little() -> None:
    """The first of the server's list overtakes one a little better known, never one much better."""
    films = Catalogue.from_columns(
        ["known", "much-better", "a-little-better"], ["A", "B", "C"], ["X"] * 3,
        popularity=[100, 150, 105],
    )  # fmt: skip
    at = {name: int(films.positions([name])[0]) for name in ("known", "much-better")}
    plain, hinted = lone_scores(films, [], {}, []), lone_scores(films, [], {}, ["known"])
    assert np.argsort(plain)[0] == at["known"]
    assert np.argsort(hinted)[-2:].tolist() == [at["known"], at["much-better"]]


def test_habits_count_as_much_as_popularity() -> None:
    """Of two genres alike in popularity one was watched: its films gain the logarithm of its share
    over the usual one, with ten films of the usual kind added, and the others lose."""
    ids = [f"{kind}{k:02}" for kind in "xy" for k in range(40)]
    films = Catalogue.from_columns(ids, ids, ["X"] * 40 + ["Y"] * 40, language=["l"] * 80)
    scores = lone_scores(films, ids[:30], {}, [])
    liked, usual = (30 + 10 / 2) / (40 / 2), (10 / 2) / (40 / 2)
    alike = 30 / np.sqrt(30)  # the genre is all that is known of them
    assert scores[39] - scores[79] == pytest.approx(np.log(liked) - np.log(usual) + alike)


def test_what_is_alike_gains_and_what_is_like_the_disliked_loses() -> None:
    films = Catalogue.from_columns(
        list("abcdef"), list("abcdef"), ["G"] * 6, directors=["Ann", "Ann", "Bob", "Bob", "Cy", ""],
        themes=["heist|jazz", "heist", "train", "train", "jazz", "war"],
    )  # fmt: skip
    scores = lone_scores(films, ["a", "c"], {"c": 1.0}, [])
    assert scores[1] > scores[4] > scores[5] > scores[3]
    card = reasons(films, positions(films, ["a"]), np.array([1, 5]), None)
    assert (card[1].why, card[1].facts) == (("a",), ("by Ann", "heist"))
    assert (card[5].why, card[5].facts) == ((), ()), "sharing a genre explains nothing"


def test_titles_a_model_does_not_know_come_after_all_others() -> None:
    scores = with_unknown(np.array([2.0, -np.inf, -3.0, -np.inf]), np.array([0.0, 9.0, 5.0, 11.0]))
    assert np.argsort(-scores).tolist() == [0, 2, 3, 1]
    assert np.isfinite(scores).all()


def test_what_was_not_rated_was_good(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="ratings", factors=10).fit(viewers)
    items = [str(i) for i in films.item_ids[:20]]
    unrated = model_scores(model, films, items, {})
    assert np.array_equal(unrated, model_scores(model, films, items, dict.fromkeys(items, 4.0)))
    assert not np.array_equal(unrated, model_scores(model, films, items, {items[0]: 1.0}))


def test_two_reasons_are_two_films(films: Catalogue, viewers: Ratings) -> None:
    model = model_class("svd")(task="lists", factors=20).fit(viewers)
    by_title = {films.title_of(i): str(i) for i in films.item_ids[:40]}
    items = list(by_title.values())  # remakes have one title
    for used in (model, None):
        scores = model_scores(model, films, items, {})
        cards = [c for row in rows_of(films, scores, items, model=used) for c in row.cards]
        assert any(len(card.why) == 2 for card in cards)
        assert all(len(set(card.why)) == len(card.why) for card in cards)


def test_the_model_is_used_when_there_is_one(
    tmp_path: Path, films: Catalogue, publishing: Served, served: Served
) -> None:
    device = Device(tmp_path / "a", films, server=publishing.url)
    device.example()
    with_model = device.for_you()
    assert with_model.with_model
    assert with_model.info is not None
    without = device.for_you(compare=True)
    assert not without.with_model
    assert without.rows != with_model.rows
    watched = set(device.history.items())
    best_one = with_model.rows[0].cards[0].item_id
    assert best_one not in watched
    device.shelf.not_interested(best_one)
    assert best_one not in {c.item_id for row in device.for_you().rows for c in row.cards}
    device.shelf.not_interested(best_one, wanted=True)
    assert device.for_you().rows[0].cards[0].item_id == best_one
    device.close()
    plain = Device(tmp_path / "b", films, server=served.url)
    plain.example()
    assert not plain.for_you().with_model
    plain.close()
    alone = Device(tmp_path / "c", films)
    alone.example()
    assert alone.for_you().rows
    alone.close()


def test_a_damaged_model_is_not_used(tmp_path: Path, films: Catalogue, publishing: Served) -> None:
    device = Device(tmp_path / "a", films, server=publishing.url)
    device.example()
    device.refresh()
    (device.folder / "model.npz").write_bytes(b"nonsense")
    assert not device.for_you().with_model
    device.close()


def test_a_model_replaced_on_the_way_is_refused(
    tmp_path: Path, films: Catalogue, publishing: Served
) -> None:
    file = publishing.folder / "published" / "item-model-1.npz"
    content = file.read_bytes()
    device = Device(tmp_path / "a", films, server=publishing.url)
    try:
        file.write_bytes(content[:-1] + b"x")
        assert "damaged" in device.refresh()
        assert device.published.ask_again > time.time(), "it is not asked at every page"
    finally:
        file.write_bytes(content)
    assert device.published.model() is None
    assert device.refresh() == ""
    assert device.published.model() is not None
    device.close()


@pytest.mark.parametrize("n", [1, 5])
def test_best_respects_n_and_ties(n: int) -> None:
    assert best(np.zeros(9), np.array([0, -1]), n).tolist() == list(range(1, n + 1))
