"""Catalogues: lists of films from MovieLens, IMDb or TMDB, read as our catalogue and merged.

Whatever the source, titles come out as they are spoken ("The Matrix", not "Matrix, The (1999)"),
other titles in `alternatives`, and the numbers that name a film elsewhere in `imdb_id`, `tmdb_id`.
"""

from __future__ import annotations

import gzip
import re
import tempfile
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from epicrec.client.imports.archives import is_zip, unpack
from epicrec.client.matching.titles import ParsedTitle, read_title
from epicrec.data.catalogue import Catalogue
from epicrec.data.formats import items_file, read_items_table
from epicrec.data.works import FILM, as_number, column, imdb_number, normalise, works_of
from epicrec.errors import InputError
from epicrec.progress import report

ADDED = "catalogue.parquet"
"""The file that the list is in once something was added."""
MOST_FILMS = 10_000
"""How many of IMDb's films are kept, the most voted first."""

_MOVIELENS_FILES = ("movies.csv", "links.csv", "movies.dat", "u.item")
_BASICS = ("title.basics.tsv.gz", "title.basics.tsv")
_VOTES = ("title.ratings.tsv.gz", "title.ratings.tsv")
_IMDB_FILMS = ("movie", "tvMovie")
_MAX_ZIP = 512 * 2**20
_KEPT = ("kind", "country", "original_title", "alternatives", "imdb_id", "tmdb_id")
_LESS_KNOWN = 5.0  # what a list of somebody else's adds is less known than what ours has

Links = dict[Any, tuple[Any, Any]]
"""MovieLens' id of a film → its numbers at IMDb and TMDB."""


def read_catalogue(path: str | Path, *, most: int = MOST_FILMS) -> Catalogue:
    """A catalogue from a file, a folder or a zip.

    MovieLens (folder, zip, or its file of films; the numbers come from `links.csv` beside it),
    IMDb's `title.basics.tsv` (with `title.ratings.tsv` beside it, to keep the `most` voted), or
    Parquet and CSV with the columns of TMDB.
    """
    path = Path(path)
    try:
        if path.is_file() and path.suffix.lower() == ".zip":
            return _read_zip(path)
        if path.is_dir():
            basics = _first(path, _BASICS)
            inside = basics or items_file(path)
            if inside is None:
                raise InputError(
                    f"{path} holds no list of films; expected movies.csv, movies.dat, u.item, "
                    "title.basics.tsv or items.parquet"
                )
            path = inside
        if not path.is_file():
            raise InputError(f"there is no file {path}; choose the list of films")
        if path.name in _BASICS:
            return Catalogue.from_table(_read_imdb(path, most))
        return Catalogue.from_table(_tidy(read_items_table(path), _links(path.parent)))
    except (OSError, EOFError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}. Download it again and retry") from error


def merged(catalogue: Catalogue, other: Catalogue) -> Catalogue:
    """A catalogue with the works of another added that it has not; those it has keep their ids, and
    get the numbers that they have elsewhere."""
    by_work: dict[str, int] = {}
    for at, item in enumerate(catalogue.item_ids.tolist()):
        for name in works_of(catalogue, item):
            by_work.setdefault(name, at)
    rows = [_row(catalogue, at, str(item)) for at, item in enumerate(catalogue.item_ids)]
    taken = {row["item_id"] for row in rows}
    scale = _most(catalogue) / _most(other)
    for at, item in enumerate(other.item_ids.tolist()):
        if at % 1_000 == 0:
            report("adding titles", at, len(other))
        row = _row(other, at, str(item))
        names = works_of(other, item)
        same = next((by_work[name] for name in sorted(names) if name in by_work), None)
        if same is not None:
            for number in ("imdb_id", "tmdb_id"):
                rows[same][number] = rows[same][number] or row[number]
            continue
        row["item_id"] = _stable_id(row, taken)
        row["popularity"] = min(scale * row["popularity"], _LESS_KNOWN)
        taken.add(row["item_id"])
        by_work.update(dict.fromkeys(names, len(rows)))
        rows.append(row)
    return Catalogue.from_table(pa.Table.from_pylist(rows))


def _most(catalogue: Catalogue) -> float:
    return max(float(catalogue.popularity.max()), 1.0) if catalogue.popularity is not None else 1.0


