"""AlterEgos of many users, and what they say of true histories: the known substitution undone.

Everything here is post-processing of what was released, with public knowledge only: it costs no
privacy. Estimates without bias are mostly noise where ε is small; the models use the shares and the
guesses, which have the least error instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import lu_factor, lu_solve
from scipy.linalg.lapack import dgecon
from scipy.sparse import csr_array, hstack, issparse
from scipy.sparse.linalg import LinearOperator, gmres

from epicrec.arrays import Floats, Integers
from epicrec.data import find
from epicrec.errors import InputError
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import Groups

_DENSE = 4096  # up to here a channel is inverted as a full matrix


# ---- what a server holds ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AlterEgos:
    """AlterEgos of many users, through one channel or several (groups that changed over time).

    Channel c is about the items at `places[c]`. Its substitutes are in the columns of `counts`
    (sparse, users × outputs) beside those of the other channels: an item drawn under other groups
    means something else.
    """

    channels: tuple[Channel, ...]
    places: tuple[Integers, ...]
    counts: Any
    user_ids: npt.NDArray[Any]
    item_ids: npt.NDArray[Any]

    @classmethod
    def of(
        cls,
        channel: Channel,
        counts: Any,
        user_ids: npt.NDArray[Any],
        item_ids: npt.NDArray[Any],
    ) -> Self:
        """All through one channel over all items."""
        return cls((channel,), (np.arange(len(item_ids)),), csr_array(counts), user_ids, item_ids)

    @classmethod
    def joined(cls, batches: Sequence[AlterEgos]) -> Self:
        """Several batches as one; users and items are known by their ids."""
        user_ids = np.unique(np.concatenate([batch.user_ids for batch in batches]))
        item_ids = np.unique(np.concatenate([batch.item_ids for batch in batches]))
        places = [find(item_ids, batch.item_ids)[at] for batch in batches for at in batch.places]
        columns = []
        for batch in batches:
            own = batch.counts.tocoo()
            rows = find(user_ids, batch.user_ids)[own.coords[0]]
            shape = (len(user_ids), own.shape[1])
            columns.append(csr_array((own.data, (rows, own.coords[1])), shape))
        channels = tuple(channel for batch in batches for channel in batch.channels)
        return cls(channels, tuple(places), hstack(columns, format="csr"), user_ids, item_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @cached_property
    def released(self) -> Floats:
        """How often each output was released."""
        return np.asarray(self.counts.sum(axis=0), np.float64).ravel()

    @cached_property
    def epsilon(self) -> float:
        """Each event went through one channel, so the most expensive one counts."""
        return max(channel.epsilon for channel in self.channels)

    def without_users(self) -> Self:
        """The channels alone, as a published item model holds them."""
        return replace(self, counts=self.counts[:0], user_ids=self.user_ids[:0])

    def by_item(self) -> Any:
        """Users × items: how often each item is in each AlterEgo, whatever drew it."""
        own = self.counts.tocoo()
        place = np.concatenate(self.places)[own.coords[1]]
        out = csr_array((own.data, (own.coords[0], place)), (len(self.user_ids), self.n_items))
        out.sum_duplicates()
        return out

    # ---- from items to outputs ------------------------------------------------------------------

    @cached_property
    def _edges(self) -> list[tuple[int, int]]:
        sizes = [len(channel.groups) for channel in self.channels]
        return list(pairwise(np.cumsum([0, *sizes]).tolist()))

    @cached_property
    def _weights(self) -> list[Floats]:
        """For each channel the chance of its items to go through it, by the number of its events;
        items that came later went through later channels only."""
        events = [float(self.released[slice(*edge)].sum()) + 1e-9 for edge in self._edges]
        total = np.zeros(self.n_items)
        for count, at in zip(events, self.places, strict=True):
            total[at] += count
        return [count / total[at] for count, at in zip(events, self.places, strict=True)]

    @cached_property
    def columns(self) -> list[dict[Any, int]]:
        """For each channel where its substitutes are in `counts`, by their ids."""
        named = (self.item_ids[at].tolist() for at in self.places)
        starts = (start for start, _ in self._edges)
        return [
            {item_id: at for at, item_id in enumerate(ids, start)}
            for ids, start in zip(named, starts, strict=True)
        ]

    def spread(self, counts: Any) -> Floats:
        """The expected outputs of items with these counts; one history or one a row."""
        counts = np.asarray(counts, np.float64)
        parts = zip(self.channels, self.places, self._weights, strict=True)
        return np.concatenate(
            [channel.spread(counts[..., at] * weight) for channel, at, weight in parts], axis=-1
        )

    def gather(self, weights: Any) -> Floats:
        """The transpose of `spread`: for each item the expected weight of its outputs; of sparse
        rows only what is in them is read."""
        weights = csr_array(weights) if issparse(weights) else np.asarray(weights, np.float64)
        out = np.zeros((*weights.shape[:-1], self.n_items))
        parts = zip(self.channels, self.places, self._weights, self._edges, strict=True)
        for channel, at, weight, edge in parts:
            out[..., at] += weight * channel.gather(weights[..., slice(*edge)])
        return out

    def spread_at(self, counts: npt.NDArray[Any], rows: Integers, columns: Integers) -> Floats:
        """`spread(counts)[rows, columns]`, without the other columns."""
        out = np.empty(len(rows))
        parts = zip(self.channels, self.places, self._weights, self._edges, strict=True)
        for channel, at, weight, (start, stop) in parts:
            own = (columns >= start) & (columns < stop)
            out[own] = channel.spread_at(counts[:, at] * weight, rows[own], columns[own] - start)
        return out

    # ---- on disk --------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays, as a saved model holds them."""
        return {
            "alterego_users_": self.user_ids,
            "alterego_indptr_": self.counts.indptr.astype(np.int64),
            "alterego_items_": self.counts.indices.astype(np.int32),
            "alterego_times_": self.counts.data.astype(np.float32),
            "law_p_": np.array([[channel.p, channel.p_star] for channel in self.channels]),
            "law_sizes_": np.array([len(at) for at in self.places]),
            "law_places_": np.concatenate(self.places),
            "group_sizes_": np.concatenate([channel.groups.sizes for channel in self.channels]),
            "group_items_": np.concatenate([channel.groups.items for channel in self.channels]),
        }

    @classmethod
    def from_arrays(cls, held: dict[str, Any], item_ids: npt.NDArray[Any]) -> Self:
        """Read what `to_arrays` wrote."""
        cuts = np.cumsum(held["law_sizes_"])
        places = np.split(held["law_places_"], cuts[:-1])
        sizes = np.split(held["group_sizes_"], cuts[:-1])
        ends = np.cumsum([part.sum() for part in sizes])
        items = np.split(held["group_items_"], ends[:-1])
        channels = tuple(
            Channel(Groups(np.concatenate([[0], np.cumsum(size)]), own), float(p), float(p_star))
            for (p, p_star), size, own in zip(held["law_p_"], sizes, items, strict=True)
        )
        counts = csr_array(
            (
                held["alterego_times_"].astype(np.float64),
                held["alterego_items_"],
                held["alterego_indptr_"],
            ),
            (len(held["alterego_users_"]), int(cuts[-1])),
        )
        return cls(channels, tuple(places), counts, held["alterego_users_"], item_ids)


