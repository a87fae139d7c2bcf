"""File formats of data sets: Parquet, CSV, MovieLens, Netflix; ratings, and lists of items.

Ratings are read a block of rows at a time (`Source`), so memory does not grow with the files. What
cannot be used is named with its file and line. A list of items is small and read at once.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from epicrec.data.columns import NAMES, BadRow, check_names
from epicrec.errors import InputError
from epicrec.progress import report

Result = TypeVar("Result")

ALIASES = {"userid": "user_id", "movieid": "item_id", "itemid": "item_id", "movie_id": "item_id"}
"""Common names of our columns in other formats, in lower case."""
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
BLOCK = 1 << 23
"""Bytes of a text file, and about as many of a Parquet file, that are read at once."""
_ROWS = 1 << 19
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
_TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_PLAIN = ["user_id", "item_id", "rating", "timestamp"]
_ID = (pa.int64(), pa.float64(), pa.string())
_TYPES = {
    "user_id": _ID,
    "item_id": _ID,
    "rating": (pa.float64(), pa.float64()),  # with a point, then with a comma
    "timestamp": (pa.int64(), pa.float64(), pa.timestamp("s"), pa.timestamp("ns")),
    "probe": (pa.bool_(),),
}
"""The types that each column of a text file may have, the narrowest first."""
_NETFLIX_ITEM = re.compile(rb"(?m)^(\d+):\r?\n")


def ratings_file(folder: Path) -> Path | None:
    """The file of ratings in a folder, in any format; the folder itself where it holds the parts of
    one table."""
    named = (folder / name for name in _RATING_FILES if (folder / name).exists())
    return next(named, folder if any(folder.glob("part-*")) else None)


def items_file(folder: Path) -> Path | None:
    """The list of items in a folder, in any format."""
    return next((folder / name for name in _ITEM_FILES if (folder / name).exists()), None)


# ---- ratings ----------------------------------------------------------------------------------


class Source:
    """Ratings in Parquet, CSV, MovieLens' or Netflix's files, in one file or a folder of parts.

    Text files may be compressed (`.gz`, `.zst`). `columns` gives the file's names of our columns
    where they differ, `sep` what separates the columns of a text file.
    """

    def __init__(
        self,
        path: Path,
        *,
        columns: Mapping[str, str] | None = None,
        sep: str | None = None,
        needed: tuple[str, ...] = ("user_id", "item_id"),
    ) -> None:
        self.columns, self.sep, self.needed = dict(columns or {}), sep, needed
        self.parts = _parts(path)
        self._begins: list[int] = []
        """The number of rows before each part that was begun."""

    def through(self, work: Callable[[Iterator[pa.Table]], Result]) -> Result:
        """The result of `work` on all blocks.

        A text column has the narrowest type that holds all of it: where a late row needs a wider
        one, `work` starts over, at most three times for each column of ids.
        """
        widths = dict.fromkeys(NAMES, 0)
        first: dict[str, str] = {}
        while True:
            try:
                return work(self._blocks(widths))
            except _WiderError as wider:
                name, types = wider.name, _TYPES[wider.name]
                if types[-1] != pa.string():  # what no type takes is named as it was met first
                    first.setdefault(name, wider.bad.said(self.place))
                widths[name] += 1
                if widths[name] == len(types):
                    raise InputError(first[name]) from wider
            except BadRow as bad:
                raise InputError(bad.said(self.place)) from bad

    def place(self, row: int) -> str:
        """Where a row is, in words; rows are counted from 0 over all parts."""
        at = max(k for k, begin in enumerate(self._begins) if begin <= row)
        part, row = self.parts[at], row - self._begins[at]
        if _format(part) == ".parquet":
            return f"row {row + 1} of {part}"
        head = 1 if _format(part) in _TEXT and not _is_netflix(part) else 0
        with io.BufferedReader(_opened(part)[1], BLOCK) as lines:
            quoted = False
            for number, line in enumerate(lines, 1):
                if line.strip() and not quoted:
                    row -= not (_is_netflix(part) and _NETFLIX_ITEM.match(line))
                if row + head < 0:
                    return f"line {number} of {part}"
                quoted ^= bool(line.count(b'"') % 2)
        return f"the end of {part}"

    def table(self) -> pa.Table:
        """All rows at once."""
        return self.through(all_of)

    @property
    def names(self) -> list[str]:
        """Which of our columns there are, by the first part."""
        part = self.parts[0]
        try:
            if _is_netflix(part):
                return _PLAIN
            if _format(part) == ".parquet":
                return [*self._names(part, pa_parquet.read_schema(part).names).values()]
            return [*self._names(part, self._header(part, self._form(part))).values()]
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(part, error) from error

    # ---- reading --------------------------------------------------------------------------

    def _blocks(self, widths: Mapping[str, int]) -> Iterator[pa.Table]:
        self._begins = []
        sizes = [part.stat().st_size for part in self.parts]
        rows, found = 0, None
        for at, part in enumerate(self.parts):
            self._begins.append(rows)
            try:
                for block, share in self._read(part, widths, rows):
                    found = found or block.column_names
                    if block.column_names != found:
                        raise InputError(
                            f"{part} has the columns {', '.join(block.column_names)}, the parts "
                            f"before it {', '.join(found)}; give all parts the same"
                        )
                    rows += len(block)
                    yield block
                    report("reading ratings", sum(sizes[:at]) + int(share * sizes[at]), sum(sizes))
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(part, error) from error

    def _read(
        self, part: Path, widths: Mapping[str, int], before: int
    ) -> Iterator[tuple[pa.Table, float]]:
        """The blocks of one file, each with the share of the file that is read by then."""
        if _is_netflix(part):
            return _read_netflix(part)
        if _format(part) == ".parquet":
            return self._read_parquet(part)
        return self._read_text(part, widths, before)

    def _read_parquet(self, part: Path) -> Iterator[tuple[pa.Table, float]]:
        with pa_parquet.ParquetFile(part, memory_map=True) as file:
            names = self._names(part, file.schema_arrow.names)
            rows, done = max(file.metadata.num_rows, 1), 0
            for batch in file.iter_batches(_ROWS, columns=[*names]):
                block = pa.Table.from_batches([batch]).select([*names])
                done += len(block)
                yield block.rename_columns([*names.values()]), done / rows

    def _read_text(
        self, part: Path, widths: Mapping[str, int], before: int
    ) -> Iterator[tuple[pa.Table, float]]:
        form = self._form(part)
        names = self._header(part, form)
        ours = self._names(part, names)
        types = {name: _TYPES[our][widths[our]] for name, our in ours.items()}
        raw, stream = _opened(part)
        size = max(part.stat().st_size, 1)
        with stream:
            try:
                for batch in form.reader(stream, names, types, ".,"[widths["rating"]]):
                    block = pa.Table.from_batches([batch]).rename_columns([*ours.values()])
                    yield _without_empty(block), min(raw.tell() / size, 1.0)
            except pa.ArrowInvalid as error:
                first = before - form.headed
                raise _explained(error, names, ours, first) from error

    def _form(self, part: Path) -> _Form:
        """How a text file is written, by its name and by what was said of it."""
        kind = _format(part)
        if self.sep is not None:
            return _Form(self.sep, quoted=True, headed=True)
        if part.name == "u.data":
            return _Form("\t", quoted=False, headed=False)
        if kind == ".dat":
            return _Form("::", quoted=False, headed=False)
        return _Form(_TEXT[kind], quoted=True, headed=True)

    def _header(self, part: Path, form: _Form) -> list[str]:
        """The names of a text file's columns. With `::` between them every other one is empty."""
        if form.headed:
            with _opened(part)[1] as stream:
                names = [*form.reader(stream, None, None).schema.names]
        else:
            names = [*"::".join(_PLAIN).split(":" if form.doubled else "::")]
        return [name or f"column {at}" for at, name in enumerate(names, 1)]

    def _names(self, part: Path, found: list[str]) -> dict[str, str]:
        """Our columns by the names that the file has for them."""
        for our, name in self.columns.items():
            if name not in found:
                raise InputError(
                    f"{part} has no column {name!r} for {our}; it has {', '.join(found)}"
                )
        said = {name: our for our, name in self.columns.items()}
        names = {name: said.get(name) or ALIASES.get(name.lower(), name) for name in found}
        check_names([*names.values()], self.needed)
        return {
            name: our
            for name, our in names.items()
            if our in NAMES and (name in said or our not in self.columns)
        }


