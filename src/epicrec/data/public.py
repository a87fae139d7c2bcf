"""Public: the items there are and the scale of ratings, given and never read off the ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.data.columns import table_from_frame, without_ratings
from epicrec.data.ratings import Ratings
from epicrec.data.scale import Scale
from epicrec.errors import InputError


def over_public(
    ratings: Any, items: Any = None, scale: Scale | str | None = None, *, rated: bool = True
) -> Ratings:
    """Ratings, or any dataframe of them, over a public list of items and on a public scale.

    What is not on the list or off the scale is left out without a word, since an error would tell
    of it. None leaves the list or the scale as they are. Without `rated` only what was seen counts.
    """
    if isinstance(scale, str):
        scale = Scale.parse(scale)
    if isinstance(ratings, Ratings):
        taken = ratings
        if rated and scale is not None and taken.scale is not None:
            taken = taken.with_scale(scale)
    else:
        table = table_from_frame(ratings)
        table = table if rated else without_ratings(table)
        taken = Ratings.from_table(table, scale=scale if rated else None, leave_out=True)
    return taken if items is None else taken.with_items(item_list(items))


def item_list(items: Any) -> npt.NDArray[Any]:
    """Ids as a list of items, in order, each once.

    >>> item_list(["b", "a", "b"]).tolist()
    ['a', 'b']
    """
    ids = np.asarray(items)
    if ids.dtype == object and len(ids) and all(isinstance(i, str) for i in ids.ravel()):
        ids = ids.astype(str)
    if ids.ndim != 1 or ids.dtype.kind not in "iuUS" or not len(ids):
        raise InputError(
            "the list of items must name at least one item, by whole numbers or text; give a list "
            "of ids, such as those of a catalogue (catalogue.item_ids)"
        )
    return np.unique(ids)


def refusal(missing: Sequence[str], remedy: str) -> InputError:
    """What a private fit says where the items or the scale would be read off the ratings."""
    what = {"items": "the list of items", "scale": "the rating scale"}
    named = " and ".join(what[name] for name in missing)
    return InputError(
        f"a private model takes {named} from outside, since what is read off the ratings tells of "
        f"them; give what is public: {remedy}"
    )
