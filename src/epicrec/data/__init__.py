"""What comes in: ratings, catalogues, named data sets, splits, and the simulated default."""

from epicrec.data.catalogue import Catalogue, CategoryRows
from epicrec.data.datasets import EMBEDDED, Dataset, available, describe, load_dataset
from epicrec.data.ids import find
from epicrec.data.ratings import Ratings
from epicrec.data.scale import Scale
from epicrec.data.splits import split_last, split_per_user, split_probe, split_random, split_users

__all__ = [
    "EMBEDDED",
    "Catalogue",
    "CategoryRows",
    "Dataset",
    "Ratings",
    "Scale",
    "available",
    "describe",
    "find",
    "load_dataset",
    "split_last",
    "split_per_user",
    "split_probe",
    "split_random",
    "split_users",
]
