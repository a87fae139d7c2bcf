"""Simulated viewers over a film catalogue: the data everything runs on before there is real data.

The model, for item j with genre shares g_j (1/|genres| for each of its genres, else 0), viewer u:

- Popularity is Zipf–Mandelbrot in the rank of the catalogue's popularity:
  p_j = (rank_j + 10)^-1.2.
- Item factors q_j ∈ R^8: seven mix the genres with noise that belongs to the film alone,
  g_j A + 0.5 η_j with A, η_j normal; the eighth is the era (year). Columns are standardised and
  divided by √8. So taste follows genre and era, yet not entirely: ratings carry more than labels.
- Twelve taste clusters, drawn with weights ∝ c^-0.5; cluster c has genre tastes
  Θ_c ~ Dirichlet(0.35) and a latent taste t_c ~ N(0, I), less the weighted mean over clusters.
- A viewer of cluster c has genre tastes θ_u ~ Dirichlet(18 Θ_c + 0.05) and a latent taste
  v_u = √0.8 t_c + √0.2 ε_u, ε_u ~ N(0, I).
- Preference a_uj = 0.8 log(θ_u·g_j + 0.02) + 2 v_u·q_j.
- History: n_u = 10 + LogNormal items (σ = 1, so a few viewers watch very much), at most half the
  catalogue, without replacement with weights p_j exp(a_uj). The n_u smallest of
  log E_uj − log p_j − a_uj with E_uj ~ Exp(1) are such a draw (the Gumbel top-k trick).
- Rating: the nearest whole number from 1 to 5 to
  μ_u + s_u (b_j + 0.55 (a_uj − mean of a_u over the history) + 0.75 ε_uj),
  with habits μ_u ~ N(3.55, 0.4) and s_u = exp N(0, 0.2), and
  quality b_j = 0.15 z(log p_j) + 0.3 N(0, 1).
- Timestamp: within 2025 (after the release of every film embedded here); a viewer joins in the
  first half year and is active for a random part of the following half.

Viewers are drawn in blocks whose size depends on the catalogue alone, each from its own stream
(seed, block). Hence viewer 7 of a seed is the same whatever the batch size or number of viewers.
This randomness is for simulation; noise that protects people comes from `epicrec.privacy`.
"""

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from epicrec.arrays import Array, Floats, Integers
from epicrec.data.embedded import FILMS_SCHEMA, embedded_items
from epicrec.data.scale import STARS, write_scale
from epicrec.errors import InputError

Floats32 = npt.NDArray[np.float32]

MIN_HISTORY = 10
MEAN_HISTORY = 60.0
CLUSTERS = 12
FACTORS = 8
GENRE_WEIGHT, FACTOR_WEIGHT, GENRE_FLOOR = 0.8, 2.0, 0.02
RATING_PREFERENCE, RATING_NOISE = 0.55, 0.75
HISTORY_SIGMA = 1.0
START_2025 = 1_735_689_600
HALF_YEAR = 180 * 86_400

RATINGS_SCHEMA = pa.schema(
    [
        ("user_id", pa.int64()),
        ("item_id", pa.string()),
        ("rating", pa.float32()),
        ("timestamp", pa.int64()),
    ]
)


def simulate_table(users: int = 600, seed: int = 0) -> pa.Table:
    """Ratings of the embedded films by simulated viewers, as one table.

    >>> simulate_table(users=5).column_names
    ['user_id', 'item_id', 'rating', 'timestamp']
    """
    return pa.concat_tables(simulate_batches(embedded_items(), users=users, seed=seed))


def simulate_batches(
    items: pa.Table,
    *,
    users: int,
    seed: int = 0,
    mean_history: float = MEAN_HISTORY,
    batch_users: int = 8192,
) -> Iterator[pa.Table]:
    """Ratings of `items` by viewers 1..users, `batch_users` viewers at a time, in constant memory.

    `items` needs the columns item_id, year, genres ('|' between them) and popularity. The rows of
    a viewer are in catalogue order; their order in time is in `timestamp`. Neither `batch_users`
    nor `users` changes any viewer's rows. Time grows with users × items.
    """
    _require_positive("users", users)
    _require_positive("batch_users", batch_users)
    # checked here, not in the generator, so that the mistake shows at the call
    world = _World.draw(items, seed, mean_history)
    return _batches(world, users, batch_users)


