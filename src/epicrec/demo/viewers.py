"""Viewers of a data set who hold out a part of their history, and nDCG@10 of what they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.arrays import Integers
from epicrec.client.ranking.scores import HIGH
from epicrec.data import EMBEDDED, Catalogue, Dataset, Ratings, load_dataset, split_per_user
from epicrec.data.catalogue import with_text_ids
from epicrec.data.scale import HALF_STARS, STARS
from epicrec.data.simulate import simulate_table
from epicrec.errors import InputError
from epicrec.evaluate.metrics import list_metrics

N = 10
Lists = Mapping[str, list[Integers]]
"""By where a list comes from: every viewer's list, as positions in the catalogue."""


@dataclass(frozen=True)
class Viewer:
    """What a device holds, and what it should find."""

    items: list[str]
    wanted: Integers
    """Positions in the catalogue."""
    liked: Integers
    """Those of them that were rated well."""
    stars: dict[str, float]
    """Of `items`; empty where the data has none."""


def train_and_test(data: str, *, simulated: int, seed: int) -> tuple[Dataset, Ratings]:
    """A data set's training part, and the 20 % of each history that is held out.

    Public popularity, in the catalogue, is that of the training part. Of the embedded films so many
    viewers are simulated: an item model needs many to be learned under its noise.
    """
    dataset = load_dataset(data)
    known, ratings = dataset.catalogue, dataset.ratings
    if known is None:
        raise InputError(f"{data} has no catalogue, and clients need one; choose another")
    if data == EMBEDDED:
        ratings = Ratings.from_table(simulate_table(simulated), scale=ratings.scale)
    train, test = split_per_user(ratings, 0.2, seed=seed)
    train, test = train.with_items(known.item_ids), test.with_items(known.item_ids)
    table = known.to_table()
    table = table.drop_columns([n for n in table.column_names if n == "popularity"])
    popularity = pa.array(train.item_counts.astype(np.float64))
    films = Catalogue.from_table(table.append_column("popularity", popularity))
    return Dataset(dataset.name, train, films), test


def viewers_of(
    catalogue: Catalogue, train: Ratings, test: Ratings, most: int, seed: int
) -> list[Viewer]:
    """At most so many viewers who have something held out, drawn at random."""
    films = with_text_ids(catalogue)
    order = np.random.default_rng(seed).permutation(train.n_users)
    rated = train.scale in (STARS, HALF_STARS)
    found: list[Viewer] = []
    for user in order.tolist():
        own = slice(train.indptr[user], train.indptr[user + 1])
        out = slice(test.indptr[user], test.indptr[user + 1])
        history, held = train.items[own], test.items[out]
        if len(history) and len(held) and len(found) < most:
            wanted = films.positions([str(i) for i in test.item_ids[held].tolist()])
            good = (wanted >= 0) & (test.values[out] >= HIGH) & rated
            items = [str(i) for i in train.item_ids[history].tolist()]
            stars = dict(zip(items, train.values[own].tolist(), strict=True)) if rated else {}
            found.append(Viewer(items, wanted[wanted >= 0], wanted[good], stars))
    return found


def unwatched(films: Catalogue, listed: list[str], viewer: Viewer) -> Integers:
    """The first items of a server's list that the viewer has not watched, as positions."""
    watched = set(viewer.items)
    rest = [item for item in listed if item not in watched]
    at = films.positions(rest) if rest else np.zeros(0, np.int64)
    return at[at >= 0][:N]


def ndcg_rows(
    films: Catalogue, lists: Lists, viewers: list[Viewer], *, baseline: str
) -> list[dict[str, Any]]:
    """A row for each kind of list: its nDCG@10, and how that compares with the baseline's."""
    base = ndcg_of(films, lists[baseline], viewers)
    values = {way: ndcg_of(films, found, viewers) for way, found in lists.items()}
    return [
        {"way": way, "ndcg": value, "over popularity": value / base if base else 0.0}
        for way, value in values.items()
    ]


def ndcg_of(films: Catalogue, lists: list[Integers], viewers: list[Viewer]) -> float:
    """nDCG@10 over what was held out."""
    users = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
    items = np.concatenate(lists) if len(users) else np.zeros(0, np.int64)
    ranks = np.concatenate([np.arange(1, len(found) + 1) for found in lists])
    wanted = [(k, int(i)) for k, viewer in enumerate(viewers) for i in viewer.wanted]
    return list_metrics(users, items, ranks, np.array(wanted), N, len(films))["ndcg"]
