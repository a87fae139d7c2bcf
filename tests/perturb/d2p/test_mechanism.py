"""D2P on the device: the contracts, what is released and said, what a server collects."""

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb import Release
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.d2p.groups import Groups, hiding_lambda, public_groups
from epicrec.perturb.d2p.mechanism import D2P, collected
from epicrec.testing.guarantees import GuaranteeContract
from epicrec.testing.perturbers import PerturberContract


class TestContract(PerturberContract):
    def make(self, catalogue: Catalogue, **settings: Any) -> D2P:
        return D2P(catalogue, p=0.6, p_star=0.05, **settings)


class TestGuarantee(GuaranteeContract):
    @pytest.fixture(params=[{}, {"carry_ratings": True}])
    def guaranteed(self, request: Any, films: Catalogue) -> Any:
        return D2P(films, p=0.6, **request.param)


# ---- the release ------------------------------------------------------------------------------


def test_number_of_items_is_kept_and_said(films: Catalogue) -> None:
    release = D2P(films, p=0.5).release(films.item_ids[:77])
    assert sum(release.counts) == 77
    assert any("How many items" in line for line in release.guarantee.assumes)


@pytest.mark.parametrize("ratings", [[0, 1, 1, 0], [1.5, 4.0, 3.5, 2.0]])
def test_ratings_are_carried_along(films: Catalogue, ratings: list[float]) -> None:
    history = pa.table({"item_id": films.item_ids[[40, 3, 17, 250]], "rating": ratings})
    release = D2P(films, p=0.5, carry_ratings=True, seed=5).release(history)
    assert np.dot(release.ratings, release.counts) == pytest.approx(sum(ratings))
    assert release.guarantee.status == "claimed", "how an item was rated is not hidden"
    plain = D2P(films, p=0.5, seed=5).release(history)
    assert plain.ratings is None
    assert plain.items == release.items
    with pytest.raises(InputError, match="rating"):
        D2P(films, p=0.5, carry_ratings=True).release(films.item_ids[:3])


@pytest.mark.parametrize("category", ["Drama", "Horror"])
def test_a_category_is_hidden(films: Catalogue, category: str) -> None:
    """An item of it reaches items outside it, which are half of what it becomes; ε is the same."""
    plain, hiding = D2P(films, epsilon=3.0), D2P(films, epsilon=3.0, hide=category)
    assert hiding.guarantee.epsilon == pytest.approx(plain.guarantee.epsilon)
    assert hiding.settings["lam"] >= hiding_lambda(films, category)
    column = films.categories.index(category)
    inside = np.asarray(films.matrix[:, [column]].todense()).ravel() > 0
    groups = hiding.channel.groups
    assert (groups.sizes == hiding.settings["floor"]).all()
    for item in np.flatnonzero(inside):
        members = groups.members(int(item))
        assert item in members
        assert len(set(members.tolist())) == len(members)
        assert (~inside[members]).mean() >= 0.5
    others = np.flatnonzero(~inside)[:20]
    free = public_groups(films, hiding.settings["lam"], hiding.settings["floor"])
    assert all((groups.members(i) == free.members(i)).all() for i in others)
    with pytest.raises(InputError, match="no category"):
        D2P(films, hide="Cookery").release(films.item_ids[:3])


def test_bad_settings_say_what_is_wrong(films: Catalogue) -> None:
    for options in (
        {"p": 1.5}, {"p": 0.5, "p_star": -0.1}, {"p": 0.5, "floor": 0}, {"epsilon": 0.0},
        {"p": 0.5, "lam": -1.0}, {"p": 0.5, "p_star": 0.5, "epsilon": 1.0},
        {"epsilon": 1.0, "p_star": 0.9},
    ):  # fmt: skip
        with pytest.raises(InputError):
            D2P(films, **options).release(films.item_ids[:3])


def test_a_server_takes_only_what_it_knows_the_channel_of(films: Catalogue) -> None:
    device, other = D2P(films, p=0.9), D2P(films, p=0.8)
    sent = {
        "ann": Release.from_json(device.release(films.item_ids[:20]).to_json()),
        "bob": device.release(films.item_ids[5:9]),
        "eve": device.release([]),
    }
    held = collected(device, sent)
    assert held.counts.sum(axis=1).tolist() == [20, 4, 0]
    assert held.epsilon == device.guarantee.epsilon
    with pytest.raises(InputError, match="drawn with"):
        collected(other, sent)
    with pytest.raises(InputError, match="not in the catalogue"):
        collected(device, {"ann": replace(sent["bob"], items=("no such film",), counts=(1,))})


# ---- λ in the guarantee -----------------------------------------------------------------------


def widest_odds(channel: Channel, groups: list[set[int]]) -> float:
    """How much likelier one item than another becomes one of a union of groups: what the paper's
    (ε, λ)-privacy (Definition 6) looks at, where λ makes these groups."""
    matrix = channel.matrix()
    unions = {
        frozenset().union(*some)
        for size in range(1, len(groups) + 1)
        for some in combinations(groups, size)
    }
    chances = np.array([matrix[:, sorted(union)].sum(axis=1) for union in unions])
    with np.errstate(divide="ignore"):
        return float((chances.max(axis=1) / chances.min(axis=1)).max())


def test_lambda_adds_nothing_to_epsilon() -> None:
    """Whatever is ε-private is (ε, λ)-private for every λ, and by the widest groups nothing that
    anybody could send is told apart: not even the history as it is."""
    n = 6
    channel = Channel(Groups.of([[i, (i + 1) % n] for i in range(n)]), 0.5, 0.1)
    odds = [
        widest_odds(channel, [{(i + step) % n for step in range(width)} for i in range(n)])
        for width in range(1, n + 1)
    ]
    assert odds[0] == pytest.approx(np.exp(channel.epsilon))  # λ = 0: every item by itself
    assert all(more <= less + 1e-12 for less, more in pairwise(odds))
    assert odds[-1] == pytest.approx(1)
    plain = Channel.identity(n)
    assert np.isinf(plain.epsilon)
    assert widest_odds(plain, [{*range(n)}] * n) == 1
