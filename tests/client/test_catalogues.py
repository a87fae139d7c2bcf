"""Catalogues that people have: MovieLens, IMDb and TMDB come out alike."""

import gzip
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epicrec.client.matching.catalogues import read_catalogue
from epicrec.client.matching.matcher import Matcher
from epicrec.client.viewing import Viewing
from epicrec.errors import InputError

MOVIES = (
    "movieId,title,genres\n"
    '1,"Matrix, The (1999)",Action|Sci-Fi\n'
    '2,"City of Lost Children, The (Cité des enfants perdus, La) (1995)",Fantasy\n'
    "3,Nameless,(no genres listed)\n"
)
LINKS = "movieId,imdbId,tmdbId\n1,0133093,603\n2,0112682,902\n3,0000003,\n"
BASICS = (
    "tconst\ttitleType\tprimaryTitle\toriginalTitle\tisAdult\tstartYear\tendYear\t"
    "runtimeMinutes\tgenres\n"
    "tt0133093\tmovie\tThe Matrix\tThe Matrix\t0\t1999\t\\N\t136\tAction,Sci-Fi\n"
    'tt0245429\tmovie\tSpirited "Away\tSen to Chihiro\t0\t2001\t\\N\t125\tAnimation\n'
    "tt0000009\tmovie\tObscure\tObscure\t0\t\\N\t\\N\t\\N\t\\N\n"
    "tt0903747\ttvSeries\tBreaking Bad\tBreaking Bad\t0\t2008\t2013\t49\tCrime\n"
    "tt0000010\tmovie\tFor adults\tFor adults\t1\t2001\t\\N\t125\tDrama\n"
)
VOTES = "tconst\taverageRating\tnumVotes\ntt0133093\t8.7\t2000000\ntt0245429\t8.6\t800000\n"


def check_movielens(path: Path) -> None:
    films = read_catalogue(path)
    assert films.titles.tolist() == ["The Matrix", "The City of Lost Children", "Nameless"]
    assert films.years.tolist() == [1999, 1995, 0]
    assert films.categories_of(0) == ("Action", "Sci-Fi")
    assert films.categories_of(2) == ()
    extra = films.extra.to_pydict()
    assert extra["imdb_id"] == ["tt0133093", "tt0112682", "tt0000003"]
    assert extra["tmdb_id"] == ["603", "902", None]
    assert extra["alternatives"] == ["", "La Cité des enfants perdus", ""]
    found = Matcher(films).match(Viewing("La cite des enfants perdus", "Trakt", year=1995))
    assert found.item_id == 2


def test_movielens_from_folder_file_and_zip(tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text(MOVIES)
    (tmp_path / "links.csv").write_text(LINKS)
    check_movielens(tmp_path)
    check_movielens(tmp_path / "movies.csv")
    with zipfile.ZipFile(tmp_path / "ml.zip", "w") as archive:
        archive.writestr("../../ml-latest-small/movies.csv", MOVIES)
        archive.writestr("../../ml-latest-small/links.csv", LINKS)
        archive.writestr("ml-latest-small/ratings.csv", "userId,movieId,rating,timestamp\n")
    check_movielens(tmp_path / "ml.zip")


def test_movielens_dat(tmp_path: Path) -> None:
    (tmp_path / "movies.dat").write_bytes("1::Amélie (2001)::Comedy|Romance\n".encode("latin-1"))
    films = read_catalogue(tmp_path)
    assert (films.title_of(1), films.years.tolist()) == ("Amélie", [2001])


@pytest.mark.parametrize("packed", [True, False])
def test_imdb(tmp_path: Path, packed: bool) -> None:
    for name, text in (("title.basics.tsv", BASICS), ("title.ratings.tsv", VOTES)):
        if packed:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (tmp_path / name).write_text(text)
    films = read_catalogue(tmp_path, most=2)
    assert films.item_ids.tolist() == ["tt0133093", "tt0245429"]
    assert films.titles.tolist() == ["The Matrix", 'Spirited "Away']
    assert films.years.tolist() == [1999, 2001]
    assert films.categories_of(0) == ("Action", "Sci-Fi")
    assert films.popularity is not None
    assert films.popularity.tolist() == [2000000, 800000]
    everything = read_catalogue(tmp_path)
    assert len(everything) == 3
    assert Matcher(films).match(Viewing("Sen to Chihiro", "x")).item_id == "tt0245429"


def test_imdb_without_votes_is_not_cut_at_random(tmp_path: Path) -> None:
    (tmp_path / "title.basics.tsv").write_text(BASICS)
    assert len(read_catalogue(tmp_path)) == 3
    with pytest.raises(InputError, match=r"lists 3 films; put title.ratings.tsv beside it"):
        read_catalogue(tmp_path, most=2)


def test_tmdb_in_its_forms(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [603, 27205],
            "title": ["The Matrix", "Origen"],
            "original_title": ["The Matrix", "Inception"],
            "release_date": ["1999-03-30", None],
            "genres": [[{"id": 28, "name": "Action"}, {"id": 878, "name": "Science Fiction"}], []],
            "vote_count": [25000.0, None],
            "overview": ["x", "y"],
        }
    )
    pq.write_table(table, tmp_path / "tmdb.parquet")
    films = read_catalogue(tmp_path / "tmdb.parquet")
    assert films.years.tolist() == [1999, 0]
    assert films.categories_of(0) == ("Action", "Science Fiction")
    assert films.extra["tmdb_id"].to_pylist() == ["603", "27205"]
    assert films.extra["overview"].to_pylist() == ["x", "y"]
    assert films.popularity is not None
    assert films.popularity.tolist() == [25000, 0]
    assert Matcher(films).match(Viewing("Inception", "x", year=2010)).item_id == 27205
    (tmp_path / "tmdb.csv").write_text('id,title,year,genres\n5,Heat,1995,"Crime, Drama"\n')
    assert read_catalogue(tmp_path / "tmdb.csv").categories_of(0) == ("Crime", "Drama")


