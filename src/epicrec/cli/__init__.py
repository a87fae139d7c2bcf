"""The command line: `epicrec` with its sub-commands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from epicrec._version import __version__
from epicrec.cli.app import app
from epicrec.cli.output import err
from epicrec.errors import EpicrecError, EpicrecWarning, InputError

# Each module adds its commands, and --help lists them in this order.
# isort: off
from epicrec.cli import (  # noqa: F401
    audit,
    collective,
    compare,
    data,
    recommend,
    evaluate,
    perturb,
    reproduce,
    programs,
)
# isort: on

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit 0 when done, 2 on bad input, 1 on anything that failed."""
    try:
        typed = list(sys.argv[1:] if arguments is None else arguments)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(args=typed, obj=typed)  # a command may answer with what to type instead
    except EpicrecError as error:
        err.print(f"epicrec: {error}", soft_wrap=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except OSError as error:  # a full disk, a file that went away
        err.print(f"epicrec: {error}", soft_wrap=True)
        sys.exit(1)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Ours as one line, others' as Python shows them."""
    said = message if issubclass(category, EpicrecWarning) else f"{category.__name__}: {message}"
    err.print(f"epicrec: {said}", soft_wrap=True)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"epicrec {__version__}")
        raise typer.Exit
