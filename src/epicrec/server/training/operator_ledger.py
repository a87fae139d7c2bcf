"""The operator's ledger: what was published about whom, and what may therefore follow.

A store serves either an item model with a guarantee or lists without one, never both. The guarantee
assumes that nothing else is learned from the same ratings, and lists learned from everybody's rows
reveal those rows. Which of the two a store serves is recorded here before anything leaves, and it
holds for good, whatever the settings say later.
"""

from __future__ import annotations

from epicrec.errors import InputError
from epicrec.privacy import Guarantee, Ledger
from epicrec.server.settings import STORE, Settings

_FILE = "ledger.jsonl"
_LISTS = "lists learned from everything stored"

NO_LISTS = (
    "no lists are learned here: a model with a guarantee is published from what is stored, and "
    "everything served is computed from that model"
)


def operator_ledger(settings: Settings) -> Ledger:
    return Ledger(
        settings.folder / _FILE,
        limit_epsilon=settings.limit_epsilon,
        limit_delta=settings.limit_delta,
    )


def spent(settings: Settings) -> list[Guarantee]:
    """What all published models cost together, one guarantee for each unit."""
    if not (settings.folder / _FILE).exists():
        return []
    return list(operator_ledger(settings).total().values())


def model_alone(settings: Settings) -> bool:
    """Whether all answers are computed from the published model, and no lists are learned."""
    recorded = _recorded(settings)  # always read: nothing is served over a damaged ledger
    return settings.train_from == STORE or any(
        about.startswith(_source(STORE)) for about in recorded
    )


def record_lists(settings: Settings) -> None:
    """Record, once, that lists learned from the stored rows are served."""
    if _LISTS not in _recorded(settings):
        none = Guarantee.none(unit="user")
        operator_ledger(settings).spend(none, about=_LISTS, disclosure=True)


def record_model(settings: Settings, promise: Guarantee, version: int) -> None:
    """Record what a model costs, or refuse a model whose guarantee would not hold."""
    if settings.train_from == STORE and _LISTS in _recorded(settings):
        raise InputError(
            "lists learned from what is stored here were served, so no guarantee about the same "
            "ratings holds any more and no model is published from them; set train_from to "
            "another rating set, or data to a new folder"
        )
    about = f"{_source(settings.train_from)}, version {version}"
    operator_ledger(settings).spend(promise, about=about)


def is_broken(settings: Settings, version: int) -> bool:
    """Whether lists were learned from the ratings that a published model's guarantee is about."""
    recorded = _recorded(settings)
    return _LISTS in recorded and f"{_source(STORE)}, version {version}" in recorded


def _source(train_from: str) -> str:
    return "item model from " + ("the store" if train_from == STORE else f"the set {train_from}")


def _recorded(settings: Settings) -> set[str]:
    if not (settings.folder / _FILE).exists():
        return set()
    return {entry.about for entry in operator_ledger(settings).entries()}
