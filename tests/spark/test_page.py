"""docs/spark.md, done as a reader does it: every block of Python, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cluster import MARKS
from distributions import ROOT
from epicrec.data import Catalogue
from epicrec.models import Recommender

pytestmark = MARKS


def test_what_the_page_shows_can_be_done(spark, tmp_path: Path) -> None:
    """What it does not say are the reader's own: a frame, the items, some pairs. A cluster's disk
    is a folder here, and ALS has one round, as it takes longer than all the rest."""
    rng = np.random.default_rng(0)
    titles = [f"film {number}" for number in range(12)]
    catalogue = Catalogue.from_columns([*range(12)], titles, ["War", "Art|War", "Art"] * 4)
    users, items = np.nonzero(rng.random((40, 12)) < 0.5)
    rows = {"user_id": users, "item_id": items, "rating": rng.integers(1, 6, len(users)) / 1.0}
    frame = spark.createDataFrame(pa.table(rows | {"user": users, "item": items}))
    space = {
        "frame": frame,
        "item_ids": catalogue.item_ids,
        "catalogue": catalogue,
        "pairs": frame.select("user", "item").limit(5),
        "some": frame.select("user").limit(3),
    }
    page = (ROOT / "docs" / "spark.md").read_text("utf-8").replace("hdfs://…", str(tmp_path))
    page = page.replace("ALS(", "ALS(maxIter=1, numUserBlocks=1, numItemBlocks=1, ")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.S | re.M)
    assert len(blocks) == page.count("```py") == 3
    fitted = []
    for block in blocks:
        exec(compile(block, "docs/spark.md", "exec"), space)
        fitted.append(space.get("model"))
    assert isinstance(fitted[0], Recommender)
    assert fitted[1].guarantee.status == "proved"
    assert fitted[1].transform(frame.select("user", "item")).count() == len(users)
    assert space["sent"].count() == len({*users.tolist()})
    assert (tmp_path / "model").is_dir()


@pytest.mark.parametrize("said", ["evaluate", "perturb", "data convert", "fit"])
def test_the_page_names_every_command_that_takes_an_engine(said: str) -> None:
    page = (ROOT / "docs" / "spark.md").read_text("utf-8")
    assert re.search(rf"^epicrec {said} .*--engine spark", page, re.M)
