"""What does a round of the shared model cost? CPU and bytes for each device and each server.

    epicrec bench shared_model [DEVICES …]      1,000, 10,000 and 100,000 devices; minutes

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

import numpy as np
from _measuring import Parts

from epicrec.collective.leader import two_servers
from epicrec.collective.shares import make_report
from epicrec.collective.task import RoundParameters as Parameters
from epicrec.models.private.basis import DIRECTIONS

PUBLISHED = b"a benchmark"
LONGEST = DIRECTIONS * (DIRECTIONS + 1) // 2
"""The longest round: how all directions of taste go together."""


def round_of(given: Namespace) -> None:
    """One round of 200 integers for each number of devices, and one that is as long as any."""
    print("| devices | integers | bytes a report | device, ms | leader, ms | helper, ms |")
    print("|---|---|---|---|---|---|")
    for devices in given.devices:
        print(measured(devices, 200), flush=True)
    print(measured(min(100, *given.devices), LONGEST), flush=True)


def measured(devices: int, length: int) -> str:
    """One line: milliseconds of CPU for each device, at the device, the leader and the helper."""
    given = Parameters(
        task="bench", round=0, statistic="vector", length=length, sensitivity=1 << 24, mu=0.27,
        delta=1e-5, share=Fraction(1), most=devices, basis=hashlib.sha256(PUBLISHED).digest(),
    )  # fmt: skip
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


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("round", round_of)
    part.add_argument("devices", nargs="*", type=int, default=[1000, 10_000, 100_000])
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
