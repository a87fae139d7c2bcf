from math import exp, inf

import pyarrow as pa
import pytest

from epicrec.data import Catalogue, Scale
from epicrec.errors import InputError
from epicrec.perturb import D2P, DPI, MEpicRec, Perturber, Release, SEpicRec, odds_of
from epicrec.privacy import Guarantee

FILMS = Catalogue.from_columns(
    [1, 2, 3, 4], ["a", "b", "c", "d"], ["War", "War|Drama", "Opera", "Opera|Spy"]
)


def test_odds_of_a_budget():
    even = odds_of(0.0)
    assert (even.if_watched, even.if_not) == (0.5, 0.5)
    one = odds_of(1.0)
    assert one.if_watched == pytest.approx(exp(1) / (1 + exp(1)))
    assert one.if_watched + one.if_not == pytest.approx(1)
    assert one.worlds == (74, 26), "at most is rounded up"
    assert "at most 74 of 100" in str(one)
    assert "no more than 26 of 100" in str(one), "the bound holds for such false alarms only"
    assert odds_of(0.0).worlds == (50, 50)
    assert odds_of(0.3).worlds == (58, 42)
    assert odds_of(inf).if_watched == 1.0
    with pytest.raises(InputError):
        odds_of(-1.0)


def test_odds_of_single_items_depend_on_their_categories():
    levels = {"War": "perturbed", "Drama": "perturbed", "Opera": "all", "Spy": "no"}
    release = MEpicRec(FILMS, epsilon=1.0).release([1, 2, 3, 4], levels)
    single, both = MEpicRec.odds(release, 1, FILMS), MEpicRec.odds(release, 2, FILMS)
    assert 0 < single.epsilon < both.epsilon <= 1.0
    assert MEpicRec.odds(release, 3, FILMS).epsilon == inf
    assert "knows" in str(MEpicRec.odds(release, 3, FILMS))
    assert MEpicRec.odds(release, 4, FILMS).epsilon == 0
    assert MEpicRec.odds(release, 99, FILMS).epsilon == 0


def test_json_of_something_else_is_refused():
    with pytest.raises(InputError, match="not a release"):
        Release.from_json("{}")
    with pytest.raises(InputError, match="not a release"):
        Release.from_json("items")


def test_scales_survive_json_exactly():
    release = SEpicRec(FILMS, epsilon=0.3).release([1])
    assert Release.from_json(release.to_json()).settings["scales"] == release.settings["scales"]


def test_a_withheld_category_stays_out_of_alteregos(films):
    device = D2P(films, epsilon=3.0)
    genre = films.categories[0]
    inside = [i for i in range(len(films)) if genre in films.categories_of(i)]
    levels = {genre: "no release"}
    released = sum(device.release(films.item_ids[:200], levels).counts)
    assert released == 200 - len([i for i in inside if i < 200]), "none of them is replaced"
    treated = device.treatment(films.item_ids[inside], levels)
    assert set(treated) == {"no release"}
    assert device.budget(levels) <= 3.0


class Toy(Perturber):
    """Sends the history as it is, and promises nothing."""

    method = "toy"

    def release(self, history, *_, **__):
        return Release(method="toy", items=tuple(history), guarantee=Guarantee.none(unit="item"))

    def budget(self, *_):
        return inf


def test_a_perturber_without_a_promise_refuses_to_say_odds():
    release = Toy().release([1, 2])
    assert Toy.odds(release, 1, FILMS) is None
    assert Toy().treatment([1, 2]) == ["perturbed release"] * 2
    with pytest.raises(InputError, match="only level"):
        Toy().treatment([1], "no release")


def test_dpi_says_that_which_items_were_rated_is_public():
    history = pa.table({"item_id": [1, 2], "rating": [5.0, 1.0]})
    release = DPI(Scale(1, 5, 1), epsilon=0.1).release(history)
    assert DPI.odds(release, 1, FILMS).epsilon == inf


def test_a_catalogues_version_tells_catalogues_apart():
    same = Catalogue.from_columns(
        [1, 2, 3, 4], ["a", "b", "c", "d"], ["War", "Drama|War", "Opera", "Opera|Spy"]
    )
    assert same.version == FILMS.version
    other = Catalogue.from_columns(
        [1, 2, 3, 4], ["a", "b", "c", "d"], ["War", "War", "Opera", "Opera|Spy"]
    )
    assert other.version != FILMS.version
    assert SEpicRec(FILMS, epsilon=1.0).release([1]).settings["catalogue"] == FILMS.version
