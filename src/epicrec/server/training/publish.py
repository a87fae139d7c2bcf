"""Publish: the private item model that clients fetch to rank on the device with their true history.

Every published model is a release about the people whose ratings it was learned from. Its guarantee
goes into the operator's ledger, on disk, before the file can be fetched; over it, nothing is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from epicrec import wire
from epicrec.data import Ratings, Scale, load_dataset
from epicrec.errors import EpicrecError, InputError
from epicrec.models import Recommender, model_class
from epicrec.privacy import Guarantee
from epicrec.progress import report
from epicrec.server.settings import STORE, Settings
from epicrec.server.store import catalogue, releases
from epicrec.server.store.database import Database
from epicrec.server.training import ledger, lists
from epicrec.server.training.lists import write_atomically

METHOD = "covariance-svd"

Fit = Callable[[Ratings, Settings], Recommender]


def fit_private(ratings: Ratings, settings: Settings) -> Recommender:
    """The published model: private factors of the item covariances."""
    make: Any = model_class(METHOD)
    model: Recommender = make(
        epsilon=settings.publish_epsilon,
        delta=settings.publish_delta,
        unit=settings.publish_unit,
        feedback=settings.publish_feedback,
    ).fit(ratings)
    return model


def publish(settings: Settings, database: Database, fit: Fit = fit_private) -> dict[str, Any]:
    """Fit a private model, enter it in the ledger, and only then make it the published one."""
    started = time.time()
    if not settings.train_from:
        raise InputError("nothing to publish from; set train_from to a rating set or 'store'")
    report("publishing the item model", 0, 2)
    ratings = _ratings(settings, database)
    report("publishing the item model", 1, 2)
    model = fit(ratings, settings)
    promise = model.guarantee
    if promise.status == "none":
        raise EpicrecError(f"{type(model).__name__} gives no guarantee, so it is not published")
    before = published(settings)
    version = before.Version + 1 if before else 1
    promise = replace(promise, assumes=(*promise.assumes, *_assumptions(settings)))
    ledger.record_model(settings, promise, version)
    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"item-model-{version}.npz"
    path.touch(mode=0o600)  # what is saved takes the rights of the file it replaces
    model.save(path)
    content = path.read_bytes()
    info = wire.ModelInfo(
        Version=version,
        Hash=hashlib.sha256(content).hexdigest(),
        Size=len(content),
        Method=METHOD,
        Feedback=model.feedback,
        Items=len(model.item_ids_),
        Created=datetime.now(UTC),
        Guarantee=promise.to_dict(),
    )
    write_atomically(folder / "current.json", info.model_dump_json())
    for old in folder.glob("item-model-*.npz"):
        if old.name not in (path.name, f"item-model-{version - 1}.npz"):
            old.unlink()  # the one before stays for downloads that are under way
    report("publishing the item model", 2, 2)
    return {
        "version": version,
        "items": info.Items,
        "users": ratings.n_users,
        "bytes": info.Size,
        "guarantee": str(promise),
        "seconds": round(time.time() - started, 2),
    }


def published(settings: Settings) -> wire.ModelInfo | None:
    """What is published now."""
    try:
        text = (_folder(settings) / "current.json").read_text("utf-8")
    except FileNotFoundError:
        return None
    return wire.ModelInfo.model_validate_json(text)


def published_file(settings: Settings) -> Path | None:
    """The file of what is published now, whole."""
    info = published(settings)
    if info is None:
        return None
    path = _folder(settings) / f"item-model-{info.Version}.npz"
    try:
        whole = hashlib.sha256(path.read_bytes()).hexdigest() == info.Hash
    except OSError:
        whole = False
    if not whole:
        raise InputError(
            f"the published model {path} is damaged; restore it from a backup, or publish again"
        )
    return path


def keep_promises(settings: Settings) -> None:
    """What is on disk at a start, brought in line: where everything is to come from the model no
    lists remain, and a model whose guarantee lists have broken says that it gives none."""
    if ledger.model_alone(settings):
        models = settings.folder / "models"
        if lists.has_learned(models):
            ledger.record_lists(settings)
        lists.discard(models)
    info = published(settings)
    if info is not None and ledger.is_broken(settings, info.Version):
        none = Guarantee.none(unit="user").to_dict()
        changed = info.model_copy(update={"Guarantee": none})
        write_atomically(_folder(settings) / "current.json", changed.model_dump_json())


def _assumptions(settings: Settings) -> tuple[str, ...]:
    """What the guarantee takes for granted beyond the model's own proof."""
    if settings.train_from != STORE:
        return (
            "the people of the rating set are others than those who send to this server, whose "
            "lists are learned from what was sent: a release carries the guarantee its device gave "
            "it, feedback sent in clear carries none",
        )
    account = "a user is an account: whoever has several is protected in each of them alone"
    operator = "the operator, who holds the ratings, is trusted with them"
    public = "that anybody rated anything at all is public"
    return (account, operator, public) if settings.publish_unit == "user" else (operator, public)


def _folder(settings: Settings) -> Path:
    return settings.folder / "published"


def rating_set(settings: Settings) -> Ratings:
    """The public set that is named, on the scale that is set; histories have none."""
    explicit = settings.publish_feedback == "explicit"
    scale = Scale.parse(settings.rating_scale) if explicit else None
    return load_dataset(settings.train_from, scale=scale, rated=explicit).ratings


def _ratings(settings: Settings, database: Database) -> Ratings:
    """Ratings over the operator's catalogue and on the scale that is set: both are public, and
    neither is read off what happened to be rated."""
    with database.reading() as connection:
        ids = {key: item_id for key, item_id, _ in catalogue.visible(connection)}
        parts = []
        if settings.train_from == STORE:
            parts = list(releases.stream(connection, settings.rating_type))
    if not ids:
        raise InputError(
            "the catalogue is empty, and it alone says which items a model may name; set "
            "catalogue, or POST /api/items"
        )
    public = np.array(sorted(ids.values()))
    scale = Scale.parse(settings.rating_scale)
    if settings.train_from != STORE:
        return rating_set(settings).with_items(public)
    if not parts:
        raise InputError(
            f"no user gave a rating yet (feedback of type {settings.rating_type!r}); wait, or set "
            "train_from to a public rating set"
        )
    users, items, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    keep = np.isin(items, np.fromiter(ids, np.int64)) & scale.holds(values)
    if not keep.any():
        raise InputError(f"no rating lies on the scale {scale}; set rating_scale to the one in use")
    named = np.array([ids[int(key)] for key in items[keep]])
    return Ratings.from_columns(users[keep], named, values[keep], scale=scale).with_items(public)
