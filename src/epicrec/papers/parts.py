"""Parts: a paper's figures and tables one by one, each made by itself and kept when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from epicrec._version import __version__
from epicrec.data import EMBEDDED, Dataset, Ratings, available, load_dataset
from epicrec.data.simulate import simulate_table
from epicrec.files import made_once, slug
from epicrec.progress import report

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Setting:
    """Where plots go, whether it is to be quick, and the seed of all that is drawn."""

    folder: Path
    quick: bool = False
    seed: int = 0

    @property
    def key(self) -> dict[str, Any]:
        """What decides whether something that was made before is what would be made now."""
        return {
            "version": __version__, "quick": self.quick, "seed": self.seed,
            "data": sorted(available()),
        }  # fmt: skip

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A row that takes long, made now or kept from a run that was ended before its part was
        finished."""
        rows = self.folder / "parts" / "rows"
        rows.mkdir(parents=True, exist_ok=True)
        found = made_once(rows / f"{slug(name)}.json", self.key, make)
        return {name: value for name, value in found.items() if name != "key"}

    def rows(self, what: str, makers: Mapping[str, Callable[[], dict[str, Any]]]) -> Rows:
        """Rows that take long, each by its name made `once`; `what` they are is reported."""
        rows: Rows = []
        for name, make in makers.items():
            report(what, len(rows), len(makers))
            rows.append(self.once(name, make))
        return rows


@dataclass(frozen=True)
class Found:
    """What a part found: tables by their names, plots, and what to know when reading them."""

    tables: Mapping[str, Rows]
    plots: Sequence[Path] = ()
    note: str = ""


@dataclass(frozen=True)
class Part:
    """Some figures and tables of a paper, and how they are made again."""

    name: str
    shows: tuple[str, ...]
    """As the paper calls them; nothing where it has none of these."""
    title: str
    make: Callable[[Setting], Found]


@dataclass(frozen=True)
class Paper:
    """All of a paper: its parts, and what is not made again, with the reason."""

    name: str
    title: str
    parts: tuple[Part, ...]
    not_here: Mapping[str, str] = field(default_factory=dict)


def mean_of(results: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure over several results."""
    rows = list(results)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def crowd(people: int) -> Dataset:
    """The embedded films with so many simulated viewers, where the paper's data is not here and its
    experiment needs more of them than a demonstration."""
    films = load_dataset(EMBEDDED)
    scale = films.ratings.scale
    ratings = Ratings.from_table(simulate_table(users=people), scale=scale)
    ratings = ratings.with_items(films.ratings.item_ids)
    return Dataset(f"{EMBEDDED} ({people:,} viewers)", ratings, films.catalogue)


def make_parts(papers: Sequence[Paper], setting: Setting) -> Iterator[dict[str, Any]]:
    """Each part's result as plain values: made now, or read where it was finished before.

    A finished part is kept as `parts/NAME.json` and made again only where it was made otherwise:
    by another version, in short, with another seed, or with other data at hand.
    """
    kept = setting.folder / "parts"
    kept.mkdir(parents=True, exist_ok=True)
    wanted = [(paper, part) for paper in papers for part in paper.parts]
    for done, (paper, part) in enumerate(wanted):
        report("figures and tables", done, len(wanted))
        yield made_once(
            kept / f"{part.name}.json", setting.key, partial(_made, paper, part, setting)
        )
    report("figures and tables", len(wanted), len(wanted))


def _made(paper: Paper, part: Part, setting: Setting) -> dict[str, Any]:
    started = time.perf_counter()
    made = part.make(setting)
    return {
        "name": part.name, "paper": paper.name, "shows": list(part.shows), "title": part.title,
        "note": made.note, "tables": dict(made.tables),
        "plots": [plot.name for plot in made.plots],
        "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip
