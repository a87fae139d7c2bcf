"""Datasets: ratings and their catalogue, found by name, folder or file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from epicrec.arrays import Array
from epicrec.data.catalogue import Catalogue
from epicrec.data.columns import without_ratings
from epicrec.data.embedded import EMBEDDED, TITLES, embedded_items, titles_table
from epicrec.data.formats import Source, all_of, items_file, ratings_file, read_items_table
from epicrec.data.public import Public, item_list, write_public
from epicrec.data.ratings import Ratings
from epicrec.data.scale import HALF_STARS, STARS, Scale, read_scale
from epicrec.data.simulate import simulate_table
from epicrec.errors import InputError
from epicrec.files import write_whole
from epicrec.progress import report

_AT_ONCE = 1 << 20

_JOKES = Scale(-10, 10, 0.01)
SCALES = {
    "ml-100k": STARS,
    "ml-1m": STARS,
    "ml-latest-small-2016": HALF_STARS,
    "jester5k": _JOKES,
    "jester1-part1": _JOKES,
    "yelp-2013": STARS,
    "netflix": STARS,
    **dict.fromkeys(("ml-10M100K", "ml-20m", "ml-25m", "ml-32m"), HALF_STARS),
    **dict.fromkeys(("ml-latest", "ml-latest-small"), HALF_STARS),
}
"""The public scales of well-known data sets, so that none is guessed from their ratings."""


@dataclass(frozen=True)
class Dataset:
    """The `ratings` of a `name`, with the `catalogue` of their items, where there is one;
    `left_out` were of items that are not listed, or off the scale."""

    name: str
    ratings: Ratings
    catalogue: Catalogue | None
    left_out: int = 0


def search_folders() -> list[Path]:
    """The folders with named data sets: `$EPICREC_DATA`, `data`, `../shared/data`."""
    named = [Path(p) for p in os.environ.get("EPICREC_DATA", "").split(os.pathsep) if p]
    return [p for p in [*named, Path("data"), Path("../shared/data")] if p.is_dir()]


def available() -> dict[str, Path | None]:
    """The data sets that can be loaded by name, and where each was found."""
    found: dict[str, Path | None] = {EMBEDDED: None}
    for base in search_folders():
        for folder in sorted(base.iterdir()):
            if folder.is_dir() and (ratings_file(folder) or (folder / "ratings.json").exists()):
                found.setdefault(folder.name, folder)
    return found


def load_dataset(
    name: str | Path,
    *,
    items: str | Path | None = None,
    scale: Scale | None = None,
    rated: bool = True,
) -> Dataset:
    """A data set by name, by folder (`ratings.parquet` and `items.parquet`, or the files of
    MovieLens and Netflix), or by a ratings file.

    The items are those of `items`, a list or catalogue by name, folder or file, or else of the
    catalogue in the folder. The scale is `scale`, that of the folder's `dataset.toml`, or that of a
    well-known name. Ratings outside either are left out. What nobody gives is read off the ratings,
    which then say so (`Ratings.items_given`, `scale_given`). Without `rated` no scale is needed:
    where nobody gives one, the result is a history.
    """
    if str(name) == EMBEDDED:
        known = public_of(name, items=items, scale=scale)
        return _over(EMBEDDED, Ratings.from_table(simulate_table(), scale=STARS), known)
    path = find_dataset(name)
    if (path / "ratings.json").exists():
        known = public_of(name, items=items, scale=scale)
        return _over(path.resolve().name, Ratings.open(path), known)
    source = Source(_ratings_in(path))
    known = public_of(name, items=items, scale=scale)

    def whole(blocks: Iterator[pa.Table]) -> Dataset:
        table = all_of(blocks)
        if not rated and known.scale is None:
            table = without_ratings(table)
        on = _scale_of(table.column_names, known, scale)
        ratings = Ratings.from_table(table, scale=on, leave_out=True)
        return _over(path.resolve().name, ratings, known, rows=table.num_rows)

    return source.through(whole)


def convert_dataset(
    name: str | Path,
    folder: str | Path,
    *,
    items: str | Path | None = None,
    scale: Scale | None = None,
    columns: Mapping[str, str] | None = None,
    sep: str | None = None,
    mapped: bool = False,
) -> Dataset:
    """Write a data set as `write_dataset` does, whatever its size: files are streamed.

    `columns` gives the file's names of our columns where they differ, `sep` what separates the
    columns of a text file.
    """
    from epicrec.data.out_of_core import into_columns  # compiled code, which few need

    folder = Path(folder)
    if str(name) == EMBEDDED or (find_dataset(name) / "ratings.json").exists():
        if columns or sep:
            raise InputError(f"{name} has our columns already; leave out --columns and --sep")
        dataset = load_dataset(name, items=items, scale=scale)
        write_dataset(dataset, folder, mapped=mapped)
        return dataset
    path = find_dataset(name)
    source = Source(_ratings_in(path), columns=columns, sep=sep)
    known = public_of(name, items=items, scale=scale)
    on = _scale_of(source.names, known, scale)
    with whole_or_not(folder):
        place = Path(folder if mapped else mkdtemp(prefix=".convert-", dir=folder))
        try:
            ratings, left_out = into_columns(source, place, items=known.items, scale=on)
            dataset = Dataset(path.resolve().name, ratings, known.catalogue, left_out)
            if not mapped:
                _write_parquet(ratings, folder)
        finally:
            if not mapped:
                rmtree(place, ignore_errors=True)
        write_public(_public_part(dataset), folder)
    return dataset


@contextmanager
def whole_or_not(folder: Path) -> Iterator[None]:
    """A folder to write into; a new one is removed again where the work fails."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if new:
            rmtree(folder, ignore_errors=True)
        raise


