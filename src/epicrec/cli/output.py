"""What the commands share: options, loading, and results on stdout with all else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from epicrec.errors import InputError

if TYPE_CHECKING:
    from epicrec.data import Scale

_PLAIN: Any = {"highlight": False, "markup": False, "emoji": False}
"""Text is shown as it is: a scale 0:100:1 is no emoji, a title in brackets no markup."""

out = Console(**_PLAIN, width=None if sys.stdout.isatty() else 160)
err = Console(**_PLAIN, stderr=True)

Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")
]
Data = Annotated[
    str, typer.Option("--data", "-d", help="A data set's name, a folder, or a ratings file.")
]
ScaleOption = Annotated[
    str | None,
    typer.Option("--scale", help="The public rating scale low:high:step, where it is not known."),
]
ItemsOption = Annotated[
    str | None,
    typer.Option(
        "--items",
        help="The public list of items: a file with item_id, a data set's name, or a folder.",
    ),
]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", help="Privacy budget ε; without it, not private.")
]
Delta = Annotated[float | None, typer.Option("--delta", help="δ, for Gaussian noise.")]
Unit = Annotated[
    str | None, typer.Option("--unit", help="What is hidden: a 'rating' or a whole 'user'.")
]
FeedbackOption = Annotated[
    str | None,
    typer.Option("--feedback", help="'explicit' (ratings) or 'implicit' (what was seen)."),
]
AsPublished = Annotated[
    bool, typer.Option("--as-published", help="The paper's own version, with its flaws.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Further settings of the method: key=value, one or several."),
]

EngineOption = Annotated[
    str, typer.Option("--engine", help="Where sums are taken: 'local', or 'spark' in a cluster.")
]
Master = Annotated[
    str | None,
    typer.Option("--master", help="Spark's address: local[2], spark://host:port, sc://host:port."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="A folder from which the same command, if killed, goes on."),
]


def read_scale(text: str | None) -> Scale | None:
    from epicrec.data import Scale

    return Scale.parse(text) if text else None


def read_columns(text: str | None) -> dict[str, str]:
    """`user=u,item=i,rating=r,time=t` as our names with those of a file."""
    ours = {"user": "user_id", "item": "item_id", "rating": "rating", "time": "timestamp"}
    columns = {}
    for pair in text.split(",") if text else []:
        key, _, name = pair.partition("=")
        if key.strip() not in ours or not name.strip():
            raise InputError(
                f"cannot read --columns {text!r}; write user=u,item=i,rating=r,time=t with the "
                "names that the file has, of as many as differ"
            )
        columns[ours[key.strip()]] = name.strip()
    return columns


def load_data(
    data: str,
    scale: str | None,
    items: str | None = None,
    *,
    rated: bool = True,
    master: str | None = None,
) -> Any:
    from epicrec.data import load_dataset

    if master is not None:
        from epicrec.engine import session

        spark, on = session.session(master), read_scale(scale)
        return session.load_dataset(spark, data, items=items, scale=on, rated=rated)

    dataset = load_dataset(data, items=items, scale=read_scale(scale), rated=rated)
    say_left_out(dataset)
    return dataset


def say_left_out(dataset: Any) -> None:
    if dataset.left_out:
        err.print(f"left out: {dataset.left_out:,} ratings off the scale or of items not listed")


def check_engine(
    engine: str, master: str | None, *, among: tuple[str, ...] = ("local", "spark")
) -> None:
    if engine not in among:
        raise InputError(f"--engine is {' or '.join(among)} here, not {engine!r}")
    if (master is not None) != (engine == "spark"):
        raise InputError("--engine spark and --master URL go together, such as --master 'local[2]'")


def say_guesses(ratings: Any) -> None:
    """What was read off the ratings because nobody said it: good enough where all is public."""
    guesses = [] if ratings.items_given else [f"the {ratings.n_items:,} items (give --items)"]
    if ratings.scale is not None and not ratings.scale_given:
        guesses.append(f"the scale {ratings.scale} (give --scale)")
    if guesses:
        err.print(f"guessed from the ratings: {', '.join(guesses)}", soft_wrap=True)


def load_items(name: str) -> Any:
    from epicrec.data.datasets import load_catalogue

    return load_catalogue(name)


def read_settings(pairs: list[str] | None) -> dict[str, Any]:
    """`key=value` with the value read as JSON where it is JSON, as text otherwise."""
    settings = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"cannot read --set {pair!r}; write key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def show(result: Mapping[str, Any], as_json: bool, plain: Any) -> None:
    if as_json:
        print(json.dumps(result, default=str))
    else:
        plain()


def print_record(record: str) -> None:
    """What a model released and what to know of it, where there is anything to say."""
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


@contextmanager
def progress() -> Iterator[None]:
    """A bar on stderr for whatever reports how far it is."""
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
