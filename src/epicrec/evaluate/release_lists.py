"""Releases of a whole population, and what they cost in lists: `release-topn`.

An experiment divides the users at random into two halves. The first half is public knowledge: it
gives the prior and, where a server needs other people's data, that data. The second half releases
and is measured. So no measured person contributes to what is treated as public.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import AnyFloats
from epicrec.data import Catalogue, Dataset, Ratings, Scale, split_per_user
from epicrec.errors import InputError
from epicrec.evaluate.metrics import list_metrics
from epicrec.evaluate.protocols import Evaluation
from epicrec.extras import needs
from epicrec.models.svd import SVD
from epicrec.parameters import given, taken
from epicrec.perturb import LEVELS, MEpicRec, Prior
from epicrec.perturb.contract import Perturber, Release, make_perturber, perturber_class
from epicrec.perturb.epicrec.prior import default_prior
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.privacy import Guarantee
from epicrec.progress import report
from epicrec.seeds import derived

FACTORS = 64
"""Of the filters that learn from releases."""
_ITERATIONS = 15

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


# ---- everybody's releases -------------------------------------------------------------------


def perturber_for(
    setting: Experiment, method: str | Perturber, settings: Mapping[str, Any]
) -> Perturber:
    """The perturber over what is public here; one that is given has settings of its own."""
    task = (method if isinstance(method, Perturber) else perturber_class(method)).task
    if task == "ratings":
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


def people_of(
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


def release_all(
    setting: Experiment, perturbers: Sequence[Perturber], histories: Ratings, seed: int
) -> list[tuple[Ratings, Guarantee]]:
    """For each perturber everybody's release, as histories over the same users and items, and the
    largest ε. A person's go one after the other: what is public about their levels is shared."""
    rows: list[list[npt.NDArray[np.int64]]] = [[] for _ in perturbers]
    promises: list[list[Guarantee]] = [[] for _ in perturbers]
    for history, levels, own_seed in people_of(setting, histories, perturbers[0], seed, "releases"):
        ids = setting.catalogue.item_ids[history]
        for at, perturber in enumerate(perturbers):
            release = perturber.release(ids, levels, seed=own_seed)
            rows[at].append(sent_items(setting.catalogue, release))
            promises[at].append(release.guarantee)
    return [
        (_as_histories(own, histories), costliest(each))
        for own, each in zip(rows, promises, strict=True)
    ]


def _as_histories(rows: list[npt.NDArray[np.int64]], like: Ratings) -> Ratings:
    items = np.concatenate(rows).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = np.ones(len(items), np.float32)
    return replace(like, indptr=indptr, items=items, values=values, timestamps=None, probe=None)


def sent_items(catalogue: Catalogue, release: Release) -> npt.NDArray[np.int64]:
    """The positions of what was sent."""
    ids = np.array(release.items, dtype=catalogue.item_ids.dtype)
    at: npt.NDArray[np.int64] = catalogue.positions(ids)
    return at[at >= 0]


def costliest(promises: list[Guarantee]) -> Guarantee:
    """The weakest of many people's promises; who sent nothing by chance was promised most."""
    kept = [promise for promise in promises if promise.status != "none"] or promises
    return replace(max(kept, key=lambda promise: promise.epsilon), reproducible=True)


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


# ---- lists ----------------------------------------------------------------------------------