def _ratings_in(path: Path) -> Path:
    source = ratings_file(path) if path.is_dir() else path
    if source is None:
        raise InputError(f"{path} holds no ratings; expected ratings.parquet or ratings.csv")
    return source


def _scale_of(names: list[str], known: Public, asked: Scale | None) -> Scale | None:
    """A history has no ratings to be on a scale; a scale that was asked for needs them."""
    return known.scale if asked is not None or "rating" in names else None


def _over(name: str, ratings: Ratings, known: Public, *, rows: int | None = None) -> Dataset:
    """Ratings over the public items and scale, not over what happened to be rated."""
    rows = len(ratings) if rows is None else rows
    if known.scale is not None and ratings.scale is not None:
        ratings = ratings.with_scale(known.scale)
    if known.items is not None:
        ratings = ratings.with_items(known.items)
    return Dataset(name, ratings, known.catalogue, rows - len(ratings))


def public_of(
    name: str | Path, *, items: str | Path | None = None, scale: Scale | None = None
) -> Public:
    """The public items and scale of a data set: as given, or from its folder, never its ratings."""
    embedded = str(name) == EMBEDDED
    own = Public(*load_items(EMBEDDED), STARS) if embedded else _public_in(find_dataset(name))
    known = own.scale
    if scale is not None and known is not None and scale != known:
        raise InputError(f"the scale of {name} is known: {known}, not {scale}; leave it out")
    listed, described = (own.items, None) if items is None else load_items(items)
    return Public(listed, described or own.catalogue, scale or known)


def find_dataset(name: str | Path) -> Path:
    """The path of a data set, given by name, folder or file."""
    path = Path(name)
    if path.exists():
        return path
    found = available()
    if str(name) not in found:
        raise InputError(
            f"there is no data set {str(name)!r}: not a path nor among {', '.join(found)}. "
            "Give a folder or file, or set EPICREC_DATA to the folder that holds it"
        )
    return found[str(name)] or path


