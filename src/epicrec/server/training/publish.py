"""Publish the private item model, with which clients rank their true history on the device.

Every published model is a release about the people whose ratings it was learned from. Its guarantee
is written to the operator's ledger before the file can be fetched; over the limit nothing is
published. A model learned from answers by randomised response is post-processing of what devices
have randomised and accounted for themselves: it costs nothing further, and is published beside the
other.
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
from epicrec.data import Catalogue, Ratings, Scale, load_dataset
from epicrec.errors import EpicrecError, InputError
from epicrec.models import Recommender, model_class
from epicrec.models.randomised_response import RandomisedResponseLists
from epicrec.privacy import Guarantee
from epicrec.progress import report
from epicrec.server.settings import STORE, Settings
from epicrec.server.store import catalogue, histories
from epicrec.server.store.database import Database
from epicrec.server.training import folders, operator_ledger
from epicrec.server.training.folders import write_atomically

METHOD = "covariance-svd"
_OWN, _LEARNED = ("current.json", "item-model-{}.npz"), ("learned.json", "learned-model-{}.npz")
_ABOUT_RELEASES = (
    "each device drew what it sent by the law that it states, and counts it in a ledger of its own",
)

Fit = Callable[[Ratings, Settings, Catalogue], Recommender]


def fit_private(ratings: Ratings, settings: Settings, features: Catalogue) -> Recommender:
    """The published model: private factors of the item covariances, and tastes by the items' public
    features."""
    make: Any = model_class(METHOD)
    model: Recommender = make(
        epsilon=settings.publish_epsilon,
        delta=settings.publish_delta,
        unit=settings.publish_unit,
        task=settings.publish_task,
    ).fit(ratings, features)
    return model


def publish(settings: Settings, database: Database, fit: Fit = fit_private) -> dict[str, Any]:
    """Fit a private model, record it in the ledger, and only then make it the published one."""
    started = time.time()
    if not settings.train_from:
        raise InputError("nothing to publish from; set train_from to a rating set or 'store'")
    report("publishing the item model", 0, 2)
    ratings, features = _ratings(settings, database)
    report("publishing the item model", 1, 2)
    model = fit(ratings, settings, features)
    promise = model.guarantee
    if promise.status == "none":
        raise EpicrecError(f"{type(model).__name__} gives no guarantee, so it is not published")
    before = published(settings)
    version = before.Version + 1 if before else 1
    promise = replace(promise, assumes=(*promise.assumes, *_assumptions(settings)))
    operator_ledger.record_model(settings, promise, version)
    info = _write(settings, model, promise, METHOD, version, _OWN)
    report("publishing the item model", 2, 2)
    return {
        "version": version,
        "items": info.Items,
        "users": ratings.n_users,
        "bytes": info.Size,
        "guarantee": str(promise),
        "seconds": round(time.time() - started, 2),
    }


def publish_learned(settings: Settings, model: RandomisedResponseLists) -> dict[str, Any]:
    """Publish the item model of answers by randomised response. Returns its summary."""
    promise = replace(model.guarantee, assumes=(*model.guarantee.assumes, *_ABOUT_RELEASES))
    before = learned(settings)
    version = before.Version + 1 if before else 1
    info = _write(settings, model, promise, model.method, version, _LEARNED)
    return {
        "version": version, "method": info.Method, "guarantee": str(promise), "note": model.note_
    }  # fmt: skip


def _write(
    settings: Settings, model: Recommender, promise: Guarantee, method: str, version: int,
    slot: tuple[str, str],
) -> wire.ModelInfo:  # fmt: skip
    """Write the model's file, then the record that makes it the published one."""
    current, name = slot
    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / name.format(version)
    path.touch(mode=0o600)  # `save` keeps the permissions of the file it replaces
    model.save(path)
    content = path.read_bytes()
    info = wire.ModelInfo(
        Version=version,
        Hash=hashlib.sha256(content).hexdigest(),
        Size=len(content),
        Method=method,
        Task=model.task,
        Items=len(model.item_ids_),
        Created=datetime.now(UTC),
        Guarantee=promise.to_dict(),
    )
    write_atomically(folder / current, info.model_dump_json())
    for old in folder.glob(name.format("*")):
        if old.name not in (path.name, name.format(version - 1)):
            old.unlink()  # the one before stays for running downloads
    return info


