"""The embedded catalogue of films and series: its extent and order, and what a review relies on."""

import csv
import re
from collections import Counter, defaultdict
from importlib import resources

import pytest

from epicrec.data import Catalogue
from epicrec.data.datasets import load_catalogue
from epicrec.data.embedded import LANGUAGES, TITLES_SCHEMA, theme_meanings

GENRES = set(load_catalogue("films").categories)
COUNTRIES = {
    "Afghanistan", "Algeria", "Argentina", "Australia", "Austria", "Belgium", "Bhutan",
    "Bosnia and Herzegovina", "Brazil", "Bulgaria", "Burkina Faso", "Cambodia", "Canada", "Chile",
    "China", "Colombia", "Croatia", "Cuba", "Czech Republic", "Czechoslovakia", "Denmark", "Egypt",
    "Estonia", "Finland", "France", "Germany", "Greece", "Guatemala", "Hong Kong", "Hungary",
    "Iceland", "India", "Indonesia", "Iran", "Ireland", "Israel", "Italy", "Jamaica", "Japan",
    "Jordan", "Kazakhstan", "Kenya", "Kosovo", "Latvia", "Lebanon", "Mali", "Mauritania", "Mexico",
    "Morocco", "Netherlands", "New Zealand", "North Macedonia", "Norway", "Pakistan", "Palestine",
    "Paraguay", "Peru", "Philippines", "Poland", "Portugal", "Romania", "Russia", "Saudi Arabia",
    "Senegal", "Serbia", "Singapore", "Slovakia", "South Africa", "South Korea", "Soviet Union",
    "Spain", "Sudan", "Sweden", "Switzerland", "Syria", "Taiwan", "Thailand", "Tunisia", "Turkey",
    "Ukraine", "United Kingdom", "United States", "Uruguay", "Venezuela", "Vietnam", "Yugoslavia",
}  # fmt: skip

Row = dict[str, str]


@pytest.fixture(scope="module")
def files() -> dict[str, list[Row]]:
    found = {}
    for file in resources.files("epicrec.data").joinpath("titles").iterdir():
        if file.name.endswith(".tsv"):
            lines = file.read_text(encoding="utf-8").splitlines()
            reader = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            assert reader.fieldnames == TITLES_SCHEMA.names, file.name
            found[file.name] = list(reader)
    return found


@pytest.fixture(scope="module")
def rows(files: dict[str, list[Row]]) -> list[Row]:
    return [row for file in files.values() for row in file]


@pytest.fixture(scope="module")
def titles() -> Catalogue:
    return load_catalogue("titles")


def test_extent(rows: list[Row]) -> None:
    films = [row for row in rows if row["kind"] == "film"]
    assert {row["kind"] for row in rows} == {"film", "series"}
    assert len(films) >= 3_000
    assert len(rows) - len(films) >= 400
    assert sum(all(film[language] for language in LANGUAGES) for film in films) >= 1_000


def test_files_are_split_and_ordered_as_they_say(files: dict[str, list[Row]]) -> None:
    for name, lines in files.items():
        order = [(int(row["year"]), row["title"]) for row in lines]
        assert order == sorted(order), name
        for row in lines:
            decade = f"{row['year'][:3]}0s" if int(row["year"]) >= 1930 else "to-1929"
            expected = "series.tsv" if row["kind"] == "series" else f"films-{decade}.tsv"
            assert name == expected, row


def test_ids_are_unique_slugs_that_end_in_the_year(rows: list[Row]) -> None:
    assert [i for i, n in Counter(row["item_id"] for row in rows).items() if n > 1] == []
    for row in rows:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row["item_id"]), row
        end = f"-series-{row['year']}" if row["kind"] == "series" else f"-{row['year']}"
        assert row["item_id"].endswith(end), row


def test_nothing_stands_twice(rows: list[Row]) -> None:
    seen = Counter((row["title"].casefold(), row["year"], row["kind"]) for row in rows)
    assert [entry for entry, times in seen.items() if times > 1] == []


