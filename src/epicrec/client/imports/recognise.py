"""Recognise: which service a file comes from, told by what is in it, and its viewings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from epicrec.client.imports import (
    archives,
    csv_history,
    imdb,
    letterboxd,
    netflix,
    prime_video,
    trakt,
)
from epicrec.client.imports.csv_tables import Table, read_table
from epicrec.client.viewing import Import
from epicrec.errors import InputError

_KNOWN = (
    "Known are: Netflix (NetflixViewingHistory.csv, ViewingActivity.csv or the account's zip), "
    "Prime Video (the account's zip or its viewing history), Letterboxd (the zip), Trakt (the "
    "zip), IMDb (ratings.csv), and any CSV with a column 'title', best with a 'year'"
)


def recognise(
    filename: str,
    data: bytes,
    answers: Mapping[str, str] | None = None,
    *,
    today: date | None = None,
) -> Import:
    """What this file holds. Where it leaves something open, the result has questions: call again
    with their answers. A file of no known kind, or a damaged one, is an `InputError`."""
    answers = answers or {}
    today = today or datetime.now(UTC).date()
    name = filename.replace("\\", "/").rsplit("/", 1)[-1] or "the file"
    archives.check_size(name, data)
    if archives.is_zip(data):
        found = _read_zip(name, data, answers)
    elif (content := _json(data)) is not None:
        found = trakt.read({name: content}) if trakt.is_export(content) else None
    elif b"\0" in data[:1024] and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        found = None
    else:
        found = _read_csv(read_table(name, archives.decode(data)), answers, today)
    if found is None:
        raise InputError(f"{name} is none of the files that can be read. {_KNOWN}")
    return found


def _read_csv(table: Table, answers: Mapping[str, str], today: date) -> Import | None:
    if csv_history.is_own(table):
        return csv_history.read(table)
    if imdb.is_ratings(table):
        return imdb.read(table)
    if letterboxd.is_list(table):
        return letterboxd.read([table], answers)
    if netflix.is_full(table):
        return netflix.read_full(table, answers)
    if prime_video.is_export(table):
        return prime_video.read(table)
    if netflix.is_short(table):
        return netflix.read_short(table, answers, today)
    return csv_history.read(table) if csv_history.is_list(table) else None


def _read_zip(name: str, data: bytes, answers: Mapping[str, str]) -> Import | None:
    files = archives.unpack(name, data, lambda inside: inside.lower().endswith((".csv", ".json")))
    contents: dict[str, Any] = {}
    tables: list[Table] = []
    for inside, file in files.items():
        if not file.strip():
            continue
        if inside.lower().endswith(".json"):
            contents[inside] = _json(file)
        else:
            tables.append(read_table(inside, archives.decode(file)))
    lists = [table for table in tables if letterboxd.is_list(table)]
    if lists:
        return letterboxd.read(lists, answers)
    if any(trakt.is_export(content) for content in contents.values()):
        return trakt.read(contents)
    watched = next((table for table in tables if prime_video.is_export(table)), None)
    if watched is not None:
        return prime_video.read(watched)
    activity = next((table for table in tables if netflix.is_full(table)), None)
    thumbs = next((table for table in tables if netflix.is_thumbs(table)), None)
    return netflix.read_full(activity, answers, thumbs) if activity else None


def _json(data: bytes) -> Any:
    """The JSON in these bytes, None where they hold none."""
    if data.lstrip()[:1] not in (b"[", b"{"):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
