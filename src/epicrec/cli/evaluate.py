"""`epicrec evaluate, methods, fit`: fit methods, measure them, list them."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import (
    AsPublished,
    Checkpoint,
    Data,
    Delta,
    EngineOption,
    Epsilon,
    FeaturesOption,
    ItemsOption,
    Json,
    Master,
    ScaleOption,
    Set,
    TaskOption,
    Unit,
    check_engine,
    load_data,
    read_scale,
    read_settings,
)
from epicrec.cli.output import err, out, print_record, print_table, progress, say_guesses, show
from epicrec.errors import InputError

if TYPE_CHECKING:
    from epicrec.data import Scale


@app.command()
def evaluate(
    method: Annotated[str, typer.Argument(help="A method; 'epicrec methods' lists them.")],
    data: Data = "films",
    protocol: Annotated[
        str | None,
        typer.Option(help="How it is measured; without it by its task: topn for lists, rating."),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    unit: Unit = None,
    task: TaskOption = None,
    features: FeaturesOption = None,
    as_published: AsPublished = False,
    test_fraction: Annotated[float, typer.Option(help="The share that is held out.")] = 0.2,
    folds: Annotated[
        int | None, typer.Option(help="Cross-validation: hold out each of so many parts in turn.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes the split and, in experiments, the noise.")] = 0,
    n: Annotated[int, typer.Option("-n", help="The length of the lists.")] = 10,
    relevant_from: Annotated[
        float | None, typer.Option(help="Only held-out ratings from here on count as relevant.")
    ] = None,
    max_users: Annotated[
        int | None, typer.Option(help="Judge the lists of so many users, drawn at random.")
    ] = None,
    settings: Set = None,
    items: ItemsOption = None,
    scale: ScaleOption = None,
    engine: EngineOption = "local",
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Fit a method on one part of a data set and measure it on the other."""
    from epicrec.evaluate import evaluate as run
    from epicrec.evaluate.protocols import usual_protocol
    from epicrec.parameters import given

    check_engine(engine, master)
    with progress():
        chosen = given(epsilon=epsilon, task=task, as_published=as_published or None)
        own = read_settings(settings, features)
        rated = master is None or (protocol or usual_protocol(method, chosen | own)) != "topn"
        dataset = load_data(data, scale, items, rated=rated, master=master)
        result = (run if master is None else _in_cluster())(
            method,
            dataset,
            protocol=protocol,
            test_fraction=test_fraction,
            **given(folds=folds),
            seed=seed,
            n=n,
            relevant_from=relevant_from,
            max_users=max_users,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            task=task,
            as_published=as_published or None,
            settings=own,
        )
    say_guesses(dataset.ratings)

    def plain() -> None:
        ran = method if result.method == method else f"{result.method} (for {method})"
        ran += f", {result.settings['task']}" if "task" in result.settings else ""
        print_table(f"{ran} on {result.data}, protocol {result.protocol}", [dict(result.metrics)])
        if result.folds:
            rows = [{"fold": at, **fold} for at, fold in enumerate(result.folds, 1)]
            print_table("Each fold", rows)
        out.print(f"Guarantee: {result.guarantee}")
        print_record(result.record)
        spent = ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items())
        peak = "not known here" if result.peak_rss_mb is None else f"{result.peak_rss_mb:,.0f} MB"
        out.print(f"Time: {spent}. Peak memory: {peak}")

    show(result.to_dict(), as_json, plain)


def _in_cluster() -> Any:
    from epicrec.spark.evaluation import evaluate_in_cluster

    return evaluate_in_cluster


@app.command()
def methods(as_json: Json = False) -> None:
    """List all methods: the models that learn, and the perturbers that alter a history."""
    from epicrec.models import model_class
    from epicrec.perturb import perturber_class
    from epicrec.registry import MODELS, PERTURBERS, names

    rows: list[dict[str, str]] = []
    for kind, group, find in (
        ("model", MODELS, model_class),
        ("perturber", PERTURBERS, perturber_class),
    ):
        for name in names(group):
            try:
                rows.append(_method_row(kind, group, name, find(name)))
            except InputError as error:  # another package's mistake hides no other method
                err.print(f"epicrec: {error}", soft_wrap=True)
    show({"methods": rows}, as_json, lambda: print_table("Methods", rows))


def _method_row(kind: str, group: str, name: str, cls: Any) -> dict[str, str]:
    from epicrec.models import PRIVATE
    from epicrec.parameters import taken
    from epicrec.registry import OURS, entry

    both = kind == "model" and "task" in taken(cls)
    package = entry(group, name).package
    return {
        "method": name,
        "kind": kind,
        "unit": " or ".join(cls.units),
        "task": "ratings or lists" if both else cls.task,
        "status": cls.status,
        "with --epsilon": PRIVATE.get(name, "") if kind == "model" else "",
        "package": "" if package == OURS else package,
        "what": (cls.__doc__ or "").strip().split("\n")[0],
    }


@app.command()
def fit(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="A method; 'epicrec methods' lists them.")],
    model: Annotated[Path, typer.Argument(help="The file to write, such as model.npz.")],
    data: Data = "films",
    epsilon: Epsilon = None,
    delta: Delta = None,
    unit: Unit = None,
    task: TaskOption = None,
    features: FeaturesOption = None,
    as_published: AsPublished = False,
    settings: Set = None,
    items: ItemsOption = None,
    scale: ScaleOption = None,
    engine: EngineOption = "local",
    master: Master = None,
    checkpoint: Checkpoint = None,
    as_json: Json = False,
) -> None:
    """Fit a method on a whole data set and save the model.

    A private one takes the items and the scale from the data set's folder (its catalogue and
    dataset.toml) or from --items and --scale, never from the ratings.
    """
    from epicrec.files import check_output
    from epicrec.models import make_model
    from epicrec.models.checkpoint import kept_in
    from epicrec.parameters import given

    check_output(model)
    check_engine(engine, master)
    options = given(
        epsilon=epsilon, delta=delta, unit=unit, task=task,
        as_published=as_published or None,
    )  # fmt: skip
    with progress():
        recommender = make_model(method, **options | read_settings(settings, features))
        _check_public(recommender, data, items, read_scale(scale), context.ensure_object(list))
        with kept_in(checkpoint, recommender) if checkpoint else nullcontext():
            rated = recommender.task == "ratings"
            learned_from = load_data(data, scale, items, rated=rated, master=master)
            fitted = recommender.fit(learned_from.ratings, learned_from.catalogue)
            fitted.save(model)
    say_guesses(learned_from.ratings)
    result = {
        "model": str(model),
        "method": fitted.method,
        "asked": method,
        "task": fitted.task,
        "guarantee": fitted.guarantee.to_dict(),
        "record": fitted.record,
    }

    def plain() -> None:
        out.print(f"wrote {model}, for {fitted.task}. Guarantee: {fitted.guarantee}")
        print_record(fitted.record)

    show(result, as_json, plain)


def _check_public(
    model: Any, data: str, items: str | None, scale: Scale | None, typed: list[str]
) -> None:
    """Refuse to guess for a private model, before any rating is read, and show what to type."""
    from epicrec.data.datasets import public_of
    from epicrec.data.public import refusal

    known = public_of(data, items=items, scale=scale)
    missing = model.unsaid(items=known.items is not None, scale=known.scale is not None)
    if missing:
        add = {"items": ["--items", "items.csv"], "scale": ["--scale", "0.5:5:0.5"]}
        added = [part for name in missing for part in add[name]]
        raise refusal(missing, shlex.join(["epicrec", *typed, *added]))