class _Form:
    """How a text file is written: separator, quotes, header."""

    def __init__(self, sep: str, *, quoted: bool, headed: bool) -> None:
        sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
        self.doubled = len(sep) == 2 and sep[0] == sep[1]
        if len(sep) != 1 and not self.doubled:
            raise InputError(
                f"columns cannot be separated by {sep!r}; give one character, tab, or one twice "
                "as in '::'"
            )
        self.delimiter, self.quoted, self.headed = sep[0], quoted, headed

    def reader(
        self,
        stream: Any,
        names: list[str] | None,
        types: Mapping[str, Any] | None,
        decimal: str = ".",
    ) -> Any:
        """Blocks of rows, in order and with their numbers in errors, hence on one thread."""
        skip = int(self.headed and names is not None)
        return pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                column_names=names, skip_rows=skip, use_threads=False, block_size=BLOCK
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=self.delimiter,
                # the titles in MovieLens .dat files hold unpaired quotes
                quote_char='"' if self.quoted else False,
                newlines_in_values=self.quoted,
                invalid_row_handler=None if types else lambda _: "skip",
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=None if types is None else [*types],
                decimal_point=decimal,
            ),
        )


class _WiderError(Exception):
    """A text column needs a wider type than the one it was read with."""

    def __init__(self, name: str, bad: BadRow) -> None:
        super().__init__(name)
        self.name, self.bad = name, bad


def all_of(blocks: Iterator[pa.Table]) -> pa.Table:
    """The blocks as one table."""
    found = [*blocks]
    if not found:
        raise InputError("there are no ratings; give at least one row")
    return pa.concat_tables(found)


