"""`epicrec demo, client, serve, bench`, and the quality of what running programs show."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from epicrec.cli.app import app
from epicrec.cli.options import Data, Json
from epicrec.cli.output import out, print_figures, print_table, progress, show
from epicrec.errors import InputError
from epicrec.extras import needs


@app.command()
def demo(
    once: Annotated[
        bool, typer.Option("--once", help="One round without a browser, then exit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The whole system on loopback with the embedded data: two servers, devices, pages."""
    needs("client,server", "fastapi", "sqlalchemy", "implicit", "httpx")
    from contextlib import ExitStack

    from epicrec.demo.walkthrough import one_round

    with ExitStack() as stack:
        with progress():
            result, address, serve_pages = stack.enter_context(one_round())
        show(result, as_json, lambda: _show_demo(result))
        if not once and not as_json and sys.stdout.isatty():
            out.print(f"Open {address} (Ctrl-C ends it)")
            serve_pages()


def _show_demo(result: Mapping[str, Any]) -> None:
    history, sent = result["history"], result["release"]
    print_table(
        f"A viewer's history, which stays on the device (10 of {len(history)})", history[:10]
    )
    out.print(
        f"Instead, one answer was sent for each of {sent['titles']} titles, seen or not, with lies "
        f"at random: {len(sent['reported'])} films reported, {sent['denied']} denied, and "
        f"{sent['claimed']} claimed that were never seen ({sent['bytes']:,} bytes)."
    )
    out.print(f"Guarantee to the viewer: {sent['promise']}")
    rounds = [one["people"] for one in result["rounds"]]
    out.print(
        f"Then this device and {rounds[-1] - 1:,} others trained a common model in {len(rounds)} "
        "rounds: each cut its numbers in two halves, and no server saw both."
    )
    rows = [{"row": name, "films": " · ".join(films)} for name, films in result["rows"].items()]
    print_table(f"Recommended on the device, from the true history and {result['with']}", rows)
    out.print(f"Guarantee to everyone who took part: {result['model']['promise']}")
    out.print(result["model"]["void"])


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
        str,
        typer.Option(help="'titles', 'films', or a list of films from MovieLens, IMDb or TMDB."),
    ] = "titles",
    port: Annotated[int, typer.Option(help="The local port; 0 takes a free one.")] = 8377,
    restore: Annotated[
        Path | None, typer.Option(help="Everything from another machine, as exported there.")
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Open the pages in a browser, where there is a screen.")
    ] = True,
    install: Annotated[
        bool, typer.Option("--install", help="Into the desktop's menu and autostart, then exit.")
    ] = False,
) -> None:
    """Your history, how private to be, and recommendations: pages on this machine alone."""
    needs("client", "fastapi", "jinja2", "httpx", "rapidfuzz", "platformdirs")
    from epicrec.client.main import run_client

    if install:
        from epicrec.client.desktop import install as into_desktop

        for path in into_desktop(["--folder", str(folder.resolve())] if folder else []):
            out.print(f"wrote {path}")
        return
    run_client(
        folder=folder,
        server=server,
        certificate=ca,
        catalogue=catalogue,
        port=port,
        restore=restore,
        browser=browser,
    )


@app.command()
def rows(
    history: Annotated[
        Path, typer.Option(help="Any file that the client imports, or a CSV with a title column.")
    ],
    n: Annotated[int, typer.Option("-n", help="How many titles a row has.")] = 12,
    as_json: Json = False,
) -> None:
    """What the client would show a person with this history and no server."""
    needs("client", "fastapi", "jinja2", "httpx", "rapidfuzz", "platformdirs")
    from epicrec.client.main import rows_of_file

    result = rows_of_file(history, n)
    show(result, as_json, lambda: _show_rows(result))


def _show_rows(result: Mapping[str, Any]) -> None:
    for row in result["rows"]:
        films = [film | {"why": film["why"] or "popular"} for film in row["films"]]
        print_table(row["title"], films)
    if result["unmatched"]:
        out.print(f"Not found in the list of titles: {', '.join(result['unmatched'][:20])}")


