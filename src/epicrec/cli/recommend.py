"""`epicrec recommend, predict`: rank and score with a saved model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import Json, load_data
from epicrec.cli.output import err, out, print_record, print_table, progress, show
from epicrec.errors import InputError

if TYPE_CHECKING:
    from epicrec.data import Catalogue, Ratings
    from epicrec.models import Recommender

Model = Annotated[Path, typer.Argument(help="A model that 'epicrec fit' wrote.")]
Histories = Annotated[
    str | None,
    typer.Option(
        "--data", "-d", help="Whose histories: a data set; those in the model if not given."
    ),
]


@app.command()
def recommend(
    model: Model,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            help="A CSV with item_id and, for ratings, rating; or a release as JSON.",
        ),
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Lists for all people, into the file --output.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="With --all: the .parquet or .csv file to write.")
    ] = None,
    data: Histories = None,
    n: Annotated[int, typer.Option("-n", help="How many items.")] = 10,
    category: Annotated[str | None, typer.Option(help="Only items of this category.")] = None,
    catalogue: Annotated[
        str, typer.Option(help="Titles and categories: a data set's name, a folder or a file.")
    ] = "films",
    as_json: Json = False,
) -> None:
    """Rank items with a saved model: for one history, which stays on this machine, or for all."""
    from epicrec.data.datasets import load_catalogue
    from epicrec.models import load
    from epicrec.models.batch import write_lists

    if (history is None) != everyone:
        raise InputError(
            "give --history FILE to rank for one person, or --all --output FILE for all"
        )
    if everyone:
        to = _checked_output(output, "lists.parquet")
    elif output is not None or data is not None:
        raise InputError("--output and --data go with --all")
    fitted = load(model)
    if everyone:
        allowed = None if category is None else _of_category(load_catalogue(catalogue), category)
        histories = _histories(fitted, data)
        with progress():
            rows = write_lists(to, fitted, histories, n=n, items=allowed)
        _wrote(to, fitted, {"users": histories.n_users, "rows": rows}, as_json)
    else:
        assert history is not None
        _show_list(fitted, history, load_catalogue(catalogue), n, category, as_json)


def _show_list(
    fitted: Recommender, history: Path, items: Catalogue, n: int, category: str | None, json: bool
) -> None:
    allowed = None if category is None else _of_category(items, category)
    seen = _read_history(history, fitted)
    _say_unknown(fitted, seen, history)
    rows = [
        {
            "rank": row["rank"],
            "item_id": row["item_id"],
            "title": items.title_of(row["item_id"]),
            "score": round(row["score"], 4),
        }
        for row in fitted.recommend(seen, n=n, items=allowed).to_pylist()
    ]
    title = "For you" if category is None else f"For you: {category}"
    _show(fitted, {"items": rows}, json, lambda: print_table(title, rows))


def _say_unknown(fitted: Recommender, seen: Any, path: Path) -> None:
    """Say which items of a history mean nothing to the model; refuse where all do."""
    from epicrec.data import find

    ids = seen.item_ids if hasattr(seen, "item_ids") else seen["item_id"].to_numpy()
    unknown = ids[find(fitted.item_ids_, ids) < 0]
    if len(unknown) == 0:
        return
    named = ", ".join(map(str, unknown[:5])) + (", …" if len(unknown) > 5 else "")
    said = f"{len(unknown):,} of {len(ids):,} items in {path} are unknown to the model: {named}"
    if len(unknown) == len(ids):
        raise InputError(f"{said}; ids are those of the items it was fitted on")
    err.print(f"{said}; left out", soft_wrap=True)


def _of_category(items: Catalogue, category: str) -> Any:
    if category not in items.categories:
        raise InputError(
            f"the catalogue has no category {category!r}; it has {', '.join(items.categories)}"
        )
    column = items.categories.index(category)
    return items.item_ids[items.matrix[:, [column]].toarray().ravel() > 0]


@app.command()
def predict(
    model: Model,
    pairs: Annotated[Path, typer.Argument(help="CSV or Parquet with user_id and item_id.")],
    output: Annotated[Path, typer.Option(help="The .parquet or .csv file to write.")],
    data: Histories = None,
    as_json: Json = False,
) -> None:
    """Score pairs of users and items with a saved model, in the order of their file.

    An item that the model does not know scores NaN; a user it does not know is refused.
    """
    from epicrec.data.formats import Source
    from epicrec.models import load
    from epicrec.models.batch import write_scores

    to = _checked_output(output, "scores.parquet")
    source = Source(pairs)
    fitted = load(model)
    if fitted.task == "lists":
        err.print("the model is for lists: its scores order items and are no ratings")
    with progress():
        rows, unknown = write_scores(to, fitted, source, _histories(fitted, data))
    if unknown:
        err.print(f"the model does not know the items of {unknown:,} pairs: their score is NaN")
    _wrote(to, fitted, {"rows": rows, "unknown_items": unknown}, as_json)


def _checked_output(output: Path | None, such_as: str) -> Path:
    from epicrec.models.batch import check_table

    if output is None:
        raise InputError(f"name the file to write: --output {such_as}")
    return check_table(output)


def _histories(fitted: Recommender, data: str | None) -> Ratings:
    """The histories of the named data set, or those that the model keeps."""
    if data is not None:
        rated = fitted.task == "ratings"
        found: Ratings = load_data(data, None, rated=rated).ratings
        return found
    if fitted.histories_ is None:
        raise InputError(
            f"{fitted.method} keeps nobody's history in its file; name whose are meant: --data NAME"
        )
    return fitted.histories_


def _wrote(to: Path, fitted: Recommender, figures: dict[str, int], as_json: bool) -> None:
    said = f"wrote {figures['rows']:,} rows to {to}"
    _show(fitted, {"output": str(to), **figures}, as_json, lambda: out.print(said))


def _show(
    fitted: Recommender, result: dict[str, Any], as_json: bool, tell: Callable[[], None]
) -> None:
    """The result, with the guarantee and the record of the model it was made by."""

    def plain() -> None:
        tell()
        out.print(f"Guarantee to the people the model was learned from: {fitted.guarantee}")
        print_record(fitted.record)

    promised = {"guarantee": fitted.guarantee.to_dict(), "record": fitted.record}
    show(result | promised, as_json, plain)


def _read_history(path: Path, model: Any) -> Any:
    """One person's table, or a release that `epicrec perturb --json` printed, used as it is."""
    import pyarrow as pa

    from epicrec.data.formats import Source
    from epicrec.papers.yang.dpi_models import ReleasedRatings
    from epicrec.perturb import Release

    if path.suffix != ".json":
        table = Source(path, needed=("item_id",)).table()
        if "user_id" in table.column_names:
            return table
        return table.append_column("user_id", pa.array([0] * len(table)))
    try:
        release = Release.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}; give a file that is there") from error
    columns = {"user_id": [0] * len(release.items), "item_id": list(release.items)}
    rated = {} if release.ratings is None else {"rating": list(release.ratings)}
    return ReleasedRatings.from_table(pa.table(columns | rated), scale=model.scale_)
