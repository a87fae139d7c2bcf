"""D2P as published: the contract, the claim of equation (12), what it refuses."""

from typing import Any

import pytest

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.papers.d2p.mechanism import PublishedD2P, published_guarantee
from epicrec.perturb import make_perturber
from epicrec.perturb.contract import Sent
from epicrec.perturb.d2p.channel import Channel, epsilon_bound
from epicrec.perturb.d2p.groups import Groups
from epicrec.testing.perturbers import PerturberContract


class TestContract(PerturberContract):
    @pytest.fixture(autouse=True)
    def ratings(self, viewers: Ratings) -> None:
        self.viewers = viewers

    def make(self, catalogue: Catalogue, **settings: Any) -> PublishedD2P:
        return PublishedD2P(catalogue, ratings=self.viewers, **settings)


def test_it_is_claimed_at_what_12_gives(films: Catalogue, viewers: Ratings) -> None:
    perturber = make_perturber("d2p", catalogue=films, as_published=True, ratings=viewers)
    assert isinstance(perturber, PublishedD2P)
    assert perturber.method == "d2p"
    assert perturber.guarantee.status == "claimed"
    least = int(perturber.channel.groups.sizes.min())
    assert perturber.guarantee.epsilon == epsilon_bound(len(films), 0.7, 0.03, least)
    release = perturber.release(films.item_ids[:3])
    assert release.as_published
    wider = make_perturber(
        "d2p", catalogue=films, as_published=True, ratings=viewers, neighbours=3
    ).release(films.item_ids[:3])
    assert (release.settings["neighbours"], wider.settings["neighbours"]) == (0, 3)


def test_the_claim_is_above_the_exact_cost() -> None:
    channel = Channel(Groups.of([[0, 1, 2], [0, 1, 2], [1, 2]]), 0.5, 0.1)
    assert published_guarantee(channel).epsilon == channel.epsilon_bound > channel.epsilon
    assert published_guarantee(Channel.identity(3)).status == "none"


def test_what_it_refuses(films: Catalogue, viewers: Ratings) -> None:
    with pytest.raises(InputError, match="ratings"):
        PublishedD2P(films).release(films.item_ids[:3])
    for options in ({"hide": "Drama"}, {"epsilon": 1.0}, {"floor": 0}, {"lam": -1.0}):
        with pytest.raises(InputError):
            PublishedD2P(films, ratings=viewers, **options).release(films.item_ids[:3])


def test_nobody_else_can_make_its_channel_again(films: Catalogue, viewers: Ratings) -> None:
    """Its groups come from ratings that only the paper's server has."""
    release = PublishedD2P(films, ratings=viewers).release(films.item_ids[:3])
    sent = Sent(settings=release.settings, counts=None, user_ids=films.item_ids[:0])
    with pytest.raises(InputError, match="come from ratings"):
        PublishedD2P.told(sent, films)
