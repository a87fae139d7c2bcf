"""The history: what is kept of a batch, what is taken back, and which day counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from epicrec.client.history import History
from epicrec.client.imports.review import Imports
from epicrec.client.matching.matcher import Matcher
from epicrec.client.store import Store
from epicrec.client.viewing import Evidence, Viewing
from epicrec.data import Catalogue
from epicrec.errors import InputError

FILMS = Catalogue.from_columns(
    ["dune-1984", "dune-2021", "heat-1995"], ["Dune", "Dune", "Heat"], [""] * 3,
    year=[1984, 2021, 1995],
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def history(store: Store) -> History:
    return History(store)


@pytest.fixture
def imports(store: Store) -> Imports:
    return Imports(store)


def day(number: int) -> datetime:
    return datetime(2024, 5, number, tzinfo=UTC)


def draft(imports: Imports, *viewings: Viewing) -> int:
    matches = Matcher(FILMS).match_all(viewings, imports.answers())
    return imports.draft("a file", zip(viewings, matches, strict=True), {})


def test_undoing_takes_back_what_was_entered_and_what_waits(
    history: History, imports: Imports
) -> None:
    batch = draft(imports, Viewing("Heat", "mine", year=1995), Viewing("Dune", "mine"))
    assert imports.keep(batch, {}) == 1
    assert [waiting.title for waiting in imports.drafts(batch)] == ["Dune"]
    imports.undo(batch)
    assert history.items() == []
    assert imports.drafts(batch) == []
    assert imports.batches() == []
    with pytest.raises(InputError, match="no longer there"):
        imports.keep(batch, {})


def test_undoing_one_batch_leaves_the_others(history: History, imports: Imports) -> None:
    first = draft(imports, Viewing("Heat", "mine", year=1995))
    second = draft(imports, Viewing("Dune", "mine"), Viewing("Dune", "mine", year=2021))
    for batch in (first, second):
        imports.keep(batch, {})
    imports.undo(first)
    assert history.items() == ["dune-2021"]
    assert [waiting.title for waiting in imports.drafts(second)] == ["Dune"]


def test_a_film_seen_twice_was_watched_on_the_later_day(history: History, imports: Imports) -> None:
    seen = [Viewing("Heat", "mine", year=1995, watched_at=day(n)) for n in (3, 20, 11)]
    imports.keep(draft(imports, *seen, Viewing("Heat", "mine", year=1995)), {})
    (film,) = history.films()
    assert film.watched_at == day(20).isoformat()
    imports.keep(draft(imports, Viewing("Heat", "other", year=1995, watched_at=day(7))), {})
    (film,) = history.films()
    assert (film.sources, film.watched_at) == (("mine", "other"), day(20).isoformat())


def test_by_hand_only_what_is_new_is_counted_and_kept_as_a_batch(
    history: History, imports: Imports
) -> None:
    assert history.add(["heat-1995"]) == 1
    assert history.add(["heat-1995", "dune-2021", "dune-1984"]) == 2
    assert history.add(["dune-2021"]) == 0
    assert [batch.films for batch in imports.batches()] == [3], "one for each day"


def test_a_browser_is_read_from_where_it_was_left_until_that_is_undone(imports: Imports) -> None:
    assert imports.scanned_until("firefox") is None
    facts = {"scanned": {"firefox": day(3).isoformat(), "chrome": day(4).isoformat()}}
    batch = imports.draft("browsers", [], facts)
    imports.draft("another", [], {"scanned": {"edge": day(5).isoformat()}})
    assert imports.scanned_until("firefox") == day(3)
    imports.undo(batch)
    assert imports.scanned_until("firefox") is imports.scanned_until("chrome") is None
    assert imports.scanned_until("edge") == day(5)


def test_films_come_newest_first(history: History) -> None:
    history.add([f"film-{k}" for k in range(205)])
    assert [item for item, _ in history.newest()] == [f"film-{k}" for k in reversed(range(205))]
    assert len(history.films()) == 205
    assert [film.item_id for film in history.films(["film-7", "none"])] == ["film-7"]


def test_nothing_is_asked_twice(history: History, imports: Imports) -> None:
    """An answer holds for all lines that ask the same, also in another import that waits."""
    other = draft(imports, Viewing("Dune", "other"))
    imports.keep(other, {})
    both = draft(imports, Viewing("Dune", "mine"), Viewing("Dune", "mine", Evidence.RATED))
    lines = imports.drafts(both)
    assert len({line.key for line in lines}) == 1
    assert imports.keep(both, {lines[0].row: "dune-2021"}) == 3
    assert imports.drafts(both) == imports.drafts(other) == []
    assert history.items() == ["dune-2021"]
    assert {v["source"] for v in history.viewings()} == {"mine", "other"}


def test_what_waits_is_one_line_however_often_it_is_entered(imports: Imports) -> None:
    thing = Viewing("Dune", "the extension")
    match = Matcher(FILMS).match(thing)
    entered = [imports.enter("today", thing, match) for _ in range(2)]
    _, batch, row = entered[0]
    assert entered[1] == (None, batch, row)
    assert batch is not None
    assert [line.row for line in imports.drafts(batch)] == [row]


def test_the_last_stars_of_lines_about_one_film_count(history: History, imports: Imports) -> None:
    given = [Viewing("Heat", "mine", Evidence.RATED, year=1995, rating=r) for r in (2.0, 4.0, None)]
    imports.keep(draft(imports, *given), {})
    assert history.ratings() == {"heat-1995": 4.0}


def test_stars_are_from_a_half_to_five(history: History) -> None:
    for stars in (0.5, 5.0):
        history.rate("heat-1995", stars)
        assert history.ratings() == {"heat-1995": stars}
    for stars in (0.4, 5.1):
        with pytest.raises(InputError, match=r"from 0\.5 to 5"):
            history.rate("heat-1995", stars)
