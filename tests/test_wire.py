"""The messages: Gorse's shapes in and out, and what is refused."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from epicrec import wire
from epicrec.perturb import Release
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


def message(**changes: object) -> wire.Released:
    release = Release(
        method="d2p", items=("a", "b"), counts=(2, 1), guarantee=PROMISE, kept={"levels": {}}
    )
    return wire.Released.model_validate({"Release": release.to_dict() | changes})


def test_a_release_is_the_librarys_own_without_what_the_device_keeps() -> None:
    again = wire.Released.model_validate_json(message().model_dump_json())
    release = Release.from_dict(again.Release)
    assert release.guarantee == PROMISE
    assert (release.items, release.values) == (("a", "b"), (2.0, 1.0))
    assert release.kept == {}


def test_a_release_in_clear_states_no_epsilon() -> None:
    found = message(guarantee=Guarantee.none().to_dict())
    assert found.Release["guarantee"]["epsilon"] is None


@pytest.mark.parametrize("wrong", [{}, {"epsilon": -1}, {"epsilon": 1, "unit": "film"}, "ε = 1"])
def test_a_guarantee_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError, match="Release"):
        message(guarantee=wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"items": ["a"]},
        {"items": ["a", "a"]},
        {"items": ["a", {}]},
        {"items": ["a", 7]},
        {"items": None},
        {"counts": [1, 0]},
        {"counts": [1, 1.5]},
        {"counts": None, "ratings": [1.0, None]},
        {"settings": 3},
        {"format": 99},
        {"format": "x"},
        {"unknown": 1},
    ],
)
def test_what_is_no_release_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        message(**change)


def test_a_release_has_a_largest_size() -> None:
    message(items=[str(i) for i in range(wire.MOST_ROWS)], counts=None)
    with pytest.raises(ValidationError, match="at most"):
        message(items=[str(i) for i in range(wire.MOST_ROWS + 1)], counts=None)
