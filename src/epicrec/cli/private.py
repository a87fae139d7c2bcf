"""`epicrec perturb, reproduce`: what leaves a device, and the papers' experiments again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.output import (
    AsPublished,
    Json,
    ScaleOption,
    Set,
    load_items,
    out,
    print_table,
    progress,
    read_scale,
    read_settings,
    show,
)
from epicrec.errors import InputError


@app.command()
def perturb(
    method: Annotated[
        str, typer.Argument(help="A perturber, such as s-epicrec; 'epicrec methods' lists them.")
    ],
    history: Annotated[Path, typer.Option("--history", help="A CSV with the column item_id.")],
    catalogue: Annotated[
        str, typer.Option(help="A data set's name, a folder, or a file: item_id, title, genres.")
    ] = "films",
    level: Annotated[
        str | None,
        typer.Option(help="For all: no release, perturbed release (the default), all release."),
    ] = None,
    levels: Annotated[
        Path | None, typer.Option(help="A TOML or JSON file of category = level, for m-epicrec.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="ε; without it, the quantified one.")
    ] = None,
    as_published: AsPublished = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Record the release in this ledger before it is shown.")
    ] = None,
    limit: Annotated[float, typer.Option(help="The ε that the ledger allows in all.")] = 1.0,
    seed: Annotated[
        int | None, typer.Option(min=0, help="For experiments: repeatable, and so not private.")
    ] = None,
    settings: Set = None,
    scale: ScaleOption = None,
    as_json: Json = False,
) -> None:
    """Alter a history on this machine: what would be sent instead of it, and what it costs."""
    from epicrec.data.source import Source
    from epicrec.files import check_output
    from epicrec.perturb import make_perturber, release_through
    from epicrec.perturb.epicrec.utility import utility_bounds
    from epicrec.privacy import Ledger
    from epicrec.settings import given

    if ledger is not None:
        check_output(ledger)
    items = load_items(catalogue)
    public = given(catalogue=items, scale=read_scale(scale))
    options = given(epsilon=epsilon, as_published=as_published or None) | read_settings(settings)
    perturber = make_perturber(method, **public, **options)
    seen = Source(history, needed=("item_id",)).table()
    chosen: Any = level or "perturbed release"
    if levels is not None:
        chosen = dict.fromkeys(items.categories, chosen) | _read_levels(levels)
    if ledger is None:
        release = perturber.release(seen, chosen, seed=seed)
    else:
        release = release_through(Ledger(ledger, limit_epsilon=limit), perturber, seen, chosen)

    def plain() -> None:
        columns = {"times": release.counts, "rating": release.ratings}
        rows = [
            {"item_id": i, "title": items.title_of(i)}
            | {name: values[at] for name, values in columns.items() if values is not None}
            for at, i in enumerate(release.items)
        ]
        print_table("Would be sent", rows)
        out.print(f"Guarantee: {release.guarantee}")
        if bounds is not None:
            out.print(
                f"Category totals: the noisy ones are off by {bounds.noisy:.3g} on average; as "
                f"published, what is sent is by at most {bounds.repaired:.3g} (the paper says "
                f"{bounds.theorem:.3g}, which leaves out rounding).",
                soft_wrap=True,
            )
        if ledger is None:
            out.print("Not recorded in a ledger: another draw costs as much again.")

    scales = release.settings.get("scales", {})
    bounds = utility_bounds(items, scales) if scales else None
    result = release.to_dict() | {"scales": scales}
    result |= {} if bounds is None else {"bounds": vars(bounds)}
    show(result, as_json, plain)


def _read_levels(path: Path) -> dict[str, str]:
    """Category → level from a TOML or JSON file."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        levels = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read the levels in {path}: {error}. Write TOML or JSON"
        ) from error
    if not isinstance(levels, dict) or not all(isinstance(v, str) for v in levels.values()):
        raise InputError(f'{path}: write one line a category, such as Horror = "no release"')
    return levels


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

    A part that is finished is kept in the folder: a run that was broken off goes on where it was.
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
    """As the first row's columns; nothing where there is no value."""
    return {name: "" if row.get(name) is None else row[name] for name in first}
