"""A service of half a million people on PostgreSQL: filled, trained, served, backed up, purged.

    python benchmarks/service_scale.py --database postgresql://…    250,000 and 1 million rows
    python benchmarks/service_scale.py --database postgresql://… --rows 20000000
    python benchmarks/service_scale.py --database postgresql://… --items 2000    a tenth of them

The database must be empty and is empty again afterwards. Everybody releases 40 films of 20,000 by
D2P at ε = 3, so that a training corrects, judges and adopts as it does in earnest; rows go in by
COPY, without the checks of references. Each step is a process of its own, with its seconds, its
processor time and its peak memory; one JSON object a size.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from server import ADMIN, SERVER_PORT, _ask, asked, process, secret

EACH, TASTES = 40, 50
SERVE = (
    "import json, sys; from epicrec.server import serve; print(serve(**json.loads(sys.argv[1])))"
)


def catalogue(items: int) -> Any:
    """Films in 20 categories, with years and how well known they are."""
    from epicrec.data import Catalogue

    rng = np.random.default_rng(1)
    names = np.array([f"category {k}" for k in range(20)])
    own = ["|".join(names[list({*pair})]) for pair in rng.integers(0, 20, (items, 2)).tolist()]
    ids = [f"item-{k:05}" for k in range(items)]
    return Catalogue.from_columns(
        ids, ids, own, year=rng.integers(1930, 2025, items), popularity=1000 * _known(items)
    )


def _known(items: int) -> Any:
    return 1 / (np.arange(items) + 20.0)


def histories(people: int, items: int) -> Iterator[tuple[int, Any]]:
    """Blocks of people × films: half of what somebody watches is what many do, half of a taste."""
    rng = np.random.default_rng(0)
    usual = np.cumsum(_known(items)) / _known(items).sum()
    taste = rng.permutation(items).reshape(TASTES, -1)
    for start in range(0, people, 20_000):
        size = min(20_000, people - start)
        films = np.searchsorted(usual, rng.random((size, EACH)))
        own = rng.integers(0, TASTES, size)[:, None]
        place = (taste.shape[1] * rng.random((size, EACH // 2)) ** 2).astype(int)
        films[:, : EACH // 2] = taste[own, place]
        yield start, films


def fill(url: str, folder: Path, people: int, items: int) -> None:
    """Tables, items as a start of the server makes them, users and their releases by COPY."""
    from sqlalchemy import text

    from epicrec.perturb import D2P
    from epicrec.server import Settings
    from epicrec.server.service import Service
    from epicrec.server.store import users as accounts
    from epicrec.server.store.feedback import written

    def digest(user: int) -> str:
        return "\\x" + accounts.digest(secret(user)).hex()

    films = catalogue(items)
    pa_parquet.write_table(films.to_table(), folder / "items.parquet")
    service = Service(
        Settings(data=str(folder / "server"), database=url, catalogue=str(folder / "items.parquet"))
    )
    service.prepare()
    law = D2P(films, epsilon=3.0)
    told = {
        "guarantee": json.dumps(law.guarantee.to_dict()), "method": law.method,
        "settings": written(law.settings), "aggregates": "{}",
    }  # fmt: skip
    with service.database.writing() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("DROP INDEX feedback_of_item"))
        for start, seen in histories(people, items):
            who = np.arange(start, start + len(seen)) + 1
            copy(connection, "users", {
                "user_key": who, "user_id": [f"user-{k - 1}" for k in who],
                "secret_digest": [digest(k - 1) for k in who.tolist()],
                "labels": "null", "comment": "", "revision": 0,
                "seen_day": accounts.today() - 40 * (who % 10 == 0),
            })  # fmt: skip
            rows = np.repeat(who, EACH) * items + law.channel.draw(seen.ravel())
            sent, times = np.unique(rows, return_counts=True)
            copy(connection, "releases", {
                "release_key": who, "user_key": who, "feedback_type": "watch", "release_id": "",
                "rows": np.bincount(sent // items - who[0]), **told,
            })  # fmt: skip
            copy(connection, "feedback", {
                "user_key": sent // items, "item_key": sent % items + 1, "feedback_type": "watch",
                "release_key": sent // items, "value": times.astype(float), "comment": "",
            })  # fmt: skip
        for table, key in (("users", "user_key"), ("releases", "release_key")):
            last = f"SELECT setval(pg_get_serial_sequence('{table}', '{key}'), {people})"
            connection.execute(text(last))
        connection.execute(text("UPDATE state SET revision = revision + 1"))
        connection.execute(text("CREATE INDEX feedback_of_item ON feedback (item_key)"))
    with service.database._autocommit() as connection:
        connection.execute(text("ANALYZE"))
    service.database.stop()


def copy(connection: Any, table: str, columns: dict[str, Any]) -> None:
    """Columns, or one value for all rows, into a table."""
    size = max(len(one) for one in columns.values() if not isinstance(one, str | int))
    made = pa.table(
        {n: [c] * size if isinstance(c, str | int) else pa.array(c) for n, c in columns.items()}
    )
    content = io.BytesIO()
    pa_csv.write_csv(made, content, pa_csv.WriteOptions(include_header=False))
    cursor = connection.connection.cursor()
    how = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT csv)"
    with cursor, cursor.copy(how) as into:
        into.write(content.getvalue())


def step(*command: str, given: bytes = b"") -> dict[str, Any]:
    """A process: its seconds, processor time and peak memory."""
    began = time.perf_counter()
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    assert started.stdin is not None
    started.stdin.write(given)
    started.stdin.close()
    _, status, used = os.wait4(started.pid, 0)
    assert status == 0, f"{command} ended with {status}"
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_rss_mb": used.ru_maxrss // 1024,
    }


def served(settings: dict[str, Any], people: int, seconds: float) -> dict[str, Any]:
    """A start until the first answer, then lists for people drawn at random."""
    given = {f"EPICREC_SERVER_{name.upper()}": str(value) for name, value in settings.items()}

    def request() -> bytes:
        user = random.randrange(people)
        return asked(user, "GET", f"/api/recommend/user-{user}?n=10")

    began = time.perf_counter()
    with process(sys.executable, "-c", SERVE, "{}", port=SERVER_PORT, **given) as pid:
        ready = time.perf_counter() - began
        times = sorted(asyncio.run(_ask(SERVER_PORT, seconds, 8, request)))
        memory = Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]
    return {
        "ready_seconds": round(ready, 1),
        "per_second": round(len(times) / seconds),
        "p50_ms": round(1e3 * times[len(times) // 2], 1),
        "p99_ms": round(1e3 * times[int(len(times) * 0.99)], 1),
        "peak_rss_mb": int(memory) // 1024,
    }


def one_size(url: str, rows: int, items: int, seconds: float) -> dict[str, Any]:
    from epicrec.server import Settings
    from epicrec.server.store.database import Database
    from epicrec.server.training.job import read_status

    people = rows // EACH
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            "data": str(folder / "server"), "database": url, "http": True, "port": SERVER_PORT,
            "admin_key": ADMIN, "train_every": 0, "requests_per_minute": 10**7, "training_nice": 0,
        }  # fmt: skip
        found: dict[str, Any] = {"rows": rows, "users": people, "items": items}

        def done(what: str, figures: dict[str, Any]) -> None:
            found[what] = figures | {"database_mb": size(url)}
            print(f"{rows:,} rows: {what} {found[what]}", file=sys.stderr, flush=True)

        myself = (sys.executable, __file__, "--database", url)
        sizes = ("--fill", str(people), "--items", str(items))
        done("fill", step(*myself, *sizes, "--folder", name))
        job = (sys.executable, "-m", "epicrec.server.training.job", "train")
        done("train", step(*job, given=json.dumps(Settings(**settings).to_dict()).encode()))
        last = read_status(Settings(**settings), "train")["last"]
        found["train"] |= {name: last[name] for name in ("adopted", "feedback", "left_out")}
        models = sum(file.stat().st_size for file in (folder / "server").rglob("*.npy"))
        found["train"]["lists_mb"] = models >> 20
        done("serve", served(settings, people, seconds))
        serve = (sys.executable, "-c", SERVE)
        stored = {"data": settings["data"], "database": url}
        done("backup", step(*serve, json.dumps(stored | {"backup": str(folder / "backup")})))
        found["backup"]["backup_mb"] = (folder / "backup" / "epicrec.sqlite").stat().st_size >> 20
        done("purge of a tenth", step(*serve, json.dumps(stored | {"purge": 30})))
        database = Database(Settings(**stored).database_url)
        with database.writing() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        database.stop()
    return found


def size(url: str) -> int:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database()) >> 20").fetchone()
    assert row is not None
    return int(row[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--database", required=True, help="an empty PostgreSQL")
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of asking")
    parser.add_argument("--fill", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.fill:
        fill(chosen.database, chosen.folder, chosen.fill, chosen.items)
        return
    import psycopg

    with psycopg.connect(chosen.database) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        if tables.fetchone() != (0,):
            sys.exit("the database is not empty; name one that is")
    for rows in chosen.rows:
        print(json.dumps(one_size(chosen.database, rows, chosen.items, chosen.seconds)), flush=True)


if __name__ == "__main__":
    main()
