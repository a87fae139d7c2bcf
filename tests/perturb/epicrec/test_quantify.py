import numpy as np
import pytest

from epicrec.data import load_dataset
from epicrec.errors import InputError
from epicrec.perturb import MEpicRec, Prior, SEpicRec
from epicrec.perturb.epicrec.plan import plan_for
from epicrec.perturb.epicrec.quantify import quantify, quantify_plan


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


@pytest.mark.realdata
def test_movielens_budget_is_the_papers(real_data):
    data = load_dataset(real_data / "ml-1m")
    films = data.catalogue
    prior = Prior.from_histories(films, data.ratings)
    device = SEpicRec(films, prior=prior, as_published=True)
    assert all(0.15 <= device.budget(seed=seed) <= 0.30 for seed in range(3))
    levels = dict.fromkeys(films.categories, "perturbed release")
    plan = plan_for(films, levels, as_published=True)
    literal = quantify_plan(plan, prior, uniform=True, rng=np.random.default_rng(0), literal=True)
    assert literal == pytest.approx(0.04), "line 7 of Algorithm 2, taken literally, stops at once"
