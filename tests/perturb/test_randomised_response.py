"""Randomised response: exact odds, the distribution of answers, levels, and the format."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from epicrec.data import Catalogue
from epicrec.data.works import catalogue_works
from epicrec.errors import InputError
from epicrec.evaluate.audits.device_releases import RELEASES
from epicrec.evaluate.audits.game import judge
from epicrec.perturb import RandomisedResponse, Release
from epicrec.perturb.randomised_response import Answering, answers_about, lies_of
from epicrec.testing.perturbers import PerturberContract

WORD = 1 << 64
FILMS = Catalogue.from_columns(
    [1, 2, 3, 4, 5, 6],
    ["a", "b", "c", "c", "d", "e"],
    ["War", "War|Drama", "Opera", "Opera", "Opera|Drama", ""],
    year=[1990, 1990, 1990, 1991, 1990, 1990],
)
MANY = Catalogue.from_columns(
    np.arange(20_000), [f"title {i}" for i in range(20_000)], ["War", "Opera"] * 10_000
)


class TestRandomisedResponse(PerturberContract):
    def make(self, catalogue: Catalogue, **settings: Any) -> RandomisedResponse:
        return RandomisedResponse(catalogue, epsilon=1.0, **settings)


class TestWithLevels(TestRandomisedResponse):
    levels = {"Drama": "no release", "Comedy": "all release"}


def bits_of(release: Release, catalogue: Catalogue = FILMS) -> Any:
    return answers_about(Release.from_json(release.public().to_json()), catalogue)


# ---- the odds ---------------------------------------------------------------------------------


@given(st.floats(1e-3, 40))
def test_the_odds_never_exceed_the_claim_and_are_the_nearest_that_do_not(epsilon: float) -> None:
    exact = Context(prec=200)
    claim, k = exact.exp(Decimal(epsilon)), Decimal(lies_of(epsilon))
    assert exact.divide(WORD - k, k) <= claim
    assert k == 1 or exact.divide(WORD - k + 1, k - 1) > claim


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 41.0, float("nan"), float("inf"), 1e-30, "one"])
def test_an_epsilon_that_cannot_be_is_refused(epsilon: Any) -> None:
    with pytest.raises(InputError, match="epsilon"):
        RandomisedResponse(FILMS, epsilon=epsilon).release([1])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_seen_and_unseen_works_are_lied_about_alike(epsilon: float) -> None:
    device = RandomisedResponse(MANY, epsilon=epsilon)
    seen = np.arange(0, 20_000, 3)
    expected = 1 / (1 + np.exp(epsilon))
    lies = bits_of(device.release(seen), MANY) != np.isin(MANY.item_ids, seen)
    for part in (lies[seen], np.delete(lies, seen)):
        found = [binomtest(int(part.sum()), len(part), expected * off).pvalue
                 for off in (1.0, 0.7, 1.3)]  # fmt: skip
        assert found[0] > 1e-4
        assert max(found[1:]) < 1e-4, "a coin that is off is noticed"


def test_lies_of_two_works_are_independent() -> None:
    device = RandomisedResponse(MANY, epsilon=1.0)
    lies = bits_of(device.release([]), MANY).astype(float) - 1 / (1 + np.e)
    for gap in (1, 2, 7, 8, 64):
        assert abs(np.corrcoef(lies[:-gap], lies[gap:])[0, 1]) < 4 / np.sqrt(len(lies))


# ---- levels -----------------------------------------------------------------------------------


def test_a_withheld_category_is_answered_as_never_watched() -> None:
    device = RandomisedResponse(FILMS, epsilon=1.0, seed=3)
    levels = {"Drama": "no release", "Opera": "all release"}
    withheld, never = device.release([1, 2, 5], levels), device.release([1], levels)
    assert withheld.answers == never.answers, "and with the same noise"
    assert withheld.public() == device.release([1], {"Opera": "all"}).public(), "nor does it show"
    assert RandomisedResponse.odds(withheld, 2, FILMS).epsilon == 0


def test_what_is_open_is_exact_and_depends_on_the_open_categories_alone() -> None:
    device = RandomisedResponse(FILMS, epsilon=0.01)
    levels = {"Opera": "all release"}
    drawn = np.array([bits_of(device.release([3], levels)) for _ in range(60)])
    assert (drawn[:, 2:4] == 1).all(), "both entries of the one work"
    assert all(0 < share < 1 for share in drawn[:, [0, 1, 4, 5]].mean(axis=0))
    release = device.release([], levels)
    assert (release.clear, release.settings["open"]) == (1, ["Opera"])
    assert "not protected" in str(release.guarantee)
    assert [device.treatment([i], levels)[0].split()[0] for i in (1, 3, 4, 5, 6)] == [
        "perturbed", "all", "all", "perturbed", "perturbed",
    ]  # fmt: skip


def test_two_entries_of_a_work_are_one_bit() -> None:
    device = RandomisedResponse(FILMS, epsilon=1.0, seed=1)
    assert len(catalogue_works(FILMS)) == 5
    assert (
        device.release([3]).answers == device.release([4]).answers == device.release([3, 4]).answers
    )
    for seed in range(20):
        bits = bits_of(device.release([3], seed=seed))
        assert bits[2] == bits[3]


# ---- what a receiver knows --------------------------------------------------------------------


def test_answers_are_a_bit_for_each_work() -> None:
    release = RandomisedResponse(MANY, epsilon=1.0).release([5])
    assert len(release.answers or b"") == 2500
    assert release.items == ()


def test_answers_are_unbiased_with_the_known_variance() -> None:
    device = RandomisedResponse(MANY, epsilon=1.0)
    seen = np.arange(0, 20_000, 2)
    how = Answering.of(device.release([]).settings, MANY)
    found = (bits_of(device.release(seen), MANY).astype(float) - how.lie) / (1 - 2 * how.lie)
    truth = np.isin(MANY.item_ids, seen)
    off = (found - truth) / np.sqrt(how.variance)
    assert abs(off.mean()) < 4 / np.sqrt(len(off))
    assert np.mean(off**2) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    "wrong",
    [{"works": "1-0"}, {"open": ["Ballet"]}, {"open": ["War", "Drama"]}, {"open": "War"},
     {"epsilon": 0}, {"epsilon": "1"}, {"epsilon": None}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    settings = dict(RandomisedResponse(FILMS).release([1]).settings)
    assert Answering.of(settings, FILMS).settings == settings
    with pytest.raises(InputError):
        Answering.of(settings | wrong, FILMS)


def test_a_release_has_answers_or_items() -> None:
    found = RandomisedResponse(FILMS).release([1]).to_dict()
    for wrong in ({"items": [1]}, {"answers": "no base64!"}, {"answers": 7}):
        with pytest.raises(InputError, match="not a release"):
            Release.from_dict(found | wrong)


@pytest.mark.slow
def test_an_audit_finds_nearly_all_of_the_claim() -> None:
    found = judge("randomised-response", RELEASES["randomised-response"](1.0))
    assert 0.95 < found.share <= 1, found
