"""Proofs of norm: the bytes of the draft's vectors and of the plain twin, and lies refused."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collective.plain_pine import PlainPine, elements
from epicrec.collective.messages import Refusal
from epicrec.collective.proofs import pine as module
from epicrec.collective.proofs.circuits import Gadget
from epicrec.collective.proofs.field import Q, add, multiply, roots_of, signed_sums, subtract
from epicrec.collective.proofs.pine import HELPER_ID, LEADER_ID, PUBLIC, RANDOM, SEED, Pine, Stream
from epicrec.errors import InputError

LENGTH, BOUND = 50, 1 << 20
KEY, NONCE = bytes(range(32)), bytes(range(16))
WORDS = st.one_of(st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, Q - 1]), st.integers(0, Q - 1))


def unit(length=LENGTH, bound=BOUND, seed=0):
    """Integers in all directions, of a norm just within the bound."""
    direction = np.random.default_rng(seed).normal(size=length)
    return np.trunc(direction / np.linalg.norm(direction) * (bound - length)).astype(np.int64)


def shares(pine, vector, seed=0, nonce=NONCE):
    return pine.shard(vector, nonce, random.Random(seed).randbytes(RANDOM))


def accepted(pine, public, leader, helper, nonce=NONCE, keys=(KEY, KEY)):
    """Whether both servers, with these shares, accept the report."""
    try:
        one = pine.prepare(keys[0], LEADER_ID, nonce, public, leader)
        other = pine.prepare(keys[1], HELPER_ID, nonce, public, helper)
    except Refusal:
        return False
    return pine.accepts(one.verifier, other.verifier)


# ---- the same bytes ---------------------------------------------------------------------------


@pytest.mark.realdata
@pytest.mark.parametrize("number", range(8))
def test_the_vectors_of_the_draft_byte_for_byte(real_data, number):
    file = real_data / "pine" / f"Pine64HmacSha256Aes128_{number}.json"
    if not file.exists():
        pytest.skip("needs the draft's test vectors")
    told = json.loads(file.read_text())
    sizes = (told["dimension"], told["l2_norm_bound"], told["chunk_length"],
             told["chunk_length_norm_equality"], told["proofs"], told["proofs_norm_equality"],
             told["num_wr_checks"], told["num_wr_successes"])  # fmt: skip
    key = bytes.fromhex(told["verify_key"])
    for pine in (Pine(*sizes), PlainPine(*sizes)):
        for one in told["prep"]:
            whole = [round(x * 2 ** told["num_frac_bits"]) for x in one["measurement"]]
            nonce = bytes.fromhex(one["nonce"])
            vector = np.array(whole, np.int64)
            public, *both = pine.shard(vector, nonce, bytes.fromhex(one["rand"]))
            assert public.hex() == one["public_share"]
            assert [share.hex() for share in both] == one["input_shares"]
            for server, share in enumerate(both):
                found, own = prepared(pine, key, server, nonce, public, share)
                assert found.hex() == one["prep_shares"][0][server]
                assert [int(x).to_bytes(8, "little").hex() for x in own] == one["out_shares"][
                    server
                ]


def prepared(pine, key, server, nonce, public, share):
    found = pine.prepare(key, server, nonce, public, share)
    if isinstance(pine, PlainPine):
        return found
    return found.verifier.tobytes() + b"".join(found.parts), found.vector


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 24, 2), (7, 3, 60, 3, 1), (20, 999, 150, 5, 2, 2), (33, 1000, 50, 4, 3, 1, 60, 40)],
)
def test_the_same_bytes_as_the_plain_twin(sizes):
    """Also for vectors that are too long: what is refused is refused alike."""
    pine, plain = Pine(*sizes), PlainPine(*sizes)
    drawn = random.Random(str(sizes))
    for vector in (unit(sizes[0], sizes[1] + sizes[0]), np.full(sizes[0], -(2**40))):
        rand, nonce = drawn.randbytes(RANDOM), drawn.randbytes(16)
        public, *both = pine.shard(vector, nonce, rand)
        assert (public, *both) == plain.shard(vector, nonce, rand)
        verifiers = []
        for server, share in enumerate(both):
            found = prepared(pine, KEY, server, nonce, public, share)
            expected = prepared(plain, KEY, server, nonce, public, share)
            assert found[0] == expected[0]
            assert found[1].tolist() == expected[1]
            assert pine.vector(server, share).tolist() == expected[1]
            verifiers.append(found[0][: -2 * SEED])
        words = (np.frombuffer(one, np.uint64) for one in verifiers)
        assert pine.accepts(*words) == plain.accepts(*verifiers)


def test_a_word_that_is_no_element_is_left_out_of_a_stream():
    """The first seed whose stream has one, by a search: one word in 2³² is."""
    seed, rare = (5051).to_bytes(SEED, "big"), 16830
    word = np.frombuffer(Stream(seed, 1, b"\x01").next(8 * rare + 8), np.uint64)[rare]
    assert int(word) >= Q
    for count in (rare, rare + 1, rare + 2):
        assert Stream(seed, 1, b"\x01").elements(count).tolist() == elements(
            seed, 1, b"\x01", count
        )


@given(WORDS, WORDS)
def test_arithmetic_modulo_q(one, other):
    a, b = np.uint64(one), np.uint64(other)
    assert int(add(a, b)) == (one + other) % Q
    assert int(subtract(a, b)) == (one - other) % Q
    assert int(multiply(a, b)) == one * other % Q


def test_dot_products_whose_carries_are_many():
    vector = np.full(1001, Q - 1, np.uint64)
    signs = np.full((3, 251), 0xFF, np.uint8)
    signs[1], signs[2] = 0x00, 0x66
    assert [int(one) for one in signed_sums(vector, signs.reshape(-1), 3)] == [Q - 1001, 1001, 0]


# ---- honest reports ---------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 50, 1000])
@pytest.mark.parametrize("bound", [1, 255, 5 << 24, 1_082_127_360])
def test_honest_reports_are_accepted_and_add_up(length, bound):
    pine = Pine.of(length, bound)
    edge = np.zeros(length, np.int64)
    edge[-1] = -bound
    for seed, vector in enumerate((edge, -edge, 0 * edge, unit(length, bound + length))):
        public, *both = shares(pine, vector, seed)
        assert accepted(pine, public, *both)
        own = [pine.vector(server, share) for server, share in enumerate(both)]
        assert [(int(a) + int(b)) % Q for a, b in zip(*own, strict=True)] == [
            int(x) % Q for x in vector
        ]
        assert (len(both[0]), len(both[1])) == (pine.leader_size, module.HELPER)
        assert len(public) == PUBLIC


@pytest.mark.parametrize("count", [500, pytest.param(100_000, marks=pytest.mark.soak)])
def test_honest_reports_are_never_refused(count):
    """Short and spread vectors of the full norm, which come nearest to failing a test."""
    pine, drawn = Pine.of(16, BOUND), random.Random(1)
    for number in range(count):
        vector = unit(16, BOUND + 16, number) if number % 2 else np.full(16, BOUND // 4)
        rand, nonce = drawn.randbytes(RANDOM), drawn.randbytes(16)
        assert accepted(pine, *pine.shard(vector, nonce, rand), nonce)


def test_a_norm_that_the_field_cannot_hold_cannot_be_proved():
    Pine.of(10, 1 << 31)
    with pytest.raises(InputError, match="too large"):
        Pine.of(10, 1 << 32)


# ---- lies -------------------------------------------------------------------------------------


class LyingNorm(Pine):
    """A device that claims the norm it should have."""

    def _norm_claim(self, vector):
        return super()._norm_claim(np.zeros_like(vector))


class LyingTests(Pine):
    """A device that claims dot products as they should be."""

    def _test_claims(self, results):
        return super()._test_claims(np.zeros_like(results))


class Lying(LyingNorm, LyingTests):
    pass


class Fractions(Pine):
    """Claims the norm it should have, in "bits" that are none: v whole in the first of them."""

    def _norm_claim(self, vector):
        found = np.zeros(2 * self.checks.norm_bits, np.uint64)
        square = sum(int(x) ** 2 for x in vector) % Q
        found[0], found[self.checks.norm_bits] = square, (self.bound**2 - square) % Q
        return found


class FewerTests(Pine):
    """Says of tests that it failed that they do not count."""

    def _test_claims(self, results):
        found = super()._test_claims(results).reshape(self.tests, -1)
        found[int(found[:, -1].sum()) :, -1] = 0
        return found.reshape(-1)


def root_of(square):
    """A number whose square is small modulo q (Tonelli and Shanks)."""
    odd, root = (Q - 1) >> 32, pow(7, (Q - 1) >> 32, Q)
    size, power, found = 32, pow(square, odd, Q), pow(square, (odd + 1) // 2, Q)
    while power != 1:
        order, other = 0, power
        while other != 1:
            order, other = order + 1, other * other % Q
        step = pow(root, 1 << (size - order - 1), Q)
        size, root = order, step * step % Q
        power, found = power * root % Q, found * step % Q
    return min(found, Q - found)


def wrapping():
    """One entry of some 2⁶³ whose square, modulo q, is within the bound."""
    square = next(s for s in range(2, 100) if pow(s, (Q - 1) // 2, Q) == 1 and root_of(s) > 2**50)
    vector = np.zeros(LENGTH, np.int64)
    vector[7] = root_of(square)
    assert int(vector[7]) ** 2 % Q == square
    return vector


LONG = {
    "twice as long": 2 * unit(),
    "a little too long": np.eye(1, LENGTH, dtype=np.int64)[0] * (BOUND + 1),
    "one huge entry": np.eye(1, LENGTH, dtype=np.int64)[0] << 61,
    "all huge": np.full(LENGTH, -(1 << 55)),
    "a square that wraps around": wrapping(),
}


@pytest.mark.parametrize("liar", [Pine, Lying, LyingNorm, LyingTests, Fractions, FewerTests])
@pytest.mark.parametrize("name", LONG)
def test_vectors_that_are_too_long_are_refused(name, liar):
    honest = Pine.of(LENGTH, BOUND)
    device = liar(*(getattr(honest, part) for part in Pine.__dataclass_fields__))
    for seed in range(3):
        assert not accepted(honest, *shares(device, LONG[name], seed))
    assert accepted(honest, *shares(device, 0 * unit())) == (liar is not Fractions)


def test_only_the_tests_find_a_square_that_wraps_around():
    """So that each of both checks is seen to be needed."""
    norm_only = replace(Pine.of(LENGTH, BOUND), passes=0)
    assert accepted(norm_only, *shares(norm_only, wrapping()))
    assert not accepted(norm_only, *shares(norm_only, 2 * unit()))


def test_a_proof_is_for_its_vector_its_report_and_its_shares():
    pine = Pine.of(LENGTH, BOUND)
    public, leader, helper = shares(pine, unit(), 1)
    others = shares(pine, 0 * unit(), 2)
    assert accepted(pine, public, leader, helper)
    assert accepted(pine, *others)
    cut = 8 * pine.entries
    for changed in (
        (others[0], leader, helper),
        (public, others[1], helper),
        (public, leader, others[2]),
        (public, others[1], others[2]),
        (public, leader[:cut] + others[1][cut:], helper),
        (public, leader[:cut] + others[1][cut:-64] + leader[-64:], helper),
        (public, leader, helper[:32] + others[2][32:]),
        (public, leader, helper[:32] + others[2][32:64] + helper[64:]),
        (public, leader[:-8], helper),
        (public, helper, leader),
    ):
        assert not accepted(pine, *changed)
    assert not accepted(pine, public, leader, helper, nonce=bytes(16))
    assert not accepted(pine, public, leader, helper, keys=(KEY, bytes(32)))


def test_tampered_randomness_is_refused():
    """Every part of the public share, which decides the tests and the proofs' randomness."""
    pine = Pine.of(LENGTH, BOUND)
    public, leader, helper = shares(pine, unit())
    for part in range(4):
        changed = bytearray(public)
        changed[part * SEED] ^= 1
        assert not accepted(pine, bytes(changed), leader, helper)


