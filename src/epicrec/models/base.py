"""Recommender: the contract every model keeps."""

from __future__ import annotations

import inspect
import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec import registry
from epicrec.arrays import AnyFloats, Positions
from epicrec.data import Catalogue, Ratings, Scale, find
from epicrec.data.frames import Kind, as_kind, ids_given, kind_of, table_from_frame
from epicrec.data.public import over_public, refusal
from epicrec.engine import Engine, Once, RemoteRatings, drawn, where_they_are
from epicrec.errors import EpicrecWarning, InputError, NotFittedError
from epicrec.models import saving
from epicrec.parameters import check, taken
from epicrec.privacy import Guarantee, Ledger
from epicrec.privacy.guarantee import Status, Unit
from epicrec.progress import report

if TYPE_CHECKING:
    from narwhals.typing import IntoFrameT

Task = Literal["ratings", "lists"]

_SCORES_AT_ONCE = 1 << 24
_USERS_IN_CACHE = 64  # at least, as each piece reads the factors of all items


class Recommender(ABC):
    """Learns from ratings, then scores items for any history, known or new.

    Constructors only store; `fit` validates; what was learned ends in `_`. A new user is a history
    in the call, never a retrain. Public calls speak in external ids; the methods a model adds
    (`_fit`, `_scores`, and `_predict` where it can do better) speak in positions.

    Settings that many models have: `task` is "lists" where the model orders items by what was seen,
    and "ratings" where it predicts ratings. `epsilon` and `delta` are the privacy budget, `unit` is
    what they hide, a "rating" or a whole "user". `seed` makes noise repeatable, for experiments,
    and then not private. `features` are the catalogue's public columns to learn from, by default
    genres and year.
    """

    task: Task = "ratings"
    needs_known_users: ClassVar[bool] = False
    """True where scoring needs the histories of the users the model was fitted on."""
    status: ClassVar[Status] = "none"
    """What the guarantee rests on unless a setting changes it, as `epicrec methods` lists it."""
    units: ClassVar[tuple[Unit, ...]] = ()
    """What the guarantee can hide, the default first; nothing where there is none."""
    as_published: ClassVar[bool] = False
    """True for a paper's own version of a method, which `as_published=True` chooses by name."""

    _scores_in_cache: ClassVar[int] = _SCORES_AT_ONCE
    """Lists are made of so many scores at a time."""

    engine: Engine = staticmethod(where_they_are)
    """Takes the sums over users, where the model learns from sums."""
    once: Once = staticmethod(drawn)
    """Has the noise on those sums drawn."""

    item_ids_: npt.NDArray[Any]
    scale_: Scale | None
    histories_: Ratings | None = None
    released_: dict[str, float] | None = None
    """What was measured of the people's data, in words, with its share of the budget; public."""
    note_: str = ""
    """What a user of the model should know of it beside its guarantee, such as that its lists are
    the same for everyone; made of released numbers only."""

    columns_: Sequence[str] = ()
    """The catalogue's columns that features were made of, and so are taken as public."""
    unused_: Sequence[str] = ()
    """Its columns that might have been."""

    # ---- what a model adds ----------------------------------------------------------------

    @abstractmethod
    def _fit(self, ratings: Ratings) -> None:
        """Learn. The ratings are a history (all 1) where the task is lists."""

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:  # noqa: ARG002
        """Learn, where what is publicly known of the items helps: most models do without."""
        self._fit(ratings)

    @abstractmethod
    def _scores(self, histories: Ratings) -> AnyFloats:
        """One row a history, one column an item; histories are over `item_ids_`."""

    def _parts(self, histories: Ratings) -> tuple[AnyFloats, AnyFloats]:
        """The scores as an array that may be written to, and what is added to each row of them:
        apart, the first may have half the precision."""
        return np.array(self._scores(histories)), np.zeros(len(self.item_ids_))

    def _predict(self, histories: Ratings, rows: Positions, items: Positions) -> AnyFloats:
        """The scores of some (history, item) pairs, `rows` in ascending order."""
        out = np.empty(len(rows))
        for block, start, stop in self._blocks(histories):
            span = slice(*np.searchsorted(rows, (start, stop)))
            out[span] = self._scores(block)[rows[span] - start, items[span]]
        return out

    @property
    def guarantee(self) -> Guarantee:
        """What the learned state promises to the people it was learned from."""
        return Guarantee.none()

    @property
    def promises(self) -> bool:
        """Whether what is learned will claim a guarantee, asked before there is one."""
        return self.status != "none" and getattr(self, "epsilon", 0.0) is not None

    @property
    def by_sums(self) -> bool:
        """Whether all that it reads of the ratings are sums over users, which its engine takes."""
        return False

    @property
    def record(self) -> str:
        """In one line: what was released with which share of the budget, and the note on it."""
        shares = [f"{what} ({share:.0%})" for what, share in (self.released_ or {}).items()]
        said = f"released with these shares of the budget: {', '.join(shares)}" if shares else ""
        left = f"not used of the catalogue: {', '.join(self.unused_)}" if self.unused_ else ""
        return "; ".join(part for part in (said, self.note_, left) if part)

    # ---- what a caller uses ---------------------------------------------------------------

    def fit(
        self,
        ratings: Any,
        catalogue: Any = None,
        *,
        items: Any = None,
        scale: Scale | str | None = None,
        ledger: Ledger | None = None,
    ) -> Self:
        """Learn from `ratings`, or from histories where the task is lists.

        They are `Ratings`, or any dataframe with `user_id, item_id` and, for ratings, `rating`; a
        model that learns from sums also takes `RemoteRatings`, which stand in a cluster. Public is
        what is given: the `catalogue`, what is known of the items (a `Catalogue`, or a dataframe
        with `item_id` and, where known, `title, genres, year` and others), or `items`, their ids
        alone; and the `scale`, such as "1:5:1". Ratings of other items or off the scale are left
        out, and a warning counts them. What is not given is read off the ratings, which a private
        model refuses, unless a seed says that this is an experiment. A `ledger` records what the
        fit costs, and refuses one that would exceed its limit; the model has then learned nothing.
        """
        check(type(self).__name__, type(self), self.get_params())
        if ledger is not None:
            self._check_spends()
        self._warn_of_two_fits(ledger)
        self._kind = kind_of(ratings)
        if catalogue is not None and not isinstance(catalogue, Catalogue):
            catalogue = Catalogue.from_frame(catalogue)
        if items is None and catalogue is not None and not getattr(ratings, "items_given", False):
            items = catalogue.item_ids
        remote = isinstance(ratings, RemoteRatings)
        if remote:
            self._check_by_sums(items, scale)
        else:
            ratings = over_public(ratings, items, scale, rated=self.task == "ratings")
        ratings = self._suitable(ratings)
        self._check_public(ratings)
        if len(ratings) == 0:
            raise InputError("there is nothing to learn from; give at least one rating")
        self.item_ids_, self.scale_ = ratings.item_ids, ratings.scale
        self.histories_ = None if remote else ratings
        self.released_, self.note_, self.columns_, self.unused_ = None, "", [], []
        self._fit_with(ratings, catalogue)
        if ledger is not None:
            self._spend(ledger)
        return self

    def unsaid(self, *, items: bool, scale: bool) -> tuple[str, ...]:
        """Which of "items" and "scale" must still be given from outside for the guarantee to hold,
        where the list of items or the scale was given, or not."""
        if not self.promises or getattr(self, "seed", None) is not None:
            return ()
        needed = {"items": items, "scale": scale or self.task == "lists"}
        return tuple(name for name, given in needed.items() if not given)

    def released(self, histories: Ratings) -> Ratings:
        """The `histories` as this model may be asked with them: as they are, unless it scores only
        what was released. Those are drawn once, here, and the caller keeps what comes out."""
        return histories

    @overload
    def predict(self, pairs: Ratings, *, histories: Any = None) -> pa.Table: ...
    @overload
    def predict(self, pairs: IntoFrameT, *, histories: Any = None) -> IntoFrameT: ...
    def predict(self, pairs: Any, *, histories: Any = None) -> Any:
        """`user_id, item_id, score` for each row of `pairs` (a dataframe, or Ratings), in its order
        and of its kind.

        The score is on the rating scale where the task is ratings. An item the model does not
        know scores NaN. Users the model was not fitted on need their `histories`.
        """
        user_ids, item_ids = _pair_ids(pairs)
        self._check_fitted()
        known, users = np.unique(user_ids, return_inverse=True)
        rows = self._histories_of(known if histories is None else histories)
        at = rows.positions(known)
        if (at < 0).any():
            raise _unknown_user(known[np.argmin(at)])
        users, items = at[users], find(self.item_ids_, item_ids)
        order = np.lexsort((items, users))
        order = order[items[order] >= 0]
        scores = np.full(len(user_ids), np.nan)
        scores[order] = self._predict(rows, users[order], items[order])
        table = {"user_id": user_ids, "item_id": item_ids, "score": self._on_scale(scores)}
        return as_kind(pa.table(table), kind_of(pairs))

    @overload
    def recommend(
        self, users: Ratings, *, n: int = 10, exclude_seen: bool = True, items: Any = None
    ) -> pa.Table: ...
    @overload
    def recommend(
        self, users: IntoFrameT, *, n: int = 10, exclude_seen: bool = True, items: Any = None
    ) -> IntoFrameT: ...
    @overload
    def recommend(
        self, users: Any, *, n: int = 10, exclude_seen: bool = True, items: Any = None
    ) -> Any: ...
    def recommend(
        self, users: Any, *, n: int = 10, exclude_seen: bool = True, items: Any = None
    ) -> Any:
        """`user_id, item_id, score, rank`: the `n` best items for each user, best first.

        `users` are ids of users the model was fitted on, or histories (Ratings, or a dataframe with
        `user_id, item_id` and, for ratings, `rating`). Lists come back as the kind of frame that
        was asked with, and for ids as the kind that the model was fitted on. `items` are the ids to
        choose from, such as those of one category; with `exclude_seen` none that is in the history.
        A user with fewer candidates gets fewer rows.
        """
        lists = self.lists(users, n=n, exclude_seen=exclude_seen, items=items)
        return as_kind(pa.concat_tables(lists).combine_chunks(), self._kind_for(users))

    def lists(
        self, users: Any, *, n: int = 10, exclude_seen: bool = True, items: Any = None
    ) -> Iterator[pa.Table]:
        """What `recommend` answers to the same `users`, `n`, `exclude_seen` and `items`, as Arrow
        and some users at a time: memory does not grow with them."""
        if not isinstance(n, Integral) or n <= 0:
            raise InputError(f"n must be a whole number of at least 1, got {n!r}")
        self._check_fitted()
        if self.task == "ratings":
            self._warn_of_ratings()
        given = isinstance(users, Ratings)
        histories = users if given else self._histories_of(users)
        if histories.n_users == 0:
            raise _nobody()
        excluded = np.zeros(len(self.item_ids_), np.bool_)
        if items is not None:
            excluded[:] = True
            wanted = ids_given(items)
            if wanted is None:
                raise InputError("items are the ids to choose from: a list, an array or a series")
            positions = find(self.item_ids_, wanted)
            excluded[positions[positions >= 0]] = False
        for part, _, _ in self._blocks(histories):
            block = self._histories_of(part) if given else part
            rows, best, scores, rank = self._top(block, n, exclude_seen, excluded)
            columns = {
                "user_id": block.user_ids[rows],
                "item_id": self.item_ids_[best],
                "score": self._on_scale(scores),
                "rank": rank,
            }
            yield pa.table(columns)

    def scores(self, histories: Any) -> AnyFloats:
        """The score of every item, in the order of `item_ids_`, one row for each history: for a few
        `histories`, and for who orders the items otherwise than `recommend`."""
        return self._on_scale(self._scores(self._histories_of(histories)))

    # ---- save and load --------------------------------------------------------------------

    @property
    def method(self) -> str:
        """The name it is registered by, or where its class is found if it is not."""
        cls = type(self)
        return registry.name_of(registry.MODELS, cls) or registry.place_of(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """The constructor's arguments as they were given; `deep` is for scikit-learn's callers and
        changes nothing."""
        return {name: getattr(self, name) for name in taken(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change constructor's arguments by their names, `params`; what was learned stays as it is
        until the next `fit`."""
        check(type(self).__name__, type(self), params)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def clone(self) -> Self:
        """A new model with the same settings that has learned nothing."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        """The settings that are not the defaults, and how many items it knows."""
        defaults = inspect.signature(type(self)).parameters
        settings = ", ".join(
            f"{name}={reprlib.repr(value)}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        )
        fitted = f", fitted on {len(self.item_ids_):,} items" if hasattr(self, "item_ids_") else ""
        return f"{type(self).__name__}({settings}){fitted}"

    def save(self, path: str | Path) -> None:
        """Write one `.npz` file to `path`: the learned arrays, and all else as JSON; no pickle.

        Private models leave out the histories they were fitted on: what is in the file may be
        published. The file appears whole or not at all.
        """
        self._check_fitted()
        saving.write_model(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and joblib: a private model has in a pickle what it has in a file."""
        if not hasattr(self, "item_ids_") or self.guarantee.status == "none":
            return vars(self)
        plain, arrays = saving.learned_state(self)
        lost = self.histories_ is not None
        return {"settings": self.get_params(), "state": plain, "arrays": arrays, "lost": lost}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "settings" not in state:
            vars(self).update(state)
            return
        vars(self).update(state["settings"])
        self._restore(state, dict(state["arrays"]))
        if state["lost"]:
            warnings.warn(
                f"this {self.method} is private: the histories it was fitted on are not in its "
                "pickle; ask it with histories, not with user ids",
                EpicrecWarning,
                stacklevel=2,
            )

    def __copy__(self) -> Self:
        """In this process nothing is left out."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def _restore(self, meta: dict[str, Any], arrays: saving.Arrays) -> Self:
        """Take over what a file holds; a model with more state than its names in `_` adds it."""
        saving.restore(self, meta, arrays)
        return self

    # ---- the rest -------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        if not hasattr(self, "item_ids_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted; call fit(ratings) first"
            )

    def _warn_of_ratings(self) -> None:
        """Once: people choose by more than how they would rate."""
        if "_warned" not in vars(self):
            self._warned = True
            other = "make the model with task='lists'" if "task" in taken(type(self)) else "use svd"
            warnings.warn(
                f"{self.method} predicts ratings, and its lists are what would be rated best, not "
                f"what would be chosen; for lists {other}",
                EpicrecWarning,
                stacklevel=4,
            )

    def _check_spends(self) -> None:
        if not self.promises or getattr(self, "seed", None) is not None:
            raise InputError(
                f"{self!r} promises nothing that a ledger could count; leave out the ledger, or "
                "give an epsilon and no seed"
            )

    def _warn_of_two_fits(self, ledger: Ledger | None) -> None:
        again = self.promises and hasattr(self, "item_ids_") and getattr(self, "seed", None) is None
        if ledger is None and again:
            warnings.warn(
                f"this {type(self).__name__} was fitted before: each fit is a release of its own, "
                "and about the same people their budgets add up; fit(..., ledger=ledger) counts",
                EpicrecWarning,
                stacklevel=3,
            )

    def _spend(self, ledger: Ledger) -> None:
        """Record the fit before anybody has it; what the ledger refuses is forgotten."""
        try:
            ledger.spend(self.guarantee, about=f"a fit of {self.method}")
        except Exception:
            for name in [name for name in vars(self) if name not in self.get_params()]:
                delattr(self, name)
            raise
        releases = len(ledger.entries())
        if releases > 1:
            total = "; ".join(
                f"ε = {each.epsilon:.4g}, δ = {each.delta:.3g} for one {unit}"
                for unit, each in ledger.total().items()
            )
            warnings.warn(
                f"the ledger has {releases} releases, whose budgets add up: {total}",
                EpicrecWarning,
                stacklevel=3,
            )

    def _kind_for(self, users: Any) -> Kind | None:
        """As what lists come back: what was asked with, or for plain ids what `fit` was given."""
        if isinstance(users, Ratings | pa.Table):
            return None
        fitted = getattr(self, "_kind", None)
        return kind_of(users) or (None if fitted is None else Kind(fitted.backend))

    def _check_public(self, ratings: Ratings) -> None:
        missing = self.unsaid(items=ratings.items_given, scale=ratings.scale_given)
        if missing:
            how = {"items": "catalogue", "scale": 'scale="0.5:5:0.5"'}
            remedy = f"fit(ratings, {', '.join(how[name] for name in missing)})"
            if "items" in missing:
                remedy += "; or items=ids, but a catalogue's genres and years make it more accurate"
            raise refusal(missing, remedy)

    def _check_by_sums(self, items: Any, scale: Any) -> None:
        if not self.by_sums:
            raise InputError(
                f"{self!r} reads the ratings themselves, which stand on other machines; use a "
                "method that learns from sums alone, such as covariance-svd with an epsilon, or "
                "bring the ratings here"
            )
        if items is not None or scale is not None:
            raise InputError("these ratings came with their items and their scale; leave them out")

    def _suitable(self, ratings: Ratings) -> Ratings:
        if self.task == "lists":
            return ratings.as_history()
        if ratings.scale is None:
            raise InputError(
                f"{type(self).__name__} needs ratings and got a history without a rating column; "
                "add the column, or use task='lists' with a model that has it"
            )
        return ratings

    def _histories_of(self, users: Any) -> Ratings:
        """Histories over this model's items, from ids of known users or from the caller's own."""
        self._check_fitted()
        ids = None if isinstance(users, Ratings) else ids_given(users)
        if ids is not None:
            if ids.size == 0:
                raise _nobody()
            if self.histories_ is None:
                raise InputError(
                    f"this {self.method} has nobody's history, so user {ids[0]!s} is unknown to "
                    "it; pass their history (a table with user_id, item_id) instead of the id"
                )
            at = self.histories_.positions(ids)
            if (at < 0).any():
                raise _unknown_user(ids[np.argmin(at)])
            return self.histories_.users_at(at)
        if not isinstance(users, Ratings):
            users = Ratings.from_frame(users, scale=self.scale_ if self.task == "ratings" else None)
        return self._suitable(users).with_items(self.item_ids_)

    def _blocks(self, histories: Ratings) -> Iterator[tuple[Ratings, int, int]]:
        """The histories in blocks whose scores fit in a bounded piece of memory."""
        size = max(1, _SCORES_AT_ONCE // max(1, len(self.item_ids_)))
        for start in range(0, histories.n_users, size):
            stop = min(start + size, histories.n_users)
            yield histories.between(start, stop), start, stop
            histories.let_go()
            report("scoring users", stop, histories.n_users)

    def _top(
        self,
        block: Ratings,
        n: int,
        exclude_seen: bool,
        excluded: npt.NDArray[np.bool_],
    ) -> tuple[Positions, Positions, AnyFloats, Positions]:
        """The rows, items, scores and ranks of the best items of a block of histories."""
        from epicrec.models.best import best_items  # compiled code, which not everybody needs

        n = min(n, len(excluded))
        size = max(_USERS_IN_CACHE, self._scores_in_cache // max(1, len(excluded)))
        found = []
        for start in range(0, block.n_users, size):
            part = block.between(start, min(start + size, block.n_users))
            scores, offsets = self._parts(part)
            if exclude_seen:
                scores[part.users, part.items] = -np.inf
            found.append(best_items(scores, offsets, excluded, n))
        items, values = (np.concatenate(each) for each in zip(*found, strict=True))
        rows, rank = np.nonzero(items >= 0)
        return rows, items[rows, rank], values[rows, rank], rank + 1

    def _on_scale(self, scores: AnyFloats) -> AnyFloats:
        if self.task == "ratings" and self.scale_:
            return np.clip(scores, self.scale_.low, self.scale_.high)
        return scores


def _pair_ids(pairs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if isinstance(pairs, Ratings):
        return pairs.user_ids[pairs.users], pairs.item_ids[pairs.items]
    pairs = table_from_frame(pairs, "pairs")
    for name in ("user_id", "item_id"):
        if name not in pairs.column_names:
            raise InputError(f"the pairs have no column {name!r}; give user_id and item_id")
    return np.asarray(pairs["user_id"].to_pylist()), np.asarray(pairs["item_id"].to_pylist())


def _nobody() -> InputError:
    return InputError("nobody is asked for; give at least one user id, or one history")


def _unknown_user(user_id: Any) -> InputError:
    return InputError(
        f"user {user_id!s} is unknown to this model; pass their history (a table with user_id, "
        "item_id, rating) instead of the id"
    )
