"""Lists: what a training leaves on disk, memory-mapped, and how recommendations come out of it.

One folder per training. Factors and the lists of every user known at training time are there; a
category's list is a product with that category's items; a user who changed since, or a session, is
folded in: their factors are solved from what they have by now, nothing is retrained. Where a
training adopted popularity, nobody has factors.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from epicrec.disk import locked, sync_folder
from epicrec.errors import InputError
from epicrec.server.rights import close, opener
from epicrec.server.store.received import Own
from epicrec.server.training.folding import Folding

Array = npt.NDArray[Any]
Ranked = list[tuple[str, float]]

ARRAYS = (
    "item_keys",  # of the items that may be recommended, ascending
    "item_factors",
    "gram",  # item_factorsᵀ item_factors
    "popularity",  # share of users who released the item
    "category_starts",  # category c holds the items category_items[starts[c]:starts[c + 1]]
    "category_items",
    "user_keys",  # ascending
    "user_factors",
    "seen_starts",  # user u released the items seen_items[starts[u]:starts[u + 1]]
    "seen_items",
    "top_items",  # each user's list, best first, -1 where it ends
    "top_scores",
)
_PERSONAL = {"user_factors": 0, "seen_items": -1, "top_items": -1, "top_scores": 0}
"""What is about one user, and what stands there when they are gone."""


@dataclass(eq=False)
class Lists:
    """The newest training, ready to answer."""

    meta: dict[str, Any]
    item_ids: list[str]
    categories: list[str]
    arrays: dict[str, Array]
    folding: Folding | None = None
    """Where a model of releases was adopted."""
    gone: set[int] = field(default_factory=set)
    """Positions of items hidden or deleted since the training."""

    def __post_init__(self) -> None:
        self._category_at = {name: at for at, name in enumerate(self.categories)}
        self._item_at = {item_id: at for at, item_id in enumerate(self.item_ids)}
        a = self.arrays
        self._id_of = dict(zip(a["item_keys"].tolist(), self.item_ids, strict=True))
        # small and read at every request: kept in memory
        for name in ("item_keys", "item_factors", "popularity", "category_items", "user_keys"):
            a[name] = np.array(a[name])
        for name in a:  # the others stay mapped, but numpy's own class for that is slow to slice
            a[name] = a[name].view(np.ndarray)
        self._popular = np.argsort(-a["popularity"], kind="stable")
        # each category's factors side by side, so that a request need not gather them
        self._factors_in = np.split(
            a["item_factors"][a["category_items"]], a["category_starts"][1:-1]
        )

    # ---- answers --------------------------------------------------------------------------

    def has_category(self, name: str) -> bool:
        return name in self._category_at

    def row_of(self, user_key: int) -> int | None:
        """Where a user stands, or None for one who came after the training."""
        keys = self.arrays["user_keys"]
        at = int(keys.searchsorted(user_key))
        return at if at < len(keys) and keys[at] == user_key else None

    def for_user(self, row: int, n: int, offset: int = 0, category: str = "") -> Ranked:
        """For a user as they were at training time."""
        listed = self._listed(row, n, offset, category)
        if listed is not None:
            return listed
        starts = self.arrays["seen_starts"]
        seen = self.arrays["seen_items"][starts[row] : starts[row + 1]]
        seen = seen[seen >= 0]  # of those who were forgotten nothing is left
        factors = self.arrays["user_factors"][row]
        if not factors.any():
            return self.popular(n, offset, category, seen)
        return self._best(factors, seen, n, offset, category)

    def _listed(self, row: int, n: int, offset: int, category: str) -> Ranked | None:
        """From a user's list on disk; None where it ends too early."""
        top, scores = self.arrays["top_items"][row], self.arrays["top_scores"][row]
        if category or self.gone:
            among = self._places_in(top, category) if category else np.flatnonzero(top >= 0)
            shown = [at for at in among.tolist() if int(top[at]) not in self.gone]
            chosen = shown[offset : offset + n]
            top, scores = top[chosen], scores[chosen]
        else:
            top, scores = top[offset : offset + n], scores[offset : offset + n]
        items, ids = top.tolist(), self.item_ids
        if len(items) < n or items[-1] < 0:
            return None
        return [(ids[item], score) for item, score in zip(items, scores.tolist(), strict=True)]

    def for_own(self, own: Own, n: int, offset: int = 0, category: str = "") -> Ranked:
        """For anyone who has this: the factors that a training would give them."""
        seen, factors = self._positions(own.known), self._factors_of(own)
        if factors is None:
            return self.popular(n, offset, category, seen)
        return self._best(factors, seen, n, offset, category)

    def _factors_of(self, own: Own) -> Array | None:
        if self.folding is not None:
            return self.folding.factors(own, self._id_of)
        liked = self._positions(own.liked)
        if not len(liked) or not self.arrays["item_factors"].any():
            return None
        return self._fold_in(liked)

    def _positions(self, item_keys: set[int]) -> Array:
        """Where the items stand that may be recommended."""
        known, wanted = self.arrays["item_keys"], np.array(sorted(item_keys), np.int64)
        at = np.minimum(known.searchsorted(wanted), max(len(known) - 1, 0))
        return at[known[at] == wanted] if len(known) else at[:0]

    def key_of(self, item_id: str) -> int | None:
        """The key of an item that may be recommended."""
        at = self._item_at.get(item_id)
        return None if at is None else int(self.arrays["item_keys"][at])

    def popular(
        self, n: int, offset: int = 0, category: str = "", without: Sequence[int] | Array = ()
    ) -> Ranked:
        """For those of whom nothing is known that would tell their taste."""
        chosen, hidden = self._popular, self.gone.union(np.asarray(without).tolist())
        if category:
            chosen = chosen[np.isin(chosen, self._items_in(category))]
        first = chosen[: offset + n + len(hidden)].tolist()
        kept = [at for at in first if at not in hidden][offset : offset + n]
        shares = self.arrays["popularity"][kept].tolist()
        return [(self.item_ids[at], share) for at, share in zip(kept, shares, strict=True)]

    def neighbours(self, item_id: str, n: int, offset: int = 0) -> Ranked | None:
        """The items most like one item, by the angle between factors; None if it is not here."""
        at = self._item_at.get(item_id)
        if at is None or at in self.gone:
            return None
        factors = self.arrays["item_factors"]
        if not factors[at].any():  # popularity was adopted, or the item came later
            return self.popular(n, offset, without=[at])
        norms = np.linalg.norm(factors, axis=1)
        likeness = factors @ factors[at] / np.maximum(norms * norms[at], 1e-12)
        return self._sorted(likeness, np.arange(len(likeness)), np.array([at]), n, offset)

    def show_item(self, item_id: str, shown: bool) -> None:
        """Recommend an item no more, or again, without waiting for the next training."""
        if (at := self._item_at.get(item_id)) is not None:
            (self.gone.discard if shown else self.gone.add)(at)

    def show_only(self, item_keys: set[int]) -> None:
        """Recommend these items and no others."""
        keys = self.arrays["item_keys"].tolist()
        self.gone = {at for at, key in enumerate(keys) if key not in item_keys}

    def _fold_in(self, seen: Array) -> Array:
        """x = (YᵀY + λI + (α - 1) Σ y yᵀ)⁻¹ α Σ y over the items seen (Hu, Koren & Volinsky)."""
        alpha, weight = self.meta["alpha"], self.meta["regularization"]
        own = self.arrays["item_factors"][seen].astype(np.float64)
        left = self.arrays["gram"] + weight * np.eye(own.shape[1]) + (alpha - 1) * own.T @ own
        solved = np.linalg.solve(left, alpha * own.sum(axis=0))
        return solved.astype(np.float32)

    def _items_in(self, category: str) -> Array:
        at, starts = self._category_at[category], self.arrays["category_starts"]
        return self.arrays["category_items"][starts[at] : starts[at + 1]]

    def _places_in(self, items: Array, category: str) -> Array:
        """Which of these items are in the category: where they stand."""
        own = self._items_in(category)
        at = np.minimum(own.searchsorted(items), len(own) - 1)
        return np.flatnonzero(own[at] == items)

    def _best(self, factors: Array, seen: Array, n: int, offset: int, category: str) -> Ranked:
        if category:
            among, own = self._items_in(category), self._factors_in[self._category_at[category]]
        else:
            among, own = np.arange(len(self.item_ids)), self.arrays["item_factors"]
        return self._sorted(own @ factors, among, seen, n, offset)

    def _sorted(self, scores: Array, among: Array, without: Array, n: int, offset: int) -> Ranked:
        banned = np.zeros(len(self.item_ids), np.bool_)
        banned[without] = True
        banned[list(self.gone)] = True
        allowed = ~banned[among]
        scores, among = scores[allowed], among[allowed]
        most = min(offset + n, len(scores))
        if most == 0:
            return []
        best = np.argpartition(-scores, most - 1)[:most]
        best = best[np.lexsort((among[best], -scores[best]))][offset:]
        return [(self.item_ids[among[at]], float(scores[at])) for at in best]

    # ---- on disk --------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path) -> Self:
        try:
            meta, sums = _meta(folder)
            arrays: dict[str, Array] = {
                name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                for name in ARRAYS
            }
            for name in sums.keys() & arrays.keys():
                if sums[name] != _sum(arrays[name]):
                    raise ValueError(f"{name}.npy is not what was written")
            folding = Folding.open(folder) if (folder / "folding.json").exists() else None
            return cls(meta, meta.pop("item_ids"), meta.pop("categories"), arrays, folding)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder} holds no training that can be read: {error}") from error


