"""The messages between client and server: JSON with Gorse's PascalCase keys.

Gorse's own messages (Item, User, Feedback, pages, scores) keep its names, so that its clients can
speak to our server and ours to Gorse. Registration, Released, ModelInfo and SigningKey are
additions.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
)

from epicrec.errors import InputError
from epicrec.perturb import Release
from epicrec.privacy import Guarantee

MOST_ROWS = 10_000
"""The most rows in one message."""
MOST_VALUE = 1e9
"""The largest value of feedback, either way."""
MOST_EXTRAS = 8_192
"""The most characters, as JSON, of labels or of a stated guarantee."""
MOST_SETTINGS = 262_144
"""The same of a release's public settings."""
_DEEPEST = 16


def _moment(value: datetime) -> datetime:
    """A time in UTC; years near the ends of the calendar cannot be converted and are refused."""
    if not 1900 <= value.year <= 2200:
        raise ValueError("the time must lie between the years 1900 and 2200")
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _dated(value: Any) -> Any:
    """Gorse's clients send an empty text where they know no time."""
    return None if value == "" else value


def _plain(value: Any, most: int = MOST_EXTRAS) -> Any:
    """JSON that can be stored and sent again: not too long and not too deep."""
    level = [value]
    for _ in range(_DEEPEST):
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [one for part in inner if isinstance(part, list) for one in part]
    if level:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    if len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode()) > most:
        raise ValueError(f"longer than {most:,} bytes as JSON")
    return value


def _guarantee(value: dict[str, Any]) -> dict[str, Any]:
    try:
        return Guarantee.from_dict(_plain(value)).to_dict()
    except InputError as error:
        raise ValueError(str(error)) from None


def _release(value: dict[str, Any]) -> dict[str, Any]:
    rest = {name: inner for name, inner in value.items() if name not in _ONE_EACH}
    _plain(rest, MOST_SETTINGS)
    _plain(rest.get("guarantee"))
    try:
        release = Release.from_dict(value).public()
    except InputError as error:
        raise ValueError(str(error)) from None
    if len(release.items) > MOST_ROWS:
        raise ValueError(f"a release holds at most {MOST_ROWS:,} items")
    _ITEM_IDS.validate_python(list(release.items))
    return release.to_dict()


TYPE_NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
Id = Annotated[str, Field(min_length=1, max_length=256, pattern=PRINTABLE)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTABLE)]
Kind = Annotated[str, Field(max_length=32, pattern=TYPE_NAME)]
Remark = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
Amount = Annotated[float, Field(ge=-MOST_VALUE, le=MOST_VALUE, allow_inf_nan=False)]
Moment = Annotated[datetime, AfterValidator(_moment)]
MomentOrNone = Annotated[Moment | None, BeforeValidator(_dated)]
Extras = Annotated[dict[Name, Any] | list[Any] | None, AfterValidator(_plain)]
StatedGuarantee = Annotated[dict[str, Any], AfterValidator(_guarantee)]
"""`Guarantee.to_dict()`: epsilon (null for none), delta, unit, relation, status, assumes, ...."""
StatedRelease = Annotated[dict[str, Any], AfterValidator(_release)]
"""`perturb.Release.to_dict()`; any part that the device should have kept is dropped."""
_ITEM_IDS = TypeAdapter(list[Id])
_ONE_EACH = ("items", "counts", "ratings")
"""The parts of a release with one entry for each item; these are limited by `MOST_ROWS`."""


class Message(BaseModel):
    """Strict about known keys; unknown keys are ignored, as Gorse does."""

    model_config = ConfigDict(extra="ignore", frozen=True)


# ---- Gorse's messages ---------------------------------------------------------------------


class Item(Message):
    ItemId: Id
    IsHidden: bool = False
    Categories: Annotated[list[Name] | None, Field(max_length=100)] = None
    Timestamp: MomentOrNone = None
    Labels: Extras = None
    Comment: Remark = ""


class ItemPatch(Message):
    """What is null stays as it is."""

    IsHidden: bool | None = None
    Categories: Annotated[list[Name] | None, Field(max_length=100)] = None
    Timestamp: MomentOrNone = None
    Labels: Extras = None
    Comment: Remark | None = None


class User(Message):
    UserId: Id
    Labels: Extras = None
    Comment: Remark = ""


class UserPatch(Message):
    """What is null stays as it is."""

    Labels: Extras = None
    Comment: Remark | None = None


class Feedback(Message):
    FeedbackType: Kind
    UserId: Id
    ItemId: Id
    Value: Amount = 0.0
    Timestamp: MomentOrNone = None
    Comment: Remark = ""


class Score(Message):
    Id: str
    Score: float


class RowAffected(Message):
    RowAffected: int


class ItemPage(Message):
    Cursor: str
    Items: list[Item]


class UserPage(Message):
    Cursor: str
    Users: list[User]


class FeedbackPage(Message):
    Cursor: str
    Feedback: list[Feedback]


class Health(Message):
    """Gorse's data store is our database; its cache store are our lists and models."""

    Ready: bool
    DataStoreConnected: bool
    DataStoreError: str = ""
    CacheStoreConnected: bool = True
    CacheStoreError: str = ""


# ---- additions ----------------------------------------------------------------------------


class Registration(Message):
    """A client's id and its secret, which is sent once and goes into `X-API-Key`."""

    UserId: str
    Secret: str


class Released(Message):
    """A release of one client, beside its others. It replaces the one with the same id, so that
    sending it again changes nothing. A client that gives no id has one release, the last."""

    Release: StatedRelease
    ReleaseId: Annotated[str, Field(max_length=64, pattern=PRINTABLE)] = ""
    UserId: Annotated[str, Field(max_length=256, pattern=PRINTABLE)] = ""
    FeedbackType: Kind = "watch"


class ModelInfo(Message):
    """The published item model, and its guarantee to the users it was learned from."""

    Version: int
    Hash: str
    Size: int
    Method: str
    Task: Literal["ratings", "lists"]
    Items: int
    Created: Moment
    Guarantee: StatedGuarantee


class SigningKey(Message):
    """A server's role in shared models, and the key that it signs rounds with."""

    Role: Literal["leader", "helper"]
    Key: str
    Fingerprint: str


class Problem(Message):
    """What went wrong and what to do; the body of every response with status 400 or more."""

    detail: str
