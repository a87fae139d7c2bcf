import numpy as np
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.levels import ALL, NO, PERTURBED, parse_level, parse_levels, treatments

CATEGORIES = ("N", "P", "A")
LEVELS = dict(zip(CATEGORIES, (NO, PERTURBED, ALL), strict=True))


@pytest.mark.parametrize(
    ("row", "perturbed", "clear"),
    [
        ([1, 0, 0], False, False),
        ([0, 1, 0], True, False),
        ([0, 0, 1], False, True),
        ([1, 1, 0], False, False),  # one "no release" category withholds the item
        ([1, 0, 1], False, False),
        ([0, 1, 1], True, False),  # all must be "all release" to send it as it is
        ([1, 1, 1], False, False),
        ([0, 0, 0], False, False),  # without categories nothing says it may be sent
    ],
)
def test_the_strictest_level_of_an_item_wins(row, perturbed, clear):
    found = treatments(np.array([row], np.uint8), LEVELS)
    assert [bool(mask[0]) for mask in found] == [perturbed, clear]


def test_items_without_category_follow_an_overall_all_release():
    empty = np.zeros((1, 3), np.uint8)
    assert treatments(empty, dict.fromkeys(CATEGORIES, ALL))[1][0]
    assert not treatments(empty, dict.fromkeys(CATEGORIES, NO))[1][0]
    assert not treatments(empty, dict.fromkeys(CATEGORIES, PERTURBED))[1][0]


def test_level_names():
    assert parse_level(" No-Release ") == NO
    assert parse_level("perturbed") == PERTURBED
    with pytest.raises(InputError, match="perturbed release"):
        parse_level("some release")


def test_categories_left_out_are_perturbed_and_unknown_ones_refused():
    films = Catalogue.from_columns([1, 2], ["x", "y"], ["War", "Crime|Drama"])
    levels = parse_levels({"War": "no release"}, films.categories)
    assert levels == {"Crime": PERTURBED, "Drama": PERTURBED, "War": NO}
    with pytest.raises(InputError, match="no category 'Western'"):
        parse_levels({"Western": "no release"}, films.categories)