def topn_cost(
    dataset: Dataset,
    *,
    method: str | Perturber = "s-epicrec",
    epsilon: float | None = None,
    as_published: bool = False,
    settings: Mapping[str, Any] | None = None,
    n: int = 10,
    max_users: int | None = 2000,
    seed: int = 0,
) -> Evaluation:
    """nDCG@n of lists made in six ways; a fifth of each history is held out to be found.

    `true_sent`: the true history sent to a server trained on the others' true histories (ALS).
    `device`: the same model published, and the ranking done on the device: the same lists, nothing
    sent. `popularity`: the same list for all. `perturbed_sent`: the release instead of the history.
    `everybody_perturbed`: a server that has seen only releases. `device_from_perturbed`: its item
    model, ranked on the device with the true history. What was watched is never listed.
    """
    check_als()
    started = time.perf_counter()
    setting = experiment(dataset, seed=seed, max_users=max_users)
    chosen = given(epsilon=epsilon, as_published=as_published or None) | dict(settings or {})
    perturber = perturber_for(setting, method, chosen)
    train, test = split_per_user(setting.people, 0.2, seed=seed)
    [(released, promise)] = release_all(setting, [perturber], train, seed)
    trusted, wary = als(setting.others), als(released)
    scores: dict[str, Callable[[slice], AnyFloats]] = {
        "popularity": lambda part: np.tile(
            setting.others.item_counts.astype(float), (part.stop - part.start, 1)
        ),
        "true_sent": lambda part: folded_in(trusted, train, part),
        "device": lambda part: folded_in(trusted, train, part),
        "perturbed_sent": lambda part: folded_in(trusted, released, part),
        "everybody_perturbed": lambda part: folded_in(wary, released, part),
        "device_from_perturbed": lambda part: folded_in(wary, train, part),
    }
    lists = {name: judged(train, test, score, n) for name, score in scores.items()}
    metrics = {f"ndcg_{name}": found["ndcg"] for name, found in lists.items()}
    metrics |= {f"recall_{name}": found["recall"] for name, found in lists.items()}
    metrics["people"] = train.n_users
    return evaluation(
        setting,
        perturber,
        "release-topn",
        metrics,
        promise,
        started,
        {"seed": seed, "max_users": max_users, "n": n},
    )


def judged(
    train: Ratings, test: Ratings, score: Callable[[slice], AnyFloats], n: int
) -> dict[str, float]:
    best = []
    for start in range(0, train.n_users, 500):
        part = slice(start, min(start + 500, train.n_users))
        values = np.asarray(score(part), dtype=np.float64)
        values[binary(train)[part].nonzero()] = -np.inf
        best.append(np.argsort(-values, axis=1, kind="stable")[:, :n])
    items = np.concatenate(best)
    users = np.repeat(np.arange(len(items)), n)
    ranks = np.tile(np.arange(1, n + 1), len(items))
    relevant = np.column_stack([test.users, test.items])
    return list_metrics(users, items.ravel(), ranks, relevant, n, train.n_items)


def lists_of_releases(
    train: Dataset,
    test: Ratings,
    *,
    method: str,
    settings: Mapping[str, Any],
    n: int = 10,
    seed: int = 0,
) -> tuple[dict[str, float], Guarantee]:
    """Lists of a server that has everybody's release and nothing else: it learns from them as they
    are (`svd` for histories) and ranks by them; the device leaves out what was watched."""
    assert train.catalogue is not None
    catalogue, ratings = train.catalogue, train.ratings
    histories = ratings.as_history().with_items(catalogue.item_ids)
    setting = Experiment(
        train.name, catalogue, histories, histories, default_prior(catalogue), ratings.scale
    )
    perturber = perturber_for(setting, method, settings)
    [(released, promise)] = release_all(setting, [perturber], histories, seed)
    server = SVD(task="lists").fit(released, catalogue)

    def score(part: slice) -> AnyFloats:
        rows = np.arange(part.start, part.stop)
        return server._scores(released.users_at(rows))

    held = test.with_items(catalogue.item_ids)
    return judged(histories, held, score, n), promise


# ---- an ordinary server's filter: alternating least squares ---------------------------------


def check_als() -> None:
    """Refuse, before any work is done, where `implicit` is not installed."""
    needs("papers", "implicit", "threadpoolctl")


def als(histories: Ratings) -> Any:
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        fitted = AlternatingLeastSquares(
            factors=FACTORS, iterations=_ITERATIONS, random_state=0, use_gpu=False
        )
        fitted.fit(binary(histories), show_progress=False)
    return fitted


def folded_in(fitted: Any, histories: Ratings, part: slice) -> AnyFloats:
    """Scores for people the model has not seen, from a history in the call."""
    from threadpoolctl import threadpool_limits

    rows = binary(histories)[part]
    with threadpool_limits(1, "blas"):
        factors = fitted.recalculate_user(np.arange(rows.shape[0]), rows)
    return np.asarray(factors @ fitted.item_factors.T)


def binary(histories: Ratings) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(histories.csr()).astype(np.float32)
