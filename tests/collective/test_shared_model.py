"""The shared model: the same integers in process, over sealed shares, and from results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from epicrec.collective import contributions
from epicrec.collective.contributions import (
    nobody,
    published,
    sensitivity_of,
    statistic_of,
    step_of,
)
from epicrec.collective.leader import two_servers
from epicrec.collective.messages import Refusal, decode, encode
from epicrec.collective.results import Result, Taught, released
from epicrec.collective.shared_model import Collective, check_round, next_round, released_by
from epicrec.collective.shares import allowed, squared_norm
from epicrec.collective.task import Task
from epicrec.data import load_dataset
from epicrec.models.features import item_features
from epicrec.models.private import lists
from epicrec.models.private.basis import Basis
from epicrec.models.private.lists import Step, counts_statistic
from epicrec.models.private.tastes import TasteProducts, in_integers
from epicrec.testing.recommenders import RecommenderContract
from rounds_of import simulate


class TestCollective(RecommenderContract):
    model_type = Collective
    settings = {"epsilon": 5.0, "seed": 0}


@pytest.fixture(scope="module")
def forty():
    data = load_dataset("films")
    histories = data.ratings.as_history().with_items(data.catalogue.item_ids)
    return histories.users_at(np.arange(40)), data.catalogue


@pytest.fixture(scope="module")
def steps(forty) -> list[Step]:
    histories, _ = forty
    return [Step(counts_statistic("user", 2, histories.n_items), Fraction(1)), tastes(forty, 9)]


def tastes(forty, d: int) -> Step:
    histories, catalogue = forty
    counts = np.linspace(1, 2, histories.n_items)
    popular = counts / np.linalg.norm(counts)
    features = item_features(catalogue, histories.item_ids)
    basis = Basis.of(features, counts, popular).first(d, popular)
    grid = in_integers(basis.apart, 20)
    return Step(TasteProducts("user", in_integers(counts, 14), features, grid), Fraction(1), basis)


def one_by_one(statistic, histories) -> Iterator[np.ndarray]:
    for user in range(histories.n_users):
        yield statistic(histories.users_at(np.array([user])))


def test_a_device_computes_from_what_is_published_what_the_engine_computes(forty, steps):
    histories, _ = forty
    for step in steps:
        read = statistic_of(published(step, histories.item_ids), histories.item_ids)
        assert sum(one_by_one(read, histories)).tolist() == step.statistic(histories).tolist()


def test_what_a_history_contributes_is_never_longer_than_it_may_be(forty, steps):
    histories, _ = forty
    for step in steps:
        bound = sensitivity_of(step.statistic) ** 2
        lengths = [squared_norm(x) for x in one_by_one(step.statistic, histories)]
        assert max(lengths) <= bound
        assert max(lengths) > 0.5 * bound  # and not shorter than it need be


def test_a_basis_with_nan_or_beyond_its_bounds_is_refused(forty, steps):
    histories, _ = forty
    fields = decode(published(steps[1], histories.item_ids))
    for at in (-2, -3):
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


def test_features_that_do_not_fit_and_other_items_are_refused(forty, steps):
    histories, _ = forty
    *head, width, starts, columns, weights, grid, floats = decode(
        published(steps[1], histories.item_ids)
    )
    name, items, n, version = head
    rest = (weights, grid, floats)
    far = np.frombuffer(columns, "<i8").copy()
    far[0] = width
    for forged in (
        (*head, width, starts, far.tobytes(), *rest),
        (*head, width, starts[8:], columns, *rest),
        (*head, width, starts, columns[8:], *rest),
        (name, items, n - 1, version, width, starts, columns, *rest),
        ("sorcery", items, n, version),
        ("counts", items, n, version, 1),
        ("counts", items),
    ):
        with pytest.raises(Refusal):
            statistic_of(encode(*forged), histories.item_ids)
    with pytest.raises(Refusal, match="another list"):
        statistic_of(published(steps[0], histories.item_ids), histories.item_ids[1:])


def test_a_step_of_another_version_of_plans_is_refused(forty, steps, monkeypatch):
    ids = forty[0].item_ids
    for step in steps:
        shown = published(step, ids)
        *head, version = decode(shown)[:4]
        assert version == lists.PLAN_VERSION
        for other in (encode(*head), encode(*head, *decode(shown)[4:])):  # as before versions
            with pytest.raises(Refusal, match="another version") as caught:
                statistic_of(other, ids)
            assert caught.value.kind == "outdatedConfig"
        with monkeypatch.context() as patched:
            patched.setattr(contributions, "PLAN_VERSION", version + 1)
            with pytest.raises(Refusal, match="another version"):
                statistic_of(shown, ids)


def test_a_basis_for_the_model_is_read_back_as_it_was_or_refused(forty, steps):
    ids, basis = forty[0].item_ids, steps[1].basis
    shown = published(steps[1], ids)
    found = step_of(shown, ids, Fraction(1, 3))
    assert found.share == Fraction(1, 3)
    for name in ("scales", "emphasis", "coefficients"):
        np.testing.assert_array_equal(getattr(found.basis, name), getattr(basis, name))
    assert in_integers(found.basis.apart, 20).tolist() == found.statistic.coefficients.tolist()
    assert published(found, ids) == shown  # so a second round in it publishes the same
    *fields, floats = decode(shown)
    for wrong in (
        np.float64("nan").tobytes() + floats[8:],
        floats[:-8],
        floats[:-3],
        b"",
        floats[: 8 * len(ids)] + bytes(8) + floats[8 * len(ids) + 8 :],  # a direction of no weight
    ):
        with pytest.raises(Refusal):
            statistic_of(encode(*fields, wrong), ids)


def over_shares(task, histories, catalogue) -> list[Taught]:
    """All rounds of a task, each over sealed shares; what is planned comes from results alone."""
    taught: list[Taught] = []
    leader, helper = two_servers(seed=7)
    ids = histories.item_ids
    while following := next_round(task, ids, catalogue, released_by(task, ids, taught)):
        given, shown = following
        vectors = list(one_by_one(statistic_of(shown, ids), histories))
        assert all(allowed(given, x).any() or not x.any() for x in vectors)
        taught.append(Taught(simulate(given, shown, vectors, leader, helper), shown))
        assert taught[-1].result.total.tolist() == released(given, sum(vectors), 7).tolist()
    return taught


@pytest.fixture(scope="module")
def trained(forty) -> tuple[Task, list[Taught]]:
    """Few people need a large ε for rounds about tastes; the integers do not mind."""
    task = Task.of(2000.0, 1e-5, 100)
    return task, over_shares(task, *forty)


@pytest.mark.parametrize("epsilon", [5.0, 2000.0])
def test_over_sealed_shares_and_from_results_the_model_is_the_same_to_the_last_bit(
    forty, trained, epsilon, monkeypatch
):
    histories, catalogue = forty
    task = Task.of(epsilon, 1e-5, 100)
    taught = trained[1] if epsilon == 2000 else over_shares(task, histories, catalogue)
    plain = Collective(epsilon=epsilon, delta=1e-5, most=100, seed=7).fit(histories, catalogue)
    with monkeypatch.context() as patched:  # another machine would find another basis
        patched.setattr(Basis, "of", lambda *_, **__: 1 / 0)
        again = Collective.of_rounds(task, histories.item_ids, taught)
    assert again is not None
    for name in ("offsets_", "factors_", "projections_", "note_", "released_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))
    assert sum(plain.released_.values()) == pytest.approx(1)
    said = [one.result.parameters.statistic for one in taught]
    if epsilon == 2000:
        assert said == ["counts", "counts", "products", "products"]
        assert plain.factors_.shape[1] > 1
        assert plain.note_ == ""
    else:
        assert said == ["counts", "counts"]
        assert "popularity" in plain.note_
        assert "epsilon = 5 " in plain.note_


def test_while_rounds_are_to_come_there_is_no_model_and_the_next_one_is_known(forty, trained):
    (histories, catalogue), (task, taught) = forty, trained
    ids = histories.item_ids
    for number, one in enumerate(taught):
        done = released_by(task, ids, taught[:number])
        given, shown = next_round(task, ids, catalogue, done)
        assert (given, shown) == (one.result.parameters, one.published)
        assert Collective.of_rounds(task, ids, taught[:number]) is None
    assert next_round(task, ids, catalogue, released_by(task, ids, taught)) is None


def changed(taught: Taught, **changes: Any) -> Taught:
    """A round with other parameters: what is published with it is what they say."""
    shown = changes.pop("shown", taught.published)
    changes["basis"] = hashlib.sha256(shown).digest()
    given = replace(taught.result.parameters, **changes)
    total = np.resize(taught.result.total, given.length)
    return Taught(Result(given, taught.result.people, total, b"", b""), shown)


def test_rounds_that_are_not_the_plan_of_one_task_are_refused(forty, trained):
    (histories, _), (task, taught) = forty, trained
    ids = histories.item_ids
    first, second, third, last = taught
    small = third.result.parameters.sensitivity - 1
    other, bit = tastes(forty, 9), Fraction(1, 2**20)
    length = len(other.statistic(nobody(ids)))
    wrong: list[tuple[str, list[Taught]]] = [
        ("does not follow", [second, first, third, last]),
        ("does not follow", [first, second, last]),
        ("another task", [first, changed(second, task="another")]),
        ("another task", [first, changed(second, mu=task.mu * 2)]),
        ("another task", [first, changed(second, delta=1e-6)]),
        ("another task", [first, changed(second, most=101)]),
        ("something else", [changed(first, length=first.result.parameters.length - 1)]),
        ("something else", [first, second, changed(third, statistic="counts"), last]),
        ("first round", [changed(third, round=0)]),
        ("too little noise", [first, second, changed(third, sensitivity=small), last]),
        ("two bases", [*taught[:3], changed(last, shown=published(other, ids), length=length)]),
        ("a budget", [*taught[:3], changed(last, share=last.result.parameters.share + bit)]),
        ("a budget", [*taught, changed(last, round=4, share=bit)]),
    ]
    for why, rounds in wrong:
        with pytest.raises(Refusal, match=why) as caught:
            Collective.of_rounds(task, ids, rounds)
        assert caught.value.kind == "outdatedConfig"
    with pytest.raises(Refusal, match="another list"):
        Collective.of_rounds(task, ids[1:], taught)
    with pytest.raises(Refusal, match="not what the result is about"):
        Taught(taught[0].result, taught[-1].published + b"x")
    roomy = [first, second, *(changed(one, sensitivity=small + 2) for one in (third, last))]
    assert Collective.of_rounds(task, ids, roomy) is not None, "more noise is no harm"


def test_a_helper_signs_the_rounds_of_a_plan_with_public_features_and_no_others(forty, trained):
    (histories, catalogue), (_, taught) = forty, trained
    rounds = [one.result.parameters for one in taught]
    for number, one in enumerate(taught):
        for known in (catalogue, None):
            check_round(known, rounds[number], one.published, rounds[:number])
        with pytest.raises(Refusal, match="does not follow"):
            check_round(catalogue, rounds[number], one.published, rounds)
    more = replace(rounds[-1], share=rounds[-1].share + Fraction(1, 100))
    with pytest.raises(Refusal, match="budget"):
        check_round(catalogue, more, taught[-1].published, rounds[:-1])
    step = step_of(taught[2].published, histories.item_ids, rounds[2].share)
    statistic = step.statistic
    turned = statistic.features.tolil()
    turned[3, 1] = 1 - turned[3, 1]
    wide = statistic.features.tolil()
    wide[[4, 5], -1] = 1  # two items in a column that should have one
    for features in (turned, wide):
        forged = TasteProducts("user", statistic.weights, features.tocsr(), statistic.coefficients)
        shown = published(replace(step, statistic=forged), histories.item_ids)
        given = replace(rounds[2], basis=hashlib.sha256(shown).digest())
        with pytest.raises(Refusal, match="catalogue"):
            check_round(catalogue, given, shown, rounds[:2])


def test_the_rounds_together_cost_what_the_guarantee_says(forty, trained):
    histories, catalogue = forty
    task, taught = trained
    model = Collective.of_rounds(task, histories.item_ids, taught)
    assert model is not None
    spent = [one.result.parameters.round_mu**2 for one in taught]
    assert len(spent) > 1
    assert 0.999 * model.guarantee.mu**2 < sum(spent) <= model.guarantee.mu**2
    assert model.guarantee.unit == "user"
    assert "leader and helper share nothing" in model.guarantee.assumes
    fitted = Collective(epsilon=2000.0, delta=1e-5, seed=1).fit(histories, catalogue)
    assert fitted.guarantee.mu == model.guarantee.mu


def test_what_is_planned_counts_the_noise_of_both_servers(forty, monkeypatch):
    histories, catalogue = forty
    heard = []

    def planned(done, features, mu):
        heard.append(mu)
        return lists.next_step(done, features, mu)

    monkeypatch.setattr("epicrec.collective.shared_model.next_step", planned)
    task = Task.of(5.0, 1e-5)
    next_round(task, histories.item_ids, catalogue, released_by(task, histories.item_ids, []))
    Collective(epsilon=5.0, delta=1e-5, seed=1).fit(histories, catalogue)
    assert set(heard) == {task.mu / 2**0.5}
