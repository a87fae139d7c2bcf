"""Public: the list of items and the rating scale, given by the caller, never read off ratings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from epicrec.arrays import Array
from epicrec.data.catalogue import Catalogue
from epicrec.data.columns import without_ratings
from epicrec.data.frames import ids_given, table_from_frame
from epicrec.data.ids import find
from epicrec.data.ratings import Ratings
from epicrec.data.scale import Scale, as_scale, write_scale
from epicrec.errors import EpicrecWarning, InputError


@dataclass(frozen=True)
class Public:
    """What is public of a data set; None where nobody said it."""

    items: Array | None
    catalogue: Catalogue | None
    scale: Scale | None


def over_public(
    ratings: Any, items: Any = None, scale: Scale | str | None = None, *, rated: bool = True
) -> Ratings:
    """Ratings, or any dataframe of them, over a public list of items and on a public scale.

    Ratings outside the list or off the scale are left out, and a warning counts them. None leaves
    the list or the scale as it is. Without `rated`, only which items were seen counts.
    """
    scale = as_scale(scale)
    if isinstance(ratings, Ratings):
        taken = ratings
        if rated and scale is not None and taken.scale is not None:
            taken = taken.with_scale(scale)
    else:
        table = table_from_frame(ratings)
        table = table if rated else without_ratings(table)
        taken = Ratings.from_table(table, scale=scale if rated else None, leave_out=True)
    if items is None:
        return taken
    listed = taken.with_items(item_list(items))
    if len(listed) < len(taken):
        warnings.warn(
            f"{len(taken) - len(listed):,} of {len(taken):,} ratings are of items that are not "
            "listed, and left out",
            EpicrecWarning,
            stacklevel=3,
        )
    return listed


def item_list(items: Any) -> Array:
    """Ids as a list of items, in order, each once.

    >>> item_list(["b", "a", "b"]).tolist()
    ['a', 'b']
    """
    ids = None if isinstance(items, str) else ids_given(items)
    if ids is None or ids.ndim != 1 or ids.dtype.kind not in "iuUS" or not len(ids):
        raise InputError(
            "the list of items must name at least one item, by whole numbers or text; give a list "
            "of ids, such as those of a catalogue (catalogue.item_ids)"
        )
    return np.unique(ids)


def write_public(known: Public, folder: Path) -> None:
    """The catalogue or list of items, and the scale, as far as they are known."""
    listed = None if known.items is None else pa.table({"item_id": known.items})
    if known.catalogue is not None:
        listed = known.catalogue.to_table()
        if known.items is not None:
            listed = listed.filter(find(known.items, listed["item_id"]) >= 0)
    if listed is not None:
        pa_parquet.write_table(listed, folder / "items.parquet", compression="zstd")
    if known.scale is not None:
        write_scale(folder, known.scale)


def refusal(missing: Sequence[str], remedy: str) -> InputError:
    """The error of a private fit that would have to read items or scale off the ratings."""
    what = {"items": "the list of items", "scale": "the rating scale"}
    named = " and ".join(what[name] for name in missing)
    return InputError(
        f"a private model takes {named} from outside, since what is read off the ratings tells of "
        f"them; give what is public: {remedy}"
    )
