"""The operator's ledger: what was learned from whom and given out, and what therefore may follow.

From one store comes either an item model with a guarantee or lists without one, never both: the
guarantee takes for granted that nothing else is learned from the same ratings, and lists learned
from everybody's rows show those rows. Which of the two a store served is recorded here before it
leaves, and holds for good, whatever the settings say later.
"""

from __future__ import annotations

from epicrec.errors import InputError
from epicrec.privacy import Guarantee, Ledger
from epicrec.server.settings import STORE, Settings

_FILE = "ledger.jsonl"
_LISTS = "lists learned from everything stored"
_OLD = "item model, version {}"  # before the source was recorded

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
    """What all published models cost together, one line for each unit."""
    if not (settings.folder / _FILE).exists():
        return []
    return list(operator_ledger(settings).total().values())


def model_alone(settings: Settings) -> bool:
    """Whether all answers come from the published model, and nothing is learned beside it."""
    recorded = _recorded(settings)  # read in any case: nothing is served over a damaged ledger
    return settings.train_from == STORE or any(
        about.startswith(_source(STORE)) for about in recorded
    )


def record_lists(settings: Settings) -> None:
    """Note, once, that lists learned from the stored rows are given out."""
    if _LISTS not in _recorded(settings):
        none = Guarantee.none(unit="user")
        operator_ledger(settings).spend(none, about=_LISTS, disclosure=True)


def record_model(settings: Settings, promise: Guarantee, version: int) -> None:
    """Note what a model costs, or refuse one whose guarantee would not be true."""
    if settings.train_from == STORE and _LISTS in _recorded(settings):
        raise InputError(
            "lists learned from what is stored here were served, so no guarantee about the same "
            "ratings holds any more and no model is published from them; set train_from to "
            "another rating set, or data to a new folder"
        )
    about = f"{_source(settings.train_from)}, version {version}"
    operator_ledger(settings).spend(promise, about=about)


def is_broken(settings: Settings, version: int) -> bool:
    """Whether a published model promises something about ratings that lists were learned from."""
    recorded = _recorded(settings)
    from_store = f"{_source(STORE)}, version {version}" in recorded or (
        settings.train_from == STORE and _OLD.format(version) in recorded
    )
    return from_store and _LISTS in recorded


def _source(train_from: str) -> str:
    return "item model from " + ("the store" if train_from == STORE else f"the set {train_from}")


def _recorded(settings: Settings) -> set[str]:
    if not (settings.folder / _FILE).exists():
        return set()
    return {entry.about for entry in operator_ledger(settings).entries()}
