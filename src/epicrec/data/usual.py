"""Usual: the lists of items that clients begin with, which a server can make anew.

A device draws by its own list, cut to what its server takes: whoever corrects for the draw needs
that very list.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.data.catalogue import Catalogue, with_text_ids
from epicrec.data.datasets import EMBEDDED, load_catalogue
from epicrec.data.ids import find

TITLES = "titles"
"""Our films and series, with which a client begins."""
_LANGUAGES = ("de", "fr", "es", "it")


@cache
def usual_titles() -> Catalogue:
    """Our list of films and series, with how well known each is: as in `films`, and of the others
    those that have a title in four languages before the rest."""
    titles, films = load_catalogue(TITLES), load_catalogue(EMBEDDED)
    table = titles.to_table()
    known = np.full(len(titles), 2.0)
    named = [any(row) for row in zip(*(table[c].to_pylist() for c in _LANGUAGES), strict=True)]
    known[np.flatnonzero(named)] = 6.0
    if films.popularity is not None:
        known[titles.positions(films.item_ids)] = films.popularity
    return Catalogue.from_table(table.append_column("popularity", pa.array(known)))


def among(catalogue: Catalogue, item_ids: Any) -> Catalogue:
    """Those of a catalogue that another list has too; all of them where it has none."""
    here = find(np.unique(np.asarray(item_ids).astype(np.str_)), catalogue.item_ids) >= 0
    if here.all() or not here.any():
        return catalogue
    return Catalogue.from_table(catalogue.to_table().filter(pa.array(here)))


def drawn_by(version: str, item_ids: Any) -> Catalogue | None:
    """The list with this version, if a client begins with it or cuts it to what is listed at a
    server of these items, or to `films` where it knows of no such list."""
    films = with_text_ids(load_catalogue(EMBEDDED))
    for whole in (films, usual_titles()):
        for listed in (whole, among(whole, item_ids), among(whole, films.item_ids)):
            if listed.version == version:
                return listed
    return None