# ---- with the least error -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Posterior:
    """P(s | t) = π_s T(s, t) / (πT)_t: the best linear guess at a true history from an AlterEgo.

    For events drawn from π independently it is both Bayes' rule and the Wiener filter
    Cov(x, y) Var(y)⁻¹, as Var(y) = n diag(πT): nothing linear has a smaller error. `channel`
    is one, or the AlterEgos themselves.
    """

    channel: Channel | AlterEgos
    shares: Floats

    def guess(self, alteregos: Any) -> Floats:
        """The expected true histories, one a row, of AlterEgos (rows of counts, also sparse)."""
        if issparse(alteregos):
            own = csr_array(alteregos, dtype=np.float64, copy=True)
            own.data /= self._released[own.indices]
            return self.shares * self.channel.gather(own)
        return self.shares * self.channel.gather(np.asarray(alteregos) / self._released)

    def ask(self, weights: Any) -> Floats:
        """The transpose of `guess`: for each released item the expected weight of the true one."""
        return self.channel.spread(np.asarray(weights) * self.shares) / self._released

    @cached_property
    def _released(self) -> Floats:
        return np.maximum(self.channel.spread(self.shares), 1e-300)


# ---- without bias -------------------------------------------------------------------------------


def unbiased(channel: Channel, counts: Any) -> Floats:
    """y T⁻¹: counts whose expectation, over the draw, is the true counts.

    Exact for up to 4,096 items, by GMRES (to 10⁻¹⁰) above. An error where T cannot be inverted:
    where p* = 0 and two items share a group nothing tells them apart.
    """
    counts = np.asarray(counts, np.float64)
    n = channel.n_items
    if n <= _DENSE:
        return np.asarray(lu_solve(_factors(channel), counts.T, trans=1).T)
    flat = np.atleast_2d(counts)
    operator = LinearOperator((n, n), matvec=channel.spread, dtype=np.float64)
    out = np.empty_like(flat)
    for row, wanted in enumerate(flat):
        out[row], failed = gmres(operator, wanted, rtol=1e-10, restart=100, maxiter=50)
        if failed:
            raise _singular()
    return out.reshape(counts.shape)


def unbiased_cooccurrence(channel: Channel, alteregos: Any) -> Floats:
    """How many people have both i and j, without bias, from AlterEgos (a sparse user × item
    matrix of how often each item is in each).

    Different items of one person are replaced independently, so for one AlterEgo y of history x
    E[yᵀy - diag(y)] = Tᵀ (xᵀx - diag(x)) T; the inverse is applied from both sides. The diagonal of
    the result estimates 0 and means nothing. Needs items × items of memory.
    """
    together = np.asarray((alteregos.T @ alteregos).todense(), np.float64)
    together[np.diag_indices(channel.n_items)] -= np.asarray(alteregos.sum(axis=0)).ravel()
    return unbiased(channel, unbiased(channel, together).T).T


@lru_cache(maxsize=4)
def _factors(channel: Channel) -> Any:
    full = channel.matrix()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a singular matrix is answered below
        factors = lu_factor(full)
    inverse_condition, _ = dgecon(factors[0], np.abs(full).sum(axis=0).max())
    if inverse_condition < 1e-12:
        raise _singular()
    return factors


def _singular() -> InputError:
    return InputError(
        "these substitutions cannot be undone without bias, since some items are never told apart; "
        "keep some items (p* above 0), or use likely_shares()"
    )