def published(settings: Settings) -> wire.ModelInfo | None:
    """The published model."""
    return _info(settings, _OWN)


def learned(settings: Settings) -> wire.ModelInfo | None:
    """The model that was learned from releases and published beside it."""
    return _info(settings, _LEARNED)


def offered(settings: Settings, source: str = "") -> tuple[wire.ModelInfo, Path] | None:
    """The model that clients get, with its file: the published one, else the one from releases;
    always the latter where `source` is "releases"."""
    for slot in (_LEARNED,) if source == "releases" else (_OWN, _LEARNED):
        info = _info(settings, slot)
        if info is not None:
            return info, _folder(settings) / slot[1].format(info.Version)
    return None


def _info(settings: Settings, slot: tuple[str, str]) -> wire.ModelInfo | None:
    try:
        text = (_folder(settings) / slot[0]).read_text("utf-8")
    except FileNotFoundError:
        return None
    return wire.ModelInfo.model_validate_json(text)


def published_file(settings: Settings) -> Path | None:
    """The file of the published model, after a check of its hash."""
    info = published(settings)
    if info is None:
        return None
    path = _folder(settings) / _OWN[1].format(info.Version)
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
    """Make the files on disk agree with the ledger at a start: where the model alone answers, lists
    are deleted; a model whose guarantee lists have broken states none."""
    if operator_ledger.model_alone(settings):
        models = settings.folder / "models"
        if folders.has_learned(models):
            operator_ledger.record_lists(settings)
        folders.discard(models)
    info = published(settings)
    if info is not None and operator_ledger.is_broken(settings, info.Version):
        none = Guarantee.none(unit="user").to_dict()
        changed = info.model_copy(update={"Guarantee": none})
        write_atomically(_folder(settings) / _OWN[0], changed.model_dump_json())


def _assumptions(settings: Settings) -> tuple[str, ...]:
    """What the guarantee assumes beyond the model's own proof."""
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
    """The public rating set of the settings, on their scale; histories have none."""
    rated = settings.publish_task == "ratings"
    scale = Scale.parse(settings.rating_scale) if rated else None
    return load_dataset(settings.train_from, scale=scale, rated=rated).ratings


def _ratings(settings: Settings, database: Database) -> tuple[Ratings, Catalogue]:
    """Ratings over the operator's catalogue and on the scale of the settings: both are public, and
    neither is derived from the ratings."""
    with database.reading() as connection:
        ids = {key: item_id for key, item_id, _ in catalogue.visible(connection)}
        features = catalogue.public(connection)
        given = histories.given_ratings(connection, settings.rating_type)
    if features is None:
        raise InputError(
            "the catalogue is empty, and it alone says which items a model may name; set "
            "catalogue, or POST /api/items"
        )
    public = np.array(sorted(ids.values()))
    scale = Scale.parse(settings.rating_scale)
    if settings.train_from != STORE:
        return rating_set(settings).with_items(public), features
    users, items, values = given
    if not len(users):
        raise InputError(
            f"no user gave a rating yet (feedback of type {settings.rating_type!r}); wait, or set "
            "train_from to a public rating set"
        )
    keep = np.isin(items, np.fromiter(ids, np.int64)) & scale.holds(values)
    if not keep.any():
        raise InputError(f"no rating lies on the scale {scale}; set rating_scale to the one in use")
    named = np.array([ids[int(key)] for key in items[keep]])
    ratings = Ratings.from_columns(users[keep], named, values[keep], scale=scale)
    return ratings.with_items(public), features
