"""What feedback says of an item: the same of one value as of many."""

from __future__ import annotations

import numpy as np
import pytest

from epicrec.server.meaning import Meaning

VALUES = np.array([-1.0, 0.0, 2.0, 2.5, 3.0, 4.0, 5.0])


@pytest.mark.parametrize("kind", ["watch", "like", "rating", "dislike", "else"])
def test_one_value_is_taken_as_many_are(kind: str) -> None:
    meaning = Meaning.parse("watch, like, rating>=4", "dislike, rating<2.5, rating<=0")
    assert [meaning.sign(kind, value) for value in VALUES.tolist()] == [
        *meaning.likes(kind, VALUES)
    ]


def test_values_are_for_and_against() -> None:
    meaning = Meaning.parse("rating>=4", "rating<2.5")
    assert [meaning.sign("rating", value) for value in VALUES.tolist()] == [-1, -1, -1, 0, 0, 1, 1]
