"""What does a round of the shared model cost? CPU and bytes for each device and each server.

    epicrec bench shared_model [DEVICES …]            cost of a report, and of rounds; minutes
    epicrec bench shared_model liars [--data D]       what liars within the norm reach; minutes
    epicrec bench shared_model scale [REPORTS …]      uploads and memory as reports grow; long

One round with sealed shares. Devices are simulated one after the other in this process, so that
each server's part can be told apart. Figures are for each device; where cost is linear, they are
the same for any number of devices.
"""

from __future__ import annotations

import hashlib
import sys
import time
from argparse import Namespace
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from _measuring import Parts, fresh

from epicrec.collective.contributions import COUNTS, name_of, sensitivity_of
from epicrec.collective.helper import Helper
from epicrec.collective.keys import new_signing_key, verifying_key
from epicrec.collective.leader import Leader, two_servers
from epicrec.collective.rounds import MemoryKeys
from epicrec.collective.shared_model import Collective
from epicrec.collective.shares import make_report
from epicrec.collective.task import RoundParameters as Parameters
from epicrec.data import Ratings, load_dataset
from epicrec.evaluate.protocols import evaluate_topn, split
from epicrec.machine import peak_memory
from epicrec.models.private.basis import DIRECTIONS
from epicrec.server.store.database import Database
from epicrec.server.store.shared_model_rounds import SqlStore

PUBLISHED = b"a benchmark"
_UPLOADS = 200
LONGEST = DIRECTIONS * (DIRECTIONS + 1) // 2
MIDDLE = 150 * 151 // 2
"""The longest round, how all directions of taste go together, and one of a quarter of them."""


def round_of(given: Namespace) -> None:
    """One round of 200 integers for each number of devices, and one that is as long as any."""
    print("| devices | integers | bytes a report | device, ms | leader, ms | helper, ms |")
    print("|---|---|---|---|---|---|")
    for devices in given.devices:
        print(measured(devices, 200), flush=True)
    for length in (MIDDLE, LONGEST):
        print(measured(min(100, *given.devices), length), flush=True)


