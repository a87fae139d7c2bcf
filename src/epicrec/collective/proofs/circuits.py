"""The two fully linear proofs of PINE (Boneh and others 2019, Theorem 4.3), as in VDAF.

A circuit is linear but for one gadget, a sum of squares or of products, that is called several
times. The proof has the gadget's polynomial; a verifier queries it at a random point, and only
linear functions of the shares are needed. A server's share of a constant is its half.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np

from epicrec.collective.messages import Refusal
from epicrec.collective.proofs.field import (
    Q,
    Words,
    add,
    evaluate,
    gadget_polynomial,
    multiply,
    power,
    roots_of,
    subtract,
    values_at_roots,
    wires_at,
)

_ONE, _ZERO = np.uint64(1), np.uint64(0)

_HALF = pow(2, -1, Q)


@dataclass(frozen=True)
class Gadget:
    """A sum of squares of `width` wires, or of products of their pairs, called `calls` times."""

    width: int
    calls: int
    squares: bool

    @property
    def points(self) -> int:
        """p: a power of two above the number of calls."""
        return 1 << self.calls.bit_length()

    @property
    def proof_length(self) -> int:
        return self.width + 2 * self.points - 1

    @property
    def verifier_length(self) -> int:
        """The circuit's output, each wire at the query point, and the gadget there."""
        return self.width + 2

    def prove(self, wires: Words, seeds: Words) -> Words:
        """The wires' seeds and the gadget's polynomial."""
        wires[0] = seeds
        size = self.points
        tables = [roots_of(n, inverse=i) for n in (size, 2 * size) for i in (False, True)]
        return np.concatenate([seeds, gadget_polynomial(wires, self.squares, *tables)])

    def outputs(self, proof: Words) -> Words:
        """What the proof says that each call gives."""
        values = values_at_roots(proof[self.width :], roots_of(self.points))
        return np.asarray(values[1 : self.calls + 1])

    def query(self, wires: Words, proof: Words, output: int, at: np.uint64) -> Words:
        """A share of the verifier; refused where the query point would show a wire."""
        if power(at, np.uint64(self.points)) == 1:
            raise Refusal("reportRejected", "the query point is in the proof's domain")
        wires[0] = proof[: self.width]
        found = np.empty(self.verifier_length, np.uint64)
        found[0], found[-1] = output, evaluate(proof[self.width :], at)
        found[1:-1] = wires_at(wires, roots_of(self.points), at)
        return found

    def decide(self, verifier: Words) -> bool:
        """Whether the circuit gave zero, and the gadget's polynomial is that of its wires."""
        wires = [int(each) for each in verifier[1:-1]]
        pairs = zip(wires, wires, strict=True)
        if not self.squares:
            pairs = zip(wires[::2], wires[1::2], strict=True)
        right = sum(one * other for one, other in pairs) % Q == int(verifier[-1])
        return right and not verifier[0]


@dataclass(frozen=True)
class Checks:
    """What is checked of a vector x of integers with a norm of at most Δ (`bound`).

    `norm`: that Σ x² is v, as claimed in bits. `rest`: that these are bits, that v + u = Δ², and
    that of `tests` dot products with random signs, `passes` are within W, by bits again.
    """

    length: int
    bound: int
    width: int
    norm_width: int
    tests: int
    passes: int

    @cached_property
    def reach(self) -> int:
        """W: a dot product with random signs is beyond it with a chance of 2⁻¹⁰⁸ at most."""
        return 1 << (-(-87 * self.bound // 10)).bit_length()

    @property
    def norm_bits(self) -> int:
        return (self.bound**2).bit_length()

    @property
    def test_bits(self) -> int:
        return (2 * self.reach - 1).bit_length()

    @property
    def bits(self) -> int:
        return 2 * self.norm_bits + (self.test_bits + 1) * self.tests

    @cached_property
    def norm(self) -> Gadget:
        return Gadget(self.norm_width, -(-self.length // self.norm_width), squares=True)

    @cached_property
    def rest(self) -> Gadget:
        calls = self._bit_calls + -(-self.tests // self.width)
        return Gadget(2 * self.width, calls, squares=False)

    @property
    def _bit_calls(self) -> int:
        return -(-self.bits // self.width)

    def prove_norm(self, vector: Words, seeds: Words) -> Words:
        return self.norm.prove(self._norm_wires(vector), seeds)

    def prove_rest(self, bits: Words, results: Words, joint: Words, seeds: Words) -> Words:
        return self.rest.prove(self._rest_wires(bits, results, joint, 1), seeds)

    def query_norm(self, vector: Words, bits: Words, proof: Words, at: np.uint64) -> Words:
        output = (_number(bits[: self.norm_bits]) - _sum(self.norm.outputs(proof))) % Q
        return self.norm.query(self._norm_wires(vector), proof, output, at)

    def query_rest(
        self, bits: Words, results: Words, proof: Words, joint: Words, at: np.uint64
    ) -> Words:
        given, size = self.rest.outputs(proof), self.norm_bits
        success = bits[2 * size :].reshape(self.tests, -1)[:, -1]
        parts = (
            _sum(given[: self._bit_calls]),
            _number(bits[:size]) + _number(bits[size : 2 * size]) - self.bound**2 * _HALF,
            _sum(given[self._bit_calls :]),
            _sum(success.copy()) - self.passes * _HALF,
        )
        output = sum(part * int(joint[2]) ** i for i, part in enumerate(parts)) % Q
        return self.rest.query(self._rest_wires(bits, results, joint, _HALF), proof, output, at)

    def _norm_wires(self, vector: Words) -> Words:
        wires = np.zeros((self.norm.points, self.norm.width), np.uint64)
        wires[1:].reshape(-1)[: self.length] = vector
        return wires

    def _rest_wires(self, bits: Words, results: Words, joint: Words, one: int) -> Words:
        """Pairs rⁱ·b and b - 1 of each bit b, then rⁱ·(result - claimed result) and the success."""
        wires = np.zeros((self.rest.points, self.rest.width), np.uint64)
        tested = bits[2 * self.norm_bits :].reshape(self.tests, -1)
        shift = np.uint64((self.reach - 1) * one % Q)
        _bit_pairs(bits, joint[0], np.uint64(one), wires[1:].reshape(-1))
        _test_pairs(tested, results, joint[1], shift, wires[1 + self._bit_calls :].reshape(-1))
        return wires


@numba.njit(nogil=True, cache=True)
def _number(bits: Words) -> Any:
    """The number that these bits are, the lowest first."""
    found = _ZERO
    for i in range(bits.size - 1, -1, -1):
        found = add(add(found, found), bits[i])
    return found


@numba.njit(nogil=True, cache=True)
def _sum(values: Words) -> Any:
    found = _ZERO
    for value in values:
        found = add(found, value)
    return found


@numba.njit(nogil=True, cache=True)
def _bit_pairs(bits: Words, point: np.uint64, one: np.uint64, out: Words) -> None:
    factor = _ONE
    for i in range(bits.size):
        out[2 * i], out[2 * i + 1] = multiply(factor, bits[i]), subtract(bits[i], one)
        factor = multiply(factor, point)


@numba.njit(nogil=True, cache=True)
def _test_pairs(
    tested: Words, results: Words, point: np.uint64, shift: np.uint64, out: Words
) -> None:
    factor = _ONE
    for i in range(results.size):
        claimed = subtract(_number(tested[i, :-1]), shift)
        out[2 * i] = multiply(factor, subtract(results[i], claimed))
        out[2 * i + 1] = tested[i, -1]
        factor = multiply(factor, point)
