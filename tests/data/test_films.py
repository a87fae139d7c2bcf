"""The embedded catalogue: what the rest of the package relies on, and the titles hard to match."""

import csv
import re
from collections import Counter
from importlib import resources

import pytest

GENRES = {
    "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "History", "Horror", "Music", "Mystery", "Romance", "Science Fiction", "Thriller",
    "War", "Western",
}  # fmt: skip


@pytest.fixture(scope="module")
def films() -> list[dict[str, str]]:
    text = resources.files("epicrec.data").joinpath("films.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_size_and_columns(films: list[dict[str, str]]) -> None:
    assert 480 <= len(films) <= 540
    for film in films:
        assert list(film) == ["item_id", "title", "year", "genres", "popularity"]
        assert all(film.values()), film


def test_ids_are_unique_slugs_that_end_in_the_year(films: list[dict[str, str]]) -> None:
    assert len({film["item_id"] for film in films}) == len(films)
    for film in films:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", film["item_id"]), film
        assert film["item_id"].endswith("-" + film["year"]), film


def test_no_film_twice(films: list[dict[str, str]]) -> None:
    seen = Counter((film["title"].casefold(), film["year"]) for film in films)
    assert [film for film, times in seen.items() if times > 1] == []


def test_titles_are_tidy(films: list[dict[str, str]]) -> None:
    for film in films:
        assert film["title"] == " ".join(film["title"].split())
        assert "\ufffd" not in film["title"]
        assert not re.search(r"\(\d{4}\)$|, (The|A|An)$", film["title"]), film


def test_every_decade_is_covered(films: list[dict[str, str]]) -> None:
    years = [int(film["year"]) for film in films]
    assert min(years) >= 1920
    # timestamps of simulated viewers lie in 2025
    assert max(years) <= 2024
    per_decade = Counter(year // 10 * 10 for year in years)
    assert all(per_decade[decade] >= 10 for decade in range(1920, 2030, 10)), per_decade


def test_genres_are_known_and_each_has_at_least_ten_films(films: list[dict[str, str]]) -> None:
    per_genre: Counter[str] = Counter()
    for film in films:
        genres = film["genres"].split("|")
        assert len(set(genres)) == len(genres), film
        per_genre.update(genres)
    assert set(per_genre) == GENRES
    assert min(per_genre.values()) >= 10, per_genre


def test_popularity_has_a_long_tail(films: list[dict[str, str]]) -> None:
    popularity = sorted(int(film["popularity"]) for film in films)
    assert popularity[0] >= 1
    assert 90 <= popularity[-1] <= 100
    assert popularity[len(popularity) // 2] < 40
    assert sum(value >= 80 for value in popularity) < len(popularity) / 10


@pytest.mark.parametrize(
    ("title", "year"),
    [
        ("M", 1931), ("Z", 1969), ("Ran", 1985), ("It", 2017), ("Up", 2009), ("Her", 2013),
        ("Us", 2019), ("Drive", 2011), ("Heat", 1995), ("Pi", 1998), ("1917", 2019),
        ("Se7en", 1995), ("8½", 1963), ("M*A*S*H", 1970), ("WALL·E", 2008), ("Amélie", 2001),
        ("Léon: The Professional", 1994), ("Le Samouraï", 1967), ("Les Misérables", 2012),
        ("Rocky", 1976), ("Rocky II", 1979), ("The Godfather", 1972),
        ("The Godfather Part II", 1974), ("Terminator 2: Judgment Day", 1991),
        ("Toy Story", 1995), ("Toy Story 3", 2010), ("Dune: Part Two", 2024),
        ("The War of the Worlds", 1953), ("War of the Worlds", 2005),
        ("Pride & Prejudice", 2005), ("Thelma & Louise", 1991), ("Romeo + Juliet", 1996),
        ("The Good, the Bad and the Ugly", 1966), ("Who's Afraid of Virginia Woolf?", 1966),
    ],
)  # fmt: skip
def test_titles_hard_to_match_are_present(
    films: list[dict[str, str]], title: str, year: int
) -> None:
    assert (title, str(year)) in {(film["title"], film["year"]) for film in films}


@pytest.mark.parametrize(
    ("title", "years"),
    [
        ("A Star Is Born", {1937, 1954, 1976, 2018}), ("King Kong", {1933, 1976, 2005}),
        ("Beauty and the Beast", {1946, 1991, 2017}), ("True Grit", {1969, 2010}),
        ("Dune", {1984, 2021}), ("Ocean's Eleven", {1960, 2001}), ("The Fly", {1958, 1986}),
        ("Scarface", {1932, 1983}), ("West Side Story", {1961, 2021}),
        ("Suspiria", {1977, 2018}), ("Solaris", {1972, 2002}), ("Nosferatu", {1922, 2024}),
    ],
)  # fmt: skip
def test_remakes_share_a_title(films: list[dict[str, str]], title: str, years: set[int]) -> None:
    assert {int(film["year"]) for film in films if film["title"] == title} == years
