"""Audits with teeth: what keeps its promise passes, and faults planted in real code are found.

Noise is fresh, so a test may fail by chance: bounds that must hold are taken with a risk of one in
a million, and the faults are so large that none is missed more often.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from epicrec.client.sending.outbox import Releases
from epicrec.demo.program_audits import device_games, server_games
from epicrec.errors import InputError
from epicrec.evaluate import audit
from epicrec.evaluate.audits import black_box, device_releases, methods
from epicrec.evaluate.audits.game import Game, climb, judge
from epicrec.evaluate.audits.methods import BROKEN, DEFAULTS, PUBLISHED, Audited, games_of
from epicrec.evaluate.audits.released_sums import (
    Histories,
    Worlds,
    covariance_games,
    tastes_games,
)
from epicrec.models import make_model, private_bias
from epicrec.models.private import budget, statistics
from epicrec.models.private import ratings as covariance
from epicrec.models.private.lists import release_histories
from epicrec.models.private.statistics import ItemEffects
from epicrec.models.private.tastes import TasteProducts
from epicrec.papers.yang.dpi_models import AfterDPI, ReleasedRatings
from epicrec.perturb import SEpicRec
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.dpi import hiding, rating_codes
from epicrec.perturb.epicrec import mechanism
from epicrec.perturb.epicrec.layout import Layout
from epicrec.server.serving.published_model import PublishedModel
from epicrec.server.serving.ranking import Ranking
from epicrec.server.store import catalogue as stored_catalogue
from epicrec.server.store import histories

SURE = 1 - 1e-6


def effects_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The covariance recommender where it measures item effects alone. What it makes of the sums
    it released takes most of a fit's time; two rounds of that show an audit as much as twenty."""
    monkeypatch.setattr("epicrec.evaluate.audits.released_sums._LARGEST_CROWD", 0)
    monkeypatch.setattr("epicrec.models.estimates.ROUNDS", 2)


def effects_games(unit: str, noise: str, monkeypatch: pytest.MonkeyPatch) -> list[Game]:
    effects_alone(monkeypatch)
    return covariance_games(
        make_model("covariance-svd", epsilon=1.0, task="ratings", unit=unit, noise=noise)
    )


def lists_games(unit: str, monkeypatch: pytest.MonkeyPatch) -> list[Game]:
    """Lists where tastes have most of the budget, with an ε that a few hundred fits tell from a
    larger one. Fewer draws by popularity make a fit faster, and tell an audit as much."""
    monkeypatch.setattr("epicrec.models.private.learner._DRAWN", 128)
    monkeypatch.setattr("epicrec.models.private.learner._NOISES", 1)
    model = make_model("covariance-svd", epsilon=20.0, unit=unit, task="lists")
    games = tastes_games(model)
    assert model.released_["how tastes go together"] > 0.7
    return games


# ---- what is proved holds -------------------------------------------------------------------


@pytest.mark.parametrize("row", DEFAULTS, ids=lambda row: row.name)
def test_what_is_proved_holds_and_most_of_it_is_found(row: Audited, monkeypatch: Any) -> None:
    if row.method.startswith("covariance"):
        effects_alone(monkeypatch)
    games = [replace(game, rounds=min(game.rounds, 80_000)) for game in games_of(row)]
    found = judge(row.name, games, part=0.5, confidence=SURE)
    assert found.holds, found
    assert found.share > 0.1, "an audit that sees nothing proves nothing"


def test_the_covariance_is_measured_and_audited_where_people_are_many() -> None:
    model = make_model("covariance-svd", epsilon=1.0, task="ratings")
    *_, crowded = covariance_games(model)
    assert int(crowded.neighbours.split("; ")[1].split()[0]) > 1
    assert judge("crowded", [crowded], rounds=400, confidence=SURE).holds