def save(
    folder: Path, meta: dict[str, Any], arrays: dict[str, Array], folding: Folding | None = None
) -> None:
    """Write a training; it counts only once `adopt` names it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    for name in ARRAYS:
        with open(folder / f"{name}.npy", "wb", opener=opener) as file:
            np.save(file, arrays[name], allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
    if folding is not None:
        folding.save(folder)
        close(folder)
    _write_meta(folder, meta, {name: _sum(arrays[name]) for name in ARRAYS})


def _meta(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """What stands in `meta.json`, and the checksums of the arrays; none before there were any."""
    meta: dict[str, Any] = json.loads((folder / "meta.json").read_text("utf-8"))
    sums: dict[str, int] = meta.pop("sums", {})
    if sums and sums.pop("meta") != zlib.crc32(json.dumps(meta).encode()):
        raise ValueError("meta.json is not what was written")
    return meta, sums


def _write_meta(folder: Path, meta: dict[str, Any], sums: dict[str, int]) -> None:
    own = {"meta": zlib.crc32(json.dumps(meta).encode())}
    write_atomically(folder / "meta.json", json.dumps(meta | {"sums": sums | own}))


def _sum(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def adopt(models: Path, number: int) -> None:
    """Make a training the current one, in one step, and remove all but the one before it."""
    before = current(models)
    write_atomically(models / "current", str(number))
    for folder in models.iterdir():
        if folder.is_dir() and folder.name not in (str(number), str(before)):
            shutil.rmtree(folder, ignore_errors=True)


def numbers(models: Path) -> list[int]:
    """The current training and those before it that are still there, newest first."""
    newest = current(models)
    if newest is None:
        return []
    found = [int(path.name) for path in models.iterdir() if path.name.isdecimal()]
    return [newest, *sorted((number for number in found if number < newest), reverse=True)]


def current(models: Path) -> int | None:
    """The number of the current training."""
    try:
        return int((models / "current").read_text())
    except (OSError, ValueError):
        return None


def has_learned(models: Path) -> bool:
    """Whether the current training was learned from anything, as far as can be read."""
    number = current(models)
    try:
        learned = number is not None and np.load(models / str(number) / "seen_items.npy").size
    except (OSError, ValueError):
        return True
    return bool(learned)


def discard(models: Path) -> None:
    """Remove every training."""
    (models / "current").unlink(missing_ok=True)
    for folder in models.iterdir():
        shutil.rmtree(folder, ignore_errors=True)


def scrub(models: Path, user_keys: Sequence[int]) -> None:
    """Overwrite everything the trainings on disk hold about these users; `seal` comes later."""
    wanted = np.array(sorted(user_keys), np.int64)
    with locked(models / ".lock", wait=True):
        for folder in _trainings(models):
            try:
                _scrub(folder, wanted)
            except (OSError, ValueError, KeyError):  # a damaged one cannot be served either
                shutil.rmtree(folder, ignore_errors=True)


def seal(models: Path) -> None:
    """Sum up again what was overwritten."""
    with locked(models / ".lock", wait=True):
        for folder in _trainings(models):
            try:
                meta, sums = _meta(folder)
                changed = [name for name in _PERSONAL if sums and name not in sums]
                for name in changed:
                    sums[name] = _sum(np.load(folder / f"{name}.npy", mmap_mode="r"))
            except (OSError, ValueError, KeyError):
                continue
            if changed:
                _write_meta(folder, meta, sums)


def _trainings(models: Path) -> list[Path]:
    return [path for path in models.glob("*") if (path / "meta.json").exists()]


def _scrub(folder: Path, wanted: Array) -> None:
    known = np.load(folder / "user_keys.npy", mmap_mode="r")
    starts = np.load(folder / "seen_starts.npy", mmap_mode="r")
    columns = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in _PERSONAL}
    spans = [
        (columns[name], slice(starts[row], starts[row + 1]) if name == "seen_items" else row, empty)
        for row in np.flatnonzero(np.isin(known, wanted))
        for name, empty in _PERSONAL.items()
    ]
    if all(np.all(column[span] == empty) for column, span, empty in spans):
        return
    meta, sums = _meta(folder)
    if sums:  # what is about to change is not compared until it is sealed
        _write_meta(folder, meta, {name: s for name, s in sums.items() if name not in _PERSONAL})
    for column, span, empty in spans:
        column[span] = empty
    for column in columns.values():
        column.flush()


def write_atomically(path: Path, text: str) -> None:
    """The file holds the old text or the new one, never a part, whatever happens in between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", opener=opener) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
