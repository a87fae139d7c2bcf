"""PINE: a report's shares with their proof, and how two servers check it together.

The leader's share is as long as the vector, the helper's is four seeds. Both servers derive the
same query points from a key that devices do not know. Names in comments are those of the draft.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from epicrec.arrays import Integers
from epicrec.collective.messages import Refusal
from epicrec.collective.proofs.circuits import Checks
from epicrec.collective.proofs.field import Q, Words, add_into, difference, gadget, signed_sums
from epicrec.errors import InputError

SEED, NONCE = 32, 16
RANDOM = 7 * SEED
"""How many random bytes a report takes."""
PUBLIC = 4 * SEED
"""A public share: the parts of both servers in the randomness of both proofs."""
HELPER = 4 * SEED
LEADER_ID, HELPER_ID = 0, 1

TESTS = 100
PROOFS, NORM_PROOFS = 2, 1
"""The circuit with joint randomness is proved twice, as a device could try until one proof of a
false statement passes; the other is queried with the servers' secret key alone."""
_LARGEST_TEST = 4000
_LEAST_ROOM = 2600
_VERSION, _ALGORITHM = 1, 0xFFFF1004
# usages of the XOF
_VECTOR, _PROOF, _JOINT, _PROVE, _QUERY, _JOINT_SEED, _JOINT_PART = range(1, 8)
_TEST_JOINT, _TEST_SEED, _TEST_PART = 8, 9, 10


class Stream:
    """The XOF: HMAC-SHA256 gives a key and a counter, AES-128 in counter mode the bytes.

    The counter has 128 bits here and 64 in the draft: another stream with a chance of 2⁻⁴⁶.
    """

    def __init__(self, seed: bytes, usage: int, *binder: bytes) -> None:
        tag = bytes([_VERSION]) + _ALGORITHM.to_bytes(4, "big") + usage.to_bytes(2, "big")
        hashed = hmac.new(seed, bytes([len(tag)]) + tag, "sha256")
        for part in binder:
            hashed.update(part)
        found = hashed.digest()
        self._cipher = Cipher(AES(found[:16]), CTR(found[16:])).encryptor()

    def next(self, count: int) -> bytes:
        return self._cipher.update(bytes(count))

    def elements(self, count: int) -> Words:
        """Uniform elements of the field: words that are not below q are left out."""
        found = np.frombuffer(self.next(8 * count), "<u8")
        while (kept := found[found < Q]).size < count:
            more = np.frombuffer(self.next(8 * (count - kept.size)), "<u8")
            found = np.concatenate([kept, more])
        return kept


@dataclass(frozen=True, eq=False)
class Prepared:
    """One server's part in the check of a report: its share of the verifier, and of the vector."""

    verifier: Words
    parts: tuple[bytes, bytes]
    """Its parts in the randomness of the tests, and of the proofs."""
    vector: Words


