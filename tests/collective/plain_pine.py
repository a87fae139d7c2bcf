"""PINE in plain integers, slow and obvious: the oracle for `epicrec.collective.proofs`.

Written from draft-chen-cfrg-vdaf-pine-01 and draft-irtf-cfrg-vdaf, with lists and loops. Nothing
of the package is used.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from math import ceil

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

Q = 2**64 - 2**32 + 1


def xof(seed, usage, binder):
    """Bytes without end: AES-128 of a counter of 64 bits, with a key from HMAC-SHA256."""
    tag = b"\x01" + b"\xff\xff\x10\x04" + usage.to_bytes(2, "big")
    found = hmac.new(seed, bytes([len(tag)]) + tag + binder, hashlib.sha256).digest()
    cipher = Cipher(AES(found[:16]), ECB()).encryptor()
    counter = int.from_bytes(found[24:], "big")
    while True:
        yield from cipher.update(found[16:24] + counter.to_bytes(8, "big"))
        counter = (counter + 1) % 2**64


def take(stream, count):
    return bytes(next(stream) for _ in range(count))


def elements(seed, usage, binder, count):
    stream, found = xof(seed, usage, binder), []
    while len(found) < count:
        word = int.from_bytes(take(stream, 8), "little")
        if word < Q:
            found.append(word)
    return found


def packed(values):
    return b"".join(value.to_bytes(8, "little") for value in values)


def bits_of(value, count):
    return [value >> i & 1 for i in range(count)]


def number(bits):
    return sum(bit << i for i, bit in enumerate(bits)) % Q


def over(values, width):
    return [values[at : at + width] for at in range(0, len(values), width)]


def roots(size):
    root = pow(pow(7, 2**32 - 1, Q), 2**32 // size, Q)
    return [pow(root, k, Q) for k in range(size)]


def horner(coefficients, at):
    found = 0
    for one in reversed(coefficients):
        found = (found * at + one) % Q
    return found


def interpolated(values, at):
    """The polynomial with these values at the roots of unity, at a point that is none of them."""
    size = len(values)
    scale = (pow(at, size, Q) - 1) * pow(size, -1, Q)
    weights = (root * pow(at - root, -1, Q) for root in roots(size))
    return sum(scale * weight * value for weight, value in zip(weights, values, strict=True)) % Q


def coefficients(values):
    """Of the polynomial with these values at the roots of unity."""
    size, points = len(values), roots(len(values))
    scale = pow(size, -1, Q)
    return [
        sum(value * points[-i * k % size] for k, value in enumerate(values)) * scale % Q
        for i in range(size)
    ]


def squares(wires):
    return sum(one * one for one in wires) % Q


def products(wires):
    return sum(one * other for one, other in over(wires, 2)) % Q


@dataclass(frozen=True)
class PlainPine:
    length: int
    bound: int
    width: int
    norm_width: int
    proofs: int = 2
    norm_proofs: int = 1
    tests: int = 100
    passes: int = 100

    @property
    def reach(self):
        least, found = ceil(8.7 * self.bound) + 1, 1
        while found < least:
            found *= 2
        return found

    @property
    def norm_bits(self):
        return (self.bound**2).bit_length()

    @property
    def test_bits(self):
        return (2 * self.reach - 1).bit_length()

    @property
    def bits(self):
        return 2 * self.norm_bits + self.tests * (self.test_bits + 1)

    # ---- circuits: the inputs of every call of the gadget, and the output by its answers ----

    def norm_calls(self, vector):
        calls = over(vector, self.norm_width)
        return [call + [0] * (self.norm_width - len(call)) for call in calls]

    def norm_output(self, bits, answers):
        return (number(bits[: self.norm_bits]) - sum(answers)) % Q

    def rest_calls(self, bits, results, joint, shares):
        part = pow(shares, -1, Q)
        by_bits, by_tests = [], []
        for i, bit in enumerate(bits):
            by_bits += [pow(joint[0], i, Q) * bit % Q, (bit - part) % Q]
        for i, tested in enumerate(over(bits[2 * self.norm_bits :], self.test_bits + 1)):
            claimed = number(tested[:-1]) - (self.reach - 1) * part
            by_tests += [pow(joint[1], i, Q) * (results[i] - claimed) % Q, tested[-1]]
        calls = over(by_bits, 2 * self.width) + over(by_tests, 2 * self.width)
        return [call + [0] * (2 * self.width - len(call)) for call in calls]

    def rest_output(self, bits, answers, joint, shares):
        part, size = pow(shares, -1, Q), self.norm_bits
        many = len(over(bits, self.width))
        inside = number(bits[:size]) + number(bits[size : 2 * size]) - self.bound**2 * part
        successes = sum(t[-1] for t in over(bits[2 * size :], self.test_bits + 1))
        checks = sum(answers[:many]), inside, sum(answers[many:]), successes - self.passes * part
        return sum(pow(joint[2], i, Q) * check for i, check in enumerate(checks)) % Q

    # ---- fully linear proofs -----------------------------------------------------------------

    def prove(self, calls, seeds, gadget):
        size = 1 << len(calls).bit_length()
        rows = [seeds, *calls] + [[0] * len(seeds)] * (size - 1 - len(calls))
        wires = list(zip(*rows, strict=True))
        between = [[interpolated(wire, at) for wire in wires] for at in roots(2 * size)[1::2]]
        values = [gadget(row) for pair in zip(rows, between, strict=True) for row in pair]
        found = coefficients(values)
        assert found[-1] == 0
        return list(seeds) + found[:-1]

    def query(self, calls, proof, at, output):
        size, wide = 1 << len(calls).bit_length(), len(calls[0])
        assert pow(at, size, Q) != 1
        rows = [proof[:wide], *calls] + [[0] * wide] * (size - 1 - len(calls))
        answers = [horner(proof[wide:], root) for root in roots(size)[1 : len(calls) + 1]]
        wires = [interpolated(wire, at) for wire in zip(*rows, strict=True)]
        return [output(answers), *wires, horner(proof[wide:], at)]

    def lengths(self):
        """Of the proofs and verifiers of both circuits, with how many of each there are."""
        for count, width, calls in (
            (self.norm_proofs, self.norm_width, ceil(self.length / self.norm_width)),
            (
                self.proofs,
                2 * self.width,
                ceil(self.bits / self.width) + ceil(self.tests / self.width),
            ),
        ):
            size = 1 << calls.bit_length()
            yield count, width, width + 2 * size - 1, width + 2

    # ---- randomness --------------------------------------------------------------------------

    def part(self, server, blind, share, nonce, usage):
        return take(xof(blind, usage, bytes([server]) + nonce + packed(share)), 32)

    def results(self, vector, parts):
        stream = xof(take(xof(bytes(32), 9, parts), 32), 8, b"")
        found = []
        for _ in range(self.tests):
            drawn = take(stream, ceil(self.length / 4))
            signs = [(-1, 0, 0, 1)[drawn[i // 4] >> 2 * (i % 4) & 3] for i in range(self.length)]
            found.append(sum(s * x for s, x in zip(signs, vector, strict=True)) % Q)
        return found

    def joints(self, parts):
        seed = take(xof(bytes(32), 6, parts), 32)
        return over(elements(seed, 3, bytes([self.proofs]), 3 * self.proofs), 3)

    def proof_share(self, seed):
        count = sum(many * proof for many, _, proof, _ in self.lengths())
        return elements(seed, 2, bytes([self.norm_proofs, self.proofs, 1]), count)

    # ---- the protocol ------------------------------------------------------------------------

    def shard(self, numbers, nonce, rand):
        seeds = [rand[at : at + 32] for at in range(0, 224, 32)]
        vector = [int(x) % Q for x in numbers]
        square = squares(vector)
        known = vector + bits_of(square, self.norm_bits)
        known += bits_of((self.bound**2 - square) % Q, self.norm_bits)
        theirs = elements(seeds[0], 1, b"\x01", self.length + self.bits)
        ours = [(x - y) % Q for x, y in zip(known, theirs, strict=False)]
        tests = self.part(0, seeds[4], ours, nonce, 10)
        tests += self.part(1, seeds[2], theirs[: len(known)], nonce, 10)
        results, claims, passed = self.results(vector, tests), [], 0
        for result in results:
            shifted = (result + self.reach - 1) % Q
            good = shifted < 2 * self.reach and passed < self.passes
            passed += good
            claims += [*bits_of(shifted, self.test_bits), int(good)]
        whole = known + claims
        ours = [(x - y) % Q for x, y in zip(whole, theirs, strict=True)]
        parts = self.part(0, seeds[5], ours, nonce, 7) + self.part(1, seeds[3], theirs, nonce, 7)
        bits, proof = whole[self.length :], []
        (_, norm_width, _, _), (_, width, _, _) = self.lengths()
        count = self.norm_proofs * norm_width + self.proofs * width
        drawn = elements(seeds[6], 4, bytes([self.norm_proofs, self.proofs]), count)
        for _ in range(self.norm_proofs):
            own, drawn = drawn[:norm_width], drawn[norm_width:]
            proof += self.prove(self.norm_calls(vector), own, squares)
        for joint in self.joints(parts):
            own, drawn = drawn[:width], drawn[width:]
            proof += self.prove(self.rest_calls(bits, results, joint, 1), own, products)
        proof = [(x - y) % Q for x, y in zip(proof, self.proof_share(seeds[1]), strict=True)]
        return tests + parts, packed(ours + proof) + seeds[4] + seeds[5], rand[:128]

    def prepare(self, key, server, nonce, public, share):
        """The verifier's share with both parts, and the vector's share."""
        if server:
            whole = elements(share[:32], 1, b"\x01", self.length + self.bits)
            proof, blinds = self.proof_share(share[32:64]), (share[64:96], share[96:])
        else:
            words = [int.from_bytes(word, "little") for word in over(share[:-64], 8)]
            cut = self.length + self.bits
            whole, proof, blinds = words[:cut], words[cut:], (share[-64:-32], share[-32:])
        vector, bits = whole[: self.length], whole[self.length :]
        known = self.length + 2 * self.norm_bits
        parts = self.part(server, blinds[0], whole[:known], nonce, 10)
        parts += self.part(server, blinds[1], whole, nonce, 7)
        results = self.results(vector, public[:64])
        kinds = bytes([self.norm_proofs, self.proofs])
        points = iter(elements(key, 5, kinds + nonce, self.norm_proofs + self.proofs))
        (_, _, norm_proof, _), (_, _, rest_proof, _) = self.lengths()
        verifier = []
        for _ in range(self.norm_proofs):
            own, proof = proof[:norm_proof], proof[norm_proof:]
            verifier += self.query(
                self.norm_calls(vector), own, next(points), lambda a: self.norm_output(bits, a)
            )
        for joint in self.joints(public[64:]):
            own, proof = proof[:rest_proof], proof[rest_proof:]
            calls = self.rest_calls(bits, results, joint, 2)
            verifier += self.query(
                calls, own, next(points), lambda a, joint=joint: self.rest_output(bits, a, joint, 2)
            )
        assert not proof
        return packed(verifier) + parts, vector

    def accepts(self, one, other):
        words = [over(each, 8) for each in (one, other)]
        verifier = [
            sum(int.from_bytes(word, "little") for word in pair) % Q
            for pair in zip(*words, strict=True)
        ]
        for (count, _, _, size), gadget in zip(self.lengths(), (squares, products), strict=True):
            for _ in range(count):
                own, verifier = verifier[:size], verifier[size:]
                if own[0] or gadget(own[1:-1]) != own[-1]:
                    return False
        assert not verifier
        return True
