"""Messages have one encoding, and different ones never look the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicrec.collective.messages import Refusal, byte_fields, decode, encode

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
