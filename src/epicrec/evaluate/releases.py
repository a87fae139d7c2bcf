"""EpicRec's experiments: category totals and recommendation loss, for any perturber.

Every experiment divides the users at random into two halves. The first stands in for public
knowledge: it gives the prior, and where a server needs other people's data, that data. The second
half releases and is measured. So no measured person contributes to what is treated as public.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Dataset, Ratings, Scale
from epicrec.errors import InputError
from epicrec.evaluate.filters import Filter, binary, check_filter, completed
from epicrec.evaluate.protocols import Evaluation
from epicrec.parameters import given, taken
from epicrec.perturb import LEVELS, MEpicRec, Prior, SEpicRec, parse_levels
from epicrec.perturb.contract import Perturber, Release
from epicrec.perturb.epicrec.mechanism import Calibration
from epicrec.perturb.levels import NO, PERTURBED, Levels, has_any
from epicrec.perturb.registry import make_perturber, perturber_class
from epicrec.privacy import Guarantee
from epicrec.progress import report
from epicrec.seeds import derived

EPICREC: dict[str, type[SEpicRec] | type[MEpicRec]] = {"s-epicrec": SEpicRec, "m-epicrec": MEpicRec}
"""The two mechanisms by the names of their methods."""

FOLDS = 10

YELP_TOP_LEVEL = frozenset(
    {
        "Active Life", "Arts & Entertainment", "Automotive", "Beauty & Spas", "Education",
        "Event Planning & Services", "Financial Services", "Food", "Health & Medical",
        "Home Services", "Hotels & Travel", "Local Flavor", "Local Services", "Mass Media",
        "Nightlife", "Pets", "Professional Services", "Public Services & Government",
        "Religious Organizations", "Restaurants", "Shopping",
    }
)  # fmt: skip
"""The 21 categories at the top of Yelp's tree, as many as the paper has; 487 others lie below."""


@dataclass(frozen=True)
class Experiment:
    """One data set made ready: what is public, and whose histories are at stake."""

    name: str
    catalogue: Catalogue
    others: Ratings
    people: Ratings
    prior: Prior
    scale: Scale | None


def experiment(dataset: Dataset, *, seed: int = 0, max_users: int | None = None) -> Experiment:
    """Divide the users; of the second half keep at most `max_users`, drawn at random."""
    if dataset.catalogue is None:
        raise InputError(f"{dataset.name} has no catalogue, and EpicRec works by its categories")
    catalogue = dataset.catalogue
    if dataset.name == "yelp-2013":
        catalogue = keep_categories(catalogue, YELP_TOP_LEVEL)
    ratings = dataset.ratings.as_history().with_items(catalogue.item_ids)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(ratings.user_counts))
    half = len(order) // 2
    others = ratings.users_at(np.sort(order[:half]))
    people = ratings.users_at(np.sort(order[half:][:max_users]))
    prior = Prior.from_histories(catalogue, others)
    return Experiment(dataset.name, catalogue, others, people, prior, dataset.ratings.scale)


def keep_categories(catalogue: Catalogue, names: frozenset[str]) -> Catalogue:
    """The same items with only these of their categories."""
    genres = [
        "|".join(name for name in catalogue.categories_of(i) if name in names)
        for i in range(len(catalogue))
    ]
    return Catalogue.from_columns(catalogue.item_ids, catalogue.titles.tolist(), genres)


# ---- category totals ------------------------------------------------------------------------


def aggregates(
    dataset: Dataset,
    *,
    method: str | Perturber = "s-epicrec",
    epsilon: float | None = None,
    as_published: bool = False,
    calibration: Calibration | None = None,
    settings: Mapping[str, Any] | None = None,
    max_users: int | None = 500,
    seed: int = 0,
) -> Evaluation:
    """Category MAE: mean over people and perturbed categories of |released total - true total|.

    One release a person. For `m-epicrec` each person has a random level for each category, as in
    the paper, and the totals are over items without a "no release" category.
    """
    started = time.perf_counter()
    setting = experiment(dataset, seed=seed, max_users=max_users)
    chosen = given(epsilon=epsilon, as_published=as_published or None, calibration=calibration)
    perturber = perturber_for(setting, method, chosen | dict(settings or {}))
    matrix = setting.catalogue.matrix.astype(np.int64)
    errors, sizes, promises, spent = [], [], [], []
    people = _people(setting, setting.people, perturber, seed, "categories")
    for history, levels, own_seed in people:
        release = perturber.release(setting.catalogue.item_ids[history], levels, seed=own_seed)
        sent = _sent(setting.catalogue, release)
        keep, perturbed = _measured(setting.catalogue, levels)
        true = matrix[history[keep[history]]].sum(axis=0)
        error = np.abs(matrix[sent[keep[sent]]].sum(axis=0) - true)[perturbed]
        if error.size:
            errors.append(error.mean())
            promises.append(release.guarantee)
        sizes.append((len(history), len(sent)))
        spent.append(release.seconds)
    history_size, release_size = np.mean(sizes, axis=0).tolist()
    metrics = {
        "category_mae": float(np.mean(errors)),
        "category_mae_standard_error": float(np.std(errors) / np.sqrt(len(errors))),
        "history_size": history_size,
        "release_size": release_size,
        "release_ms_median": 1000 * float(np.median(spent)),
        "people": len(sizes),
    }
    return evaluation(
        setting, perturber, "aggregates", metrics, _costliest(promises), started,
        {"seed": seed, "max_users": max_users},
    )  # fmt: skip


