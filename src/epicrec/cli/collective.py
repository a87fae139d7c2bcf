"""`epicrec collective`: what the operators of a shared model do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import Json
from epicrec.cli.output import print_figures, print_table, show
from epicrec.extras import needs

collective = typer.Typer(help="Rounds of a shared model: docs/collective.md.", no_args_is_help=True)
app.add_typer(collective, name="collective")

Config = Annotated[Path | None, typer.Option("--config", help="The server's settings as TOML.")]
Folder = Annotated[str | None, typer.Option("--data", help="The server's data folder.")]
Name = Annotated[str, typer.Option("--task", help="The training's name.")]


@collective.command()
def status(config: Config = None, data: Folder = None, as_json: Json = False) -> None:
    """Every round, how far it is, and this server's signing key for the other operator."""
    result = _operating().status(_settings(config, data))

    def tell() -> None:
        print_figures({name: result[name] for name in ("role", "key", "fingerprint")})
        print_table("Rounds", result["rounds"])

    show(result, as_json, tell)


@collective.command()
def start(
    config: Config = None,
    data: Folder = None,
    task: Name = "common-model",
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε of the task.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of the task.")] = 1e-5,
    most: Annotated[int, typer.Option(help="The greatest number of people.")] = 1 << 20,
    as_json: Json = False,
) -> None:
    """Open the next round of a task with the helper; devices may report from now on."""
    result = _operating().start(
        _settings(config, data), task, epsilon=epsilon, delta=delta, most=most
    )
    show(result, as_json, lambda: print_figures(result))


@collective.command()
def collect(
    config: Config = None, data: Folder = None, task: Name = "common-model", as_json: Json = False
) -> None:
    """Close the round and open its sum with the helper; after the last one, write the model."""
    result = _operating().collect(_settings(config, data), task)
    show(result, as_json, lambda: print_figures(result))


@collective.command()
def abort(
    config: Config = None, data: Folder = None, task: Name = "common-model", as_json: Json = False
) -> None:
    """Give the task's last round up: its reports are lost, and another task has to begin."""
    result = _operating().abort(_settings(config, data), task)
    show(result, as_json, lambda: print_figures(result))


@collective.command()
def link(
    address: Annotated[str, typer.Argument(help="The leader's address, as devices reach it.")],
    config: Config = None,
    data: Folder = None,
    task: Name = "common-model",
    as_json: Json = False,
) -> None:
    """Print the leader's join link, with which people take part in a task."""
    result = _operating().join_link(_settings(config, data), task, address)
    show(result, as_json, lambda: print_figures(result))


def _operating() -> Any:
    needs("server", "fastapi", "sqlalchemy", "httpx")
    from epicrec.server import shared_model

    return shared_model


def _settings(config: Path | None, data: str | None) -> Any:
    from epicrec.server import Settings

    return Settings.load(config, data=data)