def _row(catalogue: Catalogue, at: int, item_id: str) -> dict[str, Any]:
    known = catalogue.popularity
    texts = {name: column(catalogue, name, at) or "" for name in _KEPT}
    return texts | {
        "item_id": item_id, "title": str(catalogue.titles[at]),
        "genres": "|".join(catalogue.categories_of(at)), "year": int(catalogue.years[at]),
        "popularity": 1.0 if known is None else float(known[at]),
    }  # fmt: skip


def _stable_id(row: dict[str, Any], taken: set[str]) -> str:
    """The number that most lists have, else title and year as in ours."""
    if row["imdb_id"]:
        return str(row["imdb_id"])
    if row["tmdb_id"]:
        return f"tmdb-{row['kind'] or FILM}-{row['tmdb_id']}"
    plain = "-".join(normalise(row["title"]).split()) or "untitled"
    name = f"{plain}-{row['year']}"
    return name if name not in taken else f"{name}-{len(taken)}"


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_zip(path: Path) -> Catalogue:
    if path.stat().st_size > _MAX_ZIP:
        raise InputError(
            f"{path} has more than {_MAX_ZIP // 2**20} MB; unpack it and choose the folder"
        )
    data = path.read_bytes()
    if not is_zip(data):
        raise InputError(f"{path} is no zip; download it again")
    files = unpack(path.name, data, lambda name: PurePosixPath(name).name in _MOVIELENS_FILES)
    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        for name, content in files.items():  # by their own name alone: no path leads out
            (Path(folder) / PurePosixPath(name).name).write_bytes(content)
        if items_file(Path(folder)) is None:
            raise InputError(
                f"{path} holds no list of films; expected MovieLens' movies.csv, movies.dat or "
                "u.item"
            )
        return read_catalogue(folder)


def _tidy(table: pa.Table, links: Links) -> pa.Table:
    """The table with our columns; its other columns are kept."""
    table = _with_our_names(table)
    readings = [read_title(str(title or "")) for title in table["title"].to_pylist()]
    imdb_ids, tmdb_ids = _numbers_elsewhere(table, links)
    tidy: dict[str, Any] = {
        "item_id": table["item_id"],
        "title": [reading.title for reading in readings],
        "genres": [_genres(text) for text in table["genres"].to_pylist()],
        "year": _years(table, readings),
        "imdb_id": [imdb_number(number) for number in imdb_ids],
        "tmdb_id": [as_number(number) for number in tmdb_ids],
        "alternatives": _alternatives(table, readings),
    }
    names = table.column_names
    popularity = "popularity" if "popularity" in names else "vote_count"
    if popularity in names:
        tidy["popularity"] = pc.cast(table[popularity], pa.float64())
    kept = [n for n in names if n not in {*tidy, "genre", "original_title"}]
    return pa.table(tidy | {name: table[name] for name in kept})


def _with_our_names(table: pa.Table) -> pa.Table:
    """`item_id` and `genres` under these names, where the list says `id` and `genre`."""
    names = list(table.column_names)
    for ours, theirs in (("item_id", "id"), ("genres", "genre")):
        if ours not in names:
            names = [ours if name == theirs else name for name in names]
    found = f"found {', '.join(table.column_names)}"
    if "item_id" not in names:
        raise InputError(f"the list has no column item_id or id; {found}")
    if "title" not in names or "genres" not in names:
        raise InputError(f"the list has no columns title and genres; {found}")
    return table.rename_columns(names)


def _values(table: pa.Table, name: str) -> list[Any]:
    """A column's values, None for each row where there is no such column."""
    return table[name].to_pylist() if name in table.column_names else [None] * table.num_rows


def _numbers_elsewhere(table: pa.Table, links: Links) -> tuple[list[Any], list[Any]]:
    """Each film's number at IMDb and at TMDB: in a column of its own, else by MovieLens' links; in
    a list of TMDB's own the id is the number there."""
    names = set(table.column_names)
    ids = table["item_id"].to_pylist()
    linked = [links.get(i, (None, None)) for i in ids]
    imdb_ids, tmdb_ids = [imdb for imdb, _ in linked], [tmdb for _, tmdb in linked]
    if "vote_count" in names and names & {"poster_url", "poster_path", "overview"}:
        tmdb_ids = ids
    return (
        _values(table, "imdb_id") if "imdb_id" in names else imdb_ids,
        _values(table, "tmdb_id") if "tmdb_id" in names else tmdb_ids,
    )


