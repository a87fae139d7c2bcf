"""Which games audit which method: `audit` by name, and the table of all methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from epicrec.errors import InputError
from epicrec.evaluate.audits.black_box import black_box_game, made
from epicrec.evaluate.audits.device_releases import RELEASES, published_epicrec_games
from epicrec.evaluate.audits.fitted_models import (
    D2P_MODELS,
    d2p_games,
    dpi_games,
    dpm_games,
    popularity_games,
    private_bias_games,
    published_d2p_games,
)
from epicrec.evaluate.audits.game import Finding, Game, judge
from epicrec.evaluate.audits.released_sums import (
    covariance_games,
    dpals_games,
    published_covariance_games,
)
from epicrec.models import Recommender, make_model
from epicrec.models.by_name import private_name
from epicrec.parameters import check, given
from epicrec.perturb.contract import Perturber

DPI_MODELS = ("dpi-avg", "dpi-pcc", "dpi-cos", "dpi-svd")
DPM_MODELS = ("dpm-avg", "dpm-pcc", "dpm-cos")
COVARIANCE = ("covariance-svd", "covariance-knn")


@dataclass(frozen=True)
class Audited:
    """One line of the table: a method with its parameters."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    as_published: bool = False
    release: bool = False
    """Whether a device's release is meant, where a model has the same name."""

    @property
    def name(self) -> str:
        words = [f"{value}" for value in self.settings.values()]
        words += ["as published"] * self.as_published + ["a release"] * self.release
        return ", ".join([self.method, *words])


DEFAULTS = (
    *(
        Audited(name, release=True)
        for name in ("randomised-response", "s-epicrec", "m-epicrec", "d2p", "dpi", "hiding-dpi")
    ),
    *(Audited(name) for name in (*D2P_MODELS, *DPI_MODELS)),
    Audited("dpi-pcc", {"unit": "rating"}),
    Audited("private-bias"),
    *(Audited("popularity", {"unit": unit}) for unit in ("rating", "user")),
    *(
        Audited(name, {"task": "ratings", "unit": unit, "noise": noise})
        for name in COVARIANCE
        for unit in ("rating", "user")
        for noise in ("gaussian", "laplace")
    ),
    *(Audited("covariance-svd", {"task": "lists", "unit": unit}) for unit in ("rating", "user")),
    Audited("dpals", {"task": "lists"}),
)
"""Proved, and must hold."""

PUBLISHED = (
    Audited("m-epicrec", as_published=True, release=True),
    *(Audited(name, as_published=True) for name in (*DPM_MODELS, "d2p")),
    Audited("covariance-svd", {"unit": "rating", "noise": "laplace"}, as_published=True),
)
"""As published; of these only `dpm-avg` keeps its claim."""

BROKEN = frozenset(row.name for row in PUBLISHED if row.method != "dpm-avg")
"""Rows whose claim is false, which an audit must find."""


def games_of(row: Audited, epsilon: float | None = None) -> list[Game]:
    """The games that audit a method, at this ε (1, and 3 for D2P, unless given)."""
    method, settings = row.method, dict(row.settings)
    budget = epsilon or (3.0 if method in D2P_MODELS else 1.0)
    if method in {*D2P_MODELS, *RELEASES}:
        if settings:
            raise InputError(f"the audit of {method} takes no settings, and got {[*settings]}")
        if method in D2P_MODELS and not row.release:
            return published_d2p_games(method) if row.as_published else d2p_games(method, budget)
        if row.as_published:
            return published_epicrec_games(method, budget)
        return RELEASES[method](budget)
    as_published = row.as_published and method not in DPM_MODELS  # which are the paper's anyway
    model = make_model(method, epsilon=budget, as_published=as_published, **settings)
    if as_published:
        return published_covariance_games(model, budget)
    return _OF_MODELS[method](model)


_OF_MODELS: dict[str, Callable[[Any], list[Game]]] = {
    "private-bias": private_bias_games,
    "popularity": popularity_games,
    **dict.fromkeys(DPI_MODELS, dpi_games),
    **dict.fromkeys(DPM_MODELS, dpm_games),
    **dict.fromkeys(COVARIANCE, covariance_games),
    "dpals": dpals_games,
}


def audit(
    method: str | Recommender | Perturber,
    *,
    epsilon: float | None = None,
    runs: int | None = None,
    as_published: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Finding:
    """A 95 % lower bound on the privacy loss of a method, to compare with its claim.

    Our methods have games of their own by name. Any other, and a model or perturber object, is
    audited as a black box. `runs` is how often each game is played, both worlds together.
    """
    check("the audit", audit, given(epsilon=epsilon, runs=runs))
    if not isinstance(method, str):
        return judge(method.method, [black_box_game(method)], rounds=runs)
    name = private_name(method, (settings or {}).get("task"))
    row = Audited(name, settings or {}, as_published)
    if name not in {*_OF_MODELS, *RELEASES, *D2P_MODELS}:
        subject = made(name, epsilon or 1.0, as_published=as_published)
        return judge(name, [black_box_game(subject)], rounds=runs)
    return judge(row.name, games_of(row, epsilon), rounds=runs)


def audit_rows(
    rows: Mapping[str, Callable[[], list[Game]]], *, part: float = 1.0, confidence: float = 0.95
) -> Iterator[Finding]:
    """A finding for each row, with this confidence for the whole table: the risk of error is
    divided among the rows."""
    each = 1 - (1 - confidence) / len(rows)
    for name, games in rows.items():
        yield judge(name, games(), part=part, confidence=each)


def method_rows() -> dict[str, Callable[[], list[Game]]]:
    """The games of all our methods, by the names of their rows."""
    return {row.name: partial(games_of, row) for row in (*DEFAULTS, *PUBLISHED)}