def test_fields_are_tidy_and_from_the_known_lists(rows: list[Row]) -> None:
    for row in rows:
        assert 1900 <= int(row["year"]) <= 2026, row
        genres = row["genres"].split("|")
        assert 1 <= len(genres) <= 4, row
        assert genres == sorted(set(genres)), row
        assert set(genres) <= GENRES, row
        assert row["country"] in COUNTRIES, row
        assert row["original_title"] != row["title"], row
        for name in ("title", "original_title", *LANGUAGES):
            assert row[name] == " ".join(row[name].split()), row
            assert not re.search(r"[|\ufffd]|\((19|20)\d\d\)$|, (The|A|An)$", row[name]), row


def test_facts_are_tidy_and_from_the_closed_list(rows: list[Row]) -> None:
    for row in rows:
        assert 0 <= int(row["fame"]) <= 100, row
        themes = row["themes"].split("|")
        assert set(themes) <= set(theme_meanings()), row
        assert len(themes) == len(set(themes)) <= 8, row
        assert re.fullmatch(r"[a-z][a-z -]*", row["language"]), row
        assert re.fullmatch(r"\d{0,3}", row["length"]), row
        assert len(row["about"]) <= 120, row
        assert not row["about"].endswith("."), row
        for column in ("directors", "cast"):
            people = [name for name in row[column].split("|") if name]
            assert len(people) == len(set(people)), row
            for name in people:
                assert name == " ".join(name.split()), row
                assert not re.search(r"[;,/()^]", name), row


def test_the_best_known_titles_have_their_facts(rows: list[Row]) -> None:
    """The tail may be empty: a wrong fact is worse than none."""
    famous = sorted(rows, key=lambda row: -int(row["fame"]))
    for column, most, least in (("directors", 8000, 0.95), ("cast", 8000, 0.95),
                                ("about", 6000, 0.98), ("themes", 14000, 1.0)):  # fmt: skip
        assert sum(bool(row[column]) for row in famous[:most]) >= least * most, column


def test_themes_have_one_line_of_meaning_each(rows: list[Row]) -> None:
    meanings = theme_meanings()
    used = Counter(theme for row in rows for theme in row["themes"].split("|"))
    assert [theme for theme in meanings if used[theme] < 2] == [], "a theme that nothing shares"
    assert all(len(meaning) <= 80 for meaning in meanings.values())


def test_it_loads_with_its_other_titles(rows: list[Row], titles: Catalogue) -> None:
    assert len(titles) == len(rows)
    assert set(titles.categories) == GENRES
    at = int(titles.positions(["the-good-the-bad-and-the-ugly-1966"])[0])
    assert titles.years[at] == 1966
    assert titles.extra is not None
    row = {name: titles.extra[name][at].as_py() for name in titles.extra.column_names}
    assert (row["kind"], row["country"], row["de"]) == ("film", "Italy", "Zwei glorreiche Halunken")
    assert row["alternatives"].split("|") == [
        "Il buono, il brutto, il cattivo", "Zwei glorreiche Halunken",
        "Le Bon, la Brute et le Truand", "El bueno, el feo y el malo",
    ]  # fmt: skip


def test_every_film_of_the_smaller_catalogue_has_its_id_here(titles: Catalogue) -> None:
    films = load_catalogue("films")
    assert [i for i, at in zip(films.item_ids, titles.positions(films.item_ids), strict=True)
            if at < 0] == []  # fmt: skip


@pytest.mark.realdata
def test_it_is_our_own_and_right_about_years(real_data, titles: Catalogue) -> None:
    """Beside a list of 6,000 films: much that it does not have; and where both have films of one
    title, at least one of them in the same year."""
    if not (real_data / "catalogue-6000").is_dir():
        pytest.skip(f"needs catalogue-6000, which is not in {real_data}")
    other = load_catalogue(real_data / "catalogue-6000")
    assert titles.extra is not None
    here, there = defaultdict(set), defaultdict(set)
    for title, year, kind in zip(titles.titles, titles.years, titles.extra["kind"], strict=True):
        if kind.as_py() == "film":
            here[str(title).casefold()].add(int(year))
    for title, year in zip(other.titles, other.years, strict=True):
        there[str(title).casefold()].add(int(year))
    films = sum(map(len, here.values()))
    absent = sum(len(years) for title, years in here.items() if title not in there)
    assert absent / films >= 0.15
    both = here.keys() & there.keys()
    assert len(both) >= 1_000
    assert sum(bool(here[title] & there[title]) for title in both) / len(both) >= 0.99
