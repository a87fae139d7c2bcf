"""Embedded lists: the films and series that come with the package, so that all runs offline.

`films` is a short list with the fame of each film; simulated viewers rate it (`simulate`). `titles`
is a long list of films and series with facts about them, with which a client begins. It is kept in
`titles/`, one line a title: films in a file per decade and series in one, ordered by year and
title, so that a change reads as one line. What is not known for certain is empty.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from epicrec.arrays import Floats
from epicrec.data.catalogue import Catalogue, with_text_ids
from epicrec.data.ids import find

EMBEDDED = "films"
"""The name of the data set that is always there: real film titles, simulated viewers."""

TITLES = "titles"
"""The name of the larger catalogue that is always there: films and series, without viewers."""

LANGUAGES = ("de", "fr", "es", "it")
"""The languages whose release titles are given; empty where they are not known."""

FILMS_SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("title", pa.string()),
        ("year", pa.int32()),
        ("genres", pa.string()),
        ("popularity", pa.int32()),
    ]
)
TITLES_SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("kind", pa.string()),
        ("title", pa.string()),
        ("year", pa.int32()),
        ("genres", pa.string()),
        ("country", pa.string()),
        ("original_title", pa.string()),
        *((language, pa.string()) for language in LANGUAGES),
        ("directors", pa.string()),  # of a series its creators; '|' between people
        ("cast", pa.string()),
        ("themes", pa.string()),  # of `themes.tsv`, the most telling first
        ("language", pa.string()),
        ("length", pa.int32()),  # minutes of a film, seasons of a series
        ("fame", pa.int32()),  # 0 to 100: how many film lovers know it
        ("about", pa.string()),  # one line
    ]
)


def embedded_items() -> pa.Table:
    """`films` as a table: item_id, title, year, genres ('|' between them), popularity 1–100."""
    with resources.files("epicrec.data").joinpath("films.csv").open("rb") as file:
        return pa_csv.read_csv(file, convert_options=_types(FILMS_SCHEMA))


def titles_table() -> pa.Table:
    """`titles` as a table, a row's other titles ('|' between them) in `alternatives`.

    >>> titles_table().column_names[:4]
    ['item_id', 'kind', 'title', 'year']
    """
    files = resources.files("epicrec.data").joinpath("titles").iterdir()
    parts = [_read_titles(file.read_bytes()) for file in files if file.name.endswith(".tsv")]
    table = pa.concat_tables(parts)
    others = (table[name].to_pylist() for name in ("original_title", *LANGUAGES))
    alternatives = [
        "|".join(dict.fromkeys(name for name in names if name and name != title))
        for title, *names in zip(table["title"].to_pylist(), *others, strict=True)
    ]
    return table.append_column("alternatives", pa.array(alternatives))


def _read_titles(content: bytes) -> pa.Table:
    return pa_csv.read_csv(
        pa.BufferReader(content),
        parse_options=pa_csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=_types(TITLES_SCHEMA),
    )


def _types(schema: pa.Schema) -> pa_csv.ConvertOptions:
    return pa_csv.ConvertOptions(column_types={field.name: field.type for field in schema})


@cache
def titles_catalogue() -> Catalogue:
    """`titles`, with popularity by fame."""
    table = titles_table()
    fame = table["fame"].to_numpy().astype(np.float64)
    return Catalogue.from_table(table.append_column("popularity", pa.array(viewing(fame))))


def viewing(fame: Floats) -> Floats:
    """How much a title of this fame is watched, in any unit: ten times as much for 30 more."""
    return np.asarray(10 ** (fame / 30))


@cache
def theme_meanings() -> dict[str, str]:
    """The closed list of themes, each with one line that says what it means.

    >>> theme_meanings()["heist"]
    'a robbery planned in detail'
    """
    lines = resources.files("epicrec.data").joinpath("themes.tsv").read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines[1:])


def among(catalogue: Catalogue, item_ids: Any) -> Catalogue:
    """The catalogue cut to the items that another list has too; uncut where it has none."""
    here = find(np.unique(np.asarray(item_ids).astype(np.str_)), catalogue.item_ids) >= 0
    if here.all() or not here.any():
        return catalogue
    return Catalogue.from_table(catalogue.to_table().filter(pa.array(here)))


def drawn_by(version: str, item_ids: Any) -> Catalogue | None:
    """The embedded list with this version, which a client draws by at a server of these items.

    A client begins with an embedded list and cuts it to what its server lists, or to `films` while
    it does not know that. A server that corrects for the draw needs the very same list.
    """
    films = with_text_ids(Catalogue.from_table(embedded_items()))
    for whole in (films, titles_catalogue()):
        for listed in (whole, among(whole, item_ids), among(whole, films.item_ids)):
            if listed.version == version:
                return listed
    return None
