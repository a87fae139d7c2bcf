"""The door: `epicrec` with its sub-commands. Results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from epicrec._version import __version__
from epicrec.errors import EpicrecError, InputError

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

out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False)

Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")
]
Data = Annotated[
    str, typer.Option("--data", "-d", help="A data set's name, a folder, or a ratings file.")
]
ScaleOption = Annotated[
    str | None,
    typer.Option("--scale", help="The rating scale low:high:step, where it is not known."),
]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", help="Privacy budget ε; without it, not private.")
]
Delta = Annotated[float | None, typer.Option("--delta", help="δ, for Gaussian noise.")]
Unit = Annotated[
    str | None, typer.Option("--unit", help="What is hidden: a 'rating' or a whole 'user'.")
]
FeedbackOption = Annotated[
    str | None,
    typer.Option("--feedback", help="'explicit' (ratings) or 'implicit' (what was seen)."),
]
AsPublished = Annotated[
    bool, typer.Option("--as-published", help="The paper's own version, with its flaws.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="A further setting of the method, key=value.")
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit 0 when done, 2 on bad input, 1 on anything that failed."""
    try:
        app(args=None if arguments is None else list(arguments))
    except EpicrecError as error:
        err.print(f"epicrec: {error}", markup=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, InputError) else 1)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"epicrec {__version__}")
        raise typer.Exit


# ---- data ---------------------------------------------------------------------------------


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """Name the data sets that can be loaded here."""
    from epicrec.data import EMBEDDED, available

    found = {name: str(path) if path else "embedded" for name, path in available().items()}
    rows = [{"name": name, "where": where} for name, where in found.items()]
    _show({"datasets": rows}, as_json, lambda: _table("Data sets", rows))
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

    figures = describe(_load(data, scale))
    _show(figures, as_json, lambda: _figures(figures))


@data_app.command("simulate")
def data_simulate(
    folder: Annotated[Path, typer.Argument(help="Where ratings.parquet and items.parquet go.")],
    users: Annotated[int, typer.Option(help="How many viewers.")] = 1000,
    items: Annotated[
        int | None, typer.Option(help="How many items; the embedded films if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same viewers.")] = 0,
    as_json: Json = False,
) -> None:
    """Make up viewers with tastes and write their ratings, in constant memory."""
    from epicrec.data.simulate import write_simulation
    from epicrec.progress import report

    with _progress():
        ratings = write_simulation(
            folder,
            users=users,
            items=items,
            seed=seed,
            progress=lambda done, total: report("simulating viewers", done, total),
        )
    figures = {"folder": str(folder), "users": users, "ratings": ratings}
    _show(figures, as_json, lambda: out.print(f"wrote {ratings:,} ratings to {folder}"))


