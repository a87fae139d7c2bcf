"""Exposure: what the server can learn about a title or a category from everything that was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import NormalDist

import numpy as np

from epicrec.arrays import Floats
from epicrec.client.ranking.content import popularity_of
from epicrec.client.sending.outbox import StoredRelease
from epicrec.data import Catalogue
from epicrec.data.works import catalogue_works
from epicrec.perturb import Release, odds_of, perturber_class
from epicrec.perturb.epicrec.prior import Prior
from epicrec.perturb.levels import withheld
from epicrec.perturb.randomised_response import Answering

_SURE = 0.9


@dataclass(frozen=True)
class TitleOdds:
    """How likely an observer may think it that a title was watched, at most."""

    item_id: str
    before: float
    after: float
    epsilon: float
    sent_as_it_is: bool
    not_said: bool = False
    """A mechanism gives no bound, so an observer may know everything."""


@dataclass(frozen=True)
class CategoryView:
    """How many films of a category an observer may believe in, and how many there are."""

    name: str
    level: str
    before: float
    guess: float | None
    give_or_take: float | None
    """The observer's best guess is off by more than this in one of ten worlds."""
    truth: int


def title_odds(catalogue: Catalogue, sent: Sequence[StoredRelease], item_id: str) -> TitleOdds:
    """Before: by public popularity. After: odds grow by at most e^ε, with the title's own ε.

    Each film enters one batch, so its cost is the largest among the batches; releases about
    everything, and those that were added after a change of catalogue, add to it.
    """
    at = int(catalogue.positions([item_id])[0])
    before = _usual(catalogue)[at] if at >= 0 else 0.0
    batches, added, not_said = [0.0], 0.0, False
    for stored in sent:
        found = _cost(catalogue, stored, item_id)
        not_said = not_said or found is None
        cost = inf if found is None else found
        if stored.group is None:
            added += cost
        else:
            batches.append(cost)
    epsilon = max(batches) + added
    raised = before * exp(min(epsilon, 700.0))
    after = 1.0 if epsilon == inf else raised / (raised + 1 - before)
    return TitleOdds(
        item_id, float(before), float(after), epsilon, epsilon == inf and not not_said, not_said
    )


def _cost(catalogue: Catalogue, stored: StoredRelease, item_id: str) -> float | None:
    """What one release costs a title, or None where its mechanism does not say."""
    at = int(catalogue.positions([item_id])[0])
    if stored.release.settings.get("catalogue", catalogue.version) != catalogue.version:
        promise = stored.release.guarantee  # of another list of films: by the whole promise
        return None if stored.release.clear or promise.delta else promise.epsilon
    if at < 0 or withheld(catalogue, stored.choice.levels(catalogue))[at]:
        return 0.0
    release = stored.release
    mechanism = perturber_class(release.method, as_published=release.as_published)
    found = mechanism.odds(release, item_id, catalogue)
    if found is None:
        return None
    if release.answers is None and found.epsilon == inf and item_id not in set(release.items):
        return 0.0  # it would be sent as it is, and was not
    return found.epsilon


def category_views(
    catalogue: Catalogue,
    sent: Sequence[StoredRelease],
    items: Sequence[str],
    levels: dict[str, str],
) -> list[CategoryView]:
    """Before: the usual number by popularity. After: the sum of the batches' noisy totals, which is
    the most the items sent could tell, or what their answers add up to, with the noise on it."""
    matrix = catalogue.matrix
    usual = matrix.T @ _usual(catalogue)
    at = catalogue.positions(items)
    truth = np.asarray(matrix[at[at >= 0]].sum(axis=0)).ravel()
    told = [_totals(catalogue, stored.release) for stored in sent]
    views = []
    for c, name in enumerate(catalogue.categories):
        noisy = [totals[name] for totals in told if name in totals]
        guess = float(max(0, sum(total for total, _ in noisy))) if noisy else None
        width = float(np.sqrt(sum(width**2 for _, width in noisy))) if noisy else None
        views.append(CategoryView(name, levels[name], float(usual[c]), guess, width, int(truth[c])))
    return views


def _totals(catalogue: Catalogue, release: Release) -> dict[str, tuple[float, float]]:
    """What a release tells of each category's total, and how far off that is in one of ten worlds;
    nothing where its answers are for another list."""
    if release.answers is None:
        scales = release.settings.get("scales", {})
        return {
            name: (release.aggregates[name], scale * log(1 / (1 - _SURE)))
            for name, scale in scales.items()
        }
    if release.settings.get("works") != catalogue_works(catalogue).version:
        return {}
    how = Answering.of(release.settings, catalogue)
    bits = how.read(np.frombuffer(release.answers, np.uint8)[None])[0]
    of_work = catalogue.matrix[np.unique(how.works.of_item, return_index=True)[1]]
    totals = of_work.T @ ((bits - how.lie) / (1 - 2 * how.lie))
    widths = NormalDist().inv_cdf((1 + _SURE) / 2) * np.sqrt(of_work.T @ how.variance)
    pairs = zip(totals.tolist(), widths.tolist(), strict=True)
    return dict(zip(catalogue.categories, pairs, strict=True))


def _usual(catalogue: Catalogue) -> Floats:
    """How likely it is that somebody of whom nothing is known watched each film."""
    size = Prior.from_catalogue(catalogue).size
    return np.minimum(0.95, popularity_of(catalogue) * size)


def in_worlds(epsilon: float) -> tuple[int, int]:
    """The odds of ε as whole numbers of 100 worlds: a guess that says "watched" wrongly in no more
    than the second says it rightly in at most the first, which is rounded up."""
    return odds_of(epsilon).worlds