def _explained(
    error: Exception,
    names: list[str],
    ours: Mapping[str, str],
    first: int,
) -> Exception:
    """What a text file's error means: a wider type to try, or a row that cannot be used.

    `first` is the number of the row on the first line, -1 where that is a header.
    """
    message = str(error)
    row = re.search(r"Row #(\d+)", message)
    at = first + int(row[1]) - 1 if row else first
    wrong = re.search(r"CSV column #(\d+).*invalid value '(.*)'", message, re.S)
    if wrong:
        our = ours[names[int(wrong[1])]]
        wanted = _WANTED.get(our, "whole numbers or text")
        return _WiderError(our, BadRow(f"{our} is {wrong[2]!r}; give {wanted}", at))
    short = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if short:
        return BadRow(f"{short[2]} columns where the first line has {short[1]}", at)
    return error


_WANTED = {
    "rating": "a number, such as 4.5, in all rows with a point or in all with a comma",
    "timestamp": "seconds, a date or a time, such as 2024-03-31",
    "probe": "true or false",
}


def _unreadable(part: Path, error: Exception) -> InputError:
    return InputError(f"cannot read {part}: {error}. Check the file and its format")


def _parts(path: Path) -> list[Path]:
    """The files that a path means: itself, a folder's parts, Netflix's files."""
    if path.is_dir():
        kinds = ("mv_*.txt", "part-*", "*.parquet")
        found = next((parts for kind in kinds if (parts := sorted(path.glob(kind)))), [])
        if not found:
            raise InputError(
                f"{path} holds no ratings; expected parts of a table (*.parquet, part-*.csv)"
            )
    elif path.name.startswith("combined_data_"):
        found = sorted(path.parent.glob("combined_data_*.txt"))
    else:
        found = [path]
    return [_checked(part) for part in found]


def _checked(part: Path) -> Path:
    kind = _format(part)
    if kind not in {".parquet", ".dat", *_TEXT} and part.name != "u.data":
        raise InputError(
            f"{part}: unknown format {kind!r}; use .parquet, .csv (also as .csv.gz or .csv.zst), "
            ".dat or u.data"
        )
    if kind == ".parquet" and part.suffix in _COMPRESSED:
        raise InputError(f"{part}: Parquet is compressed inside; unpack the file first")
    if not part.is_file():
        raise InputError(f"cannot read {part}: there is no such file")
    if part.stat().st_size == 0:
        raise InputError(f"{part} is empty; give a file with at least one row")
    return part


def _format(part: Path) -> str:
    """The suffix of the name, without that of a compression."""
    return (part.with_suffix("") if part.suffix in _COMPRESSED else part).suffix


def _opened(part: Path) -> tuple[Any, Any]:
    """The file, which tells how far it has been read, and its content, uncompressed."""
    raw = pa.OSFile(str(part))
    if part.suffix in _COMPRESSED:
        return raw, pa.CompressedInputStream(raw, _COMPRESSED[part.suffix])
    return raw, raw


def _without_empty(block: pa.Table) -> pa.Table:
    """Empty text in a column of ids is a missing id."""
    for at, field in enumerate(block.schema):
        if pa.types.is_string(field.type):
            column = block.column(at)
            named = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            block = block.set_column(at, field.name, named)
    return block


def _is_netflix(part: Path) -> bool:
    return part.name.startswith(("mv_", "combined_data_"))


def _read_netflix(part: Path) -> Iterator[tuple[pa.Table, float]]:
    """Lines `item:`, each followed by lines `user,rating,date`."""
    size, rows = part.stat().st_size, 0
    item: bytes | None = None
    types = {"user_id": pa.int64(), "rating": pa.float64(), "timestamp": pa.date32()}
    form = _Form(",", quoted=False, headed=False)
    with part.open("rb") as file:
        while lines := b"".join(file.readlines(BLOCK)):
            first, *rest = _NETFLIX_ITEM.split(lines)
            ahead: list[bytes] = [] if item is None else [item, first]
            if item is None and first.strip():
                break
            for item, text in zip(*[iter([*ahead, *rest])] * 2, strict=True):
                if not text.strip():
                    continue
                try:
                    read = form.reader(pa.BufferReader(text), [*types], types)
                    block = read.read_all()
                except pa.ArrowInvalid as error:
                    raise InputError(
                        f"cannot read {part}, item {item.decode()}: {error}"
                    ) from error
                rows += len(block)
                of = pa.repeat(pa.scalar(int(item), pa.int64()), len(block))
                yield block.append_column("item_id", of), file.tell() / size
    if not rows:
        raise InputError(
            f"{part} holds no Netflix ratings; expected lines 'item:' and 'user,rating,date'"
        )


# ---- items ------------------------------------------------------------------------------------


def read_items_table(path: Path) -> pa.Table:
    """Parquet, CSV, MovieLens `.dat` and `u.item`, Netflix `movie_titles`."""
    if path.name == "u.item":
        table = _read_items(
            path, ["item_id", "title", "release_date", "video", "url", *_ML_100K_GENRES]
        )
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
    return _read_items(path, ["item_id", "title", "genres"])


def _read_items(path: Path, names: list[str]) -> pa.Table:
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
