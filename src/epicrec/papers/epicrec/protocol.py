"""EpicRec's protocols: the error of category totals (`aggregates`) and the loss of a filter
(`mae-loss`), for any perturber.

Who is measured and what is public: see `evaluate.release_lists`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate.protocols import Evaluation
from epicrec.evaluate.release_lists import (
    FACTORS,
    Experiment,
    als,
    binary,
    check_als,
    costliest,
    evaluation,
    experiment,
    people_of,
    perturber_for,
    release_all,
    sent_items,
)
from epicrec.evaluate.run import measures_releases
from epicrec.papers.epicrec.mechanism import Calibration
from epicrec.parameters import given
from epicrec.perturb import MEpicRec, parse_levels
from epicrec.perturb.contract import Perturber
from epicrec.perturb.levels import NO, PERTURBED, Levels, has_any, withheld
from epicrec.privacy import Guarantee

METHODS = ("s-epicrec", "m-epicrec")
FOLDS = 10

Filter = Literal["als", "svd"]
"""`implicit`'s alternating least squares, or this package's own `svd` for histories."""


# ---- category totals ------------------------------------------------------------------------


@measures_releases
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
    people = people_of(setting, setting.people, perturber, seed, "categories")
    for history, levels, own_seed in people:
        release = perturber.release(setting.catalogue.item_ids[history], levels, seed=own_seed)
        sent = sent_items(setting.catalogue, release)
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
        setting, perturber, "aggregates", metrics, costliest(promises), started,
        {"seed": seed, "max_users": max_users},
    )  # fmt: skip


def _measured(catalogue: Catalogue, levels: Levels) -> tuple[Any, Any]:
    """Which items count in the totals, and which categories are measured."""
    chosen = parse_levels(levels, catalogue.categories)
    perturbed = np.array([level == PERTURBED for level in chosen.values()], np.bool_)
    return ~withheld(catalogue, chosen), perturbed


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


@measures_releases
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
        people_of(setting, setting.people, perturber, seed, "loss")
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


def _ratio(perturbed: AnyFloats, raw: AnyFloats) -> float:
    return float(perturbed.sum(dtype=np.float64) / raw.sum(dtype=np.float64))


def check_filter(model: Filter) -> None:
    """Refuse a filter that is unknown or not installed, before any work is done."""
    if model not in get_args(Filter):
        raise InputError(f"the filter is one of {', '.join(get_args(Filter))}, not {model!r}")
    if model == "als":
        check_als()


def completed(histories: Ratings, model: Filter) -> AnyFloats:
    """The predicted matrix, one row a user, one column an item."""
    if model == "als":
        fitted = als(histories)
        return np.asarray(fitted.user_factors @ fitted.item_factors.T)
    from epicrec.models.svd import SVD

    own = SVD(factors=FACTORS, task="lists").fit(histories)
    scores = np.asarray(own._scores(histories), dtype=np.float64)
    # it only orders items: one factor, fitted to what it learned from, puts it on GT's scale
    return np.asarray(scores * (binary(histories).multiply(scores).sum() / (scores**2).sum()))
