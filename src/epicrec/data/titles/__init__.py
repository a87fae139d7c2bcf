"""Titles: the embedded catalogue of well-known films and series, one line each in the files here.

Films lie in a file per decade and series in one, ordered by year and title, so that a change reads
as one line. `de`, `fr`, `es` and `it` are the titles of release; empty where they are not known.
"""

from __future__ import annotations

from importlib import resources

import pyarrow as pa
import pyarrow.csv as pacsv

LANGUAGES = ("de", "fr", "es", "it")
"""The languages whose titles of release are given."""

SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("kind", pa.string()),
        ("title", pa.string()),
        ("year", pa.int32()),
        ("genres", pa.string()),
        ("country", pa.string()),
        ("original_title", pa.string()),
        *((language, pa.string()) for language in LANGUAGES),
    ]
)


def titles_table() -> pa.Table:
    """All films and series as one table, a row's other titles ('|' between them) in `alternatives`.

    >>> titles_table().column_names[:4]
    ['item_id', 'kind', 'title', 'year']
    """
    files = resources.files(__name__).iterdir()
    parts = [_read(file.read_bytes()) for file in files if file.name.endswith(".tsv")]
    table = pa.concat_tables(parts)
    others = (table[name].to_pylist() for name in ("original_title", *LANGUAGES))
    alternatives = [
        "|".join(dict.fromkeys(name for name in names if name and name != title))
        for title, *names in zip(table["title"].to_pylist(), *others, strict=True)
    ]
    return table.append_column("alternatives", pa.array(alternatives))


def _read(content: bytes) -> pa.Table:
    return pacsv.read_csv(
        pa.BufferReader(content),
        parse_options=pacsv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pacsv.ConvertOptions(
            column_types={field.name: field.type for field in SCHEMA}
        ),
    )
