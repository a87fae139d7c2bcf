"""What all tests share: small data made here, the real data where it is, and the same draws at
every run."""

import os
import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from epicrec.data import Ratings
from epicrec.perturb.epicrec import mechanism
from epicrec.privacy import noise
from epicrec.testing.fixtures import films, viewers  # noqa: F401

BESIDE = Path(__file__).parents[2] / "shared" / "data"

settings.register_profile(
    "no stopwatch", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("searching", settings.get_profile("no stopwatch"), derandomize=False)
settings.load_profile("no stopwatch")

DRAWN = random.Random()
"""In the place of the operating system's randomness, for noise: begins anew with each test's name,
so that a test that passed passes again, here and elsewhere."""
default_rng = np.random.default_rng
os.environ["EPICREC_SERVER_TRAINING_NICE"] = "0"  # on a busy machine it would never end


@pytest.fixture(scope="session", autouse=True)
def _same_noise() -> Iterator[None]:
    """Noise without a seed comes from `DRAWN`; keys, tokens and names do not."""
    source = SimpleNamespace(token_bytes=DRAWN.randbytes, randbits=DRAWN.getrandbits)
    with pytest.MonkeyPatch.context() as patch:
        for module in (noise, mechanism):
            patch.setattr(module, "secrets", source)
        patch.setattr(
            np.random,
            "default_rng",
            lambda seed=None: default_rng(DRAWN.getrandbits(128) if seed is None else seed),
        )
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that in the end no process waits for another."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """File by file, but all that need the cluster in one process: it takes long to start."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = super()._split_scope(nodeid)
            return "spark" if "spark" in scope else scope

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of any scope; what takes hours may meet what nobody has met."""
    soaking = item.get_closest_marker("soak") is not None
    DRAWN.seed(secrets.token_bytes(32) if soaking else item.nodeid)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real rating data: the first of `$EPICREC_DATA`, else the one beside the
    checkout; the test is skipped where it is absent."""
    folder = Path(os.environ.get("EPICREC_DATA", "").split(os.pathsep)[0] or BESIDE)
    if not folder.is_dir():
        pytest.skip(f"needs the real rating data, which is not at {folder}; set EPICREC_DATA")
    return folder


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one Spark cluster of the run, with its folder, master and workers."""
    from cluster import running_cluster

    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: Any) -> Iterator[Any]:
    """The one session of this process with the cluster."""
    from cluster import session_with

    running = session_with(cluster)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def checkerboard() -> Ratings:
    """Even users love even items and hate odd ones, odd users the other way round; the diagonal is
    left out, for a model to find."""
    size = 16
    user, item = np.nonzero(~np.eye(size, dtype=bool))
    return Ratings.from_columns(user, item, np.where((user + item) % 2 == 0, 5, 1))