def measured(devices: int, length: int) -> str:
    """One line: milliseconds of CPU for each device, at the device, the leader and the helper."""
    given = _parameters(length, 5 << 24, devices)
    leader, helper = two_servers()
    announcement = leader.start(given, PUBLISHED, helper).announcement
    vector = np.zeros(length, np.int64)
    vector[:: max(length // 100, 1)] = 1000
    spent = {"device": 0.0, "leader": 0.0, "helper": 0.0}

    class Timed:
        def __getattr__(self, name):  # type: ignore[no-untyped-def]
            def call(message: bytes) -> bytes:
                start = time.process_time()
                answer: bytes = getattr(helper, name)(message)
                spent["helper"] += time.process_time() - start
                return answer

            return call

    size = 0
    for _ in range(devices):
        start = time.process_time()
        report = make_report(announcement, vector)
        spent["device"] += time.process_time() - start
        size = len(report.encoded())
        start = time.process_time()
        leader.upload("bench", 0, report)
        spent["leader"] += time.process_time() - start
    start = time.process_time()
    leader.collect("bench", 0, Timed())
    spent["leader"] += time.process_time() - start - spent["helper"]
    each = " | ".join(f"{1e3 * seconds / devices:.2f}" for seconds in spent.values())
    return f"| {devices:,} | {length:,} | {size:,} | {each} |"


def _parameters(length: int, sensitivity: int, most: int) -> Parameters:
    return Parameters(
        task="bench", round=0, statistic="vector", length=length, sensitivity=sensitivity, mu=0.27,
        delta=1e-5, share=Fraction(1), most=most, basis=hashlib.sha256(PUBLISHED).digest(),
    )  # fmt: skip


def scale(given: Namespace) -> None:
    """What an upload and a round cost with so many reports stored, on SQLite; reports are short."""
    print("| reports | upload, ms | round, ms a report | most memory of both servers, MB |")
    print("|---|---|---|---|")
    for reports in given.reports:
        print(fresh(round_with, reports), flush=True)


def round_with(reports: int) -> str:
    """One line: processor time of an upload beside so many, and of the round; peak memory."""
    with TemporaryDirectory() as folder:
        keys = new_signing_key(), new_signing_key()
        stores = [SqlStore(_database(Path(folder) / f"{role}.sqlite")) for role in "lh"]
        leader = Leader(stores[0], MemoryKeys(), keys[0], verifying_key(keys[1]))
        helper = Helper(stores[1], MemoryKeys(), keys[1], verifying_key(keys[0]))
        announcement = leader.start(_parameters(1, 1, reports), PUBLISHED, helper).announcement
        one = np.ones(1, np.int64)
        for start in range(0, reports - _UPLOADS, 1000):
            made = [
                make_report(announcement, one) for _ in range(min(1000, reports - _UPLOADS - start))
            ]
            with leader.store.transaction() as book:
                book.take_places("bench", 0, len(made))
                book.add_reports("bench", 0, made)
        last = [make_report(announcement, one) for _ in range(_UPLOADS)]
        start = time.process_time()
        for report in last:
            leader.upload("bench", 0, report)
        upload = time.process_time() - start
        start = time.process_time()
        people = leader.collect("bench", 0, helper).people
        spent = time.process_time() - start
        assert people == reports
    each = f"{1e3 * upload / _UPLOADS:.2f} | {1e3 * spent / reports:.2f} | {peak_memory():.0f}"
    return f"| {reports:,} | {each} |"


def _database(file: Path) -> Database:
    made = Database(f"sqlite:///{file}")
    made.migrate()
    return made


def liars(given: Namespace) -> None:
    """What liars of full norm reach who push one film that few have seen."""
    data = load_dataset(given.data)
    train, test = split(data, "topn", given.fraction, seed=given.seed)
    seen = train.item_counts
    target = int(np.argmin(np.abs(seen - given.seen)))
    print(f"a film that {seen[target]} of {train.n_users:,} people have seen")
    print("| liars | lie | nDCG@10 | lists with the film |")
    print("|---|---|---|---|")
    for number in given.liars:
        for lie in ("together", "crosswise")[: 1 + bool(number)]:
            model = Collective(epsilon=given.epsilon, delta=1e-5, seed=given.seed)
            model.engine = partial(with_liars, number, lie, target, model.engine)
            found, _ = evaluate_topn(model, train, test, catalogue=data.catalogue, n=10)
            lists = model.recommend(train, n=10)
            reached = np.mean(np.asarray(lists["item_id"]) == train.item_ids[target]) * 10
            print(f"| {number} | {lie} | {found['ndcg']:.4f} | {reached:.2%} |", flush=True)


def with_liars(number, lie, target, engine, statistic, ratings):  # type: ignore[no-untyped-def]
    """A sum with liars in it: counts of the film alone, and its taste beside the popular ones'."""
    total = engine(statistic, ratings)
    most = sensitivity_of(statistic)
    if name_of(statistic) == COUNTS:
        total[target] += number * most
        return total
    popular = np.argsort(-np.bincount(ratings.items, minlength=ratings.n_items))[:20]
    own, other = (
        statistic.tastes(Ratings.of_one(ratings.item_ids, np.sort(items))).astype(float)[0]
        for items in (np.array([target]), popular)
    )
    both = own / max(np.linalg.norm(own), 1) + other / max(np.linalg.norm(other), 1)
    matrix = np.outer(both, both) if lie == "together" else np.outer(own, other)
    matrix = matrix + matrix.T
    below = np.tril_indices(len(own))
    packed = matrix[below] * np.where(below[0] == below[1], 5, 7)
    packed *= most / max(np.linalg.norm(packed), 1e-9)
    return total + number * np.trunc(packed).astype(np.int64)


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("round", round_of)
    part.add_argument("devices", nargs="*", type=int, default=[1000, 10_000])
    part = found.add("scale", scale)
    part.add_argument("reports", nargs="*", type=int, default=[3000, 10_000, 30_000, 100_000])
    part = found.add("liars", liars)
    part.add_argument("--data", default="ml-1m")
    part.add_argument("--liars", nargs="*", type=int, default=[0, 1, 200])
    part.add_argument("--seen", type=int, default=29, help="how many have seen the film")
    part.add_argument("--epsilon", type=float, default=1.0)
    part.add_argument("--fraction", type=float, default=0.2)
    part.add_argument("--seed", type=int, default=0)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
