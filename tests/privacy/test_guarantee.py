from __future__ import annotations

from dataclasses import FrozenInstanceError
from math import inf, nan
from types import SimpleNamespace

import pytest

from epicrec.errors import InputError
from epicrec.privacy import Guarantee, gaussian_guarantee
from epicrec.testing.guarantees import GuaranteeContract

PURE = Guarantee(epsilon=0.5, unit="item", relation="add or remove one")
EXAMPLES = {
    "pure": PURE,
    "gaussian": gaussian_guarantee(0.2, 1e-6, unit="rating", relation="add or remove one"),
    "claimed": Guarantee(
        epsilon=1,
        unit="rating value",
        relation="change one",
        status="claimed",
        assumes=("The groups are public.", "One draw per item"),
    ),
    "none": Guarantee.none(unit="user"),
    "seeded": PURE.seeded(7),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
class TestContract(GuaranteeContract):
    @pytest.fixture
    def guaranteed(self, example):
        return SimpleNamespace(guarantee=example)


def test_prints_plainly():
    assert str(PURE) == "ε = 0.5 for one item (add or remove one), proved."
    assert str(EXAMPLES["none"]) == "No privacy guarantee for one user."
    assert str(EXAMPLES["claimed"]) == (
        "ε = 1 for one rating value (change one), claimed, "
        "assuming: The groups are public; One draw per item."
    )
    assert str(EXAMPLES["seeded"]).endswith(
        "proved; reproducible, not private: the noise came from a seed."
    )
    assert "δ = 1e-06" in str(EXAMPLES["gaussian"])


def test_seeded_only_with_a_seed():
    assert PURE.seeded(None) is PURE
    assert PURE.seeded(0).reproducible


def test_cannot_be_altered():
    with pytest.raises(FrozenInstanceError):
        PURE.epsilon = 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -1}, "epsilon must be at least 0"),
        ({"epsilon": nan}, "epsilon must be at least 0"),
        ({"epsilon": "1"}, "epsilon must be at least 0"),
        ({"epsilon": inf}, "infinite epsilon"),
        ({"status": "none"}, "infinite epsilon"),
        ({"delta": 1}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"delta": nan}, "delta must be"),
        ({"mu": 0}, "mu must be"),
        ({"mu": 1}, "needs a delta"),
        ({"mu": inf}, "mu must be"),
        ({"unit": "person"}, "unit must be one of 'rating value', 'rating', 'item', 'user'"),
        ({"relation": "swap"}, "relation must be one of"),
        ({"status": "hoped"}, "status must be one of"),
        ({"assumes": "all is well"}, "sequence of sentences"),
    ],
)
def test_refuses_what_makes_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        Guarantee(**{"epsilon": 1.0, "unit": "item", "relation": "change one"} | change)


@pytest.mark.parametrize("values", [{}, {"epsilon": 1}, PURE.to_dict() | {"extra": 1}])
def test_refuses_other_dictionaries(values):
    with pytest.raises(InputError, match="not a guarantee"):
        Guarantee.from_dict(values)
