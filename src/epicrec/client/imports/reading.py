"""Reading: browsers and files become drafts for review; a made-up history to try things."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from epicrec.client.history import History
from epicrec.client.imports.browsers import Profile, find_profiles, read_visits
from epicrec.client.imports.recognise import recognise
from epicrec.client.imports.review import Imports
from epicrec.client.matching.matcher import Matcher
from epicrec.client.viewing import Import
from epicrec.data import Catalogue
from epicrec.data.simulate import simulate_table
from epicrec.errors import InputError

_EXAMPLE_SEED = 11
_MOST_UNREAD = 200  # lines that are listed


class Reading:
    """Reads what comes into a history and finds its films in a catalogue."""

    def __init__(self, history: History, imports: Imports, catalogue: Catalogue) -> None:
        self._history, self._imports, self._catalogue = history, imports, catalogue
        self._matcher: Matcher | None = None
        self._indexing = threading.Lock()  # a large catalogue takes seconds: index it once

    @property
    def matcher(self) -> Matcher:
        with self._indexing:
            if self._matcher is None:
                self._matcher = Matcher(self._catalogue)
            return self._matcher

    def profiles(self) -> list[Profile]:
        """The browsers on this machine; nothing in them is opened."""
        return find_profiles()

    def browsers(self, wanted: list[str], *, scan: bool = False) -> int:
        """Read the ticked profiles' new visits and keep the films among them for review.

        `scan` also suggests films from the titles of sites that are not about films.
        """
        ticked = [p for p in self.profiles() if str(p.database) in wanted]
        if not ticked:
            raise InputError("no browser is ticked; tick one, then read it")
        visits, facts = [], dict[str, Any](scanned={})
        for profile in ticked:
            name = str(profile.database)
            found = list(read_visits(profile, self._imports.scanned_until(name)))
            if found:
                facts["scanned"][name] = found[-1].when.isoformat()
            visits += found
        facts["read"] = len(visits)
        matches = self.matcher.match_all(visits, self._imports.answers(), scan=scan)
        about = ", ".join(profile.source for profile in ticked)
        return self._imports.draft(about, zip(visits, matches, strict=True), facts)

    def file(self, name: str, data: bytes, answers: dict[str, str]) -> Import | int:
        """A file's films kept for review, or what must be asked first."""
        found = recognise(name, data, answers)
        if found.questions:
            return found
        facts: dict[str, Any] = {"read": len(found.viewings), **(found.dropped or {})}
        if found.unread:
            facts["unread"] = found.unread[:_MOST_UNREAD]
        matches = self.matcher.match_all(found.viewings, self._imports.answers())
        return self._imports.draft(found.kind, zip(found.viewings, matches, strict=True), facts)

    def match_again(self) -> int:
        """Look for what an earlier catalogue did not have; how many entries came of it."""
        waiting = self._imports.not_found()
        matches = self.matcher.match_all([thing for _, thing in waiting], self._imports.answers())
        return self._imports.found_now(
            (place, match) for (place, _), match in zip(waiting, matches, strict=True)
        )

    @property
    def has_example(self) -> bool:
        return bool((self._catalogue.positions(list(_example_viewer())) >= 0).any())

    def example(self) -> int:
        """A made-up viewer's history, for trying things out; how many films were new."""
        if not self.has_example:
            raise InputError("the example is about the embedded films; this catalogue has others")
        stars = _example_viewer()
        known = [item for item in stars if self._catalogue.positions([item])[0] >= 0]
        return self._history.add(known, about="an example history", source="example", ratings=stars)


@lru_cache(maxsize=1)
def _example_viewer() -> dict[str, float]:
    """The ratings of one simulated viewer of the embedded films."""
    viewer = simulate_table(users=1, seed=_EXAMPLE_SEED)
    return dict(zip(viewer["item_id"].to_pylist(), viewer["rating"].to_pylist(), strict=True))