def _years(table: pa.Table, readings: list[ParsedTitle]) -> list[int]:
    """From its column, else from the title, else from the day it came out; 0 for unknown."""
    years, dates = _values(table, "year"), _values(table, "release_date")
    return [
        _year(year) or reading.year or _year(date) or 0
        for year, date, reading in zip(years, dates, readings, strict=True)
    ]


def _alternatives(table: pa.Table, readings: list[ParsedTitle]) -> list[str]:
    """'|' between a film's other titles: those in brackets behind the title, and the original."""
    return [
        "|".join(dict.fromkeys(n for n in (*r.alternatives, o) if n and n != r.title))
        for r, o in zip(readings, _values(table, "original_title"), strict=True)
    ]


def _year(value: Any) -> int | None:
    """From a number or from any form of date."""
    found = re.search(r"(?:1[89]|20)\d\d", str(value or ""))
    return int(found.group()) if found else None


def _genres(value: Any) -> str:
    """'|' between genres, from such a text, one with commas, or a list of names or records."""
    if isinstance(value, list):
        names = [str(g["name"]) if isinstance(g, dict) and "name" in g else str(g) for g in value]
        return "|".join(names)
    text = str(value or "")
    return text if "|" in text else "|".join(part.strip() for part in text.split(","))


def _links(folder: Path) -> Links:
    """MovieLens' numbers at IMDb and TMDB, where the file is there."""
    path = folder / "links.csv"
    if not path.is_file():
        return {}
    table = pa_csv.read_csv(path)
    if not {"movieId", "imdbId", "tmdbId"} <= set(table.column_names):
        return {}
    rows = zip(*(table[n].to_pylist() for n in ("movieId", "imdbId", "tmdbId")), strict=True)
    return {movie: (imdb, tmdb) for movie, imdb, tmdb in rows}


def _read_imdb(path: Path, most: int) -> pa.Table:
    votes_file = _first(path.parent, _VOTES)
    votes = _read_tsv(votes_file, ["tconst", "numVotes"]) if votes_file else None
    films = _read_tsv(
        path,
        ["tconst", "titleType", "primaryTitle", "originalTitle", "isAdult", "startYear", "genres"],
    )
    if votes is not None:
        films = films.join(votes, "tconst").sort_by([("numVotes", "descending")]).slice(0, most)
    if films.num_rows > most:
        raise InputError(
            f"{path} lists {films.num_rows:,} films; put title.ratings.tsv beside it, so that the "
            f"{most:,} best known can be kept"
        )
    if films.num_rows == 0:
        raise InputError(f"{path} lists no films; give IMDb's title.basics.tsv")
    titles, originals = films["primaryTitle"].to_pylist(), films["originalTitle"].to_pylist()
    table = {
        "item_id": films["tconst"],
        "title": titles,
        "genres": [_genres(text) for text in films["genres"].to_pylist()],
        "year": [_year(year) or 0 for year in films["startYear"].to_pylist()],
        "imdb_id": films["tconst"],
        "alternatives": [o if o and o != t else "" for t, o in zip(titles, originals, strict=True)],
    }
    if votes is not None:
        table["popularity"] = pc.cast(pc.fill_null(films["numVotes"], "0"), pa.float64())
    return pa.table(table)


def _read_tsv(path: Path, columns: list[str]) -> pa.Table:
    """These columns as text; of titles only the films. Read in parts: IMDb's file has 1 GB."""
    size = path.stat().st_size
    packed = path.suffix == ".gz"
    with path.open("rb") as raw, gzip.open(raw) if packed else nullcontext(raw) as content:
        reader = pa_csv.open_csv(
            pa.PythonFile(content, "r"),
            parse_options=pa_csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pa_csv.ConvertOptions(
                include_columns=columns,
                column_types={name: pa.string() for name in columns},
                null_values=["\\N"],
                strings_can_be_null=True,
            ),
        )
        parts = []
        for batch in reader:
            report(f"reading {path.name}", min(raw.tell(), size), size)
            part = pa.Table.from_batches([batch])
            if "titleType" in columns:
                film = pc.is_in(part["titleType"], pa.array(_IMDB_FILMS))
                part = part.filter(pc.and_(film, pc.equal(part["isAdult"], "0")))
            parts.append(part)
    return pa.concat_tables(parts)
