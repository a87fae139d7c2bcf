from math import exp, inf

import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb import MEpicRec, Release, SEpicRec, odds, odds_of

FILMS = Catalogue.from_columns(
    [1, 2, 3, 4], ["a", "b", "c", "d"], ["War", "War|Drama", "Opera", "Opera|Spy"]
)


def test_odds_of_a_budget():
    even = odds_of(0.0)
    assert (even.if_watched, even.if_not) == (0.5, 0.5)
    one = odds_of(1.0)
    assert one.if_watched == pytest.approx(exp(1) / (1 + exp(1)))
    assert one.if_watched + one.if_not == pytest.approx(1)
    assert "73 of 100" in str(one)
    assert "27" in str(one)
    assert odds_of(inf).if_watched == 1.0
    with pytest.raises(InputError):
        odds_of(-1.0)


def test_odds_of_single_items_depend_on_their_categories():
    levels = {"War": "perturbed", "Drama": "perturbed", "Opera": "all", "Spy": "no"}
    release = MEpicRec(FILMS, epsilon=1.0).release([1, 2, 3, 4], levels)
    single, both = odds(FILMS, release, 1), odds(FILMS, release, 2)
    assert 0 < single.epsilon < both.epsilon <= 1.0
    assert odds(FILMS, release, 3).epsilon == inf
    assert "knows" in str(odds(FILMS, release, 3))
    assert odds(FILMS, release, 4).epsilon == 0
    assert odds(FILMS, release, 99).epsilon == 0


def test_odds_of_a_leaky_release_say_so():
    levels = {"War": "all", "Drama": "perturbed", "Opera": "perturbed", "Spy": "no"}
    release = MEpicRec(FILMS, epsilon=1.0, as_published=True).release([2], levels)
    assert odds(FILMS, release, 2).epsilon == inf
    sound = MEpicRec(FILMS, epsilon=1.0).release([2], levels)
    assert odds(FILMS, sound, 2).epsilon <= 1.0


def test_json_of_something_else_is_refused():
    with pytest.raises(InputError, match="not a release"):
        Release.from_json("{}")
    with pytest.raises(InputError, match="not a release"):
        Release.from_json("items")


def test_scales_survive_json_exactly():
    release = SEpicRec(FILMS, epsilon=0.3).release([1])
    assert Release.from_json(release.to_json()).scales == release.scales