@pytest.mark.parametrize("unit", ["user", "rating"])
def test_lists_hold_where_tastes_are_measured_and_most_of_it_is_found(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judge(unit, lists_games(unit, monkeypatch), rounds=4000, confidence=SURE)
    assert found.holds, found
    assert found.share > 0.6, found


def test_lists_with_laplace_noise_have_no_tastes_to_audit() -> None:
    model = make_model("covariance-svd", epsilon=20.0, unit="user", task="lists", noise="laplace")
    assert tastes_games(model) == []


@pytest.mark.parametrize("row", [row for row in PUBLISHED if row.name in BROKEN], ids=str)
def test_what_is_false_as_published_is_found(row: Audited) -> None:
    assert not judge(row.name, games_of(row), rounds=500).holds


# ---- thirty faults of the defaults ----------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], Any]
Games = Callable[[pytest.MonkeyPatch], list[Game]]


def scaled(module: Any, name: str, part: float) -> Plant:
    """Noise of another size."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = getattr(module, name)

        def less(array: Any, scale: Any, **more: Any) -> Any:
            sizes = [s * part for s in scale] if isinstance(scale, list) else scale * part
            return honest(array, sizes, **more)

        patch.setattr(module, name, less)

    return plant


def wrapped(owner: Any, name: str, change: Callable[..., Any]) -> Plant:
    """What a function answers, changed: `change(answer, *arguments)`."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = getattr(owner, name)
        patch.setattr(owner, name, lambda *given, **more: change(honest(*given, **more), *given))

    return plant


def _once_for_all(patch: pytest.MonkeyPatch) -> None:
    honest = mechanism.discrete_laplace

    def drawn(n: int, scales: list[float], **more: Any) -> Any:
        return np.repeat(honest(1, scales[:1], **more), n)

    patch.setattr(mechanism, "discrete_laplace", drawn)


def _without_first(noisy: Any, *_: Any) -> Any:
    noisy[0] = 0
    return noisy


def _each_category_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Layout, "scales", lambda own, epsilon: np.full(len(own.noisy), 1 / epsilon))


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    def drawn(_: Any, ratings: Any, memories: Any, noise: Any) -> Any:
        del memories
        found = noise.alter(ratings)
        return ReleasedRatings(
            ratings.user_ids, found.item_ids, found.indptr, found.items, found.values, found.scale
        )

    patch.setattr(AfterDPI, "_drawn", drawn)


def _one_noise_for_both_totals(patch: pytest.MonkeyPatch) -> None:
    honest = private_bias.add_discrete_laplace

    def added(totals: Any, scale: Any, **more: Any) -> Any:
        totals += honest(np.zeros_like(totals[:1]), scale, **more)
        return totals

    patch.setattr(private_bias, "add_discrete_laplace", added)


def _first_total_plain(patch: pytest.MonkeyPatch) -> None:
    honest = private_bias.add_discrete_laplace

    def added(totals: Any, scale: Any, **more: Any) -> Any:
        honest(totals[1:], scale, **more)
        return totals

    patch.setattr(private_bias, "add_discrete_laplace", added)


def _keeps(drawn: Any, _: Any, items: Any, words: Any) -> Any:
    return np.where(words[0] % np.uint64(4) > 0, items, drawn)


def _always_the_group(patch: pytest.MonkeyPatch) -> None:
    honest = Channel.substitute

    def drawn(channel: Channel, items: Any, words: Any) -> Any:
        return honest(replace(channel, p=channel.p / 8), items, words)

    patch.setattr(Channel, "substitute", drawn)


def _shares_of_six(patch: pytest.MonkeyPatch) -> None:
    honest = budget.Budget.measure

    def measured(own: Any, statistic: Any, share: float, total: Any, **more: Any) -> Any:
        return honest(own, statistic, 6 * share, total, **more)

    patch.setattr(budget.Budget, "measure", measured)


