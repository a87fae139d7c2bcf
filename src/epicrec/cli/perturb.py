"""`epicrec perturb`: what a device would send instead of a history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import (
    AsPublished,
    EngineOption,
    Json,
    Master,
    ScaleOption,
    Set,
    check_engine,
    read_scale,
    read_settings,
)
from epicrec.cli.output import out, print_table, progress, show
from epicrec.errors import InputError


@app.command()
def perturb(
    method: Annotated[
        str, typer.Argument(help="A perturber, such as s-epicrec; 'epicrec methods' lists them.")
    ],
    history: Annotated[
        Path | None, typer.Option("--history", help="A CSV with the column item_id.")
    ] = None,
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
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="With --engine spark: whose histories.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="With --engine spark: where the releases are written, once.")
    ] = None,
    engine: EngineOption = "local",
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Alter a history on this machine: what would be sent instead of it, and what it costs.

    With --engine spark, --data and --output: the histories of a whole population in a cluster.
    """
    from epicrec.data.datasets import load_catalogue
    from epicrec.data.formats import Source
    from epicrec.files import check_output
    from epicrec.parameters import given
    from epicrec.perturb import make_perturber, release_through
    from epicrec.privacy import Ledger

    check_engine(engine, master)
    _check_whose(history, data, output, ledger, master)
    if ledger is not None:
        check_output(ledger)
    items = load_catalogue(catalogue)
    public = given(catalogue=items, scale=read_scale(scale))
    options = given(epsilon=epsilon, as_published=as_published or None) | read_settings(settings)
    perturber = make_perturber(method, **public, **options)
    chosen: Any = level or "perturbed release"
    if levels is not None:
        chosen = dict.fromkeys(items.categories, chosen) | _read_levels(levels)
    if master is not None:
        assert data is not None
        assert output is not None
        _release_all(master, data, output, perturber, items, chosen, seed, as_json)
        return
    assert history is not None
    seen = Source(history, needed=("item_id",)).table()
    if ledger is None:
        release = perturber.release(seen, chosen, seed=seed)
    else:
        release = release_through(Ledger(ledger, limit_epsilon=limit), perturber, seen, chosen)
    _show_release(release, items, ledger is not None, as_json)


def _show_release(release: Any, items: Any, recorded: bool, as_json: bool) -> None:
    from epicrec.papers.epicrec.utility import utility_bounds

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
        if not recorded:
            out.print("Not recorded in a ledger: another draw costs as much again.")

    scales = release.settings.get("scales", {})
    bounds = utility_bounds(items, scales) if scales else None
    result = release.to_dict() | {"scales": scales}
    result |= {} if bounds is None else {"bounds": vars(bounds)}
    show(result, as_json, plain)


def _check_whose(
    history: Path | None, data: str | None, output: str | None, ledger: Path | None,
    master: str | None,
) -> None:  # fmt: skip
    """Refuse options that mix one person's history here with a population's in a cluster."""
    if master is None:
        if history is None or data is not None or output is not None:
            raise InputError(
                "give --history FILE; --data and --output are for a population in a cluster, with "
                "--engine spark"
            )
    elif data is None or output is None or history is not None:
        raise InputError(
            "in a cluster a population is released: give --data and --output, and no --history"
        )
    elif ledger is not None:
        raise InputError(
            "a ledger is one person's, and a cluster releases for many; leave it out. The releases "
            "are written once, and --output is refused where there are any"
        )


def _release_all(
    master: str, data: str, output: str, perturber: Any, items: Any, levels: Any,
    seed: int | None, as_json: bool,
) -> None:  # fmt: skip
    from epicrec.engine.spark_data import load_frame, session
    from epicrec.perturb import Release
    from epicrec.spark import release_population

    spark = session(master)
    with progress():
        sent = release_population(
            load_frame(spark, data), perturber, output, items=items.item_ids,
            scale=getattr(perturber, "scale", None), levels=levels, userCol="user_id",
            itemCol="item_id", seed=seed,
        )  # fmt: skip
        people = sent.count()
        one = sent.first()
    promise = Release.from_json(one["release"]).guarantee if one else None
    found = {"output": output, "people": people, "guarantee": promise and promise.to_dict()}

    def plain() -> None:
        out.print(f"wrote the releases of {people:,} people to {output}")
        out.print(f"Guarantee to each of them: {promise}")

    show(found, as_json, plain)


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
