"""Train: lists from what was given in clear, and the item model from randomised response.

Feedback in clear is learned by `implicit`'s ALS and judged by the held-out items its lists find;
where it is not better, popularity is served, and the operator is told. Answers by randomised
response become an item model that is published, with which devices rank at home. Other releases
count towards popularity, each corrected for its own mechanism.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from epicrec.arrays import Array
from epicrec.data import find
from epicrec.errors import InputError
from epicrec.models.d2p.popularity import corrected_shares
from epicrec.progress import report
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue
from epicrec.server.store.database import Database, revision
from epicrec.server.training import folders, operator_ledger
from epicrec.server.training.answers import learn_stored
from epicrec.server.training.publish import publish_learned
from epicrec.server.training.training_data import TrainingData, gather

POPULARITY, ALS = "popularity", "als"
SURE = 1.96
"""Standard errors that a difference must exceed, for 95 %."""
_USERS_AT_ONCE = 4096
_JUDGED_USERS = 2000
_ENOUGH_ITEMS = 5
_ENOUGH_USERS = 20
_AT = 10


@dataclass(frozen=True)
class Learned:
    """The result of a training: the factors to serve with, all zero where popularity is served."""

    method: str
    why: str
    item_factors: Array
    user_factors: Array
    quality: dict[str, Any] = field(default_factory=dict)


def train(settings: Settings, database: Database) -> dict[str, Any]:
    """Learn from everything stored, and make it the current training. Returns its figures."""
    started = time.time()
    if operator_ledger.model_alone(settings):
        raise InputError(operator_ledger.NO_LISTS)
    with database.reading() as connection:
        at_revision = revision(connection)
        items = catalogue.visible(connection)
        found = gather(connection, settings.feedback_rules)
        told = learn_stored(connection, settings, found)
    with database.writing() as connection:
        for listed in found.lists:
            catalogue.keep(connection, listed)
    item_ids = [item_id for _, item_id, _ in items]
    names, starts, members = _by_category([categories for _, _, categories in items])
    shares, _ = corrected_shares(found.events, found.totals, found.features)
    if told is not None:
        shares = told.joined(shares, found.features, found.people)
    learned = _learned(settings, found, np.array(item_ids))
    top_items, top_scores = _lists(learned, found.seen, min(settings.list_length, len(items)))
    arrays: dict[str, Array] = {
        "item_keys": np.array([key for key, _, _ in items], np.int64),
        "user_keys": found.user_keys,
        "category_starts": starts,
        "category_items": members,
        "seen_starts": found.seen.indptr.astype(np.int64),
        "seen_items": found.seen.indices,
        "popularity": _over(shares, found, item_ids).astype(np.float32),
        "item_factors": learned.item_factors.astype(np.float32),
        "user_factors": learned.user_factors.astype(np.float32),
        "gram": learned.item_factors.T.astype(np.float64) @ learned.item_factors,
        "top_items": top_items,
        "top_scores": top_scores,
    }
    models = settings.folder / "models"
    number = (folders.current(models) or 0) + 1
    meta = {
        "training": number,
        "item_ids": item_ids,
        "categories": names,
        "revision": at_revision,
        "alpha": settings.alpha,
        "regularization": settings.regularization,
        "method": learned.method,
    }
    folders.save(models / str(number), meta, arrays)
    if found.rows:
        operator_ledger.record_lists(settings)
    folders.adopt(models, number)
    published = None if told is None else publish_learned(settings, told.model)
    return {
        "training": number,
        "trained_at": int(time.time()),
        "seconds": round(time.time() - started, 2),
        "users": len(found.user_keys),
        "items": len(items),
        "feedback": found.rows,
        "adopted": learned.method,
        "why": learned.why,
        "quality": learned.quality,
        "left_out": found.left_out,
        "published": published,
    }


def _learned(settings: Settings, found: TrainingData, item_ids: Array) -> Learned:
    """What was given in clear, if it is better than popularity; else popularity."""
    if found.clear.counts.nnz:
        return _from_feedback(settings, found, item_ids)
    why = "nothing was given in clear; devices rank with the item model"
    return _popularity(found, len(item_ids), why)


def _popularity(
    found: TrainingData, n_items: int, why: str, quality: dict[str, Any] | None = None
) -> Learned:
    users = np.zeros((len(found.user_keys), 1), np.float32)
    return Learned(POPULARITY, why, np.zeros((n_items, 1), np.float32), users, quality or {})


# ---- feedback in clear ------------------------------------------------------------------------


def _from_feedback(settings: Settings, found: TrainingData, item_ids: Array) -> Learned:
    """Factors by ALS, if their lists find held-out items better than popularity does."""
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    liked = _by_list(found, item_ids)
    judged_users, held_out = _hold_out(liked)
    if len(judged_users) < _ENOUGH_USERS:
        return _popularity(found, len(item_ids), "too few people gave enough to judge by")
    with threadpool_limits(1, "blas"):  # ALS has threads of its own
        model = AlternatingLeastSquares(
            factors=min(settings.factors, liked.shape[1]),
            regularization=settings.regularization,
            alpha=settings.alpha,
            iterations=settings.iterations,
            random_state=0,
        )
        kept = liked.copy()
        kept.data[held_out] = 0
        kept.eliminate_zeros()
        report("fitting factors", 0, settings.iterations)
        model.fit(
            kept,
            show_progress=False,
            callback=lambda step, *_: report("fitting factors", step + 1, settings.iterations),
        )
        quality = _judge(model, kept, judged_users, liked.indices[held_out])
        if quality["gain_at_least"] <= 0:
            why = "als does not surely find held-out items better than popularity does"
            return _popularity(found, len(item_ids), why, quality)
        model.partial_fit_users(judged_users, liked[judged_users])  # served from all they gave
    users = np.where(np.diff(liked.indptr)[:, None] > 0, model.user_factors, 0)
    why = "als finds held-out items better than popularity does"
    return Learned(ALS, why, model.item_factors, users, quality)


def _by_list(found: TrainingData, item_ids: Array) -> csr_matrix:
    """Users × the items of the lists: what they like, given in clear."""
    own = found.clear.counts.tocoo()
    row = find(found.user_keys, found.clear.user_ids)[own.coords[0]]
    order = np.argsort(item_ids)
    place = find(item_ids[order], found.clear.item_ids)
    column = np.where(place >= 0, order[place], -1)[own.coords[1]]
    kept = (column >= 0) & (row >= 0)
    shape = (len(found.user_keys), len(item_ids))
    made = csr_matrix((own.data[kept].astype(np.float32), (row[kept], column[kept])), shape)
    made.eliminate_zeros()
    return made


def _hold_out(seen: csr_matrix) -> tuple[Array, Array]:
    """Users with enough items, and for each the place of one item, drawn at random."""
    rng = np.random.default_rng(0)
    enough = np.flatnonzero(np.diff(seen.indptr) >= _ENOUGH_ITEMS)
    chosen = np.sort(rng.permutation(enough)[:_JUDGED_USERS])
    sizes = np.diff(seen.indptr)[chosen]
    return chosen, seen.indptr[chosen] + (rng.random(len(chosen)) * sizes).astype(np.int64)


def _judge(model: Any, kept: csr_matrix, judged_users: Array, wanted: Array) -> dict[str, Any]:
    """nDCG@10 of the held-out item (1/log₂(1 + rank)) less that of a list of the most popular, with
    a 95 % interval of the difference; and the recall of both."""
    n = min(_AT, kept.shape[1])
    found, _ = model.recommend(judged_users, kept[judged_users], N=n)
    counts = np.bincount(kept.indices, kept.data, kept.shape[1])
    popular = np.argsort(-counts, kind="stable")
    usual = np.full((len(judged_users), n), -1)
    for at, row in enumerate(judged_users):
        own = kept.indices[kept.indptr[row] : kept.indptr[row + 1]]
        candidates = popular[: n + len(own)]
        first = candidates[~np.isin(candidates, own)][:n]
        usual[at, : len(first)] = first
    early = 1 / np.log2(np.arange(n) + 2)
    hits = [(ranked == wanted[:, None]) for ranked in (found, usual)]
    gain = hits[0] @ early - hits[1] @ early
    error = SURE * float(gain.std(ddof=1)) / np.sqrt(len(gain))
    return {
        "held_out": len(judged_users),
        f"recall_at_{_AT}": round(float(hits[0].any(axis=1).mean()), 4),
        f"recall_at_{_AT}_of_popularity": round(float(hits[1].any(axis=1).mean()), 4),
        "gain_over_popularity": round(float(gain.mean()), 6),
        "gain_at_least": round(float(gain.mean()) - error, 6),
        "gain_at_most": round(float(gain.mean()) + error, 6),
    }


# ---- what is written --------------------------------------------------------------------------


def _over(shares: Array, found: TrainingData, item_ids: list[str]) -> Array:
    """The shares of the items of the lists."""
    at = find(found.features.item_ids, np.array(item_ids))
    return np.asarray(np.where(at >= 0, shares[at], 0.0))


def _lists(learned: Learned, seen: csr_matrix, length: int) -> tuple[Array, Array]:
    """The best items of each user without those they have seen; -1 where a list ends. Where
    popularity is served, all lists are empty."""
    users = len(learned.user_factors)
    top_items = np.full((users, length), -1, np.int32)
    top_scores = np.zeros((users, length), np.float32)
    if learned.method == POPULARITY:
        return top_items, top_scores
    from implicit.cpu.topk import topk

    items = learned.item_factors.astype(np.float32)
    for start in range(0, users, _USERS_AT_ONCE):
        rows = np.arange(start, min(start + _USERS_AT_ONCE, users))
        own = learned.user_factors[rows].astype(np.float32)
        found, scores = topk(items, own, length, filter_query_items=seen[rows])
        missing = (found < 0) | (
            scores < -1e30
        )  # what they have seen comes last, at minus infinity
        missing |= (np.abs(own).sum(axis=1) == 0)[:, None]
        top_items[rows] = np.where(missing, -1, found)
        top_scores[rows] = np.where(missing, 0, scores)
        report("writing lists", int(rows[-1]) + 1, users)
    return top_items, top_scores


def _by_category(categories: list[list[str]]) -> tuple[list[str], Array, Array]:
    """Category names and the items in each, in compressed rows."""
    members: dict[str, list[int]] = {}
    for at, own in enumerate(categories):
        for name in dict.fromkeys(own):
            members.setdefault(name, []).append(at)
    names = sorted(members)
    starts = np.cumsum([0, *(len(members[name]) for name in names)])
    flat = [at for name in names for at in members[name]]
    return names, starts.astype(np.int64), np.array(flat, np.int32)
