"""Cursors: what is written is read back, and nothing else is read."""

import base64
import json

import pytest
from fastapi import HTTPException

from epicrec.server.api.cursors import key_at, row_at, written

LARGEST = 2**63 - 1


@pytest.mark.parametrize("key", [0, 1, 536, LARGEST])
def test_a_key_comes_back(key: int) -> None:
    assert key_at(written(key)) == key


@pytest.mark.parametrize(
    "row", [(0, 0, "", 0), (1, 2, "read", 3), (LARGEST, 0, "?>~ü", 0), (0, LARGEST, "x", LARGEST)]
)
def test_a_row_comes_back(row: tuple[int, int, str, int]) -> None:
    assert row_at(written(row)) == row


def test_without_a_cursor_pages_begin_at_the_beginning_and_the_last_has_none() -> None:
    assert key_at("") == 0
    assert row_at("") == (0, 0, "", 0)
    assert written(None) == ""


def encoded(place: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


@pytest.mark.parametrize("place", [-1, 2**63, True, 1.0, "1", None, [1], {}])
def test_other_keys_are_refused(place: object) -> None:
    with pytest.raises(HTTPException) as refused:
        key_at(encoded(place))
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    "place",
    [
        [2**63, 0, "", 0],
        [0, 2**63, "", 0],
        [0, 0, "", 2**63],
        [0, 0, "a\0b", 0],
        [0, 0],
        [0, 0, ""],
        [0, 0, "", "0"],
        ["0", 0, "", 0],
        7,
    ],
)
def test_other_rows_are_refused(place: object) -> None:
    with pytest.raises(HTTPException) as refused:
        row_at(encoded(place))
    assert refused.value.status_code == 400


@pytest.mark.parametrize("text", ["nonsense", "MQ", "M!Q==", "MQ==\n", "ü", "{}"])
def test_what_was_not_written_here_is_refused(text: str) -> None:
    for read in (key_at, row_at):
        with pytest.raises(HTTPException) as refused:
            read(text)
        assert refused.value.status_code == 400
