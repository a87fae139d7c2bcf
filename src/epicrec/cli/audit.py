"""`epicrec audit`: run a method, a device or a server on neighbours, and measure what it leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import AsPublished, Json, Set, Unit, read_settings
from epicrec.cli.output import out, print_table, progress, show
from epicrec.errors import InputError

_TIMES = 4
"""How much longer the whole table takes than the quick one."""


@app.command()
def audit(
    method: Annotated[str | None, typer.Argument(help="A private method or mechanism.")] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="The ε it claims: 1, with D2P 3.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="How often each game is played.")] = None,
    unit: Unit = None,
    as_published: AsPublished = False,
    settings: Set = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every method, the device and the server, as a table.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="With --all: a few minutes of it.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="With --all: claim against found, as .svg or .png.")
    ] = None,
    attacks: Annotated[
        bool, typer.Option("--attacks", help="What known attacks do, with and without privacy.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a method many times on neighbouring inputs; exit 1 if it leaks more than it claims."""
    if [method is not None, everything, attacks].count(True) != 1:
        raise InputError("name one method to audit, or give --all, or --attacks")
    if attacks:
        _attacks(as_json)
    elif method is None:
        _table(quick, plot, as_json)
    else:
        chosen = read_settings(settings) | ({} if unit is None else {"unit": unit})
        _one(method, as_json, epsilon, runs, as_published, chosen)


def _one(
    method: str, as_json: bool, epsilon: float | None, runs: int | None, as_published: bool,
    settings: dict[str, Any],
) -> None:  # fmt: skip
    from epicrec.evaluate import audit as run

    with progress():
        found = run(
            method, epsilon=epsilon, runs=runs, as_published=as_published, settings=settings
        )

    def plain() -> None:
        verdict = "within the claim" if found.holds else "MORE THAN CLAIMED"
        out.print(
            f"{found.method} claims {found.measure} = {found.claimed:.4g}; it is at least "
            f"{found.lower_bound:.3f}, {found.share:.0%} of that: {verdict}"
        )
        out.print(
            f"({found.confidence:.0%} sure, {found.runs:,} runs in each world: {found.neighbours}; "
            f"{found.event})"
        )

    show(found.to_dict(), as_json, plain)
    if not found.holds:
        raise typer.Exit(1)


def _table(quick: bool, plot: Path | None, as_json: bool) -> None:
    from epicrec.demo.program_audits import all_rows
    from epicrec.evaluate.audits.methods import BROKEN, audit_rows

    if plot is not None:
        from epicrec.extras import needs

        needs("papers", "altair", "vl_convert")
    with progress():
        found = list(audit_rows(all_rows(), part=1 if quick else _TIMES))
    wrong = [row.method for row in found if row.holds == (row.method in BROKEN)]
    if plot is not None:
        from epicrec.evaluate.plots import plot_claims

        plot_claims([row.to_dict() for row in found], plot)

    def plain() -> None:
        print_table("What is claimed and what was found, 95 % for the whole table", [
            {
                "method": row.method, "unit": row.unit, "claim": f"{row.measure} {row.claimed:.3f}",
                "found": f"{row.lower_bound:.3f}", "share": f"{row.share:.2f}",
                "": "" if row.holds else "more than claimed",
            }
            for row in found
        ])  # fmt: skip
        out.print("Not as expected: " + "; ".join(wrong) if wrong else "All as expected.")

    show({"rows": [row.to_dict() for row in found], "unexpected": wrong}, as_json, plain)
    if wrong:
        raise typer.Exit(1)


def _attacks(as_json: bool) -> None:
    from epicrec.evaluate.attacks import attack_rows

    with progress():
        rows = list(attack_rows())
    shown: list[dict[str, Any]] = [row.to_dict() for row in rows]
    show(
        {"attacks": shown},
        as_json,
        lambda: print_table("How much better than guessing (0: not at all, 1: always)", shown),
    )