@dataclass(frozen=True)
class Pine:
    """Proofs that a vector of `length` integers has a norm of at most `bound`."""

    length: int
    bound: int
    width: int
    norm_width: int
    proofs: int = PROOFS
    norm_proofs: int = NORM_PROOFS
    tests: int = TESTS
    passes: int = TESTS

    def __post_init__(self) -> None:
        reach = self.checks.reach
        if not (
            3 * self.bound**2 + 2 < Q and _LEAST_ROOM * reach <= Q and reach**2 <= _LARGEST_TEST * Q
        ):
            raise InputError(f"a norm of {self.bound} is too large to prove: use a coarser grid")

    @classmethod
    @cache
    def of(cls, length: int, bound: int) -> Self:
        """With gadgets as wide as makes proof and verifier shortest."""
        bits = Checks(1, bound, 1, 1, TESTS, TESTS).bits + TESTS
        return min(
            (
                cls(length, bound, width, norm)
                for width in _widths(bits)
                for norm in _widths(length)
            ),
            key=lambda one: one.proof_entries + one.verifier_entries,
        )

    @cached_property
    def checks(self) -> Checks:
        return Checks(self.length, self.bound, self.width, self.norm_width, self.tests, self.passes)

    @property
    def entries(self) -> int:
        """How many elements a share of the vector with its bits has."""
        return self.length + self.checks.bits

    @property
    def proof_entries(self) -> int:
        norm, rest = self.checks.norm.proof_length, self.checks.rest.proof_length
        return self.norm_proofs * norm + self.proofs * rest

    @property
    def verifier_entries(self) -> int:
        norm, rest = self.checks.norm.verifier_length, self.checks.rest.verifier_length
        return self.norm_proofs * norm + self.proofs * rest

    @property
    def leader_size(self) -> int:
        """How many bytes a leader's share has."""
        return 8 * (self.entries + self.proof_entries) + 2 * SEED

    # ---- the device -----------------------------------------------------------------------

    def shard(self, numbers: Integers, nonce: bytes, rand: bytes) -> tuple[bytes, bytes, bytes]:
        """A vector's public share, the leader's share and the helper's.

        A vector that is too long gets shares, too, which are then refused. So is an honest one
        with a chance of 2⁻¹⁰¹: where a dot product with random signs is beyond what was proved.
        """
        helper = rand[:HELPER]
        seeds = _seeds(helper)
        blinds, prove = _seeds(rand[HELPER : HELPER + 2 * SEED]), rand[HELPER + 2 * SEED :]
        vector = in_field(numbers)
        theirs = Stream(seeds[0], _VECTOR, bytes([HELPER_ID])).elements(self.entries)
        claimed = self._norm_claim(vector)
        known = self.length + len(claimed)
        ours = difference(np.concatenate([vector, claimed]), theirs[:known])
        tests = (
            _part(LEADER_ID, blinds[0], ours, nonce, _TEST_PART),
            _part(HELPER_ID, seeds[2], theirs[:known], nonce, _TEST_PART),
        )
        results = self._results(vector, b"".join(tests))
        tested = self._test_claims(results)
        ours = np.concatenate([ours, difference(tested, theirs[known:])])
        proofs = (
            _part(LEADER_ID, blinds[1], ours, nonce, _JOINT_PART),
            _part(HELPER_ID, seeds[3], theirs, nonce, _JOINT_PART),
        )
        bits = np.concatenate([claimed, tested])
        proof = self._proof(vector, bits, results, self._joint(b"".join(proofs)), prove)
        proof = difference(proof, self._proof_share(seeds[1]))
        leader = ours.tobytes() + proof.tobytes() + b"".join(blinds)
        return b"".join(tests + proofs), leader, helper

    def _norm_claim(self, vector: Words) -> Words:
        """The bits of v = Σ x² and of u = Δ² - v."""
        square = np.zeros(1, np.uint64)
        gadget(vector[None], True, square)
        both = np.array([square[0], (self.bound**2 - int(square[0])) % Q], np.uint64)
        return _bits(both, self.checks.norm_bits).reshape(-1)

    def _test_claims(self, results: Words) -> Words:
        """The bits of each result, shifted to be at least 0, and whether it counts."""
        reach = self.checks.reach
        shifted = np.array([(int(one) + reach - 1) % Q for one in results], np.uint64)
        inside = shifted < 2 * reach
        counts = inside & (np.cumsum(inside) <= self.passes)
        found = np.empty((self.tests, self.checks.test_bits + 1), np.uint64)
        found[:, :-1], found[:, -1] = _bits(shifted, self.checks.test_bits), counts
        return found.reshape(-1)

    def _proof(
        self, vector: Words, bits: Words, results: Words, joint: Words, prove: bytes
    ) -> Words:
        norm, rest = self.checks.norm, self.checks.rest
        widths = [norm.width] * self.norm_proofs + [rest.width] * self.proofs
        kinds = bytes([self.norm_proofs, self.proofs])
        seeds = np.split(Stream(prove, _PROVE, kinds).elements(sum(widths)), np.cumsum(widths))
        found = [self.checks.prove_norm(vector, seeds[i]) for i in range(self.norm_proofs)]
        for i, own in enumerate(joint.reshape(self.proofs, 3)):
            seed = seeds[self.norm_proofs + i]
            found.append(self.checks.prove_rest(bits, results, own, seed))
        return np.concatenate(found)

    # ---- a server -------------------------------------------------------------------------

    def prepare(
        self, key: bytes, server: int, nonce: bytes, public: bytes, share: bytes
    ) -> Prepared:
        """A server's part in the check of a report; refused where the report is not whole.

        `key` is the verification key, `server` `LEADER_ID` or `HELPER_ID`.
        """
        whole, proof, blinds = self._expanded(server, share)
        known = self.length + 2 * self.checks.norm_bits
        parts = (
            _part(server, blinds[0], whole[:known], nonce, _TEST_PART),
            _part(server, blinds[1], whole, nonce, _JOINT_PART),
        )
        given = _seeds(public)
        if (given[server], given[2 + server]) != parts:
            raise Refusal("reportRejected", "a share is not the one that its proof was made for")
        vector, bits = whole[: self.length], whole[self.length :]
        results = self._results(vector, public[: 2 * SEED])
        joint = self._joint(public[2 * SEED :])
        kinds = bytes([self.norm_proofs, self.proofs])
        count = self.norm_proofs + self.proofs
        points = iter(Stream(key, _QUERY, kinds, nonce).elements(count))
        norm, rest = self.checks.norm, self.checks.rest
        lengths = [norm.proof_length] * self.norm_proofs + [rest.proof_length] * self.proofs
        proofs = iter(np.split(proof, np.cumsum(lengths)))
        found = [
            self.checks.query_norm(vector, bits, next(proofs), next(points))
            for _ in range(self.norm_proofs)
        ]
        for own in joint.reshape(self.proofs, 3):
            found.append(self.checks.query_rest(bits, results, next(proofs), own, next(points)))
        return Prepared(np.concatenate(found), parts, vector)

    def accepts(self, one: Words, other: Words) -> bool:
        """Whether both servers' shares of the verifier say that the vector is short enough."""
        if one.size != self.verifier_entries:
            return False
        verifier = one.copy()
        add_into(verifier, other)
        norm, rest = self.checks.norm, self.checks.rest
        gadgets = [norm] * self.norm_proofs + [rest] * self.proofs
        at = np.cumsum([gadget.verifier_length for gadget in gadgets])[:-1]
        parts = np.split(verifier, at)
        return all(gadget.decide(part) for gadget, part in zip(gadgets, parts, strict=True))

    def vector(self, server: int, share: bytes) -> Words:
        """A server's share of the vector alone, of a report that was accepted."""
        if server == HELPER_ID:
            return Stream(share[:SEED], _VECTOR, bytes([server])).elements(self.length)
        return np.frombuffer(share, "<u8", self.length)

    def _expanded(self, server: int, share: bytes) -> tuple[Words, Words, list[bytes]]:
        if len(share) != (HELPER if server == HELPER_ID else self.leader_size):
            raise Refusal("reportRejected", "a share is not as long as the round's vectors")
        if server == HELPER_ID:
            seeds = _seeds(share)
            whole = Stream(seeds[0], _VECTOR, bytes([server])).elements(self.entries)
            return whole, self._proof_share(seeds[1]), seeds[2:]
        words = elements(share[: -2 * SEED])
        return words[: self.entries], words[self.entries :], _seeds(share[-2 * SEED :])

    def _proof_share(self, seed: bytes) -> Words:
        kinds = bytes([self.norm_proofs, self.proofs, HELPER_ID])
        return Stream(seed, _PROOF, kinds).elements(self.proof_entries)

    def _results(self, vector: Words, parts: bytes) -> Words:
        """The dot products with the signs that both servers' parts decide."""
        signs = Stream(_derived(parts, _TEST_SEED), _TEST_JOINT)
        drawn = np.frombuffer(signs.next(self.tests * -(-self.length // 4)), np.uint8)
        return np.asarray(signed_sums(vector, drawn, self.tests))

    def _joint(self, parts: bytes) -> Words:
        """The joint randomness of the proofs, three elements for each."""
        stream = Stream(_derived(parts, _JOINT_SEED), _JOINT, bytes([self.proofs]))
        return stream.elements(3 * self.proofs)


def in_field(numbers: Integers) -> Words:
    """Integers from -q/2 to q/2 as elements of the field."""
    return np.where(numbers < 0, numbers + np.int64(Q - (1 << 64)), numbers).view(np.uint64)


def elements(encoded: bytes) -> Words:
    """Elements of the field as they are sent; a word that is none is refused."""
    found = np.frombuffer(encoded, "<u8") if len(encoded) % 8 == 0 else np.zeros(0, np.uint64)
    if 8 * found.size != len(encoded) or (found >= Q).any():
        raise Refusal("reportRejected", "a share has words that are no elements of the field")
    return found


def _widths(inputs: int) -> list[int]:
    """Widths of gadgets that need few calls more than a power of two."""
    return [-(-inputs // (1 << calls)) + more for calls in range(16) for more in (1, 2)]


def _bits(values: Words, count: int) -> Words:
    """The lowest bits of each value, lowest first."""
    return (values[:, None] >> np.arange(count, dtype=np.uint64)) & np.uint64(1)


def _seeds(joined: bytes) -> list[bytes]:
    return [joined[at : at + SEED] for at in range(0, len(joined), SEED)]


def _part(server: int, blind: bytes, share: Words, nonce: bytes, usage: int) -> bytes:
    """A server's part in the joint randomness, which its whole share decides."""
    return Stream(blind, usage, bytes([server]) + nonce, share.tobytes()).next(SEED)


def _derived(parts: bytes, usage: int) -> bytes:
    return Stream(bytes(SEED), usage, parts).next(SEED)
