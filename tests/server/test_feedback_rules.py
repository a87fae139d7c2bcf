"""Positive and negative feedback: the same for one value as for many."""

from __future__ import annotations

import numpy as np
import pytest

from epicrec.server.feedback_rules import FeedbackRules

VALUES = np.array([-1.0, 0.0, 2.0, 2.5, 3.0, 4.0, 5.0])


@pytest.mark.parametrize("kind", ["watch", "like", "rating", "dislike", "else"])
def test_one_value_is_judged_as_many_are(kind: str) -> None:
    rules = FeedbackRules.parse("watch, like, rating>=4", "dislike, rating<2.5, rating<=0")
    assert [rules.sign(kind, value) for value in VALUES.tolist()] == [*rules.signs(kind, VALUES)]


def test_a_rating_is_positive_negative_or_neither() -> None:
    rules = FeedbackRules.parse("rating>=4", "rating<2.5")
    assert [rules.sign("rating", value) for value in VALUES.tolist()] == [-1, -1, -1, 0, 0, 1, 1]
