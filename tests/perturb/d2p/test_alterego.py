"""A device's AlterEgo over time: drawn once, paid for first, corrected by the law that drew it."""

import pytest

from epicrec.data import Catalogue
from epicrec.errors import BudgetExceededError
from epicrec.perturb.d2p.alterego import AlterEgo
from epicrec.perturb.d2p.mechanism import D2P
from epicrec.privacy import Ledger


def test_old_items_keep_their_substitutes_and_cost_once(films: Catalogue) -> None:
    perturber = D2P(films, p=0.9)
    ledger = Ledger(None, limit_epsilon=perturber.guarantee.epsilon * 1.001)
    own = AlterEgo(perturber, ledger)
    (first,) = own.update(films.item_ids[:40])
    kept = dict(own.substitutes)
    (second,) = own.update(films.item_ids[:60])
    assert {item: own.substitutes[item] for item in kept} == kept
    assert sum(first.times) == 40
    assert sum(second.times) == 60
    assert len(ledger.entries()) == 2
    assert own.update(films.item_ids[:60])[0].items == second.items
    assert len(ledger.entries()) == 2, "nothing new, nothing spent"
    assert ledger.total()["item"].epsilon == pytest.approx(perturber.guarantee.epsilon)


def test_renewal_is_a_second_release(films: Catalogue) -> None:
    perturber = D2P(films, p=0.9)
    ledger = Ledger(None, limit_epsilon=perturber.guarantee.epsilon * 2.001)
    own = AlterEgo(perturber, ledger)
    own.update(films.item_ids[:40])
    before = dict(own.substitutes)
    own.renew(films.item_ids[:40])
    assert own.substitutes != before
    assert ledger.total()["item"].epsilon == pytest.approx(2 * perturber.guarantee.epsilon)
    after = dict(own.substitutes)
    with pytest.raises(BudgetExceededError):
        own.renew(films.item_ids[:40])
    assert own.substitutes == after, "nothing is drawn that was not paid for"


def test_other_groups_are_for_items_to_come(films: Catalogue) -> None:
    own = AlterEgo(D2P(films, p=0.9), Ledger(None, limit_epsilon=50))
    own.update(films.item_ids[:20])
    before = dict(own.substitutes)
    own.regroup(D2P(films, p=0.8, lam=2.0))
    old, new = own.update(films.item_ids[:30])
    assert {item: own.substitutes[item] for item in before} == before
    assert len(own.substitutes) == 30
    assert (sum(old.times), sum(new.times)) == (20, 10)
    assert (old.settings["p"], new.settings["p"]) == (0.9, 0.8)
    assert old.guarantee.epsilon != new.guarantee.epsilon
    own.renew(films.item_ids[:30])
    (only,) = own.update(films.item_ids[:30])
    assert sum(only.times) == 30
