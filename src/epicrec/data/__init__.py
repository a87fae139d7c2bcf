"""What comes in: ratings, catalogues, named data sets, file formats, splits, embedded lists."""

from epicrec.data.catalogue import Catalogue
from epicrec.data.datasets import Dataset, available, describe, load_dataset
from epicrec.data.embedded import EMBEDDED
from epicrec.data.ids import find
from epicrec.data.ratings import Ratings
from epicrec.data.scale import Scale
from epicrec.data.splits import split_last, split_per_user, split_probe, split_random, split_users

__all__ = [
    "EMBEDDED",
    "Catalogue",
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
