"""The application that all commands belong to."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """One `--set` takes several settings: `--set p=0.7 p_star=0.03` is `--set` twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, each_set(args))


def each_set(args: list[str]) -> list[str]:
    """The arguments with a `--set` before each of its settings.

    >>> each_set(["evaluate", "d2p", "--set", "p=0.7", "lam=1", "--json"])
    ['evaluate', 'd2p', '--set', 'p=0.7', '--set', 'lam=1', '--json']
    """
    out: list[str] = []
    for arg in args:
        after_setting = len(out) > 1 and out[-2] == "--set" and not out[-1].startswith("-")
        if after_setting and "=" in arg and not arg.startswith("-"):
            out.append("--set")
        out.append(arg)
    return out


app = typer.Typer(
    name="epicrec",
    cls=Commands,
    help="Recommendations without giving up your history.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(no_args_is_help=True, help="Look at, make and convert data sets.")
app.add_typer(data_app, name="data")
