"""The operator's catalogue: items, which only the admin writes, and every list ever drawn from."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pa_parquet
from sqlalchemy import Connection, delete, func, select, true, update

from epicrec import wire
from epicrec.data import Catalogue
from epicrec.data.catalogue import with_text_ids
from epicrec.server.store.database import CATALOGUE, next_revision
from epicrec.server.store.schema import catalogues, items
from epicrec.server.store.sql import insert, keys_by_id


def seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def moment(stamp: int | None) -> datetime | None:
    return None if stamp is None else datetime.fromtimestamp(stamp, UTC)


def put(connection: Connection, given: list[wire.Item]) -> int:
    """Add items, or replace those with the same id."""
    if given:
        statement = insert(connection, items)
        rows = [{"item_id": item.ItemId, **_values(item)} for item in given]
        changes = {name: statement.excluded[name] for name in rows[0] if name != "item_id"}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["item_id"], set_=changes), rows
        )
    next_revision(connection, CATALOGUE)
    return len(given)


def fill(connection: Connection, catalogue: Catalogue) -> int:
    """Add the items of a catalogue that are missing. Returns how many were."""
    known = keys_by_id(connection, items, {str(item_id) for item_id in catalogue.item_ids})
    new = [
        wire.Item(
            ItemId=str(catalogue.item_ids[at]),
            Categories=list(catalogue.categories_of(at)),
            Labels=_labels(catalogue, at),
            Comment=str(catalogue.titles[at])[:1024],
        )
        for at in range(len(catalogue))
        if str(catalogue.item_ids[at]) not in known
    ]
    return put(connection, new) if new else 0


def patch(connection: Connection, item_id: str, change: wire.ItemPatch) -> int:
    """Change the given fields of one item. Returns 0 where there is no such item."""
    values: dict[str, Any] = {}
    if change.IsHidden is not None:
        values["is_hidden"] = change.IsHidden
    if change.Categories is not None:
        values["categories"] = json.dumps(change.Categories)
    if change.Labels is not None:
        values["labels"] = json.dumps(change.Labels)
    if change.Timestamp is not None:
        values["timestamp"] = seconds(change.Timestamp)
    if change.Comment is not None:
        values["comment"] = change.Comment
    if not values:
        return int(get(connection, item_id) is not None)
    next_revision(connection, CATALOGUE)
    return connection.execute(
        update(items).where(items.c.item_id == item_id).values(**values)
    ).rowcount


def put_into(connection: Connection, item_id: str, category: str, *, inside: bool) -> int | None:
    """Put an item into a category, or take it out. Returns None where there is no such item."""
    item = get(connection, item_id)
    if item is None:
        return None
    before = item.Categories or []
    after = [name for name in before if name != category] + [category] * inside
    if sorted(after) == sorted(before):
        return 0
    return patch(connection, item_id, wire.ItemPatch(Categories=after))


def latest(
    connection: Connection, n: int, offset: int, category: str = ""
) -> list[tuple[str, int]]:
    """The newest items that may be recommended, with their timestamps."""
    dated = items.c.is_hidden.is_(False) & items.c.timestamp.is_not(None)
    query = select(items.c.item_id, items.c.timestamp).where(dated, _is_in(category))
    newest = query.order_by(items.c.timestamp.desc(), items.c.item_key).limit(n).offset(offset)
    return [(row.item_id, row.timestamp) for row in connection.execute(newest)]


def ids_in(connection: Connection, category: str) -> set[str]:
    """The ids of the items in a category."""
    return set(connection.execute(select(items.c.item_id).where(_is_in(category))).scalars())


def _is_in(category: str) -> Any:
    """Whether the JSON list of categories holds this one; always true for no category."""
    if not category:
        return true()
    return items.c.categories.contains(json.dumps(category), autoescape=True)


def remove(connection: Connection, item_id: str) -> int:
    """Delete an item and all feedback on it."""
    next_revision(connection, CATALOGUE)
    return connection.execute(delete(items).where(items.c.item_id == item_id)).rowcount


def get(connection: Connection, item_id: str) -> wire.Item | None:
    row = connection.execute(select(items).where(items.c.item_id == item_id)).one_or_none()
    return _item(row) if row else None


def page(
    connection: Connection, n: int, after: int, search: str = ""
) -> tuple[list[wire.Item], int | None]:
    """The next `n` items whose comment (the title) contains `search`, and where to resume."""
    query = select(items).where(items.c.item_key > after).order_by(items.c.item_key).limit(n)
    if search:
        query = query.where(func.lower(items.c.comment).contains(search.lower(), autoescape=True))
    rows = connection.execute(query).all()
    return [_item(row) for row in rows], rows[-1].item_key if len(rows) == n else None


def count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(items)).scalar_one())


def visible(connection: Connection) -> list[tuple[int, str, list[str]]]:
    """Key, id and categories of every item that may be recommended, in order of key."""
    rows = connection.execute(
        select(items.c.item_key, items.c.item_id, items.c.categories)
        .where(items.c.is_hidden.is_(False))
        .order_by(items.c.item_key)
    )
    return [(row.item_key, row.item_id, json.loads(row.categories)) for row in rows]


def all_ids(connection: Connection) -> dict[int, str]:
    """The ids of all items by their keys, hidden ones included."""
    return {row.item_key: row.item_id for row in connection.execute(select(items))}


def public(connection: Connection) -> Catalogue | None:
    """The items that may be recommended as a catalogue: titles, categories, and the labels year and
    popularity. None where there are no such items."""
    rows = connection.execute(select(items).where(items.c.is_hidden.is_(False))).all()
    if not rows:
        return None
    labels = [found if isinstance(found := json.loads(row.labels), dict) else {} for row in rows]
    popularity = [_number(own.get("popularity")) for own in labels]
    columns: dict[str, Any] = {"year": [int(_number(own.get("year")) or 0) for own in labels]}
    if any(value is not None for value in popularity):
        columns["popularity"] = [value or 0.0 for value in popularity]
    return Catalogue.from_columns(
        [row.item_id for row in rows],
        [row.comment for row in rows],
        ["|".join(json.loads(row.categories)) for row in rows],
        **columns,
    )


def keep(connection: Connection, catalogue: Catalogue) -> None:
    """Store a list of items that devices may draw from; it stays when another follows."""
    content = io.BytesIO()
    pa_parquet.write_table(with_text_ids(catalogue).to_table(), content, compression="zstd")
    new = insert(connection, catalogues).values(
        version=with_text_ids(catalogue).version, content=content.getvalue()
    )
    connection.execute(new.on_conflict_do_nothing(index_elements=["version"]))


def kept(connection: Connection, version: str) -> Catalogue | None:
    """The list of items with this version, if it was ever in use here."""
    found = connection.execute(
        select(catalogues.c.content).where(catalogues.c.version == version)
    ).scalar_one_or_none()
    return None if found is None else Catalogue.from_table(pa_parquet.read_table(io.BytesIO(found)))


def _labels(catalogue: Catalogue, at: int) -> dict[str, Any]:
    """Year and popularity of an item."""
    year: dict[str, Any] = {"year": int(catalogue.years[at])}
    known = catalogue.popularity
    return year if known is None else year | {"popularity": float(known[at])}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and -1e12 < value < 1e12 else None


def _values(item: wire.Item) -> dict[str, Any]:
    return {
        "is_hidden": item.IsHidden,
        "categories": json.dumps(item.Categories or []),
        "labels": json.dumps(item.Labels),
        "timestamp": seconds(item.Timestamp),
        "comment": item.Comment,
    }


def _item(row: Any) -> wire.Item:
    return wire.Item(
        ItemId=row.item_id,
        IsHidden=row.is_hidden,
        Categories=json.loads(row.categories),
        Timestamp=moment(row.timestamp),
        Labels=json.loads(row.labels),
        Comment=row.comment,
    )