def _measured(catalogue: Catalogue, levels: Levels) -> tuple[Any, Any]:
    """Which items count in the totals, and which categories are measured."""
    chosen = np.array(list(parse_levels(levels, catalogue.categories).values()), dtype=object)
    rows = catalogue.rows
    withheld = has_any(rows.matrix, chosen == NO)
    return ~withheld[rows.row_of_item], chosen == PERTURBED


# ---- recommendation loss --------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """What the loss of any release is measured against: a tenth of the ones of GT, the 0/1 matrix
    of who has which item, is held out, and a filter learns from the rest as it is."""

    setting: Experiment
    train: Ratings
    model: Filter

    @cached_property
    def truth(self) -> npt.NDArray[np.bool_]:
        """GT."""
        return np.asarray(binary(self.setting.people).toarray() > 0)

    @cached_property
    def error(self) -> AnyFloats:
        """|Rec_r - GT|."""
        return np.abs(completed(self.train, self.model) - self.truth)


def held_out(
    dataset: Dataset, *, model: Filter = "als", max_users: int | None, fold: int = 0, seed: int = 0
) -> Fold:
    """One of ten folds, 0 to 9, of the ones, which are dealt at random."""
    check_filter(model)
    setting = experiment(dataset, seed=seed, max_users=max_users)
    return Fold(setting, _without_fold(setting.people, fold, seed), model)


def mae_loss(
    dataset: Dataset,
    *,
    method: str | Perturber = "s-epicrec",
    epsilon: float | None = None,
    as_published: bool = False,
    calibration: Calibration | None = None,
    settings: Mapping[str, Any] | None = None,
    model: Filter = "als",
    max_users: int | None = 3000,
    fold: int = 0,
    seed: int = 0,
) -> Evaluation:
    """The paper's MAE loss: Σ|Rec_p - GT| / Σ|Rec_r - GT| - 1.

    The filter learns from all but a tenth of GT's ones (the `fold`, 0 to 9, says which) as they are
    (Rec_r) and from everybody's release of them (Rec_p). `mae_loss` sums over all users and all
    items, as the formula has it; `mae_loss_unseen` leaves out the ones that Rec_r was shown, which
    are memory and not recommendation.
    """
    started = time.perf_counter()
    chosen = given(epsilon=epsilon, as_published=as_published or None, calibration=calibration)
    chosen |= dict(settings or {})
    held = held_out(dataset, model=model, max_users=max_users, fold=fold, seed=seed)
    perturber = perturber_for(held.setting, method, chosen)
    [(metrics, promise)] = losses(held, [perturber], seed)
    return evaluation(
        held.setting, perturber, "mae-loss", metrics, promise, started,
        {"seed": seed, "max_users": max_users, "model": model},
    )  # fmt: skip


def losses(
    held: Fold, perturbers: Sequence[Perturber], seed: int
) -> Iterator[tuple[dict[str, float], Guarantee]]:
    """For each perturber the loss where everybody of the fold releases through it."""
    setting, train, raw = held.setting, held.train, held.error
    usual = setting.others.item_counts / setting.others.n_users
    popularity = np.abs(usual - held.truth)
    unseen = binary(train).toarray() == 0
    released = release_all(setting, perturbers, train, seed)
    for perturber, (histories, promise) in zip(perturbers, released, strict=True):
        perturbed = np.abs(completed(histories, held.model) - held.truth)
        metrics = {
            "mae_loss": _ratio(perturbed, raw) - 1,
            "mae_loss_unseen": _ratio(perturbed[unseen], raw[unseen]) - 1,
            "mae_raw": float(raw.mean()),
            "mae_perturbed": float(perturbed.mean()),
            "mae_popularity": float(popularity.mean()),
            "mae_loss_popularity": _ratio(popularity, raw) - 1,
            "people": train.n_users,
        }
        if isinstance(perturber, MEpicRec):
            metrics |= _loss_by_level(setting, perturber, seed, perturbed, raw)
        yield metrics, promise


def _without_fold(people: Ratings, fold: int, seed: int) -> Ratings:
    if not 0 <= fold < FOLDS:
        raise InputError(f"the fold is a whole number from 0 to {FOLDS - 1}, not {fold}")
    order = np.random.default_rng(seed).permutation(len(people))
    return people.select(order % FOLDS != fold)


def _loss_by_level(
    setting: Experiment, perturber: Perturber, seed: int, perturbed: AnyFloats, raw: AnyFloats
) -> dict[str, float]:
    """The loss over the items that have a category of the level, for each person's own levels."""
    sums = {level: np.zeros(2) for level in (NO, PERTURBED)}
    matrix = setting.catalogue.rows.matrix
    for user, (_, levels, _) in enumerate(
        _people(setting, setting.people, perturber, seed, "loss")
    ):
        parsed = parse_levels(levels, setting.catalogue.categories)
        chosen = np.array(list(parsed.values()), dtype=object)
        for level, total in sums.items():
            rows = has_any(matrix, chosen == level)[setting.catalogue.rows.row_of_item]
            total += perturbed[user, rows].sum(), raw[user, rows].sum()
    return {
        f"mae_loss_{level.split()[0]}_release": float(total[0] / total[1] - 1)
        for level, total in sums.items()
    }


