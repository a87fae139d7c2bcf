"""Recommendations without giving up your history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epicrec._lazy import attach
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


__getattr__, __dir__ = attach(__name__, __file__)
