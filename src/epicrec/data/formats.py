"""Formats: what the files of a data set are called, its catalogue, and what it says of itself."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from epicrec.data.scale import Scale
from epicrec.errors import InputError

DESCRIPTION = "dataset.toml"
"""What a folder says of its ratings: the public scale, as in scale = "1:5:1"."""

ALIASES = {"userid": "user_id", "movieid": "item_id", "itemid": "item_id", "movie_id": "item_id"}
"""Other people's names of our columns, in lower case."""
_ML_100K_GENRES = [
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary",
    "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi",
    "Thriller", "War", "Western",
]  # fmt: skip
_RATING_FILES = (
    "ratings.parquet", "ratings.csv", "ratings.csv.gz", "ratings.csv.zst", "ratings.dat", "u.data",
    "training_set", "combined_data_1.txt",
)  # fmt: skip
_ITEM_FILES = (
    "items.parquet", "items.csv", "movies.csv", "movies.dat", "u.item", "movie_titles.csv",
    "movie_titles.txt",
)  # fmt: skip


def ratings_file(folder: Path) -> Path | None:
    """The ratings among a folder's files, whichever format they have, or the folder itself where it
    holds the parts of a table."""
    named = (folder / name for name in _RATING_FILES if (folder / name).exists())
    return next(named, folder if any(folder.glob("part-*")) else None)


def items_file(folder: Path) -> Path | None:
    """The catalogue among a folder's files, whichever format it has."""
    return next((folder / name for name in _ITEM_FILES if (folder / name).exists()), None)


def read_scale(folder: Path) -> Scale | None:
    """The scale in a folder's description, where there is one."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return None
    try:
        text = tomllib.loads(_text(path)).get("scale")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f'cannot read {path}: {error}. Write scale = "1:5:1"') from error
    if text is not None and not isinstance(text, str):
        raise InputError(f'{path}: the scale is text, low:high:step. Write scale = "1:5:1"')
    return None if text is None else Scale.parse(text)


def write_scale(folder: Path, scale: Scale) -> None:
    """Describe a folder's ratings, for `read_scale`."""
    (folder / DESCRIPTION).write_text(f'scale = "{scale.text}"\n', encoding="utf-8")


def read_items_table(path: Path) -> pa.Table:
    """Parquet, CSV, MovieLens `.dat` and `u.item`, Netflix `movie_titles`."""
    if path.name == "u.item":
        table = _read(path, ["item_id", "title", "release_date", "video", "url", *_ML_100K_GENRES])
        flags = [table[name].to_pylist() for name in _ML_100K_GENRES]
        genres = [
            "|".join(name for name, flag in zip(_ML_100K_GENRES, row, strict=True) if flag)
            for row in zip(*flags, strict=True)
        ]
        return table.select(["item_id", "title", "release_date"]).append_column("genres", [genres])
    if path.name.startswith("movie_titles"):
        lines = [line.split(",", 2) for line in _text(path).splitlines() if line]
        year = [int(y) if y.isdigit() else 0 for _, y, _ in lines]
        return pa.table(
            {
                "item_id": [int(i) for i, _, _ in lines],
                "title": [title for _, _, title in lines],
                "year": year,
                "genres": [""] * len(lines),
            }
        )
    return _read(path, ["item_id", "title", "genres"])


def _read(path: Path, names: list[str]) -> pa.Table:
    """Any tabular file; `names` are the columns of the formats that have no header."""
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty; give a file with at least one row")
        if path.suffix == ".parquet":
            return _renamed(pa_parquet.read_table(path, memory_map=True))
        if path.suffix == ".dat":
            data = _text(path).replace("\t", " ").replace("::", "\t")
            return _read_csv(io.BytesIO(data.encode()), "\t", names)
        if path.name == "u.item":
            return _read_csv(io.BytesIO(_text(path).encode()), "|", names)
        if path.suffix in (".csv", ".tsv", ".txt"):
            return _renamed(_read_csv(path, "," if path.suffix == ".csv" else "\t", None))
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"cannot read {path}: {error}. A list of items is a file with the columns item_id, "
            "title, genres: Parquet, or CSV with commas and '|' between genres"
        ) from error
    raise InputError(f"{path}: unknown format {path.suffix!r}; use .parquet, .csv or .dat")


def _read_csv(source: object, delimiter: str, names: list[str] | None) -> pa.Table:
    # the titles in MovieLens .dat files hold unpaired quotes, so only a real CSV is unquoted
    quote = '"' if names is None else False
    return pa_csv.read_csv(
        source,
        read_options=pa_csv.ReadOptions(column_names=names),
        parse_options=pa_csv.ParseOptions(
            delimiter=delimiter, quote_char=quote, newlines_in_values=names is None
        ),
    )


def _renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns([ALIASES.get(n.lower(), n) for n in table.column_names])


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return path.read_bytes().decode("latin-1")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
