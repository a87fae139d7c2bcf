"""Parameters of a round: one encoding, one hash over all of them, and a modulus that is enough."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

import pytest

from epicrec.collective.messages import Refusal, encode
from epicrec.collective.proofs.field import Q
from epicrec.collective.task import RoundParameters
from epicrec.errors import InputError
from rounds_of import parameters

OTHERS = {
    "task": "songs",
    "round": 1,
    "statistic": "other",
    "length": 28,
    "sensitivity": 3,
    "mu": 0.25,
    "delta": 1e-6,
    "share": Fraction(1, 2),
    "most": 9_999,
    "basis": bytes(32),
}


def test_every_parameter_is_in_the_hash():
    assert OTHERS.keys() == {field.name for field in fields(RoundParameters)}
    base = parameters(length=21)
    digests = {replace(base, **{name: value}).digest for name, value in OTHERS.items()}
    assert len(digests | {base.digest}) == len(OTHERS) + 1
    assert RoundParameters.from_encoded(base.encoded()) == base


def test_parameters_with_another_sigma_than_follows_are_refused():
    base = parameters()
    forged = base.encoded().replace(encode(base.sigma), encode(base.sigma / 2))
    assert forged != base.encoded()
    with pytest.raises(Refusal, match="follow"):
        RoundParameters.from_encoded(forged)


@pytest.mark.parametrize(
    "change",
    [
        {"round": -1}, {"round": True}, {"length": 0}, {"sensitivity": 0}, {"sensitivity": 2**32},
        {"mu": float("nan")}, {"mu": float("inf")}, {"mu": 0.0}, {"delta": 0.0}, {"most": 0},
        {"share": Fraction(0)}, {"share": 0.5}, {"share": Fraction(3, 2)}, {"basis": b"short"},
        {"most": 2**40, "sensitivity": 2**24}, {"most": 2**33},
        {"mu": 1e-9},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(change):
    with pytest.raises(InputError):
        parameters(**change)


def test_the_modulus_holds_everyone_and_the_noise():
    many = parameters(most=2**32)
    assert 2 * (many.most * many.sensitivity + 80 * many.sigma) < Q
    assert parameters(sensitivity=2**31).proofs.bound == 2**31


def test_the_rounds_of_a_task_cost_no_more_than_the_task():
    shares = [Fraction(7, 100), Fraction(18, 100), Fraction(75, 100)]
    squares = [parameters(share=share).round_mu ** 2 for share in shares]
    assert sum(squares) <= 0.5**2
    assert parameters(share=shares[0]).guarantee().mu == parameters(share=shares[0]).round_mu
