"""`epicrec data`: look at, make and convert data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epicrec.cli.app import data_app
from epicrec.cli.options import (
    EngineOption,
    ItemsOption,
    Json,
    Master,
    ScaleOption,
    check_engine,
    load_data,
    read_columns,
    read_scale,
)
from epicrec.cli.output import (
    err,
    out,
    print_figures,
    print_table,
    progress,
    say_guesses,
    say_left_out,
    show,
)
from epicrec.errors import InputError


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """Name the data sets that can be loaded here."""
    from epicrec.data import EMBEDDED, available

    found = {name: str(path) if path else "embedded" for name, path in available().items()}
    rows = [{"name": name, "where": where} for name, where in found.items()]
    show({"datasets": rows}, as_json, lambda: print_table("Data sets", rows))
    if not as_json and len(found) == 1:
        err.print(
            f"only {EMBEDDED!r} is here; set EPICREC_DATA to a folder of data sets to add more"
        )


@data_app.command("describe")
def data_describe(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder, or a ratings file.")],
    scale: ScaleOption = None,
    as_json: Json = False,
) -> None:
    """Size, scale and shape of a data set."""
    from epicrec.data import describe

    figures = describe(load_data(data, scale))
    show(figures, as_json, lambda: print_figures(figures))


@data_app.command("simulate")
def data_simulate(
    folder: Annotated[Path, typer.Argument(help="Where ratings.parquet and items.parquet go.")],
    users: Annotated[int, typer.Option(help="How many viewers.")] = 1000,
    items: Annotated[
        int | None, typer.Option(help="How many items; the embedded films if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same viewers.")] = 0,
    as_json: Json = False,
) -> None:
    """Make up viewers with tastes and write their ratings, in constant memory."""
    from epicrec.data.simulate import write_simulation
    from epicrec.files import check_folder
    from epicrec.progress import report

    check_folder(folder)
    with progress():
        ratings = write_simulation(
            folder,
            users=users,
            items=items,
            seed=seed,
            progress=lambda done, total: report("simulating viewers", done, total),
        )
    figures = {"folder": str(folder), "users": users, "ratings": ratings}
    show(figures, as_json, lambda: out.print(f"wrote {ratings:,} ratings to {folder}"))


@data_app.command("convert")
def data_convert(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder, or a ratings file.")],
    folder: Annotated[Path, typer.Argument(help="Where the converted data set goes.")],
    items: ItemsOption = None,
    scale: ScaleOption = None,
    columns: Annotated[
        str | None,
        typer.Option(help="The file's names of our columns: user=u,item=i,rating=r,time=t."),
    ] = None,
    sep: Annotated[
        str | None, typer.Option(help="What separates columns in a text file: ';', tab, '::'.")
    ] = None,
    mapped: Annotated[
        bool, typer.Option("--mapped", help="Memory-mapped columns, which open at once.")
    ] = False,
    engine: EngineOption = "local",
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Write a data set in any known format as Parquet, or as memory-mapped columns, and beside it
    the scale in dataset.toml, where it is known. Files of any size are streamed; with --engine
    spark the machines of a cluster write the parts of one table."""
    from epicrec.data.datasets import convert_dataset
    from epicrec.files import check_folder

    check_folder(folder)
    check_engine(engine, master)
    if master is not None:
        if mapped:
            raise InputError("memory-mapped columns are one machine's; leave out --mapped")
        from epicrec.engine.spark_data import convert_in_cluster, session

        kept, left_out = convert_in_cluster(
            session(master), data, folder, items=items, scale=read_scale(scale),
            columns=read_columns(columns), sep=sep,
        )  # fmt: skip
        there = {"folder": str(folder), "ratings": kept, "left_out": left_out, "mapped": False}
        show(there, as_json, lambda: out.print(f"wrote {kept:,} ratings to {folder}"))
        return
    with progress():
        dataset = convert_dataset(
            data, folder, items=items, scale=read_scale(scale), columns=read_columns(columns),
            sep=sep, mapped=mapped,
        )  # fmt: skip
    say_left_out(dataset)
    say_guesses(dataset.ratings)
    figures = {"folder": str(folder), "ratings": len(dataset.ratings), "mapped": mapped}
    show(figures, as_json, lambda: out.print(f"wrote {len(dataset.ratings):,} ratings to {folder}"))
