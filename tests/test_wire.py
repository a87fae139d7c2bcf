"""The messages: Gorse's shapes in and out, and what is refused."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from epicrec import wire
from epicrec.privacy import Guarantee

PROMISE = Guarantee(epsilon=1.0, unit="item", relation="add or remove one")


def test_feedback_as_gorse_clients_send_it() -> None:
    row = wire.Feedback.model_validate(
        {"FeedbackType": "watch", "UserId": "u", "ItemId": "i", "Timestamp": "2022-02-24"}
    )
    assert (row.Value, row.Comment) == (0.0, "")
    assert row.Timestamp == datetime(2022, 2, 24, tzinfo=UTC)
    assert set(json.loads(row.model_dump_json())) == {
        "FeedbackType", "UserId", "ItemId", "Value", "Timestamp", "Comment"
    }  # fmt: skip


def test_an_empty_time_is_no_time_and_unknown_keys_are_ignored() -> None:
    item = wire.Item.model_validate({"ItemId": "i", "Timestamp": "", "Score": 3})
    assert item.Timestamp is None
    assert not hasattr(item, "Score")


def test_times_come_out_in_utc() -> None:
    item = wire.Item(ItemId="i", Timestamp="2020-01-01T02:00:00+02:00")
    assert item.Timestamp == datetime(2020, 1, 1, tzinfo=UTC)
    assert item.Timestamp.utcoffset().total_seconds() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"UserId": ""},
        {"UserId": "x" * 257},
        {"UserId": "a\0b"},
        {"UserId": "a\nb"},
        {"UserId": 7},
        {"UserId": "\ud800"},
        {"FeedbackType": "watch; DROP TABLE users"},
        {"Value": float("nan")},
        {"Value": float("inf")},
        {"Value": 1e300},
        {"Value": "many"},
        {"Timestamp": "yesterday"},
        {"Timestamp": "0001-01-01T00:00:00+14:00"},
        {"Timestamp": 1e300},
        {"Comment": "x" * 1025},
    ],
)
def test_refused(change: dict[str, object]) -> None:
    good = {"FeedbackType": "watch", "UserId": "u", "ItemId": "i"}
    wire.Feedback.model_validate(good)
    with pytest.raises(ValidationError):
        wire.Feedback.model_validate(good | change)


def test_a_release_carries_a_guarantee_as_it_is_written_elsewhere() -> None:
    release = wire.Release(Items=["a"], Guarantee=PROMISE.to_dict())
    again = wire.Release.model_validate_json(release.model_dump_json())
    assert again.Guarantee is not None
    assert Guarantee.from_dict(again.Guarantee) == PROMISE


def test_a_release_in_clear_states_no_epsilon() -> None:
    release = wire.Release(Items=["a"], Guarantee=Guarantee.none().to_dict())
    assert release.Guarantee is not None
    assert release.Guarantee["epsilon"] is None


@pytest.mark.parametrize("wrong", [{}, {"epsilon": -1}, {"epsilon": 1, "unit": "film"}, "ε = 1"])
def test_a_guarantee_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError, match="Guarantee"):
        wire.Release.model_validate({"Items": ["a"], "Guarantee": wrong})


def test_a_release_has_a_largest_size() -> None:
    wire.Release(Items=["i"] * wire.MOST_ROWS)
    with pytest.raises(ValidationError):
        wire.Release(Items=["i"] * (wire.MOST_ROWS + 1))
