"""The application that all commands belong to."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="epicrec",
    help="Recommendations without giving up your history.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(no_args_is_help=True, help="Look at, make and convert data sets.")
app.add_typer(data_app, name="data")
