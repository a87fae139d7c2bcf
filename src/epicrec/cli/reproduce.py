"""`epicrec reproduce`: a paper's tables and figures, its values beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import Json
from epicrec.cli.output import out, print_table, progress, show


@app.command()
def reproduce(
    paper: Annotated[
        str, typer.Argument(help="epicrec, mcsherry-mironov, d2p, yang, or all of them: all.")
    ],
    folder: Annotated[
        Path, typer.Option("--output", "--out", "-o", help="Where the report and plots go.")
    ] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Less data, fewer settings.")] = False,
    as_json: Json = False,
) -> None:
    """Make a paper's tables and figures again, the paper's values beside ours, as one report.

    Finished parts are kept in the folder, so that an interrupted run resumes.
    """
    from epicrec.files import check_folder
    from epicrec.papers import reproduce as run

    check_folder(folder)
    with progress():
        found = run(paper, folder, quick=quick)

    def plain() -> None:
        for part in found["parts"]:
            for name, rows in part["tables"].items():
                print_table(f"{part['title']}: {name}", [_short(row, rows[0]) for row in rows])
            if part["note"]:
                out.print(part["note"], soft_wrap=True)
        for one, figures in found["figures"].items():
            for figure, where in figures.items():
                if where.startswith("not here"):
                    out.print(f"{one}, {figure}: {where}", soft_wrap=True)
        out.print(f"wrote {' and '.join(found['report'])}", soft_wrap=True)

    show(found, as_json, plain)


def _short(row: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the columns of the first one; empty where it has no value."""
    return {name: "" if row.get(name) is None else row[name] for name in first}
