"""Works: the same film in every list, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicrec.client.matching.catalogues import read_catalogue
from epicrec.data import Catalogue
from epicrec.data.catalogue import with_text_ids
from epicrec.data.datasets import load_catalogue
from epicrec.data.works import catalogue_works, work_ids, works_of


@pytest.fixture
def movielens(tmp_path: Path) -> Catalogue:
    (tmp_path / "movies.csv").write_text(
        'movieId,title,genres\n6,Heat (1995),Action\n7,"Matrix, The (1999)",Action\n'
        '29,"City of Lost Children, The (Cité des enfants perdus, La) (1995)",Fantasy\n'
        "9,Heat (1986),Crime\n"
    )
    (tmp_path / "links.csv").write_text(
        "movieId,imdbId,tmdbId\n6,0113277,949\n7,0133093,603\n29,0112682,902\n9,0093164,11850\n"
    )
    return with_text_ids(read_catalogue(tmp_path))


@pytest.fixture
def tmdb(tmp_path: Path) -> Catalogue:
    path = tmp_path / "tmdb.csv"
    path.write_text(
        "id,title,genre,release_date,vote_count,overview,original_title\n"
        "949,Heat,Action,1995-12-15,5000,a,Heat\n603,Matrix,Action,1999-03-31,9000,b,The Matrix\n"
        "902,La Cité des enfants perdus,Fantasy,1995-05-17,900,c,La Cité des enfants perdus\n"
    )
    return with_text_ids(read_catalogue(path))


@pytest.mark.parametrize(
    ("in_movielens", "in_tmdb", "in_films"),
    [("6", "949", "heat-1995"), ("7", "603", "the-matrix-1999"), ("29", "902", None)],
)
def test_one_film_in_three_lists(
    movielens: Catalogue, tmdb: Catalogue, in_movielens: str, in_tmdb: str, in_films: str | None
) -> None:
    films = load_catalogue("films")
    found = [works_of(movielens, in_movielens), works_of(tmdb, in_tmdb)]
    found += [works_of(films, in_films)] if in_films else []
    for one in found:
        for other in found:
            assert one & other


def test_remakes_and_namesakes_are_others(movielens: Catalogue) -> None:
    films = load_catalogue("films")
    assert not works_of(movielens, "9") & works_of(films, "heat-1995")
    assert not works_of(films, "dune-1984") & works_of(films, "dune-2021")
    assert not work_ids("Fargo", 1996) & work_ids("Fargo", 1996, kind="series")
    assert not work_ids("Solaris", 1972) & work_ids("Solaris", 2002)


def test_lists_disagree_by_a_year_and_by_an_article() -> None:
    assert work_ids("The Kid", 1921) & work_ids("Kid, The", 1920)
    assert work_ids("Rocky II", 1979) & work_ids("Rocky 2", 1979)
    assert not work_ids("Rocky II", 1979) & work_ids("Rocky", 1976)


def test_what_has_no_title_is_known_by_its_id_alone() -> None:
    bare = Catalogue.from_columns(["a", "b"], ["", "!?"], ["Crime", "War"])
    assert works_of(bare, "a") != works_of(bare, "b")
    assert works_of(bare, "nowhere") == {"item nowhere"}


def test_the_embedded_films_are_all_different() -> None:
    films = load_catalogue("films")
    seen: dict[str, str] = {}
    for item in map(str, films.item_ids):
        for work in works_of(films, item):
            assert seen.setdefault(work, item) == item, work


def test_a_series_is_another_work_than_the_film_of_its_title_and_year() -> None:
    titles = load_catalogue("titles")
    film, series = works_of(titles, "batman-1966"), works_of(titles, "batman-series-1966")
    assert film
    assert series
    assert not film & series


def test_works_are_an_equivalence_of_the_catalogue_alone() -> None:
    """A chain of near years is one work whatever the order of the entries, and a twin is one bit
    of a list even where its own name is met late."""
    rows = [("a", "Dune", 1984), ("b", "Dune", 1986), ("c", "Dune", 1985), ("d", "Dune", 2021)]
    for turned in (rows, rows[::-1]):
        ids, titles, years = zip(*turned, strict=True)
        films = Catalogue.from_columns(list(ids), list(titles), [""] * 4, year=list(years))
        assert catalogue_works(films).of_item.tolist() == [0, 0, 0, 1]


def test_the_version_of_works_names_their_list_and_categories() -> None:
    def made(title: str, genre: str) -> str:
        films = Catalogue.from_columns([1, 2], ["Heat", title], ["Crime", genre], year=[1995, 1995])
        return catalogue_works(films).version

    assert made("Up", "Art") == made("Up", "Art")
    assert len({made("Up", "Art"), made("Heat", "Art"), made("Up", "War")}) == 3


def test_the_embedded_lists_have_few_twins() -> None:
    for name in ("films", "titles"):
        works = catalogue_works(load_catalogue(name))
        assert 0.98 * len(works.of_item) < len(works) <= len(works.of_item)
