import numpy as np
import pytest

from epicrec.errors import InputError
from epicrec.perturb import MEpicRec, SEpicRec
from epicrec.perturb.epicrec.quantify import quantify


def test_stops_where_the_text_says():
    """With a perfect sanitiser the error is 1/ε, convex: improvements shrink for ever."""
    perfect = {"unit_scales": np.ones(3), "draw_totals": lambda _: np.full(3, 20.0)}
    settings = {"rng": np.random.default_rng(0), "repeats": 2}
    assert quantify(**perfect, realise=lambda t, _: t, **settings) == 1.0
    literal = quantify(**perfect, realise=lambda t, _: t, literal=True, **settings)
    assert literal == pytest.approx(0.04)


def test_budget_is_public_and_steady(films):
    device = SEpicRec(films)
    assert device.budget() == SEpicRec(films).budget()
    assert 0.04 <= device.budget() <= 1
    assert device.release([]).guarantee.epsilon == device.budget()
    assert device.release(films.item_ids).guarantee.epsilon == device.budget()
    assert device.budget(seed=1) != device.budget(seed=2)
    assert SEpicRec(films, epsilon=0.3).budget() == 0.3


def test_levels_have_their_own_budget(films):
    device = MEpicRec(films)
    some = dict.fromkeys(films.categories[::2], "all release")
    assert device.release([], some).guarantee.epsilon == device.budget(some)
    with pytest.raises(InputError, match="nothing is perturbed"):
        device.budget("no release")