def _public_in(path: Path) -> Public:
    """By a folder's catalogue and description, a well-known name, or what mapped columns keep."""
    items = items_file(path) if path.is_dir() else None
    ids, catalogue = (None, None) if items is None else load_items(items)
    scale = read_scale(path) or SCALES.get(path.resolve().name)
    if (path / "ratings.json").exists():
        kept = Ratings.open(path)
        ids = kept.item_ids if ids is None and kept.items_given else ids
        scale = kept.scale if scale is None and kept.scale_given else scale
    return Public(ids, catalogue, scale)


def load_items(name: str | Path) -> tuple[Array, Catalogue | None]:
    """A list of items by its data set's name, by folder, or by file: their ids and, unless they
    are all it has, the catalogue."""
    if str(name) == EMBEDDED:
        table = embedded_items()
    elif str(name) == TITLES:
        table = titles_table()
    else:
        path = Path(name) if Path(name).exists() else (available().get(str(name)) or Path(name))
        items = items_file(path) if path.is_dir() else path
        if items is None or not items.exists():
            raise InputError(
                f"there is no catalogue {str(name)!r}; name one that has item_id, title, genres"
            )
        table = read_items_table(items)
    if table.column_names == ["item_id"]:
        return item_list(table["item_id"].to_pylist()), None
    catalogue = Catalogue.from_table(table)
    return catalogue.item_ids, catalogue


def load_catalogue(name: str | Path) -> Catalogue:
    """A catalogue by its data set's name, by folder, or by file."""
    catalogue = load_items(name)[1]
    if catalogue is None:
        raise InputError(f"{name} lists item_id alone; a catalogue has item_id, title, genres")
    return catalogue


def write_dataset(dataset: Dataset, folder: str | Path, *, mapped: bool = False) -> None:
    """Write `ratings.parquet`, or columns to be mapped into memory, and the public items and scale
    where they were given."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if mapped:
        dataset.ratings.save(folder)
    else:
        _write_parquet(dataset.ratings, folder)
    write_public(_public_part(dataset), folder)


def _write_parquet(ratings: Ratings, folder: Path) -> None:
    """`ratings.parquet`, some users at a time."""

    def write(file: BinaryIO) -> None:
        schema = ratings.between(0, 0).to_table().schema
        with pa_parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            done = 0
            for block in ratings.blocks(_AT_ONCE):
                writer.write_table(block.to_table())
                done += len(block)
                report("writing ratings", done, len(ratings))

    write_whole(folder / "ratings.parquet", write)


def _public_part(dataset: Dataset) -> Public:
    """The items and scale of a data set as far as they were given, not read off its ratings."""
    ratings = dataset.ratings
    return Public(
        ratings.item_ids if ratings.items_given else None,
        dataset.catalogue,
        ratings.scale if ratings.scale_given else None,
    )


def describe(dataset: Dataset) -> dict[str, Any]:
    """The numbers a reader asks for first."""
    ratings, catalogue = dataset.ratings, dataset.catalogue
    counts, popularity = ratings.user_counts, np.sort(ratings.item_counts)[::-1]
    figures: dict[str, Any] = {
        "name": dataset.name,
        "ratings": len(ratings),
        "users": ratings.n_users,
        "items_rated": int((popularity > 0).sum()),
        "items_listed": len(catalogue) if catalogue else None,
        "categories": len(catalogue.categories) if catalogue else None,
        "scale": str(ratings.scale) if ratings.scale else None,
        "rating_mean": float(ratings.values.mean(dtype=np.float64)) if ratings.scale else None,
        "rating_sd": float(ratings.values.std(dtype=np.float64)) if ratings.scale else None,
        "history_median": float(np.median(counts)),
        "history_max": int(counts.max()),
        "share_of_top_tenth": float(
            popularity[: max(1, len(popularity) // 10)].sum() / len(ratings)
        ),
        "density": len(ratings) / (ratings.n_users * ratings.n_items),
        "probe": int(ratings.probe.sum()) if ratings.probe is not None else None,
    }
    if ratings.timestamps is not None:
        span = ratings.timestamps.min(), ratings.timestamps.max()
        first, last = (str(np.datetime64(int(t), "s"))[:10] for t in span)
        figures["from"], figures["to"] = first, last
    return figures
