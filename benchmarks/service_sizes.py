"""How does a service on PostgreSQL grow? Filled, trained, served, backed up and purged by size.

    epicrec bench service_sizes --database postgresql://…       250,000 and 1 million rows
    epicrec bench service_sizes --database postgresql://… --rows 2500000 20000000
    epicrec bench service_sizes --database postgresql://… --items 2000    a tenth of the items

Minutes for a million rows, half an hour for 20 million. The database must be empty and is empty
again afterwards. Everybody releases 40 films by D2P at ε = 3, so that a training corrects, judges
and adopts as it does in earnest; rows go in by COPY, without the checks of references. Each step is
a process of its own, with its seconds, its processor time and its peak memory; one JSON object a
size.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import sys
import tempfile
import time
from argparse import SUPPRESS, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from _measuring import Parts, run_to_end, show
from service import ADMIN, PORT, TRAIN, ask, asked, process, secret
from sqlalchemy import text

from epicrec.data import Catalogue
from epicrec.perturb import D2P
from epicrec.server import Settings
from epicrec.server.service import Service
from epicrec.server.store.database import Database
from epicrec.server.store.feedback import written
from epicrec.server.store.users import digest, today
from epicrec.server.training.job import read_status

EACH, TASTES = 40, 50
SERVE_WITH = (
    "import json, sys; from epicrec.server import serve; print(serve(**json.loads(sys.argv[1])))"
)


def sizes(given: Namespace) -> None:
    """Each size in turn: filled, trained, served, backed up, purged."""
    if given.fill:
        _fill_by_copy(given.database, given.folder, given.fill, given.items)
        return
    import psycopg

    with psycopg.connect(given.database) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        if tables.fetchone() != (0,):
            raise SystemExit("the database is not empty; name one that is")
    for rows in given.rows:
        show(_one_size(given.database, rows, given.items, given.seconds))


def _one_size(url: str, rows: int, items: int, seconds: float) -> dict[str, Any]:
    people = rows // EACH
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            "data": str(folder / "server"), "database": url, "http": True, "port": PORT,
            "admin_key": ADMIN, "train_every": 0, "requests_per_minute": 10**7, "training_nice": 0,
        }  # fmt: skip
        found: dict[str, Any] = {"rows": rows, "users": people, "items": items}

        def done(what: str, figures: dict[str, Any]) -> None:
            found[what] = figures | {"database_mb": _database_mb(url)}
            print(f"{rows:,} rows: {what} {found[what]}", file=sys.stderr, flush=True)

        myself = (sys.executable, __file__, "--database", url)
        fill = ("--fill", str(people), "--items", str(items), "--folder", name)
        done("fill", run_to_end(*myself, *fill))
        done("train", run_to_end(*TRAIN, given=json.dumps(Settings(**settings).to_dict()).encode()))
        last = read_status(Settings(**settings), "train")["last"]
        found["train"] |= {name: last[name] for name in ("adopted", "feedback", "left_out")}
        models = sum(file.stat().st_size for file in (folder / "server").rglob("*.npy"))
        found["train"]["lists_mb"] = models >> 20
        done("serve", _served(settings, people, seconds))
        command = (sys.executable, "-c", SERVE_WITH)
        stored = {"data": settings["data"], "database": url}
        into = {"backup": str(folder / "backup")}
        done("backup", run_to_end(*command, json.dumps(stored | into)))
        found["backup"]["backup_mb"] = (folder / "backup" / "epicrec.sqlite").stat().st_size >> 20
        done("purge of a tenth", run_to_end(*command, json.dumps(stored | {"purge": 30})))
        database = Database(Settings(**stored).database_url)
        with database.writing() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        database.stop()
    return found


def _served(settings: dict[str, Any], people: int, seconds: float) -> dict[str, Any]:
    """A start until the first answer, then lists for people drawn at random."""
    given = {f"EPICREC_SERVER_{name.upper()}": str(value) for name, value in settings.items()}

    def request() -> bytes:
        user = random.randrange(people)
        return asked(user, "GET", f"/api/recommend/user-{user}?n=10")

    began = time.perf_counter()
    with process(sys.executable, "-c", SERVE_WITH, "{}", port=PORT, **given) as pid:
        ready = time.perf_counter() - began
        times = sorted(asyncio.run(ask(PORT, seconds, 8, request)))
        memory = Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]
    return {
        "ready_seconds": round(ready, 1),
        "per_second": round(len(times) / seconds),
        "p50_ms": round(1e3 * times[len(times) // 2], 1),
        "p99_ms": round(1e3 * times[int(len(times) * 0.99)], 1),
        "peak_rss_mb": int(memory) // 1024,
    }


def _database_mb(url: str) -> int:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database()) >> 20").fetchone()
    assert row is not None
    return int(row[0])


def _fill_by_copy(url: str, folder: Path, people: int, items: int) -> None:
    """Tables, items as a start of the server makes them, users and their releases by COPY."""

    def digest_of(user: int) -> str:
        return "\\x" + digest(secret(user)).hex()

    films = _catalogue(items)
    pa_parquet.write_table(films.to_table(), folder / "items.parquet")
    service = Service(
        Settings(data=str(folder / "server"), database=url, catalogue=str(folder / "items.parquet"))
    )
    service.prepare()
    mechanism = D2P(films, epsilon=3.0)
    told = {
        "guarantee": json.dumps(mechanism.guarantee.to_dict()), "method": mechanism.method,
        "settings": written(mechanism.settings), "aggregates": "{}",
    }  # fmt: skip
    with service.database.writing() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("DROP INDEX feedback_of_item"))
        for start, seen in _histories(people, items):
            who = np.arange(start, start + len(seen)) + 1
            _copy(connection, "users", {
                "user_key": who, "user_id": [f"user-{k - 1}" for k in who],
                "secret_digest": [digest_of(k - 1) for k in who.tolist()],
                "labels": "null", "comment": "", "revision": 0,
                "seen_day": today() - 40 * (who % 10 == 0),
            })  # fmt: skip
            rows = np.repeat(who, EACH) * items + mechanism.channel.draw(seen.ravel())
            sent, times = np.unique(rows, return_counts=True)
            _copy(connection, "releases", {
                "release_key": who, "user_key": who, "feedback_type": "watch", "release_id": "",
                "rows": np.bincount(sent // items - who[0]), **told,
            })  # fmt: skip
            _copy(connection, "feedback", {
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


def _copy(connection: Any, table: str, columns: dict[str, Any]) -> None:
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


def _catalogue(items: int) -> Catalogue:
    """Films in 20 categories, with years and how well known they are."""
    rng = np.random.default_rng(1)
    names = np.array([f"category {k}" for k in range(20)])
    own = ["|".join(names[list({*pair})]) for pair in rng.integers(0, 20, (items, 2)).tolist()]
    ids = [f"item-{k:05}" for k in range(items)]
    return Catalogue.from_columns(
        ids, ids, own, year=rng.integers(1930, 2025, items), popularity=1000 * _known(items)
    )


def _known(items: int) -> Any:
    return 1 / (np.arange(items) + 20.0)


def _histories(people: int, items: int) -> Iterator[tuple[int, Any]]:
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


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("sizes", sizes)
    part.add_argument("--database", required=True, help="an empty PostgreSQL")
    part.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000])
    part.add_argument("--items", type=int, default=20_000)
    part.add_argument("--seconds", type=float, default=5.0, help="of asking")
    part.add_argument("--fill", type=int, help=SUPPRESS)
    part.add_argument("--folder", type=Path, help=SUPPRESS)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
