"""Messages as bytes: one encoding, in which different fields never look the same; and refusals.

Everything that devices and servers send, sign, hash or seal is in this encoding. What the protocol
does not allow is answered with a `Refusal`.
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Literal

from epicrec.errors import EpicrecError

VERSION = "epicrec collective 2"
"""Part of everything that is signed, hashed or sealed."""

Field = str | bytes | int | float | Fraction

Kind = Literal[
    "invalidMessage",  # it cannot be read, or a signature or hash in it is wrong
    "unrecognizedTask",  # no such task or round here, or its key is gone
    "outdatedConfig",  # parameters or keys are not those of the round
    "reportRejected",  # this report cannot be taken, now or ever
    "reportTooLate",  # the round takes no more reports
    "batchInvalid",  # a list of reports that is no set, too short or too long
    "batchQueriedMultipleTimes",  # this was asked before about other reports
    "stepMismatch",  # this comes before or after its turn
    "unauthorizedRequest",
]
"""Kinds of refusal, by the names of IETF's DAP draft where it has one."""

PROBLEM = "urn:ietf:params:ppm:dap:error:"
"""Prefix of a kind in the type of a problem document."""


class Refusal(EpicrecError):
    """A request that the protocol does not allow; `kind` says which rule it breaks."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


def encode(*fields: Field) -> bytes:
    """Fields as bytes, so that different fields never give the same ones.

    Each is preceded by a letter for its kind and by its length; a float is its eight bytes.
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
    """The fields of a message, all of them bytes, and `count` of them where that is given."""
    fields = decode(encoded)
    found = [field for field in fields if isinstance(field, bytes)]
    if len(found) != len(fields) or count not in (None, len(fields)):
        raise Refusal("invalidMessage", f"a message has {len(fields)} fields and not {count}")
    return found


def round_fields(message: bytes, count: int | None = None) -> tuple[str, int, list[bytes]]:
    """The task, the round and the byte fields of a message between the servers."""
    match decode(message):
        case [str() as task, int() as number, *rest] if all(isinstance(f, bytes) for f in rest):
            fields = [field for field in rest if isinstance(field, bytes)]
        case _:
            raise Refusal("invalidMessage", "a message names a task and a round, then has bytes")
    if count is not None and len(fields) != count:
        raise Refusal("invalidMessage", f"a message has {len(fields)} fields and not {count}")
    return task, number, fields