def write_simulation(
    folder: str | os.PathLike[str],
    *,
    users: int,
    items: int | None = None,
    seed: int = 0,
    mean_history: float = MEAN_HISTORY,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write `ratings.parquet`, `items.parquet` and their scale; return the number of ratings.

    `items` is the size of the catalogue: the embedded one by default, its most popular films if
    smaller, a made-up one if larger. `progress` is called with (users done, users in all).
    Files get their names only when both are complete, and existing ones are never replaced.
    """
    catalogue = _catalogue(items, seed)
    batches = simulate_batches(catalogue, users=users, seed=seed, mean_history=mean_history)
    folder = Path(folder)
    for name in ("ratings.parquet", "items.parquet"):
        if (folder / name).exists():
            raise InputError(f"{folder / name} exists already: choose another folder or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    with tempfile.TemporaryDirectory(prefix=".simulation-", dir=folder) as unfinished:
        ratings_path = Path(unfinished, "ratings.parquet")
        items_path = Path(unfinished, "items.parquet")
        pq.write_table(catalogue, items_path, compression="zstd")
        with pq.ParquetWriter(
            ratings_path, RATINGS_SCHEMA, compression="zstd", use_dictionary=["item_id", "rating"]
        ) as writer:
            for batch in batches:
                writer.write_table(batch)
                written += batch.num_rows
                if progress is not None:
                    progress(batch["user_id"][-1].as_py(), users)
        items_path.replace(folder / "items.parquet")
        write_scale(folder, STARS)
        ratings_path.replace(folder / "ratings.parquet")
    return written


def _require_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value <= 0:
        raise InputError(f"{name} is {value!r}: give a whole number of at least 1")


def _stream(seed: int, *key: int) -> np.random.Generator:
    """An independent random stream per (seed, key)."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


# Stream keys: what is drawn once per world, the made-up catalogue, and each block of viewers.
_WORLD, _CATALOGUE, _VIEWERS = 0, 1, 2


def _catalogue(size: int | None, seed: int) -> pa.Table:
    embedded = embedded_items()
    if size is None:
        return embedded
    _require_positive("items", size)
    if size <= embedded.num_rows:
        top = np.argsort(-embedded["popularity"].to_numpy(), kind="stable")[:size]
        return embedded.take(np.sort(top))
    rng = _stream(_checked_seed(seed), _CATALOGUE)
    # genres and year are drawn together, since they go together; popularity on its own
    like = embedded.take(rng.integers(embedded.num_rows, size=size))
    popularity = embedded["popularity"].take(rng.integers(embedded.num_rows, size=size))
    digits = max(6, len(str(size)))
    numbers = [f"{number:0{digits}d}" for number in range(1, size + 1)]
    columns = {
        "item_id": [f"film-{number}" for number in numbers],
        "title": [f"Film {number}" for number in numbers],
        "year": like["year"],
        "genres": like["genres"],
        "popularity": popularity,
    }
    return pa.table(columns, schema=FILMS_SCHEMA)


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed is {seed!r}: give a whole number of at least 0")
    return int(seed)


@dataclass(frozen=True)
class _World:
    """What all viewers share: the items, the clusters, and the sizes drawn from."""

    seed: int
    item_ids: pa.Array
    log_popularity: Floats32  # (items,) log p_j
    genre_shares: Floats32  # (items, genres) g_j
    factors: Floats32  # (items, FACTORS) q_j
    quality: Floats32  # (items,) b_j
    cluster_weights: Floats  # (CLUSTERS,)
    cluster_genres: Floats  # (CLUSTERS, genres) Θ_c
    cluster_tastes: Floats32  # (CLUSTERS, FACTORS) t_c
    log_extra: float  # mean of log(n_u − MIN_HISTORY)

    @classmethod
    def draw(cls, items: pa.Table, seed: int, mean_history: float) -> "_World":
        seed = _checked_seed(seed)
        if not (math.isfinite(mean_history) and mean_history > MIN_HISTORY):
            raise InputError(
                f"mean_history is {mean_history!r}: give a number above {MIN_HISTORY}, "
                "the shortest history"
            )
        _check_items(items)
        rng = _stream(seed, _WORLD)
        shares = _genre_shares(items["genres"])
        count, genres = shares.shape
        rank = np.empty(count)
        rank[np.argsort(-items["popularity"].to_numpy(), kind="stable")] = np.arange(1, count + 1)
        log_popularity = -1.2 * np.log(rank + 10)
        weights = np.arange(1, CLUSTERS + 1, dtype=np.float64) ** -0.5
        weights /= weights.sum()
        cluster_genres = rng.dirichlet(np.full(genres, 0.35), CLUSTERS)
        cluster_tastes = rng.standard_normal((CLUSTERS, FACTORS))
        # what all clusters like would be popularity under another name
        cluster_tastes -= weights @ cluster_tastes
        mixing = rng.standard_normal((genres, FACTORS - 1))
        own = rng.standard_normal((count, FACTORS))
        factors = np.column_stack([shares @ mixing + 0.5 * own[:, :-1], items["year"].to_numpy()])
        quality = 0.15 * _standardised(log_popularity) + 0.3 * own[:, -1]
        return cls(
            seed=seed,
            item_ids=items["item_id"].combine_chunks().cast(pa.string()),
            log_popularity=log_popularity.astype(np.float32),
            genre_shares=shares,
            factors=(_standardised(factors) / math.sqrt(FACTORS)).astype(np.float32),
            quality=quality.astype(np.float32),
            cluster_weights=weights,
            cluster_genres=cluster_genres,
            cluster_tastes=cluster_tastes.astype(np.float32),
            log_extra=math.log(mean_history - MIN_HISTORY) - HISTORY_SIGMA**2 / 2,
        )

    @property
    def block_users(self) -> int:
        """Viewers drawn together: a block of users × items stays within a few megabytes."""
        return max(16, min(1024, 2**20 // len(self.item_ids)))

    def block(self, index: int) -> tuple[Integers, Integers, Floats32, Integers]:
        """User index, item index, rating and timestamp of every event in one block of viewers."""
        rng = _stream(self.seed, _VIEWERS, index)
        users, items = self.block_users, len(self.item_ids)

        cluster = rng.choice(CLUSTERS, size=users, p=self.cluster_weights)
        gammas = rng.standard_gamma(18 * self.cluster_genres[cluster] + 0.05)
        genre_taste = (gammas / gammas.sum(axis=1, keepdims=True)).astype(np.float32)
        own = rng.standard_normal((users, FACTORS), dtype=np.float32)
        taste = np.float32(0.8**0.5) * self.cluster_tastes[cluster] + np.float32(0.2**0.5) * own
        preference = np.log(genre_taste @ self.genre_shares.T + np.float32(GENRE_FLOOR))
        preference *= np.float32(GENRE_WEIGHT)
        preference += (np.float32(FACTOR_WEIGHT) * taste) @ self.factors.T

        extra = rng.lognormal(self.log_extra, HISTORY_SIGMA, size=users)
        length = np.minimum(MIN_HISTORY + extra, max(1, items // 2)).astype(np.int64)
        keys = rng.standard_exponential((users, items), dtype=np.float32)
        np.log(np.maximum(keys, np.finfo(np.float32).tiny, out=keys), out=keys)
        keys -= self.log_popularity
        keys -= preference
        # sorting values and comparing is several times faster than finding the positions directly
        last = np.sort(keys, axis=1)[np.arange(users), length - 1]
        user, item = np.nonzero(keys <= last[:, None])

        liking = preference[user, item]
        watched = np.bincount(user, minlength=users)
        liking -= (np.bincount(user, liking, minlength=users) / watched).astype(np.float32)[user]
        mean = rng.normal(3.55, 0.4, size=users).astype(np.float32)
        spread = np.exp(rng.normal(0, 0.2, size=users)).astype(np.float32)
        noise = rng.standard_normal(len(user), dtype=np.float32)
        opinion = self.quality[item] + np.float32(RATING_PREFERENCE) * liking
        opinion += np.float32(RATING_NOISE) * noise
        rating = np.clip(np.rint(mean[user] + spread[user] * opinion), 1, 5)

        joined = HALF_YEAR * rng.random(users)
        active = HALF_YEAR * rng.random(users)
        moment = joined[user] + active[user] * rng.random(len(user))
        timestamp = START_2025 + moment.astype(np.int64)
        return index * users + user, item, rating, timestamp


def _batches(world: _World, users: int, batch_users: int) -> Iterator[pa.Table]:
    size = world.block_users
    drawn, block = -1, None
    for start in range(0, users, batch_users):
        stop = min(start + batch_users, users)
        parts = []
        for index in range(start // size, (stop - 1) // size + 1):
            if index != drawn:
                drawn, block = index, world.block(index)
            assert block is not None
            first, end = np.searchsorted(block[0], [start, stop])
            parts.append([column[first:end] for column in block])
        columns = zip(*parts, strict=True)
        user, item, rating, timestamp = (np.concatenate(column) for column in columns)
        yield pa.table(
            [user + 1, world.item_ids.take(pa.array(item)), rating, timestamp],
            schema=RATINGS_SCHEMA,
        )


def _check_items(items: pa.Table) -> None:
    needed = ("item_id", "year", "genres", "popularity")
    missing = [name for name in needed if name not in items.column_names]
    if missing:
        raise InputError(f"items lacks the column(s) {', '.join(missing)}: it needs {needed}")
    if items.num_rows == 0:
        raise InputError("items is empty: give at least one item")
    for name in needed:
        if items[name].null_count:
            row = pc.index(pc.is_null(items[name]), True).as_py()
            raise InputError(f"items row {row} has no {name}: fill it in or leave the row out")
    if not (
        pa.types.is_string(items["genres"].type) or pa.types.is_large_string(items["genres"].type)
    ):
        raise InputError("items has genres that are not text: join them with '|'")
    for name in ("year", "popularity"):
        if not pa.types.is_integer(items[name].type):
            raise InputError(f"items has {name} as {items[name].type}: give whole numbers")
    if pc.count_distinct(items["item_id"]).as_py() < items.num_rows:
        raise InputError("items has an item_id more than once: keep one row for each item")


def _genre_shares(genres: pa.ChunkedArray) -> Floats32:
    """Row j holds g_j; an item without genres is of every genre equally."""
    split = [[name for name in text.split("|") if name] for text in genres.to_pylist()]
    column = {name: number for number, name in enumerate(sorted({n for s in split for n in s}))}
    shares = np.zeros((len(split), max(1, len(column))), dtype=np.float32)
    for row, names in zip(shares, split, strict=True):
        row[[column[name] for name in names]] = 1
        row[:] = row / row.sum() if names else 1 / len(row)
    return shares


def _standardised(columns: Array) -> Floats:
    """Each column with mean 0 and standard deviation 1; a constant one becomes 0."""
    spread = np.std(columns, axis=0)
    scaled: Floats = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return scaled