@data_app.command("convert")
def data_convert(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder, or a ratings file.")],
    folder: Annotated[Path, typer.Argument(help="Where the converted data set goes.")],
    scale: ScaleOption = None,
    mapped: Annotated[
        bool, typer.Option("--mapped", help="Memory-mapped columns, which open at once.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a data set in any known format as Parquet, or as memory-mapped columns."""
    from epicrec.data.datasets import write_dataset

    dataset = _load(data, scale)
    with _progress():
        write_dataset(dataset, folder, mapped=mapped)
    figures = {"folder": str(folder), "ratings": len(dataset.ratings), "mapped": mapped}
    _show(
        figures, as_json, lambda: out.print(f"wrote {len(dataset.ratings):,} ratings to {folder}")
    )


# ---- fit, evaluate, recommend -------------------------------------------------------------


@app.command()
def evaluate(
    method: Annotated[str, typer.Argument(help="A method; 'epicrec methods' lists them.")],
    data: Data = "films",
    protocol: Annotated[str, typer.Option(help="How it is measured: rating, topn, ….")] = "rating",
    epsilon: Epsilon = None,
    delta: Delta = None,
    unit: Unit = None,
    feedback: FeedbackOption = None,
    as_published: AsPublished = False,
    test_fraction: Annotated[float, typer.Option(help="The share that is held out.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Fixes the split and, in experiments, the noise.")] = 0,
    n: Annotated[int, typer.Option("-n", help="The length of the lists.")] = 10,
    relevant_from: Annotated[
        float | None, typer.Option(help="Only held-out ratings from here on count as relevant.")
    ] = None,
    max_users: Annotated[
        int | None, typer.Option(help="Judge the lists of so many users, drawn at random.")
    ] = None,
    settings: Set = None,
    scale: ScaleOption = None,
    as_json: Json = False,
) -> None:
    """Fit a method on one part of a data set and measure it on the other."""
    from epicrec.evaluate import evaluate as run

    with _progress():
        result = run(
            method,
            _load(data, scale),
            protocol=protocol,
            test_fraction=test_fraction,
            seed=seed,
            n=n,
            relevant_from=relevant_from,
            max_users=max_users,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            feedback=feedback,
            as_published=as_published or None,
            settings=_settings(settings),
        )

    def show() -> None:
        _table(f"{method} on {result.data}, protocol {protocol}", [dict(result.metrics)])
        out.print(f"Guarantee: {result.guarantee}")
        spent = ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items())
        out.print(f"Time: {spent}. Peak memory: {result.peak_rss_mb:,.0f} MB")

    _show(result.to_dict(), as_json, show)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods."""
    from epicrec.models import MODELS, PRIVATE, model_class

    rows = []
    for name in MODELS:
        first = (model_class(name).__doc__ or "").strip().split("\n")[0]
        rows.append({"method": name, "with --epsilon": PRIVATE.get(name, ""), "what": first})
    _show({"methods": rows}, as_json, lambda: _table("Methods", rows))


@app.command()
def fit(
    method: Annotated[str, typer.Argument(help="A method; 'epicrec methods' lists them.")],
    model: Annotated[Path, typer.Argument(help="The file to write, such as model.npz.")],
    data: Data = "films",
    epsilon: Epsilon = None,
    delta: Delta = None,
    unit: Unit = None,
    feedback: FeedbackOption = None,
    as_published: AsPublished = False,
    settings: Set = None,
    scale: ScaleOption = None,
    as_json: Json = False,
) -> None:
    """Fit a method on a whole data set and save the model."""
    from epicrec.evaluate import make_model

    with _progress():
        fitted = make_model(
            method,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            feedback=feedback,
            as_published=as_published or None,
            settings=_settings(settings),
        ).fit(_load(data, scale).ratings)
        fitted.save(model)
    result = {"model": str(model), "method": method, "guarantee": fitted.guarantee.to_dict()}
    _show(result, as_json, lambda: out.print(f"wrote {model}. Guarantee: {fitted.guarantee}"))


@app.command()
def recommend(
    model: Annotated[Path, typer.Argument(help="A model that 'epicrec fit' wrote.")],
    history: Annotated[
        Path, typer.Option("--history", help="A CSV with item_id and, for ratings, rating.")
    ],
    n: Annotated[int, typer.Option("-n", help="How many items.")] = 10,
    category: Annotated[str | None, typer.Option(help="Only items of this category.")] = None,
    catalogue: Annotated[
        str, typer.Option(help="Titles and categories: a data set's name, a folder or a file.")
    ] = "films",
    as_json: Json = False,
) -> None:
    """Rank items for one history with a saved model. The history stays on this machine."""
    import pyarrow as pa

    from epicrec.data import Catalogue
    from epicrec.data.formats import read_ratings_table
    from epicrec.models import load

    fitted = load(model)
    items: Catalogue = _catalogue(catalogue)
    seen = read_ratings_table(history)
    if "user_id" not in seen.column_names:
        seen = seen.append_column("user_id", pa.array([0] * len(seen)))
    allowed = None
    if category is not None:
        if category not in items.categories:
            raise InputError(
                f"the catalogue has no category {category!r}; it has {', '.join(items.categories)}"
            )
        column = items.categories.index(category)
        allowed = items.item_ids[items.matrix[:, [column]].toarray().ravel() > 0]
    rows = [
        {
            "rank": row["rank"],
            "item_id": row["item_id"],
            "title": items.title_of(row["item_id"]),
            "score": round(row["score"], 4),
        }
        for row in fitted.recommend(seen, n=n, items=allowed).to_pylist()
    ]
    result = {"items": rows, "guarantee": fitted.guarantee.to_dict()}

    def show() -> None:
        _table("For you" if category is None else f"For you: {category}", rows)
        out.print(f"Guarantee to the people the model was learned from: {fitted.guarantee}")

    _show(result, as_json, show)


@app.command()
def perturb(
    method: Annotated[
        str, typer.Argument(help="s-epicrec (one level), m-epicrec (several) or d2p.")
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
        int | None, typer.Option(help="For experiments: repeatable, and so not private.")
    ] = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Alter a history on this machine: what would be sent instead of it, and what it costs."""
    from epicrec.data.formats import read_ratings_table
    from epicrec.perturb import make_perturber, release_through
    from epicrec.privacy import Ledger

    items = _catalogue(catalogue)
    options = {"epsilon": epsilon, "as_published": as_published, **_settings(settings)}
    perturber = make_perturber(method, items, **options)
    seen = read_ratings_table(history)
    chosen: Any = level or "perturbed release"
    if levels is not None:
        chosen = dict.fromkeys(items.categories, chosen) | _read_levels(levels)
    if ledger is None:
        release = perturber.release(seen, chosen, seed=seed)
    else:
        release = release_through(Ledger(ledger, limit_epsilon=limit), perturber, seen, chosen)

    def show() -> None:
        _table("Would be sent", [{"item_id": i, "title": items.title_of(i)} for i in release.items])
        out.print(f"Guarantee: {release.guarantee}", markup=False)
        if ledger is None:
            out.print("Not recorded in a ledger: another draw costs as much again.")

    _show(release.to_dict(), as_json, show)


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
    paper: Annotated[str, typer.Argument(help="epicrec, mcsherry-mironov, d2p or yang.")],
    folder: Annotated[Path, typer.Option("--out", help="Where tables and plots go.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Less data, fewer settings.")] = False,
    as_json: Json = False,
) -> None:
    """Run a paper's experiments: its tables and figures, the paper's values beside ours."""
    from epicrec.evaluate import reproduce as run

    with _progress():
        tables = run(paper, folder, quick=quick)

    def show() -> None:
        for name, rows in tables.items():
            if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
                _table(name.replace("_", " "), rows)
            else:
                out.print(f"{name}: {rows}", markup=False)

    _show(tables, as_json, show)


@app.command()
def audit(
    method: Annotated[str, typer.Argument(help="A private method or mechanism.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The ε it claims.")] = 1.0,
    runs: Annotated[int | None, typer.Option(help="How often it is run on each input.")] = None,
    as_json: Json = False,
) -> None:
    """Run a mechanism many times on neighbouring inputs; exit 1 if it leaks more than it claims."""
    from epicrec.evaluate import audit as run

    with _progress():
        found = run(method, epsilon=epsilon, runs=runs)
    holds = found.holds(epsilon)
    result = {
        "method": method,
        "claimed": epsilon,
        "lower_bound": found.lower_bound,
        "holds": holds,
    }
    result |= {"confidence": found.confidence, "runs": found.runs, "event": found.event}

    def show() -> None:
        verdict = "within the claim" if holds else "MORE THAN CLAIMED"
        out.print(
            f"{method} claims ε = {epsilon:g}; it is at least {found.lower_bound:.3f}: {verdict}"
        )
        out.print(f"({found.confidence:.0%} sure, {found.runs:,} runs each; {found.event})")

    _show(result, as_json, show)
    if not holds:
        raise typer.Exit(1)


@app.command()
def demo(
    once: Annotated[
        bool, typer.Option("--once", help="One round without a browser, then exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The whole system on loopback with the embedded data: server, client, page."""
    _needs("client,server", "fastapi", "sqlalchemy", "implicit", "httpx")
    from contextlib import ExitStack

    from epicrec.demo import one_round

    with ExitStack() as stack:
        with _progress():
            result, address, serve_pages = stack.enter_context(one_round())
        _show(result, as_json, lambda: _show_demo(result))
        if not once and not as_json and sys.stdout.isatty():
            out.print(f"Open {address} (Ctrl-C ends it)", markup=False)
            serve_pages()


def _show_demo(result: Mapping[str, Any]) -> None:
    history, sent = result["history"], result["release"]
    _table(f"A viewer's history, which stays on the device (10 of {len(history)})", history[:10])
    _table(f"What was sent instead (10 of {len(sent['items'])})", sent["items"][:10])
    out.print(f"Guarantee to the viewer: {sent['promise']}", markup=False)
    rows = [{"row": name, "films": " · ".join(films)} for name, films in result["rows"].items()]
    _table("Recommended on the device, from the true history", rows)
    out.print(
        f"Guarantee to the people the model was learned from: {result['model']['promise']}",
        markup=False,
    )


@app.command()
def client(
    server: Annotated[str, typer.Option(help="The recommender's address; kept for later.")] = "",
    ca: Annotated[
        Path | None, typer.Option(help="A certificate (PEM) to trust for that server.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the history is kept; ~/.local/share/epicrec.")
    ] = None,
    catalogue: Annotated[
        str, typer.Option(help="'films', or a list of films from MovieLens, IMDb or TMDB.")
    ] = "films",
    port: Annotated[int, typer.Option(help="The local port; 0 takes a free one.")] = 8377,
    restore: Annotated[
        Path | None, typer.Option(help="Everything from another machine, as exported there.")
    ] = None,
) -> None:
    """Your history, how private to be, and recommendations: pages on this machine alone."""
    _needs("client", "fastapi", "jinja2", "httpx", "rapidfuzz")
    from epicrec.client import run_client

    run_client(
        folder=folder,
        server=server,
        certificate=ca,
        catalogue=catalogue,
        port=port,
        restore=restore,
    )


@app.command("client-quality")
def client_quality(
    data: Data = "films",
    viewers: Annotated[int, typer.Option(help="How many people's clients.")] = 200,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε of the item model.")] = 1.0,
    unit: Annotated[
        str, typer.Option(help="What the item model hides: 'rating' or 'user'.")
    ] = "user",
    seed: Annotated[int, typer.Option(help="Fixes the split and the people.")] = 0,
    as_json: Json = False,
) -> None:
    """What people get through running clients and a running server: nDCG@10 as a table."""
    _needs("client,server", "fastapi", "sqlalchemy", "implicit", "httpx")
    from epicrec.client_quality import client_quality as run

    with _progress():
        result = run(data, viewers=viewers, epsilon=epsilon, unit=unit, seed=seed)
    _show(result, as_json, lambda: _table(f"nDCG@10, {result['data']}", result["table"]))


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings as TOML; docs/server.md lists them.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The folder of database, models, ledger and keys.")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="An SQLAlchemy URL, such as postgresql://…; else SQLite.")
    ] = None,
    catalogue: Annotated[
        str | None, typer.Option(help="Items to start with: a data set's name, a folder or a file.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; 8088.")] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Plain HTTP instead of TLS, on loopback only.")
    ] = False,
    train_from: Annotated[
        str | None, typer.Option(help="Publish an item model from this rating set, or 'store'.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Try everything a start needs, then exit.")
    ] = False,
    backup: Annotated[
        Path | None, typer.Option(help="Copy everything into this new folder, then exit.")
    ] = None,
    restore: Annotated[
        Path | None, typer.Option(help="Bring a backup into an empty server, then exit.")
    ] = None,
    purge: Annotated[
        int | None, typer.Option(help="Forget users not seen for so many days, then exit.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the recommender server until it is told to stop."""
    _needs("server", "fastapi", "sqlalchemy", "implicit")
    from epicrec.server import serve as run

    result = run(
        config, check=check, backup=backup, restore=restore, purge=purge, data=data,
        database=database, catalogue=catalogue, host=host, port=port, http=http or None,
        train_from=train_from,
    )  # fmt: skip
    _show(result, as_json, lambda: _figures(result))


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which benchmarks; all of them if none is named.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure speed beside peers, as ratios in one run."""
    import subprocess

    folder = Path(__file__).parents[2] / "benchmarks"
    found = {path.stem: path for path in sorted(folder.glob("*.py"))}
    chosen = names or [*found]
    unknown = [name for name in chosen if name not in found]
    if unknown or not found:
        raise InputError(
            f"there is no benchmark {unknown[0]!r}; choose from {', '.join(found)}"
            if found
            else "the benchmarks come with the source; run this in a checkout"
        )
    results = {}
    for name in chosen:
        command = [sys.executable, str(found[name]), *(["--json"] if as_json else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE if as_json else None, check=False)
        if done.returncode != 0:
            raise EpicrecError(f"the benchmark {name} failed with status {done.returncode}")
        if as_json:
            results[name] = json.loads(done.stdout)
    if as_json:
        print(json.dumps(results))


# ---- what the commands share --------------------------------------------------------------


def _needs(extra: str, *modules: str) -> None:
    """Say what to install where an extra's libraries are absent."""
    from importlib.util import find_spec

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise InputError(
            f"this needs {', '.join(missing)}; install them with pip install 'epicrec[{extra}]'"
        )


def _load(data: str, scale: str | None) -> Any:
    from epicrec.data import Scale, load_dataset

    return load_dataset(data, scale=Scale.parse(scale) if scale else None)


def _catalogue(name: str) -> Any:
    from epicrec.data.datasets import load_catalogue

    return load_catalogue(name)


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    """`key=value` with the value read as JSON where it is JSON, as text otherwise."""
    settings = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"cannot read --set {pair!r}; write key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def _show(result: Mapping[str, Any], as_json: bool, plain: Any) -> None:
    if as_json:
        print(json.dumps(result, default=str))
    else:
        plain()


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    out.print(title, markup=False)
    table = Table()
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    out.print(table)


def _figures(figures: Mapping[str, Any]) -> None:
    for name, value in figures.items():
        if value is not None:
            out.print(f"{name.replace('_', ' '):20} {_text(value)}", markup=False)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if abs(value) >= 10_000 else str(value)  # a year has no comma


@contextmanager
def _progress() -> Iterator[None]:
    """A bar on stderr for whatever reports how far it is."""
    from rich.progress import Progress, TimeElapsedColumn

    from epicrec.progress import listening

    tasks: dict[str, Any] = {}
    with Progress(
        *Progress.get_default_columns(), TimeElapsedColumn(), console=err, transient=True
    ) as bar:

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        with listening(show):
            yield