def test_what_stands_in_a_column_goes_before_what_can_be_guessed(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text(
        "item_id,title,genre,year,imdb_id,tmdb_id,vote_count,popularity,overview,original_title\n"
        "7,Heat (1986),Crime,1995,113277,949,10,2.5,x,Heat\n"
    )
    films = read_catalogue(path)
    assert (films.titles.tolist(), films.years.tolist()) == (["Heat"], [1995])
    assert films.categories_of(0) == ("Crime",)
    assert films.popularity is not None
    assert films.popularity.tolist() == [2.5]
    (extra,) = films.extra.to_pylist()
    assert (extra["imdb_id"], extra["tmdb_id"]) == ("tt0113277", "949")
    assert extra["alternatives"] == ""
    assert not {"genre", "original_title"} & set(extra)


def test_an_id_is_tmdbs_number_only_in_a_list_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text("id,title,genres,release_date\n5,Heat (1995),Crime,1996-02-01\n")
    films = read_catalogue(path)
    assert films.years.tolist() == [1995], "the title's year goes before the day it came out"
    (extra,) = films.extra.to_pylist()
    assert (extra["imdb_id"], extra["tmdb_id"]) == (None, None)
    assert str(extra["release_date"]) == "1996-02-01"


@pytest.mark.realdata
def test_real_catalogues(real_data: Path) -> None:
    large = read_catalogue(real_data / "catalogue-6000")
    assert (len(large), len(large.categories)) == (6000, 19)
    assert large.title_of(27205) == "Inception"
    assert large.extra["imdb_id"].null_count < 100
    small = read_catalogue(real_data / "ml-latest-small-2016")
    assert len(small) == 9125
    assert small.title_of(2571) == "The Matrix"
    assert Matcher(small).match(Viewing("x", "IMDb", imdb_id="tt0133093")).item_id == 2571


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("movies.csv", b"", "is empty"),
        ("movies.csv", b"movieId,name\n1,Heat\n", "no columns title and genres"),
        ("films.csv", b"number,title,genres\n1,Heat,Crime\n", "no column item_id or id"),
        ("items.parquet", b"PAR1 and nothing", "cannot read"),
        ("title.basics.tsv.gz", b"not packed", "cannot read"),
        ("title.basics.tsv", b"a\tb\n1\t2\n", "cannot read"),
        ("ml.zip", b"PK\x03\x04 broken", "damaged zip"),
        ("ml.zip", b"text", "is no zip"),
        ("films.xlsx", b"x", "unknown format"),
    ],
)
def test_unusable_lists_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_catalogue(tmp_path / name)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no list of films"):
        read_catalogue(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        read_catalogue(tmp_path / "nothing.csv")


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, epicrec.client.web.posters, epicrec.client.matching.catalogues;"
        "import epicrec.client.matching.matcher;"
        "print({'numba', 'pandas', 'scipy', 'epicrec.server'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
