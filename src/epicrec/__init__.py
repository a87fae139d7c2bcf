"""Recommendations without giving up your history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epicrec._version import __version__
from epicrec.extras import on_first_use

if TYPE_CHECKING:
    from epicrec.data import Catalogue, Dataset, Ratings, Scale, load_dataset
    from epicrec.errors import (
        BudgetExceededError,
        EpicrecError,
        EpicrecWarning,
        InputError,
        NotFittedError,
    )
    from epicrec.models import Recommender, load, make_model, model_class
    from epicrec.privacy import Guarantee, Ledger


__all__ = [
    "BudgetExceededError",
    "Catalogue",
    "Dataset",
    "EpicrecError",
    "EpicrecWarning",
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
    "make_model",
    "model_class",
]

# so that importing epicrec costs nothing
_HOMES = {
    "data": ("Catalogue", "Dataset", "Ratings", "Scale", "load_dataset"),
    "errors": (
        "BudgetExceededError",
        "EpicrecError",
        "EpicrecWarning",
        "InputError",
        "NotFittedError",
    ),
    "models": ("Recommender", "load", "make_model", "model_class"),
    "privacy": ("Guarantee", "Ledger"),
}


__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