def _same_noise_twice(patch: pytest.MonkeyPatch) -> None:
    """A key that is not fresh: the noise of a fit's measurements comes from one seed."""
    honest, now = covariance.release_ratings, [0]
    for name in ("add_integer_gaussian", "add_discrete_laplace"):
        own = getattr(budget, name)

        def added(total: Any, scale: Any, *, seed: Any = None, own: Any = own) -> Any:
            del seed
            return own(total, scale, seed=now[0])

        patch.setattr(budget, name, added)

    def released(*given: Any) -> Any:
        now[0] = secrets.randbits(40)
        return honest(*given)

    patch.setattr("epicrec.models.private.covariance.release_ratings", released)


def _counts_plain(patch: pytest.MonkeyPatch) -> None:
    honest = budget.add_integer_gaussian

    def added(total: Any, sigma: Any, **more: Any) -> Any:
        n = (len(total) - 2) // 2
        exact = total[n : 2 * n].copy()
        honest(total, sigma, **more)
        total[n : 2 * n] = exact
        return total

    patch.setattr(budget, "add_integer_gaussian", added)


def _past_the_noise(patch: pytest.MonkeyPatch) -> None:
    honest = covariance.measure_effects

    def measured(ratings: Any, own: Any, share: float, engine: Any, **more: Any) -> Any:
        engine(ItemEffects(own.unit, own.norm, ratings.scale), ratings)  # and no noise
        return honest(ratings, own, share, engine, **more)

    patch.setattr(covariance, "measure_effects", measured)


def _sensitivity(owner: Any, part: Fraction) -> Plant:
    honest = owner.sensitivity.fget
    return lambda patch: patch.setattr(
        owner, "sensitivity", property(lambda statistic: honest(statistic) * part)
    )


def _without_turning(patch: pytest.MonkeyPatch) -> None:
    """As if one item could make a taste longer or shorter, but not turn it."""
    patch.setattr(TasteProducts, "sensitivity", property(lambda own: Fraction(5 << (2 * own.bits))))


def _released_twice(patch: pytest.MonkeyPatch) -> None:
    """A fit that follows its plan to the end, and then again."""

    def released(*given: Any) -> Any:
        release_histories(*given)
        return release_histories(*given)

    patch.setattr("epicrec.models.private.covariance.release_histories", released)


def _heavy(sums: Any, statistic: Any, *_: Any) -> Any:
    """Users who weigh three times what they may."""
    return 3 * sums if statistic.unit == "user" else sums


def _wide(patch: pytest.MonkeyPatch) -> None:
    """Ratings that are not clamped to the scale."""
    honest = statistics.codes_of
    patch.setattr(statistics, "codes_of", lambda values, scale: 3 * honest(values, scale))


def _nothing_new_nothing_sent(patch: pytest.MonkeyPatch) -> None:
    honest = Releases.draw

    def drawn(own: Any, catalogue: Any, items: Any, choice: Any, *given: Any, **more: Any) -> Any:
        latest = own.latest()
        if latest is not None and len(items) <= 3:  # as if three films were known before
            return latest
        return honest(own, catalogue, items, choice, *given, **more)

    patch.setattr(Releases, "draw", drawn)


def _exact_popularity(patch: pytest.MonkeyPatch) -> None:
    honest = Ranking._read_model

    class Popular(PublishedModel):
        watched: Any

        def for_own(self, own: Any, n: int, offset: int = 0, category: str = "") -> Any:
            found = super().for_own(own, n, offset, category)
            return sorted(found, key=lambda one: self.watched[one[0]], reverse=True)

    def read(ranking: Any, connection: Any) -> Any:
        scored = honest(ranking, connection)
        scored.__class__ = Popular
        names = {key: item for key, item, _ in stored_catalogue.visible(connection)}
        scored.watched = dict.fromkeys(names.values(), 0)
        _, items, _ = histories.given_ratings(connection, "rating")
        for key in items.tolist():
            scored.watched[names[key]] += 1
        return scored

    patch.setattr(Ranking, "_read_model", read)


