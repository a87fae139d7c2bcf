"""Named data sets and file formats: what each file says arrives, and bad files are named."""

import subprocess
import sys

import pytest

from epicrec.data import available, describe, load_dataset
from epicrec.data.datasets import load_catalogue, write_dataset
from epicrec.errors import InputError


def test_embedded() -> None:
    films = load_dataset("films")
    assert films.catalogue is not None
    assert films.ratings.item_ids.tolist() == films.catalogue.item_ids.tolist()
    figures = describe(films)
    assert figures["users"] == 600
    assert figures["items_listed"] == len(films.catalogue)


@pytest.fixture
def folder(tmp_path):
    def write(**files: str):
        for name, text in files.items():
            path = tmp_path / name.replace("__", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode("latin-1"))
        return tmp_path

    return write


def rows(dataset) -> list[tuple]:
    return [tuple(row.values()) for row in dataset.ratings.to_table().to_pylist()]


def test_movielens_dat(folder) -> None:
    at = folder(
        ratings__dat="1::10::5::978300760\n2::10::3::978302109\n",
        movies__dat='10::"Great Performances" Café (1999)::Drama|Music\n11::Ants::\n',
    )
    dataset = load_dataset(at)
    assert rows(dataset) == [(1, 10, 5.0, 978300760), (2, 10, 3.0, 978302109)]
    assert dataset.catalogue.titles.tolist() == ['"Great Performances" Café (1999)', "Ants"]
    assert dataset.catalogue.categories_of(0) == ("Drama", "Music")
    assert dataset.ratings.item_ids.tolist() == [10, 11], "unrated items are listed too"


def test_movielens_100k(folder) -> None:
    flags = "|".join("1" if k in (1, 5) else "0" for k in range(19))
    at = folder(
        u__data="1\t7\t4\t881250949\n",
        u__item=f"7|Toy Story (1995)|01-Jan-1995||http://x|{flags}\n",
    )
    dataset = load_dataset(at)
    assert rows(dataset) == [(1, 7, 4.0, 881250949)]
    assert dataset.catalogue.categories_of(0) == ("Action", "Comedy")
    assert dataset.catalogue.years.tolist() == [1995]


def test_movielens_csv(folder) -> None:
    at = folder(
        ratings__csv="userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n",
        movies__csv='movieId,title,genres\n2,"Jumanji, the (1995)",Adventure|Children\n',
    )
    dataset = load_dataset(at)
    assert rows(dataset) == [(1, 2, 3.5, 1112486027)]
    assert dataset.catalogue.titles[0] == "Jumanji, the (1995)"


def test_netflix_text(folder) -> None:
    at = folder(
        combined_data_1__txt="1:\n30878,4,2005-12-26\n88,3,2004-01-01\n2:\n",
        combined_data_2__txt="5:\n88,5,2005-08-19\n",
        movie_titles__csv="1,2003,Dinosaur Planet\n5,NULL,The Rise, and Fall\n",
    )
    dataset = load_dataset(at)
    assert [row[:3] for row in rows(dataset)] == [(88, 1, 3.0), (88, 5, 5.0), (30878, 1, 4.0)]
    assert dataset.ratings.timestamps is not None
    assert dataset.catalogue.titles.tolist() == ["Dinosaur Planet", "The Rise, and Fall"]


def test_parquet_and_mapped_round_trip(tmp_path, viewers, films) -> None:
    from epicrec.data import Dataset

    for mapped in (False, True):
        at = tmp_path / f"copy-{mapped}"
        write_dataset(Dataset("films", viewers, films), at, mapped=mapped)
        back = load_dataset(at)
        assert back.ratings.to_table().equals(viewers.to_table())
        assert back.catalogue.to_table().equals(films.to_table())
        assert load_catalogue(at).categories == films.categories


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ratings__csv": ""}, "ratings.csv is empty"),
        ({"ratings__csv": "user_id,item_id,rating\n"}, "no ratings"),
        ({"ratings__csv": "user_id,rating\n1,2\n"}, "no column 'item_id'"),
        ({"ratings__csv": "user_id,item_id,rating\n1,2\n3\n"}, "line 2 of .*ratings.csv: 2 col"),
        ({"ratings__parquet": "not parquet"}, "cannot read .*ratings.parquet"),
        ({"ratings__dat": "1::2::9::3\n1::3::99::4\n"}, "line 2 of .*dat: rating 99"),
        ({"items__csv": "item_id,title,genres\n"}, "holds no ratings"),
        ({"combined_data_1__txt": "rubbish"}, "holds no Netflix ratings"),
    ],
)
def test_bad_files_are_named(folder, files, message) -> None:
    with pytest.raises(InputError, match=message):
        load_dataset(folder(**files))


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"no data set 'nowhere'.*EPICREC_DATA"):
        load_dataset("nowhere")
    with pytest.raises(InputError, match="no catalogue 'nowhere'"):
        load_catalogue("nowhere")


def test_unknown_format(tmp_path) -> None:
    (tmp_path / "ratings.xlsx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"unknown format '\.xlsx'"):
        load_dataset(tmp_path / "ratings.xlsx")


def test_named_by_environment(folder, monkeypatch) -> None:
    at = folder(ratings__csv="user_id,item_id,rating\n1,2,3\n")
    monkeypatch.setenv("EPICREC_DATA", str(at.parent))
    assert available()[at.name] == at
    assert len(load_dataset(at.name).ratings) == 1


@pytest.mark.realdata
@pytest.mark.soak
def test_netflix_loads_in_three_gigabytes(real_data) -> None:
    code = (
        "import resource; from epicrec.data import load_dataset;"
        f"d = load_dataset({str(real_data / 'netflix')!r});"
        "print(len(d.ratings), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, peak_kib = map(int, done.stdout.split())
    assert count == 100_030_967
    assert peak_kib < 3 * 1024**2