def test_a_changed_word_anywhere_in_a_share_is_refused():
    pine = Pine.of(LENGTH, BOUND)
    public, leader, helper = shares(pine, unit())
    words = np.frombuffer(leader[:-64], np.uint64)
    drawn = random.Random(3).sample(range(words.size), 60)
    for at in (*drawn, words.size - 1):
        changed = words.copy()
        changed[at] = (int(changed[at]) + 1) % Q
        assert not accepted(pine, public, changed.tobytes() + leader[-64:], helper)


def test_words_that_are_no_elements_of_the_field_are_refused():
    """Small elements would have two encodings."""
    pine = Pine.of(LENGTH, BOUND)
    public, leader, _ = shares(pine, unit())
    for at in (0, 8 * pine.length, 8 * pine.entries):
        changed = leader[:at] + bytes([255] * 8) + leader[at + 8 :]
        with pytest.raises(Refusal, match="elements"):
            pine.prepare(KEY, LEADER_ID, NONCE, public, changed)
    with pytest.raises(Refusal, match="elements"):
        module.elements(Q.to_bytes(8, "little"))
    with pytest.raises(Refusal, match="elements"):
        module.elements(bytes(7))
    assert module.elements((Q - 1).to_bytes(8, "little")).tolist() == [Q - 1]


def test_a_query_point_in_the_domain_is_refused():
    """There a verifier would show what the gadget was called with."""
    gadget = Gadget(width=3, calls=5, squares=True)
    wires, proof = np.zeros((8, 3), np.uint64), np.zeros(gadget.proof_length, np.uint64)
    for root in roots_of(8):
        with pytest.raises(Refusal, match="domain"):
            gadget.query(wires, proof, 0, np.uint64(root))
    assert gadget.query(wires, proof, 0, np.uint64(5)).size == gadget.verifier_length


def test_two_proofs_where_a_device_could_try_again_and_again():
    assert (Pine.of(LENGTH, BOUND).proofs, Pine.of(LENGTH, BOUND).tests) == (2, 100)
    assert Pine.of(LENGTH, BOUND).passes == 100
