"""Attacks work where there is no privacy, and far less where there is."""

import numpy as np
import pytest

from epicrec.data import load_dataset
from epicrec.evaluate import attacks
from epicrec.evaluate.attacks import success


def test_the_success_of_a_sure_attack_and_of_none() -> None:
    truth = np.arange(600) % 2 == 0
    sure = success("a", "b", "c", truth.astype(float), truth)
    assert (sure.advantage, sure.high) == (1.0, 1.0)
    assert 0.9 < sure.low < 1
    blind = success("a", "b", "c", np.random.default_rng(1).random(600), truth)
    assert blind.low < 0 < blind.high
    assert success("a", "b", "c", np.zeros(600), truth).advantage == 0


@pytest.mark.parametrize("name", ["_lists", "_fakes", "_averaged", "_members", "_sizes"])
def test_privacy_takes_most_of_an_attack_away(name: str) -> None:
    """Margins are five standard deviations or more: noise is fresh."""
    films = load_dataset("films")
    given = {
        "_lists": [films.ratings],
        "_fakes": [films.ratings, films.catalogue],
        "_averaged": [],
        "_members": [films.ratings],
        "_sizes": [films.catalogue],
    }[name]
    plain, published, default = (
        success(name, "", method, scores, truth)
        for method, scores, truth in getattr(attacks, name)(*given)
    )
    assert plain.low > 0.2
    assert default.advantage < plain.advantage - 0.1
    if name == "_averaged":  # noise that is drawn anew goes away
        assert published.low > 0.7
    if name == "_sizes":  # D2P says how many films there are
        assert published.advantage == 1
