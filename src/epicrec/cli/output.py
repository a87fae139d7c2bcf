"""How commands print: results on stdout, progress and everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

_PLAIN: Any = {"highlight": False, "markup": False, "emoji": False}
"""Text is shown as it is: a scale 0:100:1 is no emoji, a title in brackets no markup."""

out = Console(**_PLAIN, width=None if sys.stdout.isatty() else 160)
err = Console(**_PLAIN, stderr=True)


def show(result: Mapping[str, Any], as_json: bool, plain: Callable[[], None]) -> None:
    """The result as one JSON object, or as `plain` prints it."""
    if as_json:
        print(json.dumps(result, default=str))
    else:
        plain()


def print_record(record: str) -> None:
    """Print what a model released, where it says so."""
    if record:
        out.print(record[0].upper() + record[1:] + ".", soft_wrap=True)


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    out.print(title)
    table = Table()
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    out.print(table)


def print_figures(figures: Mapping[str, Any]) -> None:
    for name, value in figures.items():
        if value is not None:
            out.print(f"{name.replace('_', ' '):20} {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if abs(value) >= 10_000 else str(value)  # a year has no comma


def say_left_out(dataset: Any) -> None:
    if dataset.left_out:
        err.print(f"left out: {dataset.left_out:,} ratings off the scale or of items not listed")


def say_guesses(ratings: Any) -> None:
    """Say which items and scale were guessed from the ratings: right only where all is public."""
    guesses = [] if ratings.items_given else [f"the {ratings.n_items:,} items (give --items)"]
    if ratings.scale is not None and not ratings.scale_given:
        guesses.append(f"the scale {ratings.scale} (give --scale)")
    if guesses:
        err.print(f"guessed from the ratings: {', '.join(guesses)}", soft_wrap=True)


@contextmanager
def progress() -> Iterator[None]:
    """Show a bar on stderr for work that reports its progress."""
    from rich.progress import Progress, TimeElapsedColumn

    from epicrec.progress import listening

    tasks: dict[str, Any] = {}
    with Progress(
        *Progress.get_default_columns(), TimeElapsedColumn(), console=err, transient=True
    ) as bar:

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        with listening(show):
            yield
