"""D2P: what is seen of an AlterEgo, in the models' files and in a device's release."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicrec.arrays import Bools, Floats
from epicrec.data import Ratings
from epicrec.evaluate.audits.game import Game
from epicrec.models import make_model
from epicrec.models.d2p.recommenders import D2PItems, D2PSvd, D2PUserKNN
from epicrec.perturb.d2p.groups import no_features
from epicrec.perturb.d2p.tuning import choose

D2P_MODELS: dict[str, type[Any]] = {"d2p": D2PUserKNN, "i-d2p": D2PItems, "d2p-svd": D2PSvd}
_ITEMS = 20


def d2p_games(method: str, epsilon: float) -> list[Game]:
    """A victim has the first of twenty items or the second; every user of a fit is a round. Seen
    are the AlterEgos that the model learns from: all that it knows, and what its promise covers."""
    ids = np.arange(_ITEMS)
    chosen = choose(no_features(ids), epsilon)  # once, and not at each of the fits
    options = {name: getattr(chosen, name) for name in ("p", "p_star", "lam", "floor")}
    model = D2P_MODELS[method](**options)

    def play(bits: Bools) -> Floats:
        model.fit(Ratings.from_columns(np.arange(len(bits)), bits.astype(int)).with_items(ids))
        seen = model._held.by_item().toarray()
        return np.asarray(seen[:, 1] - seen[:, 0], np.float64)

    play(np.array([False]))
    return [
        Game(
            claim=model.guarantee,
            neighbours=f"a user's item is the first or the second of {_ITEMS}",
            play=play,
            rounds=100_000,
            at_once=2000,
        )
    ]


def published_d2p_games() -> list[Game]:
    """As published: groups are made of everybody's ratings, and the model's file says them. One
    rating more or less of two items in common puts an item into a group or not, without any noise.
    """
    ids = np.arange(6)
    model: Any = make_model("d2p", as_published=True, p=0.9, p_star=0.0, lam=2.0)

    def fitted(bit: bool) -> Any:
        rows = [(user, item) for user in range(4) for item in (user % 3, 3 + user % 3)]
        rows.append((9, 0 if bit else 5))
        rows.append((9, 1))
        return model.fit(Ratings.from_columns(*zip(*rows, strict=True)).with_items(ids))

    def play(bits: Bools) -> Floats:
        return np.array([_close(fitted(bit)) for bit in bits.tolist()])

    fitted(False)
    return [
        Game(
            claim=model.guarantee,
            neighbours="one item of a history is another, which moves it into another's group",
            play=play,
            rounds=1600,
            at_once=100,
        )
    ]


def _close(model: Any) -> float:
    """Whether the first item is in the second's group."""
    return float(0 in model.channel.groups.members(1))
