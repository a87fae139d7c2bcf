"""Datasets: ratings and their catalogue, found by name, folder or file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pa_parquet

from epicrec.data.catalogue import Catalogue
from epicrec.data.formats import items_file, ratings_file, read_items_table, read_ratings_table
from epicrec.data.ratings import Ratings
from epicrec.data.scale import HALF_STARS, STARS, Scale
from epicrec.data.simulate import embedded_items, simulate_table
from epicrec.errors import InputError

EMBEDDED = "films"
"""The name of the data set that is always there: real film titles, simulated viewers."""

_JOKES = Scale(-10, 10, 0.01)
SCALES = {
    "ml-100k": STARS,
    "ml-1m": STARS,
    "ml-latest-small-2016": HALF_STARS,
    "jester5k": _JOKES,
    "jester1-part1": _JOKES,
    "yelp-2013": STARS,
    "netflix": STARS,
}
"""The public scales of well-known data sets, so that none is guessed from their ratings."""


@dataclass(frozen=True)
class Dataset:
    """Ratings with the catalogue of their items, where there is one."""

    name: str
    ratings: Ratings
    catalogue: Catalogue | None


def search_folders() -> list[Path]:
    """Where named data sets are looked for: `$EPICREC_DATA`, `data`, `../shared/data`."""
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


def load_dataset(name: str | Path, *, scale: Scale | None = None) -> Dataset:
    """A data set by name, by folder (`ratings.parquet` and `items.parquet`, or the files of
    MovieLens and Netflix), or by a ratings file."""
    if str(name) == EMBEDDED:
        _check_scale(EMBEDDED, scale, STARS)
        films = Catalogue.from_table(embedded_items())
        viewers = Ratings.from_table(simulate_table(), scale=STARS)
        return Dataset(EMBEDDED, viewers.with_items(films.item_ids), films)
    path = Path(name)
    if not path.exists():
        found = available()
        if str(name) not in found:
            raise InputError(
                f"there is no data set {str(name)!r}: not a path nor among {', '.join(found)}. "
                "Give a folder or file, or set EPICREC_DATA to the folder that holds it"
            )
        path = found[str(name)] or path
    short = path.resolve().name
    _check_scale(short, scale, SCALES.get(short))
    if (path / "ratings.json").exists():
        ratings = Ratings.open(path)
        _check_scale(short, scale, ratings.scale)
    else:
        source = ratings_file(path) if path.is_dir() else path
        if source is None:
            raise InputError(f"{path} holds no ratings; expected ratings.parquet or ratings.csv")
        ratings = Ratings.from_table(read_ratings_table(source), scale=scale or SCALES.get(short))
    items = items_file(path) if path.is_dir() else None
    catalogue = Catalogue.from_table(read_items_table(items)) if items else None
    if catalogue is not None:
        # the public list, and not what happened to be rated, says which items there are
        ratings = ratings.with_items(np.union1d(catalogue.item_ids, ratings.item_ids))
    return Dataset(short, ratings, catalogue)


def _check_scale(name: str, scale: Scale | None, known: Scale | None) -> None:
    if scale is not None and known is not None and scale != known:
        raise InputError(f"the scale of {name} is known: {known}, not {scale}; leave it out")


def load_catalogue(name: str | Path) -> Catalogue:
    """A catalogue by its data set's name, by folder, or by file."""
    if str(name) == EMBEDDED:
        return Catalogue.from_table(embedded_items())
    path = Path(name) if Path(name).exists() else (available().get(str(name)) or Path(name))
    items = items_file(path) if path.is_dir() else path
    if items is None or not items.exists():
        raise InputError(
            f"there is no catalogue {str(name)!r}; name one that has item_id, title, genres"
        )
    return Catalogue.from_table(read_items_table(items))


def write_dataset(dataset: Dataset, folder: str | Path, *, mapped: bool = False) -> None:
    """Write `items.parquet` and `ratings.parquet`, or mapped columns, which open unread."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if mapped:
        dataset.ratings.save(folder)
    else:
        pa_parquet.write_table(
            dataset.ratings.to_table(), folder / "ratings.parquet", compression="zstd"
        )
    if dataset.catalogue is not None:
        pa_parquet.write_table(
            dataset.catalogue.to_table(), folder / "items.parquet", compression="zstd"
        )


def describe(dataset: Dataset) -> dict[str, Any]:
    """The figures a reader asks for first."""
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
