"""What a person says about films, in the pages, and what comes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.conftest import Pages, showing
from epicrec.client.history import History
from epicrec.client.viewing import Evidence, Viewing
from epicrec.data import Catalogue


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Pages]:
    with showing(tmp_path / "client") as pages:
        pages.http.post("/example")
        yield pages


def shown(pages: Pages) -> list[list[str]]:
    return [[card.item_id for card in row.cards] for row in pages.device.for_you().rows]


def mark(pages: Pages, item: str, act: str, **given: str) -> str:
    answer = pages.http.post("/film", data={"item_id": item, "act": act, **given})
    assert answer.status_code == 200
    return str(answer.url.path)


@pytest.mark.parametrize(("act", "stars"), [("up", 4.0), ("down", 1.0), ("seen", None)])
def test_marks_of_a_card(alone: Pages, act: str, stars: float | None) -> None:
    item = shown(alone)[0][0]
    assert mark(alone, item, act) == "/for-you"
    assert item in alone.device.history.items()
    assert alone.device.history.ratings().get(item) == stars
    assert item not in [i for row in shown(alone) for i in row]


def test_stars_are_given_changed_and_taken_back(alone: Pages) -> None:
    ratings = alone.device.history.ratings
    for stars in ("3", "5"):
        mark(alone, "blade-runner-1982", "stars", stars=stars, back="/film/blade-runner-1982")
        assert ratings()["blade-runner-1982"] == float(stars)
    assert "5 of 5" in alone.http.get("/film/blade-runner-1982").text
    mark(alone, "blade-runner-1982", "stars", stars="0")
    assert "blade-runner-1982" not in ratings()
    assert "blade-runner-1982" in alone.device.history.items(), "it was watched all the same"
    for nonsense in ("6", "-1", "nan", ""):
        data = {"item_id": "blade-runner-1982", "act": "stars", "stars": nonsense}
        assert alone.http.post("/film", data=data).status_code == 400


def test_ones_own_stars_overrule_those_of_a_file(alone: Pages) -> None:
    reading, history = alone.device.reading, alone.device.history
    found = reading.matcher.match(Viewing("Heat", "IMDb", Evidence.RATED, year=1995, rating=5.0))
    viewing = Viewing("Heat", "IMDb", Evidence.RATED, year=1995, rating=5.0)
    imports = alone.device.imports
    imports.keep(imports.draft("IMDb", [(viewing, found)], {}), {})
    assert history.ratings()["heat-1995"] == 5
    history.rate("heat-1995", 1)
    assert history.ratings()["heat-1995"] == 1
    assert dict(history.newest())["heat-1995"] == 1
    history.rate("heat-1995", None)
    assert history.ratings()["heat-1995"] == 5


def test_one_star_for_the_ten_best_changes_the_rows_and_cites_none(pages: Pages) -> None:
    pages.http.post("/example")
    pages.http.get("/for-you")
    before = shown(pages)
    ten = before[0][:10]
    for item in ten:
        mark(pages, item, "stars", stars="1")
    after = pages.device.for_you()
    assert after.with_model
    assert not {item for row in shown(pages) for item in row} & set(ten)
    assert shown(pages)[1:] != before[1:]
    low = {pages.device.catalogue.title_of(item) for item in ten}
    assert not {title for row in after.rows for card in row.cards for title in card.why} & low
    assert not [row.title for row in after.rows if any(row.title.endswith(t) for t in low)]
    for item in before[1][:3]:
        assert not set(pages.device.shelf.why(item).why) & low


def test_a_low_star_moves_scores_as_if_it_had_not_been_watched(pages: Pages) -> None:
    """It speaks for nothing: the rows are those without it, less the film itself."""
    pages.http.post("/example")
    pages.http.get("/for-you")
    order = pages.device.shelf._ranked(False).scores.copy()
    mark(pages, "the-shining-1980", "down")
    assert (pages.device.shelf._ranked(False).scores == order).all()
    mark(pages, "the-shining-1980", "up")
    assert (pages.device.shelf._ranked(False).scores != order).any()


def test_not_interested_and_back_where_one_was(alone: Pages) -> None:
    item = shown(alone)[2][1]
    data = {"item_id": item, "act": "no", "back": "/for-you#row-3"}
    answer = alone.http.post("/film", data=data, follow_redirects=False)
    assert re.fullmatch(r"/for-you\?said=[\w-]+#row-3", answer.headers["location"])
    page = alone.http.get("/for-you").text
    assert 'id="row-3"' in page
    assert item not in [i for row in shown(alone) for i in row]
    assert alone.device.shelf.unwanted() == [item]
    mark(alone, item, "again")
    assert alone.device.shelf.unwanted() == []


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil", "x", ""])
def test_the_way_back_leads_nowhere_else(alone: Pages, back: str) -> None:
    data = {"item_id": "heat-1995", "act": "no", "back": back}
    answer = alone.http.post("/film", data=data, follow_redirects=False)
    assert answer.headers["location"].partition("?")[0] == "/for-you"


def test_in_place_the_answer_is_a_sentence(alone: Pages) -> None:
    data = {"item_id": "heat-1995", "act": "no", "in-place": "1"}
    answer = alone.http.post("/film", data=data)
    assert answer.text == "Noted, on this device only."
    assert "Heat" not in alone.http.get("/for-you").text.split("</main>")[0].split("<h2")[0]


def test_nonsense_is_refused(alone: Pages) -> None:
    for data in ({"item_id": "heat-1995", "act": "eat"}, {"item_id": "nothing", "act": "up"}):
        assert alone.http.post("/film", data=data).status_code == 400
    assert alone.http.get("/film/nothing").status_code == 400


def test_the_watchlist(alone: Pages) -> None:
    assert "Nothing yet" in alone.http.get("/watchlist").text
    for item in ("heat-1995", "alien-1979"):
        mark(alone, item, "later")
    assert alone.device.shelf.watchlist() == ["alien-1979", "heat-1995"]
    assert alone.http.get("/watchlist").text.count('<li class="film"') == 2
    mark(alone, "heat-1995", "up")
    assert alone.device.shelf.watchlist() == ["alien-1979"], "what was seen is off the list"
    alone.device.shelf.see_later("of-a-list-that-is-gone")
    for item in ("alien-1979", "of-a-list-that-is-gone"):
        mark(alone, item, "not-later")
    assert alone.device.shelf.watchlist() == []


def test_the_page_of_a_film(pages: Pages) -> None:
    pages.http.post("/example")
    pages.http.get("/for-you")
    item = shown(pages)[0][0]
    text = pages.http.get(f"/film/{item}").text
    assert pages.device.catalogue.title_of(item) in text
    (why, *_) = pages.device.shelf.why(item).why
    assert f"because you watched {why}" in text
    assert text.count('<li class="film"') == 12
    assert item not in pages.device.shelf.similar(item)
    for link in re.findall(r"<[^>]*https?://(?!www\.w3)[^>]*>", text):
        assert link.startswith("<a href=")
        assert "noreferrer" in link


def test_similar_films_are_the_models_own(pages: Pages) -> None:
    pages.http.post("/example")
    pages.device.refresh()
    kept = pages.device.published.model()
    assert kept is not None
    model = kept[0]
    at = list(model.item_ids_).index("alien-1979")
    part = model.projections_[at] @ model.factors_.T if hasattr(model, "projections_") else (
        model.factors_[at] @ model.factors_.T
    )  # fmt: skip
    order = [str(model.item_ids_[k]) for k in part.argsort()[::-1] if k != at]
    assert pages.device.shelf.similar("alien-1979", 5) == order[:5]


def test_browsing_with_filters(alone: Pages, films: Catalogue) -> None:
    def found(query: str) -> list[str]:
        text = alone.http.get(f"/browse?{query}").text
        return re.findall(r'href="/film/([^"]+)"', text)

    western = found("genre=Western&by=title")
    assert western
    for item in western:
        assert "Western" in films.categories_of(int(films.positions([item])[0]))
    assert {films.years[films.positions([i])[0]] // 10 for i in found("decade=1980")} == {198}
    years = [int(films.years[films.positions([i])[0]]) for i in found("by=year")]
    assert years == sorted(years, reverse=True)
    assert "alien-1979" in found("q=alien")
    assert found("q=alien&genre=Western") == []
    seen = set(alone.device.history.items())
    assert seen & set(found("q=the"))
    assert not seen & set(found("q=the&seen=no"))
    assert len(found("")) == 60
    assert found("page=2") != found("page=1")
    assert len(found("page=99999")) == len(films) % 60
    assert alone.http.get("/browse?genre=Nonsense").status_code == 400
    order = [item for item in found("by=you&seen=no") if item in set(shown(alone)[0])]
    assert order == shown(alone)[0]


def test_rating_many_films_makes_one_batch(alone: Pages) -> None:
    history: History = alone.device.history
    before = len(alone.device.imports.batches())
    for item in shown(alone)[0][:5]:
        history.rate(item, 4)
    assert len(alone.device.imports.batches()) == before + 1
