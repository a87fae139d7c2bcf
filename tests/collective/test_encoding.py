"""Messages and parameters have one encoding each, and different ones never look the same."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicrec.collective.encoding import byte_fields, decode, encode
from epicrec.collective.refusals import Refusal
from epicrec.collective.task import Parameters
from epicrec.errors import InputError
from rounds_of import parameters

FIELDS = st.lists(
    st.one_of(st.text(), st.binary(), st.integers(), st.fractions(), st.floats(allow_nan=False)),
    max_size=5,
)


@given(FIELDS)
def test_what_was_encoded_is_read_back(values):
    assert decode(encode(*values)) == values
    assert [type(value) for value in decode(encode(*values))] == [type(value) for value in values]


@given(FIELDS, FIELDS)
def test_different_fields_never_look_the_same(one, other):
    alike = repr(one) == repr(other)  # 0.0 and -0.0 differ, as they do in bytes
    assert (encode(*one) == encode(*other)) == alike


@given(st.binary(max_size=60))
def test_bytes_that_nobody_encoded_are_refused(data):
    try:
        values = decode(data)
    except Refusal:
        return
    assert encode(*values) == data


@pytest.mark.parametrize(
    "data", [b"i" + (2).to_bytes(8, "big") + b"07", b"q" + (3).to_bytes(8, "big") + b"1/0", b"s"]
)
def test_another_encoding_of_the_same_is_refused(data):
    with pytest.raises(Refusal, match="message"):
        decode(data)


def test_a_message_has_as_many_fields_as_it_should():
    assert byte_fields(encode(b"a", b"b"), 2) == [b"a", b"b"]
    for wrong in (encode(b"a"), encode(b"a", "b"), encode(b"a", b"b", b"c")):
        with pytest.raises(Refusal):
            byte_fields(wrong, 2)


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
    assert OTHERS.keys() == {field.name for field in fields(Parameters)}
    base = parameters(length=21)
    digests = {replace(base, **{name: value}).digest for name, value in OTHERS.items()}
    assert len(digests | {base.digest}) == len(OTHERS) + 1
    assert Parameters.from_encoded(base.encoded()) == base


def test_parameters_with_another_sigma_than_follows_are_refused():
    base = parameters()
    forged = base.encoded().replace(encode(base.sigma), encode(base.sigma / 2))
    assert forged != base.encoded()
    with pytest.raises(Refusal, match="follow"):
        Parameters.from_encoded(forged)


@pytest.mark.parametrize(
    "change",
    [
        {"round": -1}, {"round": True}, {"length": 0}, {"sensitivity": 0}, {"sensitivity": 2**41},
        {"mu": float("nan")}, {"mu": float("inf")}, {"mu": 0.0}, {"delta": 0.0}, {"most": 0},
        {"share": Fraction(0)}, {"share": 0.5}, {"share": Fraction(3, 2)}, {"basis": b"short"},
        {"most": 2**40, "sensitivity": 2**24},
        {"mu": 1e-9},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(change):
    with pytest.raises(InputError):
        parameters(**change)


def test_the_modulus_holds_everyone_and_the_noise():
    few = parameters(sensitivity=1000, most=2_000_000)
    assert few.bits == 32
    assert few.most * few.sensitivity + 80 * few.sigma < 2**31
    assert parameters(sensitivity=1000, most=2_200_000).bits == 64
    assert parameters(most=2**38).bits == 64


def test_the_rounds_of_a_task_cost_no_more_than_the_task():
    shares = [Fraction(7, 100), Fraction(18, 100), Fraction(75, 100)]
    squares = [parameters(share=share).round_mu ** 2 for share in shares]
    assert sum(squares) <= 0.5**2
    assert parameters(share=shares[0]).guarantee().mu == parameters(share=shares[0]).round_mu