def release_all(
    setting: Experiment, perturbers: Sequence[Perturber], histories: Ratings, seed: int
) -> list[tuple[Ratings, Guarantee]]:
    """For each perturber everybody's release, as histories over the same users and items, and the
    largest ε. A person's go one after the other: what is public about their levels is shared."""
    rows: list[list[npt.NDArray[np.int64]]] = [[] for _ in perturbers]
    promises: list[list[Guarantee]] = [[] for _ in perturbers]
    for history, levels, own_seed in _people(setting, histories, perturbers[0], seed, "releases"):
        ids = setting.catalogue.item_ids[history]
        for at, perturber in enumerate(perturbers):
            release = perturber.release(ids, levels, seed=own_seed)
            rows[at].append(_sent(setting.catalogue, release))
            promises[at].append(release.guarantee)
    return [
        (_as_histories(own, histories), _costliest(each))
        for own, each in zip(rows, promises, strict=True)
    ]


def _as_histories(rows: list[npt.NDArray[np.int64]], like: Ratings) -> Ratings:
    items = np.concatenate(rows).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = np.ones(len(items), np.float32)
    return replace(like, indptr=indptr, items=items, values=values, timestamps=None, probe=None)


# ---- shared ---------------------------------------------------------------------------------


def perturber_for(
    setting: Experiment, method: str | Perturber, settings: Mapping[str, Any]
) -> Perturber:
    """The perturber over what is public here; one that is given has settings of its own."""
    feedback = (method if isinstance(method, Perturber) else perturber_class(method)).feedback
    if feedback == "explicit":
        raise InputError(
            "this perturber alters ratings, and here what is released is measured by which items "
            "it holds; measure what can be learned from it (--protocol rating with dpi-svd)"
        )
    if isinstance(method, Perturber):
        if settings:
            raise InputError(f"a perturber that is given takes no {', '.join(settings)}")
        return method
    if "prior" in taken(perturber_class(method)):
        settings = {"prior": setting.prior, **settings}
    return make_perturber(method, catalogue=setting.catalogue, scale=setting.scale, **settings)


def _people(
    setting: Experiment, histories: Ratings, perturber: Perturber, seed: int, what: str
) -> Iterator[tuple[npt.NDArray[np.int32], Levels, int]]:
    """Each person's history, levels and seed; the levels are the same for the same seed."""
    levels_rng = np.random.default_rng(derived(seed, "levels"))
    for user in range(histories.n_users):
        report(what, user, histories.n_users)
        levels: Levels = PERTURBED
        if isinstance(perturber, MEpicRec):
            drawn = levels_rng.integers(len(LEVELS), size=len(setting.catalogue.categories))
            levels = {
                name: LEVELS[k] for name, k in zip(setting.catalogue.categories, drawn, strict=True)
            }
        yield histories.items[histories.row(user)], levels, derived(seed, "release", user)


def _sent(catalogue: Catalogue, release: Release) -> npt.NDArray[np.int64]:
    """The positions of what was sent."""
    ids = np.array(release.items, dtype=catalogue.item_ids.dtype)
    at: npt.NDArray[np.int64] = catalogue.positions(ids)
    return at[at >= 0]


def _costliest(promises: list[Guarantee]) -> Guarantee:
    """The weakest of many people's promises; who sent nothing by chance was promised most."""
    kept = [promise for promise in promises if promise.status != "none"] or promises
    return replace(max(kept, key=lambda promise: promise.epsilon), reproducible=True)


def _ratio(perturbed: AnyFloats, raw: AnyFloats) -> float:
    return float(perturbed.sum(dtype=np.float64) / raw.sum(dtype=np.float64))


def evaluation(
    setting: Experiment,
    perturber: Perturber,
    protocol: str,
    metrics: dict[str, Any],
    promise: Guarantee,
    started: float,
    settings: dict[str, Any],
) -> Evaluation:
    own = {
        name: getattr(perturber, name)
        for name in ("as_published", "epsilon", "calibration")
        if hasattr(perturber, name)
    }
    seconds = {"total": time.perf_counter() - started}
    return Evaluation(
        perturber.method, setting.name, protocol, promise, metrics, seconds, own | settings
    )