@app.command("client-quality")
def client_quality(
    data: Data = "films",
    viewers: Annotated[int, typer.Option(help="How many people's clients.")] = 200,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε of the item model.")] = 1.0,
    unit: Annotated[
        str, typer.Option(help="What the item model hides: 'rating' or 'user'.")
    ] = "user",
    seed: Annotated[int, typer.Option(help="Fixes the split and the people.")] = 0,
    titles: Annotated[
        bool, typer.Option("--titles", help="The devices have the client's own list of titles.")
    ] = False,
    alone: Annotated[
        bool, typer.Option("--alone", help="Without a server: titles matched by name and year.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What people get through running clients and a running server: nDCG@10 as a table."""
    needs("client,server", "fastapi", "sqlalchemy", "implicit", "httpx")
    from epicrec.demo.quality import alone_quality
    from epicrec.demo.quality import client_quality as run

    with progress():
        if alone:
            result = alone_quality(data, viewers=viewers, seed=seed)
        else:
            result = run(
                data, viewers=viewers, epsilon=epsilon, unit=unit, seed=seed, titles=titles
            )
    show(result, as_json, lambda: print_table(f"nDCG@10, {result['data']}", result["table"]))


@app.command("service-quality")
def service_quality(
    data: Data = "films",
    viewers: Annotated[int, typer.Option(help="How many people release.")] = 4000,
    mechanism: Annotated[
        str, typer.Option(help="By which mechanism: 'randomised-response', 'd2p' or 'epicrec'.")
    ] = "randomised-response",
    strength: Annotated[
        str, typer.Option(help="How much noise, as on the client's page: 'weak' is ε = 3.")
    ] = "weak",
    seed: Annotated[int, typer.Option(help="Fixes the split and the people.")] = 0,
    as_json: Json = False,
) -> None:
    """What a service gives that learns from releases: which model it adopts, nDCG@10 as a table."""
    needs("client,server", "fastapi", "sqlalchemy", "implicit", "httpx")
    from epicrec.demo.quality import service_quality as run

    with progress():
        result = run(data, viewers=viewers, mechanism=mechanism, strength=strength, seed=seed)
    said = f"nDCG@10, {data}, {mechanism}, ε = {result['epsilon']:g}: {result['adopted']} is served"
    show(result, as_json, lambda: print_table(said, result["table"]))


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
    workers: Annotated[
        int | None, typer.Option(help="Processes that answer; several need PostgreSQL.")
    ] = None,
    train_from: Annotated[
        str | None, typer.Option(help="Publish an item model from this rating set, or 'store'.")
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(help="'leader' or 'helper' of a common model; docs/collective.md."),
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
    needs("server", "fastapi", "sqlalchemy", "implicit")
    from epicrec.server import serve as run

    result = run(
        config, check=check, backup=backup, restore=restore, purge=purge, data=data,
        database=database, catalogue=catalogue, host=host, port=port, http=http or None,
        workers=workers, train_from=train_from, role=role,
    )  # fmt: skip
    show(result, as_json, lambda: print_figures(result))


@app.command(
    context_settings={
        "allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False,
    }
)  # fmt: skip
def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which benchmark; without it, all are listed.")] = "",
    as_json: Json = False,
) -> None:
    """Run one of the benchmarks of a checkout; its own options follow its name."""
    import subprocess

    folder = Path(__file__).parents[3] / "benchmarks"
    found = {path.stem: path for path in sorted(folder.glob("[!_]*.py"))}
    if not found:
        raise InputError(
            f"the benchmarks come with the source, and there are none in {folder}; "
            "clone the repository and run this in the checkout"
        )
    as_json = as_json or "--json" in context.args
    if not name:
        firsts = {one: path.read_text("utf-8").partition("\n")[0] for one, path in found.items()}
        rows = [{"benchmark": one, "answers": line.strip('"')} for one, line in firsts.items()]
        show({"benchmarks": rows}, as_json, lambda: print_table("epicrec bench NAME", rows))
        return
    if name not in found:
        raise InputError(f"there is no benchmark {name!r}; choose from {', '.join(found)}")
    words = [word for word in context.args if word != "--json"]
    command = [sys.executable, str(found[name]), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE if as_json else None, text=True)
    if as_json:
        show({"benchmark": name, "lines": done.stdout.splitlines()}, as_json, lambda: None)
    if done.returncode != 0:
        raise typer.Exit(done.returncode)
