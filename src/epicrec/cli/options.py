"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicrec.cli.output import say_left_out
from epicrec.errors import InputError

if TYPE_CHECKING:
    from epicrec.data import Scale

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
TaskOption = Annotated[
    str | None,
    typer.Option("--task", help="'lists' of what to choose, or predicted 'ratings'."),
]
FeaturesOption = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="Public columns of the catalogue to learn from, such as genres,year,tags,price.",
    ),
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
    typer.Option("--checkpoint", help="A folder from which the same command, if killed, resumes."),
]


def read_scale(text: str | None) -> Scale | None:
    from epicrec.data import Scale

    return Scale.parse(text) if text else None


def read_columns(text: str | None) -> dict[str, str]:
    """`user=u,item=i,rating=r,time=t` as a mapping from our column names to the file's."""
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
    """A data set on this machine, or with a master in its cluster."""
    from epicrec.data import load_dataset

    if master is not None:
        from epicrec.engine import spark_data

        session, on = spark_data.session(master), read_scale(scale)
        return spark_data.load_dataset(session, data, items=items, scale=on, rated=rated)

    dataset = load_dataset(data, items=items, scale=read_scale(scale), rated=rated)
    say_left_out(dataset)
    return dataset


def check_engine(engine: str, master: str | None) -> None:
    if engine not in ("local", "spark"):
        raise InputError(f"--engine is local or spark here, not {engine!r}")
    if (master is not None) != (engine == "spark"):
        raise InputError("--engine spark and --master URL go together, such as --master 'local[2]'")


def read_settings(pairs: list[str] | None, features: str | None = None) -> dict[str, Any]:
    """`key=value` pairs; a value is read as JSON where it is JSON, as text otherwise. `features`
    are names with commas between them."""
    settings: dict[str, Any] = {}
    if features is not None:
        settings["features"] = [name.strip() for name in features.split(",") if name.strip()]
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"cannot read --set {pair!r}; write key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings
