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

_HOMES = {
    "BudgetExceededError": "errors",
    "Catalogue": "data",
    "Dataset": "data",
    "EpicrecError": "errors",
    "Guarantee": "privacy",
    "InputError": "errors",
    "Ledger": "privacy",
    "NotFittedError": "errors",
    "Ratings": "data",
    "Recommender": "models",
    "Scale": "data",
    "load": "models",
    "load_dataset": "data",
    "model_class": "models",
}

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


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