def s_epicrec(_: pytest.MonkeyPatch) -> list[Game]:
    return device_releases.RELEASES["s-epicrec"](1.0)


def s_epicrec_whole(_: pytest.MonkeyPatch) -> list[Game]:
    return [black_box.black_box_game(black_box.made("s-epicrec", 1.0))]


def of(row: Audited) -> Games:
    return lambda _: games_of(row)


def effects(unit: str, noise: str = "gaussian") -> Games:
    return partial(effects_games, unit, noise)


def lists(unit: str) -> Games:
    return partial(lists_games, unit)


def device(_: pytest.MonkeyPatch) -> list[Game]:
    return device_games("epicrec", 3)


def server(_: pytest.MonkeyPatch) -> list[Game]:
    return server_games()


FAULTS: dict[str, tuple[Plant, Games, int]] = {
    "EpicRec: half the noise": (
        scaled(mechanism, "discrete_laplace", 0.3), s_epicrec, 1200
    ),
    "EpicRec: a category without noise": (
        wrapped(mechanism, "discrete_laplace", _without_first), s_epicrec, 800
    ),
    "EpicRec: one draw for all categories": (_once_for_all, s_epicrec_whole, 1000),
    "EpicRec: noise as if each film had one category": (_each_category_alone, s_epicrec, 2800),
    "M-EpicRec: half the noise": (
        scaled(mechanism, "discrete_laplace", 0.2), of(Audited("m-epicrec", release=True)), 1200
    ),
    "DPI: half the noise": (
        scaled(rating_codes, "add_discrete_laplace", 0.5), of(Audited("dpi-avg")), 20_000
    ),
    "DPI: a device's noise halved": (
        scaled(rating_codes, "add_discrete_laplace", 0.3), of(Audited("dpi", release=True)), 1600
    ),
    "DPI: drawn anew at every fit": (_forgetful, of(Audited("dpi-pcc")), 40_000),
    "HidingDPI: true ratings sent too often": (
        wrapped(hiding, "keeping_chances", lambda found, *_: (3 * found[0], found[1])),
        of(Audited("dpi-pcc", {"unit": "rating"})), 20_000,
    ),
    "HidingDPI: values without noise": (
        wrapped(hiding, "clamped", lambda _, codes, *__: np.asarray(codes)),
        of(Audited("dpi-pcc", {"unit": "rating"})), 20_000,
    ),
    "private-bias: half the noise": (
        scaled(private_bias, "add_discrete_laplace", 0.5), of(Audited("private-bias")), 20_000
    ),
    "private-bias: a total without noise": (
        _first_total_plain, of(Audited("private-bias")), 8000
    ),
    "private-bias: one noise for both totals": (
        _one_noise_for_both_totals, of(Audited("private-bias")), 8000
    ),
    "D2P: keeps what it should exchange": (
        wrapped(Channel, "substitute", _keeps), of(Audited("d2p")), 20_000
    ),
    "D2P: hardly ever outside the group": (_always_the_group, of(Audited("i-d2p")), 40_000),
    "covariance: half the noise, Gaussian": (
        scaled(budget, "add_integer_gaussian", 0.4), effects("user"), 16_000
    ),
    "covariance: half the noise, Laplace": (
        scaled(budget, "add_discrete_laplace", 0.3), effects("rating", "laplace"), 16_000
    ),
    "covariance: shares add up to more than 1": (_shares_of_six, effects("user"), 16_000),
    "covariance: sensitivity too small": (
        _sensitivity(ItemEffects, Fraction(1, 2)), effects("user"), 24_000
    ),
    "covariance: one noise for both measurements": (_same_noise_twice, effects("user"), 8000),
    "covariance: counts without noise": (_counts_plain, effects("user"), 8000),
    "covariance: a sum past the noise": (_past_the_noise, effects("user"), 8000),
    "covariance: a user's weight is missing": (
        wrapped(ItemEffects, "__call__", _heavy), effects("user"), 16_000
    ),
    "covariance: ratings are not clamped": (_wide, effects("rating"), 40_000),
    "lists: a third of the noise, one user": (
        scaled(budget, "add_integer_gaussian", 1 / 3), lists("user"), 2000
    ),
    "lists: a third of the noise, one item": (
        scaled(budget, "add_integer_gaussian", 1 / 3), lists("rating"), 2000
    ),
    "lists: one item does not turn a taste": (_without_turning, lists("rating"), 4000),
    "lists: the budget is spent twice": (_released_twice, lists("user"), 4000),
    "device: nothing new, nothing sent": (_nothing_new_nothing_sent, device, 480),
    "server: a list by exact popularity": (_exact_popularity, server, 800),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, games, rounds = FAULTS[fault]
    with monkeypatch.context() as patch:
        plant(patch)
        found = judge(fault, games(patch), rounds=rounds)
    assert not found.holds, found


# ---- the parts ------------------------------------------------------------------------------


def test_the_search_finds_the_top() -> None:
    assert climb(lambda place: -sum((a - 3) ** 2 for a in place), [6, 6, 6]) == (3, 3, 3)


def test_worlds_differ_where_the_coin_says() -> None:
    worlds = Worlds((3, 0), (3, 5), 2, 1, 1)
    for bits in ([False, False], [True, False], [True, True]):
        ratings = worlds.ratings(np.array(bits))
        assert len(ratings) == 2 + sum(bits) + 4


@pytest.mark.parametrize("unit", ["user", "rating"])
def test_what_victims_change_is_all_that_differs(unit: Any) -> None:
    worlds = Histories((1, 0) if unit == "rating" else (0, 0), (1, 1), 8, 5, 1)
    weights, directions = np.full(worlds.items, 1 << 10), np.eye(worlds.items, dtype=np.int64)
    products = TasteProducts(unit, weights, csr_array(directions), directions << 20)
    for statistic in (products, ItemEffects(unit, 2, None)):
        low, high = (statistic(end) for end in worlds.ends)
        changes = worlds.changes(statistic)
        assert len(changes) == worlds.groups
        np.testing.assert_array_equal(changes.sum(axis=0), high - low)


def test_a_table_is_sure_as_a_whole() -> None:
    rows = {name: (lambda row=row: games_of(row)) for row in DEFAULTS[8:10] for name in [row.name]}
    found = list(methods.audit_rows(rows, part=0.05))
    assert [one.method for one in found] == [*rows]
    assert all(one.confidence == pytest.approx(0.975) for one in found)


@pytest.mark.parametrize("method", ["dpi", "hiding-dpi", "d2p-svd", "private-bias", "collective"])
def test_without_a_version_as_published_there_is_nothing_to_audit(method: str) -> None:
    with pytest.raises(InputError, match=f"{method} has no version as published"):
        audit(method, as_published=True, runs=400)


def test_each_version_as_published_is_its_own() -> None:
    single = audit("s-epicrec", as_published=True, runs=800)
    assert (single.status, single.holds) == ("claimed", True)
    assert "Horror" in single.neighbours
    with pytest.raises(InputError, match="no audit of i-d2p as published"):
        audit("i-d2p", as_published=True, runs=400)


def test_as_published_by_name() -> None:
    found = audit("m-epicrec", as_published=True, runs=800)
    assert (found.status, found.holds) == ("claimed", False)
    assert SEpicRec(device_releases.FILMS, epsilon=1.0).release([0]).guarantee.status == "proved"


@pytest.mark.soak
def test_the_programs_hold() -> None:
    for games in (device_games("epicrec", 3), device_games("d2p", 1), server_games()):
        found = judge("programs", games, confidence=SURE)
        assert found.holds, found
        assert found.share > 0.1
