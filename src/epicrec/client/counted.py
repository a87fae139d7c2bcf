"""Counted: which films of a history earlier releases were about, so that none enters two draws.

Films are told apart by their works (`client.work`), whatever list they stand in.
"""

from __future__ import annotations

from collections.abc import Iterable

from epicrec.client.store import Store
from epicrec.client.work import unknown, works_of
from epicrec.data import Catalogue


class Counted:
    """What the releases of a store were about. What was found of a film holds until a release is
    drawn or forgotten, and is kept so long: pages ask for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._about: tuple[Catalogue | None, list[str]] = (None, [])
        self._works: set[str] = set()
        self._found: dict[str, bool] = {}

    def among(self, catalogue: Catalogue, items: Iterable[str]) -> set[str]:
        """Those of these items that a release was about."""
        works, found = self._current(catalogue)
        if not works:
            return set()
        counted = set()
        for item in items:
            if item not in found:
                found[item] = unknown(item) in works or bool(works & works_of(catalogue, item))
            if found[item]:
                counted.add(item)
        return counted

    def _current(self, catalogue: Catalogue) -> tuple[set[str], dict[str, bool]]:
        with self._store.reading() as db:
            releases = [row[0] for row in db.execute("SELECT id FROM releases ORDER BY rowid")]
            if self._about[0] is not catalogue or self._about[1] != releases:
                self._works = {row[0] for row in db.execute("SELECT work FROM counted")}
                self._about, self._found = (catalogue, releases), {}
            return self._works, self._found
