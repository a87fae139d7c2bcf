"""What all tests share: small data made here, and the real data where it is."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from epicrec.data import Ratings
from epicrec.testing.fixtures import films, viewers  # noqa: F401

BESIDE = Path(__file__).parents[2] / "shared" / "data"

settings.register_profile(
    "no stopwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no stopwatch")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real rating data: the first of `$EPICREC_DATA`, else the one beside the
    checkout; the test is skipped where it is absent."""
    folder = Path(os.environ.get("EPICREC_DATA", "").split(os.pathsep)[0] or BESIDE)
    if not folder.is_dir():
        pytest.skip(f"needs the real rating data, which is not at {folder}; set EPICREC_DATA")
    return folder


@pytest.fixture(scope="session")
def checkerboard() -> Ratings:
    """Even users love even items and hate odd ones, odd users the other way round; the diagonal is
    left out, for a model to find."""
    size = 16
    user, item = np.nonzero(~np.eye(size, dtype=bool))
    return Ratings.from_columns(user, item, np.where((user + item) % 2 == 0, 5, 1))
