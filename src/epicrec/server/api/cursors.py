"""Cursors: where a page ended, as opaque text that clients send back."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any

from fastapi import HTTPException, Query

Number = Annotated[int, Query(ge=1, le=1000, description="How many to return.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="How many of the best to leave out.")]
Cursor = Annotated[str, Query(max_length=200, description="Where the last page ended.")]


def written(place: Any) -> str:
    """The cursor for a place; empty where there is no next page."""
    if place is None:
        return ""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def key_at(cursor: str) -> int:
    """The key after which a page of users or items begins."""
    place = _read(cursor) if cursor else 0
    if type(place) is not int or not 0 <= place < 2**63:
        raise _bad()
    return place


def row_at(cursor: str) -> tuple[int, int, str, int]:
    """The row after which a page of feedback begins."""
    match _read(cursor) if cursor else [0, 0, "", 0]:
        case [int(user), int(item), str(kind), int(release)] if (
            max(user, item, release) < 2**63 and "\0" not in kind
        ):
            return user, item, kind, release
    raise _bad()


def _read(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _bad() from None


def _bad() -> HTTPException:
    return HTTPException(400, "this cursor did not come from here; leave it out to start again")
