"""`epicrec compare`: every method on one split of one data set, at equal privacy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import Data, ItemsOption, Json, ScaleOption, load_data
from epicrec.cli.output import out, print_table, progress, say_guesses, show
from epicrec.errors import InputError


@app.command()
def compare(
    data: Data = "films",
    task: Annotated[
        str | None, typer.Option(help="ratings (RMSE) or lists (nDCG@10); without it, both.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", "-e", help="Budgets, such as 0.3,1,3.")
    ] = None,
    delta: Annotated[float, typer.Option(help="δ, for those with Gaussian noise.")] = 1e-6,
    seeds: Annotated[int | None, typer.Option(help="How often noise is drawn.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two budgets, two draws.")] = False,
    plot: Annotated[Path | None, typer.Option(help="The table as a picture, .svg or .png.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="A folder to keep each row in, so that the same command resumes."),
    ] = None,
    items: ItemsOption = None,
    scale: ScaleOption = None,
    as_json: Json = False,
) -> None:
    """Every method on one split over a grid of ε: what it costs, whom it trusts, how good it is."""
    from epicrec.evaluate.compare import TASKS, Plan, quick_plan
    from epicrec.evaluate.compare import compare as run
    from epicrec.evaluate.plots import plot_comparison
    from epicrec.extras import needs
    from epicrec.files import check_folder, check_output
    from epicrec.parameters import given

    if task is not None and task not in TASKS:
        raise InputError(f"the task is one of {', '.join(TASKS)}, not {task!r}")
    if plot is not None:
        needs("papers", "altair", "vl_convert")
        check_output(plot)
    if keep is not None:
        check_folder(keep)
    base = quick_plan(Plan(delta=delta)) if quick else Plan(delta=delta)
    chosen = vars(base) | given(epsilons=_budgets(epsilon), seeds=seeds, keep=keep)
    chosen_tasks: Any = None if task is None else [task]
    with progress():
        dataset = load_data(data, scale, items, rated=task != "lists")
        found = run(dataset, tasks=chosen_tasks, plan=Plan(**chosen))
        if plot is not None:
            plot_comparison(found, plot)
    say_guesses(dataset.ratings)
    show(found, as_json, lambda: _print(found))


def _budgets(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"cannot read --epsilon {text!r}; write numbers with commas, such as 0.3,1,3"
        ) from error


def _print(found: Mapping[str, Any]) -> None:
    for task, table in found["tasks"].items():
        metric = table["metric"]
        title = f"{task} on {found['data']}: {metric}, {found['seeds']} draws of the noise"
        print_table(title, [shown_row(row, metric) for row in table["rows"]])
        reasons: dict[str, list[str]] = {}
        for one in table["refused"]:
            reasons.setdefault(one["reason"], []).append(one["method"])
        for reason, methods in reasons.items():
            out.print(f"Not here, as it {reason}: {'; '.join(methods)}.", soft_wrap=True)


def shown_row(row: Mapping[str, Any], metric: str) -> dict[str, str]:
    """A row of the comparison as printed."""
    spread = "" if row["spread"] is None else f" ± {row['spread']:.4f}"
    return {
        "method": row["method"],
        "ε": "" if row["epsilon"] is None else f"{row['epsilon']:.3g}",
        metric: f"{row[metric]:.4f}{spread}",
        "unit": row["unit"],
        "relation": row["relation"],
        "status": row["status"],
        "trusted": row["trust"],
    }
