"""The same tests for everything that carries a `.guarantee`: models, releases, perturbers.

class TestBiasGuarantee(GuaranteeContract):
    @pytest.fixture
    def guaranteed(self):
        return Bias(epsilon=1.0).fit(ratings)
"""

from __future__ import annotations

import json
from math import inf, isinf
from typing import Any

import pytest

from epicrec.privacy import Guarantee, Ledger


class GuaranteeContract:
    """Subclass it and give a `guaranteed` fixture: any object with a `.guarantee`."""

    @pytest.fixture
    def guaranteed(self) -> Any:
        raise NotImplementedError("return an object that has a .guarantee")

    def test_guarantee_is_well_formed(self, guaranteed: Any) -> None:
        guarantee = guaranteed.guarantee
        assert isinstance(guarantee, Guarantee)
        assert 0 <= guarantee.epsilon <= inf
        assert 0 <= guarantee.delta < 1
        assert isinf(guarantee.epsilon) == (guarantee.status == "none")
        if guarantee.unit == "rating value":
            assert guarantee.relation == "change one", "a value cannot be added by itself"
        for sentence in guarantee.assumes:
            assert sentence == sentence.strip()
            assert len(sentence.split()) >= 3, "assumptions are plain sentences"

    def test_guarantee_survives_json(self, guaranteed: Any) -> None:
        guarantee = guaranteed.guarantee
        text = json.dumps(guarantee.to_dict(), allow_nan=False)
        assert Guarantee.from_dict(json.loads(text)) == guarantee

    def test_guarantee_prints_as_one_line(self, guaranteed: Any) -> None:
        text = str(guaranteed.guarantee)
        assert text.endswith(".")
        assert "\n" not in text
        assert guaranteed.guarantee.unit in text
        assert ("No privacy guarantee" in text) == (guaranteed.guarantee.status == "none")
        assert ("not private" in text) == guaranteed.guarantee.reproducible

    def test_guarantee_can_be_spent_once(self, guaranteed: Any) -> None:
        guarantee = guaranteed.guarantee
        if guarantee.reproducible:
            pytest.skip("seeded noise is never a real release")
        disclosure = guarantee.status == "none"
        ledger = Ledger(
            None,
            limit_epsilon=1.0 if disclosure else guarantee.epsilon * (1 + 1e-6) or 1e-9,
            limit_delta=guarantee.delta,
        )
        ledger.spend(guarantee, about="contract", disclosure=disclosure)
        assert len(ledger.entries()) == 1
