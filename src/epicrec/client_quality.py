"""Client quality: a server and many clients on loopback, and what people get out of them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.data import EMBEDDED, Catalogue, Dataset, Ratings, load_dataset, split_per_user
from epicrec.data.datasets import write_dataset
from epicrec.data.simulate import simulate_table
from epicrec.errors import InputError
from epicrec.loopback import learn_releases, serving

SIMULATED = 10_000


def client_quality(
    data: str = "films", *, viewers: int = 200, epsilon: float = 1.0, unit: str = "user",
    seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """nDCG@10 of what clients show, over `viewers` people of a data set, 20 % held out.

    The item model is learned from the training part of everybody, with ε and unit as given. Public
    popularity is taken from the same part.
    """
    from epicrec.client.quality import measure, viewers_of

    dataset = load_dataset(data)
    known = dataset.catalogue
    if known is None:
        raise InputError(f"{data} has no catalogue, and clients need one; choose another")
    if data == EMBEDDED:  # more of the same viewers: the item model needs many under its noise
        many = Ratings.from_table(simulate_table(SIMULATED), scale=dataset.ratings.scale)
        dataset = replace(dataset, ratings=many)
    train, test = split_per_user(dataset.ratings, 0.2, seed=seed)
    train, test = train.with_items(known.item_ids), test.with_items(known.item_ids)
    popularity = pa.array(train.item_counts.astype(np.float64))
    table = known.to_table()
    table = table.drop_columns([n for n in table.column_names if n == "popularity"])
    films = Catalogue.from_table(table.append_column("popularity", popularity))
    with tempfile.TemporaryDirectory(prefix="epicrec-") as folder:
        base = Path(folder)
        write_dataset(Dataset("quality", train, films), base / "data")
        with serving(base, epsilon=epsilon, unit=unit) as (url, admin):
            people = viewers_of(films, train, test, viewers, seed)
            rows = measure(url, films, people, train_server=lambda: learn_releases(admin))
            info = admin.get("/api/model/info").json()
    return {
        "data": dataset.name, "viewers": len(people), "table": rows,
        "model": info["Method"], "guarantee": info["Guarantee"],
    }  # fmt: skip
