"""Messages as bytes: one encoding, in which different fields never look the same."""

from __future__ import annotations

import struct
from fractions import Fraction

from epicrec.collective.refusals import Refusal

VERSION = "epicrec collective 1"
"""Stands in everything that is signed, hashed or sealed."""

Field = str | bytes | int | float | Fraction


def encode(*fields: Field) -> bytes:
    """Fields as bytes, so that different fields never give the same ones.

    Each has a letter for its kind and its length before it; a float is its eight bytes.
    """
    out = bytearray()
    for field in fields:
        kind, body = _encoded(field)
        out += kind + len(body).to_bytes(8, "big") + body
    return bytes(out)


def decode(encoded: bytes) -> list[Field]:
    """The fields of `encode`; anything that it does not write is refused."""
    fields: list[Field] = []
    rest = memoryview(encoded)
    while rest:
        size = int.from_bytes(rest[1:9], "big")
        body = bytes(rest[9 : 9 + size])
        try:
            if len(rest) < 9 or len(body) < size:
                raise ValueError("it ends early")
            fields.append(_decoded(bytes(rest[:1]), body))
        except (ValueError, ZeroDivisionError, struct.error) as error:
            raise Refusal("invalidMessage", f"a message could not be read: {error}") from error
        rest = rest[9 + size :]
    if encode(*fields) != encoded:  # such as an integer with a leading zero
        raise Refusal("invalidMessage", "a message is not in its one encoding")
    return fields


def _encoded(field: Field) -> tuple[bytes, bytes]:
    if isinstance(field, bytes):
        return b"b", field
    if isinstance(field, str):
        return b"s", field.encode()
    if isinstance(field, float):
        return b"f", struct.pack(">d", field)
    if isinstance(field, Fraction):
        return b"q", f"{field.numerator}/{field.denominator}".encode()
    return b"i", str(field).encode()


def _decoded(kind: bytes, body: bytes) -> Field:
    if kind == b"b":
        return body
    if kind == b"f":
        return float(struct.unpack(">d", body)[0])
    text = body.decode()
    if kind in b"iq" and len(text) > 100:
        raise ValueError("a number is too long")
    if kind == b"s":
        return text
    if kind == b"i":
        return int(text)
    if kind == b"q":
        return Fraction(text)
    raise ValueError(f"there is no kind {kind!r}")


def byte_fields(encoded: bytes, count: int | None = None) -> list[bytes]:
    """The fields of a message, so many where that is fixed, all of them bytes."""
    fields = decode(encoded)
    found = [field for field in fields if isinstance(field, bytes)]
    if len(found) != len(fields) or count not in (None, len(fields)):
        raise Refusal("invalidMessage", f"a message has {len(fields)} fields and not {count}")
    return found
