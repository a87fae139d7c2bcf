"""The common model: the same integers in process, over sealed shares, and resumed from results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from epicrec.collective.contributions import basis_of, published, sensitivity_of, statistic_of
from epicrec.collective.in_process import released, simulate, two_servers
from epicrec.collective.messages import Refusal, decode, encode
from epicrec.collective.results import Taught
from epicrec.collective.shared_model import Collective, NextRound, resumed, train
from epicrec.collective.shares import allowed, squared_norm
from epicrec.collective.task import Task
from epicrec.data import load_dataset
from epicrec.engine import local
from epicrec.models.features import item_features
from epicrec.models.private.basis import Basis
from epicrec.models.private.statistics import STEPS, ItemEffects
from epicrec.models.private.tastes import ItemTastes, TasteProducts, in_integers
from epicrec.testing.recommenders import RecommenderContract


class TestCollective(RecommenderContract):
    model_type = Collective
    settings = {"epsilon": 5.0, "seed": 0}


@pytest.fixture(scope="module")
def forty():
    data = load_dataset("films")
    histories = data.ratings.as_history().with_items(data.catalogue.item_ids)
    return histories.users_at(np.arange(40)), data.catalogue


@pytest.fixture(scope="module")
def statistics(forty):
    histories, catalogue = forty
    rng = np.random.default_rng(0)
    n = histories.n_items
    features = item_features(catalogue, histories.item_ids)
    weights = in_integers(rng.uniform(0.1, 1, n), 14)
    coefficients = in_integers(rng.normal(size=(features.shape[1], 9)), 20)
    return [
        ItemEffects("user", 2, None, np.full(n, STEPS, np.int16)),
        TasteProducts("user", weights, features, coefficients),
        ItemTastes("user", weights, in_integers(rng.normal(size=(n, 5)), 20)),
    ]


def one_by_one(statistic, histories) -> Iterator[np.ndarray]:
    for user in range(histories.n_users):
        yield statistic(histories.users_at(np.array([user])))


def test_a_device_computes_from_what_is_published_what_the_engine_computes(forty, statistics):
    histories, _ = forty
    for statistic in statistics:
        read = statistic_of(published(statistic, histories.item_ids), histories.item_ids)
        assert sum(one_by_one(read, histories)).tolist() == statistic(histories).tolist()


def test_what_a_history_contributes_is_never_longer_than_it_may_be(forty, statistics):
    histories, _ = forty
    for statistic in statistics:
        bound = sensitivity_of(statistic) ** 2
        lengths = [squared_norm(x) for x in one_by_one(statistic, histories)]
        assert max(lengths) <= bound
        assert max(lengths) > 0.5 * bound  # and not shorter than it need be


def test_a_basis_with_nan_or_beyond_its_bounds_is_refused(forty, statistics):
    histories, _ = forty
    for statistic, places in zip(statistics[1:], ((-2, -3), (-1, -2)), strict=True):
        fields = decode(published(statistic, histories.item_ids))
        for at in places:
            for wrong in (np.int64(2**21), np.float64("nan")):
                content = bytearray(fields[at])
                content[8:16] = wrong.tobytes()
                forged = [*fields]
                forged[at] = bytes(content)
                with pytest.raises(Refusal):
                    statistic_of(encode(*forged), histories.item_ids)
            short = [*fields]
            short[at] = fields[at][:-3]
            with pytest.raises(Refusal):
                statistic_of(encode(*short), histories.item_ids)


def test_features_that_do_not_fit_and_other_items_are_refused(forty, statistics):
    histories, _ = forty
    name, digest, n, width, starts, columns, *rest = decode(
        published(statistics[1], histories.item_ids)
    )
    far = np.frombuffer(columns, "<i8").copy()
    far[0] = width
    for forged in (
        (name, digest, n, width, starts, far.tobytes(), *rest),
        (name, digest, n, width, starts[8:], columns, *rest),
        (name, digest, n, width, starts, columns[8:], *rest),
        (name, digest, n - 1, width, starts, columns, *rest),
        ("sorcery", digest, n),
        ("counts", digest),
    ):
        with pytest.raises(Refusal):
            statistic_of(encode(*forged), histories.item_ids)
    with pytest.raises(Refusal, match="another list"):
        statistic_of(published(statistics[0], histories.item_ids), histories.item_ids[1:])


def test_a_basis_for_the_model_is_read_back_as_it_was_or_refused(forty):
    histories, catalogue = forty
    ids, counts = histories.item_ids, np.linspace(1, 2, histories.n_items)
    features = item_features(catalogue, ids)
    basis = Basis.of(features, counts, counts / np.linalg.norm(counts), most=6)
    weights, grid = in_integers(counts, 14), in_integers(basis.apart, 20)
    products = TasteProducts("user", weights, features, grid)
    shown = published(products, ids, basis)
    found = basis_of(shown, ids)
    for name in ("scales", "emphasis", "coefficients"):
        np.testing.assert_array_equal(getattr(found, name), getattr(basis, name))
    assert in_integers(found.apart, 20).tolist() == grid.tolist()
    *fields, floats = decode(shown)
    for wrong in (
        np.float64("nan").tobytes() + floats[8:],
        floats[:-8],
        floats[:-3],
        b"",
        floats[: 8 * len(ids)] + bytes(8) + floats[8 * len(ids) + 8 :],  # a direction of no weight
    ):
        with pytest.raises(Refusal):
            basis_of(encode(*fields, wrong), ids)
    with pytest.raises(Refusal, match="no basis"):
        basis_of(published(ItemTastes("user", weights, np.ones((len(ids), 2), np.int64)), ids), ids)


@pytest.mark.parametrize("epsilon", [5.0, 2000.0])
def test_over_sealed_shares_and_resumed_the_model_is_the_same_to_the_last_bit(
    forty, epsilon, monkeypatch
):
    """Few people need a large ε for all three rounds; the integers do not mind."""
    histories, catalogue = forty
    task = Task.of(epsilon, 1e-5, 100)
    statistics_seen, taught = [], []
    leader, helper = two_servers(seed=7)

    def in_process(given, _, total):
        return released(given, total, 7)

    def over_shares(given, shown, total):
        statistic = statistic_of(shown, histories.item_ids)
        statistics_seen.append(given.statistic)
        vectors = list(one_by_one(statistic, histories))
        assert all(allowed(given, x).any() or not x.any() for x in vectors)
        assert sum(vectors).tolist() == total.tolist()
        taught.append(Taught(simulate(given, shown, vectors, leader, helper), shown))
        return taught[-1].result.total

    plain, record = train(task, histories, catalogue, in_process, local)
    sealed, _ = train(task, histories, catalogue, over_shares, local)
    with monkeypatch.context() as patched:  # another machine would find another basis
        patched.setattr(Basis, "of", lambda *_, **__: 1 / 0)
        again, _ = resumed(task, histories.item_ids, catalogue, taught)
    for state in (sealed, again):
        assert state.keys() == plain.keys()
        for name, value in plain.items():
            np.testing.assert_array_equal(state[name], value)
    assert sum(record.values()) == pytest.approx(1)
    assert statistics_seen[0] == "counts"
    if epsilon == 2000:
        assert set(statistics_seen) == {"counts", "products", "items"}
    with pytest.raises(NextRound) as first:
        resumed(task, histories.item_ids, catalogue, [])
    assert first.value.parameters.round == 0
    assert first.value.parameters.statistic == "counts"
    with pytest.raises(NextRound) as last:
        resumed(task, histories.item_ids, catalogue, taught[:-1])
    assert last.value.parameters == taught[-1].result.parameters
    with pytest.raises(Refusal, match="something else"):
        resumed(Task.of(1.0, 1e-5), histories.item_ids, catalogue, taught)
    with pytest.raises(Refusal, match="something else"):
        resumed(task, histories.item_ids, catalogue, taught[::-1])
    with pytest.raises(Refusal, match="another list"):
        resumed(task, histories.item_ids[1:], catalogue, taught)
    with pytest.raises(Refusal, match="not what the result is about"):
        Taught(taught[0].result, taught[-1].published + b"x")


def test_the_rounds_together_cost_what_the_guarantee_says(forty):
    histories, catalogue = forty
    spent = []

    def rounds(given, _, total):
        spent.append(given.round_mu**2)
        return released(given, total, 1)

    model = Collective(epsilon=2.0, delta=1e-5, seed=1).fit(histories, catalogue)
    train(Task.of(2.0, 1e-5), histories, catalogue, rounds, local)
    assert len(spent) > 1
    assert 0.999 * model.guarantee.mu**2 < sum(spent) <= model.guarantee.mu**2
    assert model.guarantee.unit == "user"
    assert "leader and helper share nothing" in model.guarantee.assumes
