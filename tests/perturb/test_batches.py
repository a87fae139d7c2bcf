"""Releases over time: each item is paid for once, and the ledger knows before anybody sees."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Catalogue
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb import D2P, MEpicRec, Perturber, SEpicRec, batch_of, release_through
from epicrec.perturb.epicrec.layout import Layout
from epicrec.perturb.levels import Levels
from epicrec.privacy import Ledger

FILMS = Catalogue.from_columns(
    [1, 2, 3, 4, 5], list("abcde"), ["War", "War|Drama", "Opera", "Opera|Drama", "Drama"]
)


def test_the_ledger_is_on_disk_before_anybody_sees(tmp_path):
    ledger = Ledger(tmp_path / "ledger", limit_epsilon=1.0)
    release = release_through(ledger, SEpicRec(FILMS, epsilon=0.4), [1, 2])
    (entry,) = Ledger(tmp_path / "ledger", limit_epsilon=1.0).entries()
    assert entry.guarantee == release.guarantee
    release_through(ledger, SEpicRec(FILMS, epsilon=0.4), [1, 2])
    with pytest.raises(BudgetExceededError):
        release_through(ledger, SEpicRec(FILMS, epsilon=0.4), [1, 2])
    assert len(ledger.entries()) == 2


def test_what_is_sent_in_clear_is_listed_as_disclosure():
    ledger = Ledger(None, limit_epsilon=1.0)
    levels = {"Opera": "all", "War": "perturbed", "Drama": "perturbed"}
    release_through(ledger, MEpicRec(FILMS, epsilon=0.4), [1, 3], levels)
    noisy, clear = ledger.entries()
    assert (noisy.disclosure, clear.disclosure) == (False, True)
    release_through(ledger, SEpicRec(FILMS), [1, 3], "all release")
    assert ledger.entries()[-1].disclosure
    assert ledger.total()["item"].epsilon == pytest.approx(0.4)


def test_seeded_noise_cannot_be_released():
    with pytest.raises(InputError, match="seed"):
        release_through(Ledger(None, limit_epsilon=1.0), SEpicRec(FILMS, epsilon=0.4, seed=1), [1])


class Device:
    """Releases what is new at each time, as the client does."""

    def __init__(self, perturber: Perturber, limit: float) -> None:
        self.perturber, self.ledger = perturber, Ledger(None, limit_epsilon=limit)
        self.counted: set[Any] = set()

    def release(self, history: list[int], levels: Levels = "perturbed release") -> Any:
        batch = batch_of(self.perturber, history, levels, self.counted)
        own = np.array(batch.fresh + batch.clear, np.int64)
        group = f"batch {len(self.ledger.entries()) + 1}"
        release = release_through(self.ledger, self.perturber, own, levels, group=group)
        self.counted |= set(batch.fresh)
        return release


def counting(monkeypatch):
    """Note which items each release counts."""

    seen, honest = [], Layout.totals

    def totals(self, items):
        seen.append(FILMS.item_ids[items[self.counted[items]]].tolist())
        return honest(self, items)

    monkeypatch.setattr(Layout, "totals", totals)
    return seen


def test_each_item_enters_one_release_and_the_cost_is_the_maximum(monkeypatch):
    seen = counting(monkeypatch)
    device = Device(SEpicRec(FILMS, epsilon=0.5), limit=0.5)
    for history in ([1], [1, 2], [1, 2, 3, 4], [1, 2, 3, 4]):
        device.release(history)
    assert seen == [[1], [2], [3, 4], []]
    assert device.ledger.total()["item"].epsilon == pytest.approx(0.5)
    assert len({entry.group for entry in device.ledger.entries()}) == 4


def test_levels_may_change_between_releases(monkeypatch):
    seen = counting(monkeypatch)
    device = Device(MEpicRec(FILMS, epsilon=0.5), limit=0.5)
    strict = {"Opera": "no", "War": "perturbed", "Drama": "perturbed"}
    device.release([1, 3, 4], strict)
    device.release([1, 2, 3, 4], "perturbed")  # now 3 and 4 are allowed, for the first time
    assert seen == [[1], [2, 3, 4]]
    opened = device.release([1, 2, 3, 4], {"Opera": "all", "War": "no", "Drama": "no"})
    assert opened.items == (3,), "what the person now shows openly is sent as it is"
    device.release([1, 2, 3, 4, 5], "perturbed")
    assert seen[-1] == [5]


def test_a_refused_release_is_not_counted():
    device = Device(SEpicRec(FILMS, epsilon=0.5), limit=0.3)
    with pytest.raises(BudgetExceededError):
        device.release([1, 2])
    assert device.counted == set()
    assert device.ledger.entries() == ()


def test_batches_of_alteregos_cost_the_dearest(films: Catalogue) -> None:
    perturber = D2P(films, p=0.9)
    device = Device(perturber, limit=perturber.budget() * 1.001)
    first = batch_of(perturber, films.item_ids[:40], "perturbed")
    ledger = device.ledger
    release_through(ledger, perturber, first.fresh, group="one")
    second = batch_of(perturber, films.item_ids[:60], "perturbed", set(first.fresh))
    assert sum(release_through(ledger, perturber, second.fresh, group="two").counts) == 20
    assert ledger.total()["item"].epsilon == pytest.approx(perturber.budget())
    with pytest.raises(BudgetExceededError):
        release_through(ledger, perturber, first.fresh)  # drawn anew: about the same items again
