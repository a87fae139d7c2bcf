"""Recommendations without giving up your history."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from epicrec._version import __version__

if TYPE_CHECKING:
    from epicrec.data import Catalogue, Dataset, Ratings, Scale, load_dataset
    from epicrec.errors import BudgetExceededError, EpicrecError, InputError, NotFittedError
    from epicrec.models import Recommender, load, model_class
    from epicrec.privacy import Guarantee, Ledger


__all__ = [
    "BudgetExceededError",
    "Catalogue",
    "Dataset",
    "EpicrecError",
    "Guarantee",
    "InputError",
    "Ledger",
    "NotFittedError",
    "Ratings",
    "Recommender",
    "Scale",
    "__version__",
    "load",
    "load_dataset",
    "model_class",
]

_HOMES = {
    "data": ("Catalogue", "Dataset", "Ratings", "Scale", "load_dataset"),
    "errors": ("BudgetExceededError", "EpicrecError", "InputError", "NotFittedError"),
    "models": ("Recommender", "load", "model_class"),
    "privacy": ("Guarantee", "Ledger"),
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing epicrec costs nothing."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
