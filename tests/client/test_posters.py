"""Posters: well-formed, the same every time, safe with any title, and nothing fetched."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicrec.client.web.posters import HEIGHT, WIDTH, draw_poster
from epicrec.data import Catalogue

SVG = "{http://www.w3.org/2000/svg}"


def words_of(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_words_are_on_it() -> None:
    svg = draw_poster("The Grand Budapest Hotel", 2014, ["Comedy", "Drama"])
    *title, below = words_of(svg)
    assert " ".join(title) == "The Grand Budapest Hotel"
    assert below == "2014 · Comedy"
    root = ET.fromstring(svg)
    assert root.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    assert 3 * WIDTH == 2 * HEIGHT
    assert (root.get("role"), root.get("aria-label")) == ("img", "The Grand Budapest Hotel (2014)")


def test_the_same_film_the_same_picture_and_others_differ(films: Catalogue) -> None:
    drawn = [
        draw_poster(str(title), int(year), films.categories_of(i))
        for i, (title, year) in enumerate(zip(films.titles, films.years, strict=True))
    ]
    assert len(set(drawn)) == len(films)
    assert drawn[0] == draw_poster(
        str(films.titles[0]), int(films.years[0]), films.categories_of(0)
    )
    # known by heart: another machine or another day must not change it
    assert draw_poster("Heat", 1995, ["Crime"]).count('id="s') == 1
    assert 'id="s9f1af4936db1"' in draw_poster("Heat", 1995, ["Crime"])


def test_every_film_fits_its_card(films: Catalogue) -> None:
    for i, title in enumerate(films.titles):
        root = ET.fromstring(draw_poster(str(title), 2000, films.categories_of(i)))
        for text in root.iter(f"{SVG}text"):
            size, y = float(text.get("font-size", 0)), float(text.get("y", 0))
            assert len(text.text or "") * size * 0.72 + 16 <= WIDTH
            assert size < y < HEIGHT


@pytest.mark.parametrize(
    "title", ['<script>alert("x")</script>', "a & b <b>", "\"' onload='x", "]]>"]
)
def test_titles_are_words_never_markup(title: str) -> None:
    svg = draw_poster(title, 1999, ['<g onclick="x">'])
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}
    assert tags <= {"svg", "defs", "linearGradient", "stop", "rect", "g", "circle", "path", "text"}
    attributes = {name for e in ET.fromstring(svg).iter() for name in e.attrib}
    assert not any(name.startswith("on") or name in ("style", "href") for name in attributes)


@given(st.text(max_size=200), st.integers(0, 3000), st.lists(st.text(max_size=30), max_size=2))
def test_any_text_gives_a_picture_that_fetches_nothing(
    title: str, year: int, genres: list[str]
) -> None:
    svg = draw_poster(title, year, genres)
    assert words_of(svg)
    marks = ET.fromstring(svg)
    targets = [value for e in marks.iter() for value in e.attrib.values() if "url(" in value]
    assert all(re.fullmatch(r"url\(#[sd][0-9a-f]{12}\)", v) for v in targets if v.startswith("url"))
