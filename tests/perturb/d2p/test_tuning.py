"""The inverse problem: all of ε is used, and the best of the candidates is taken."""

import numpy as np
import pytest

from epicrec.data import Catalogue
from epicrec.perturb.d2p.channel import selector_probability
from epicrec.perturb.d2p.groups import no_features
from epicrec.perturb.d2p.mechanism import D2P
from epicrec.perturb.d2p.tuning import choose, expected_utility


def test_choice_costs_what_it_may_and_no_more(films: Catalogue) -> None:
    for epsilon in (0.5, 3.0, 7.0):
        guarantee = D2P(films, epsilon=epsilon).guarantee
        assert epsilon * (1 - 1e-6) < guarantee.epsilon <= epsilon * (1 + 1e-9)
        assert guarantee.status == "proved"


def test_choice_is_the_best_of_its_kind(films: Catalogue) -> None:
    best = choose(films, 3.0)
    for floor in (1, 10, 200):
        assert choose(films, 3.0, floor=floor).utility <= best.utility + 1e-9
    p = selector_probability(len(films), 3.0, 0.02, best.floor)
    assert p is not None
    assert expected_utility(films, p, 0.02, best.lam, best.floor) < best.utility
    assert choose(films, 6.0).utility > best.utility > choose(films, 1.0).utility


def test_a_catalogue_without_features_is_enough() -> None:
    chosen = choose(no_features(np.arange(100)), 1.0)
    assert 0 < chosen.p < 1
    assert D2P(no_features(np.arange(100)), epsilon=1.0).release([3, 5, 7]).guarantee.epsilon <= 1


def test_utility_is_a_share_of_what_sets_items_apart() -> None:
    """Alike items, 50 events each: all but 1 in 51 is learned where every item is sent as it is;
    where anything is sent for anything, only how many there are, one direction of a hundred."""
    items = no_features(np.arange(100))
    assert expected_utility(items, 0.0, 0.0, 1.0, 1) == pytest.approx(50 / 51)
    assert expected_utility(items, 1.0, 0.0, 1.0, 1) == pytest.approx(50 / 51 / 100)
