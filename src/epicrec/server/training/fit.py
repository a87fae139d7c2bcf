"""Fit: `implicit`'s ALS on the stored releases, judged on held-out ones, written as lists."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from epicrec.errors import InputError
from epicrec.progress import report
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue, people, releases
from epicrec.server.store.database import Database, revision
from epicrec.server.training import ledger, lists

Array = npt.NDArray[Any]

_USERS_AT_ONCE = 4096
_JUDGED_USERS = 2000
_ENOUGH_ITEMS = 5
_AT = 10


def train(settings: Settings, database: Database) -> dict[str, Any]:
    """Learn from everything stored and make the result the current training; its figures."""
    started = time.time()
    if ledger.model_alone(settings):
        raise InputError(ledger.NO_LISTS)
    with database.reading() as connection:
        at_revision = revision(connection)
        items = catalogue.visible(connection)
        user_keys = np.array(people.keys(connection), np.int64)
        item_keys = np.array([key for key, _, _ in items], np.int64)
        seen = _read_matrix(connection, user_keys, item_keys)
    arrays: dict[str, Array] = {"item_keys": item_keys, "user_keys": user_keys}
    item_ids = [item_id for _, item_id, _ in items]
    names, starts, members = _by_category([categories for _, _, categories in items])
    arrays |= {"category_starts": starts, "category_items": members}
    arrays |= {"seen_starts": seen.indptr.astype(np.int64), "seen_items": seen.indices}
    popularity = np.bincount(seen.indices, minlength=len(items)) / max(len(user_keys), 1)
    arrays["popularity"] = popularity.astype(np.float32)
    learned, quality = _factorise(settings, seen)
    arrays |= learned
    models = settings.folder / "models"
    number = (lists.current(models) or 0) + 1
    meta = {
        "training": number,
        "item_ids": item_ids,
        "categories": names,
        "revision": at_revision,
        "alpha": settings.alpha,
        "regularization": settings.regularization,
    }
    lists.save(models / str(number), meta, arrays)
    if seen.nnz:
        ledger.record_lists(settings)
    lists.adopt(models, number)
    return {
        "training": number,
        "trained_at": int(time.time()),
        "seconds": round(time.time() - started, 2),
        "users": len(user_keys),
        "items": len(items),
        "feedback": int(seen.nnz),
        "quality": quality,
    }


def _read_matrix(connection: Any, user_keys: Array, item_keys: Array) -> csr_matrix:
    """Users × items, 1 where released; read in pieces into three columns of known length."""
    total = releases.total(connection)
    users, items = np.empty(total, np.int32), np.empty(total, np.int32)
    done = kept = 0
    for user, item, _ in releases.stream(connection):
        at = item_keys.searchsorted(item)
        at[at == len(item_keys)] = 0
        visible = item_keys[at] == item if len(item_keys) else np.zeros(len(item), np.bool_)
        span = slice(kept, kept + int(visible.sum()))
        users[span] = user_keys.searchsorted(user[visible])
        items[span] = at[visible]
        kept, done = span.stop, done + len(user)
        report("reading releases", done, total)
    users, items = users[:kept], items[:kept]
    # in order of user and item: several types of feedback on one item stand side by side
    first = np.ones(kept, np.bool_)
    first[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
    users, items = users[first], items[first]
    starts = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=len(user_keys)))])
    shape = (len(user_keys), len(item_keys))
    return csr_matrix((np.ones(len(items), np.float32), items, starts), shape)


def _factorise(settings: Settings, seen: csr_matrix) -> tuple[dict[str, Array], dict[str, Any]]:
    """Factors and lists, and how well they find releases that were held out."""
    users, items = seen.shape
    if seen.nnz == 0:
        empty = np.zeros((0, 1), np.float32)
        return {
            "item_factors": np.zeros((items, 1), np.float32),
            "gram": np.zeros((1, 1)),
            "user_factors": np.zeros((users, 1), np.float32),
            "top_items": np.full((users, 1), -1, np.int32),
            "top_scores": np.zeros((users, 1), np.float32) if users else empty,
        }, {}
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # ALS has threads of its own
        model = AlternatingLeastSquares(
            factors=min(settings.factors, items),
            regularization=settings.regularization,
            alpha=settings.alpha,
            iterations=settings.iterations,
            random_state=0,
        )
        judged, held_out = _hold_out(seen)
        kept = seen
        if len(judged):
            kept = seen.copy()
            kept.data[held_out] = 0
            kept.eliminate_zeros()
        report("fitting factors", 0, settings.iterations)
        model.fit(
            kept,
            show_progress=False,
            callback=lambda step, *_: report("fitting factors", step + 1, settings.iterations),
        )
        quality = _judge(model, kept, judged, seen.indices[held_out])
        if len(judged):  # they are served from all they released
            model.partial_fit_users(judged, seen[judged])
        del kept
        top_items, top_scores = _lists(model, seen, min(settings.list_length, items))
    factors = model.item_factors.astype(np.float64)
    return {
        "item_factors": model.item_factors,
        "gram": factors.T @ factors,
        "user_factors": model.user_factors,
        "top_items": top_items,
        "top_scores": top_scores,
    }, quality


def _hold_out(seen: csr_matrix) -> tuple[Array, Array]:
    """Some users with enough items, and for each the place of one of the items, drawn at random."""
    rng = np.random.default_rng(0)
    enough = np.flatnonzero(np.diff(seen.indptr) >= _ENOUGH_ITEMS)
    judged = np.sort(rng.permutation(enough)[: min(_JUDGED_USERS, len(enough) // 10)])
    sizes = np.diff(seen.indptr)[judged]
    return judged, seen.indptr[judged] + (rng.random(len(judged)) * sizes).astype(np.int64)


def _judge(model: Any, kept: csr_matrix, judged: Array, wanted: Array) -> dict[str, Any]:
    """In how many of 1 lists of ten the held-out item is, beside a list of the most popular."""
    if len(judged) == 0:
        return {}
    n = min(_AT, kept.shape[1])
    found, _ = model.recommend(judged, kept[judged], N=n)
    popular = np.argsort(-np.bincount(kept.indices, minlength=kept.shape[1]), kind="stable")
    hits = 0
    for row, item in zip(judged, wanted, strict=True):
        own = kept.indices[kept.indptr[row] : kept.indptr[row + 1]]
        candidates = popular[: n + len(own)]
        hits += item in candidates[~np.isin(candidates, own)][:n]
    return {
        "held_out": len(judged),
        f"recall_at_{_AT}": round(float((found == wanted[:, None]).any(axis=1).mean()), 4),
        f"recall_at_{_AT}_of_popularity": round(hits / len(judged), 4),
    }


def _lists(model: Any, seen: csr_matrix, length: int) -> tuple[Array, Array]:
    """The best items of each user, without what they released; -1 where a list ends."""
    users = seen.shape[0]
    top_items = np.full((users, length), -1, np.int32)
    top_scores = np.zeros((users, length), np.float32)
    for start in range(0, users, _USERS_AT_ONCE):
        rows = np.arange(start, min(start + _USERS_AT_ONCE, users))
        found, scores = model.recommend(rows, seen[rows], N=length)
        missing = (found < 0) | (scores < -1e30)  # those released come last, at minus infinity
        missing |= (np.diff(seen.indptr)[rows] == 0)[:, None]
        top_items[rows] = np.where(missing, -1, found)
        top_scores[rows] = np.where(missing, 0, scores)
        report("writing lists", int(rows[-1]) + 1, users)
    return top_items, top_scores


def _by_category(categories: list[list[str]]) -> tuple[list[str], Array, Array]:
    """Category names and, in compressed rows, the items in each."""
    members: dict[str, list[int]] = {}
    for at, own in enumerate(categories):
        for name in dict.fromkeys(own):
            members.setdefault(name, []).append(at)
    names = sorted(members)
    starts = np.cumsum([0, *(len(members[name]) for name in names)])
    flat = [at for name in names for at in members[name]]
    return names, starts.astype(np.int64), np.array(flat, np.int32)
