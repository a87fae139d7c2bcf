"""Exact integer noise from a cryptographic generator.

Every word of randomness is OpenSSL's ChaCha20. Each call draws a fresh key from the operating
system, so there is no generator state that a `fork` could copy, and nothing to re-key. (Every word
from `os.urandom` would be as safe, at a thirteenth of the speed; randomgen's ChaCha20 gives the
same words at a tenth of it and holds the GIL.)
With a `seed` the key is a hash of it: the noise is then repeatable and therefore **not private**.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from epicrec.arrays import Integers
from epicrec.errors import InputError
from epicrec.machine import in_threads
from epicrec.privacy._sampler import Envelope, add_draws, envelope, exact_attempt, fixed_point
from epicrec.seeds import checked

Scale = Fraction | int | float
Scales = Scale | Sequence[Scale] | npt.NDArray[Any]

LARGEST_SCALE = 2**44
_LARGEST_VALUE = 2**62
_CHUNK = 1 << 18  # elements with one key: fixes a seed's noise whatever the number of threads
_BATCH = 3 * 4096  # words drawn at once: stay in the cache
_ZEROS = memoryview(bytes(8 * _BATCH))


def discrete_laplace(
    shape: int | tuple[int, ...], scale: Scales, *, seed: int | None = None
) -> Integers:
    """Draw integers with P(k) ∝ exp(-|k|/scale), exactly.

    Added to an integer statistic of L1 sensitivity Δ with scale Δ/ε this is ε-differentially
    private. `scale` is one number or one per element; a float stands for the exact fraction it is.
    """
    return add_discrete_laplace(np.zeros(shape, dtype=np.int64), scale, seed=seed)


def integer_gaussian(
    shape: int | tuple[int, ...], sigma: Scales, *, seed: int | None = None
) -> Integers:
    """Draw N(0, sigma²) rounded to the nearest integer: P(k) = Φ((k+½)/σ) - Φ((k-½)/σ), exactly.

    Added to an integer statistic x of L2 sensitivity Δ this is round(x + N(0, σ²)), a function of
    the Gaussian mechanism's output, and so Δ/σ-Gaussian-DP like it, in any dimension. `sigma` is
    one number or one per element; a float stands for the exact fraction it is.
    """
    return add_integer_gaussian(np.zeros(shape, dtype=np.int64), sigma, seed=seed)


def add_discrete_laplace(array: Integers, scale: Scales, *, seed: int | None = None) -> Integers:
    """Add `discrete_laplace` noise to an int64 array in place, in bounded extra memory."""
    return _add(array, scale, normal=False, seed=seed)


def add_integer_gaussian(array: Integers, sigma: Scales, *, seed: int | None = None) -> Integers:
    """Add `integer_gaussian` noise to an int64 array in place, in bounded extra memory."""
    return _add(array, sigma, normal=True, seed=seed)


def word_stream(root: bytes, chunk: int) -> Callable[[int], npt.NDArray[np.uint64]]:
    """Words of the ChaCha20 key stream with a key for this chunk alone, so the nonce can be 0."""
    key = hashlib.sha256(root + chunk.to_bytes(8, "little")).digest()
    cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def words(count: int) -> npt.NDArray[np.uint64]:
        zeros = _ZEROS[: 8 * count] if count <= _BATCH else bytes(8 * count)
        return np.frombuffer(cipher.update(zeros), dtype="<u8")

    return words


def root_key(seed: int | None, name: str) -> bytes:
    """A fresh key from the operating system or, for experiments, one that the seed decides."""
    if checked(seed) is None:
        return secrets.token_bytes(32)
    return hashlib.sha256(f"epicrec noise {name} {seed}".encode()).digest()


def _add(array: Integers, scale: Scales, *, normal: bool, seed: int | None) -> Integers:
    name = "sigma" if normal else "scale"
    if array.dtype != np.int64 or not array.flags.c_contiguous or not array.flags.writeable:
        raise InputError(
            "noise is added to writeable, contiguous int64 arrays only, this one is "
            f"{array.dtype}: round the statistic with Grid.toward_zero first"
        )
    flat = array.reshape(-1)
    if flat.size and (flat.max() > _LARGEST_VALUE or flat.min() < -_LARGEST_VALUE):
        raise InputError("values beyond ±2**62 could overflow with noise: use a coarser grid")
    distinct, which = _scales(scale, array.size, name)
    table = np.array([fixed_point(value) for value in distinct], dtype=np.uint64)
    root = root_key(seed, name)
    chosen = envelope(normal)
    starts = range(0, flat.size, _CHUNK)

    def fill(start: int) -> None:
        part = which if which.size == 1 else which[start : start + _CHUNK]
        stream = word_stream(root, start // _CHUNK)
        _add_chunk(flat[start : start + _CHUNK], distinct, table, part, chosen, stream)

    for _ in in_threads(fill, starts):
        pass
    return array


def _add_chunk(
    out: Integers,
    distinct: list[Fraction],
    table: npt.NDArray[np.uint64],
    which: npt.NDArray[np.intp],
    chosen: Envelope,
    stream: Callable[[int], npt.NDArray[np.uint64]],
) -> None:
    factors, shifts = table[which].T.copy()
    done = 0
    while done < out.size:
        words = stream(min(_BATCH, 3 * (out.size - done) + 30))
        while True:
            done, used, doubt = add_draws(
                out,
                done,
                words,
                factors,
                shifts,
                chosen.normal,
                chosen.column_bits,
                chosen.cuts,
                chosen.aliases,
                chosen.sure,
                chosen.ratios,
            )
            if not doubt:
                break
            first, second, third = words[used - 3 : used].tolist()
            scale = distinct[which[done if which.size > 1 else 0]]
            drawn = exact_attempt(chosen, scale, (first, second, third), lambda: int(stream(1)[0]))
            words = words[used:]
            if drawn is not None:
                out[done] += drawn  # beyond int64 with probability below exp(-2**17)
                done += 1


def _scales(scale: Scales, size: int, name: str) -> tuple[list[Fraction], npt.NDArray[np.intp]]:
    """The distinct scales, and which of them each element has (one index where all are alike)."""
    values: Any = scale.item() if isinstance(scale, np.generic) else scale
    if isinstance(scale, np.ndarray):
        values = scale.reshape(-1).tolist()
    if not isinstance(values, Sequence) or isinstance(values, str):
        return [_fraction(values, name)], np.zeros(1, dtype=np.intp)
    if len(values) != size:
        raise InputError(f"{len(values)} values of {name} for {size} draws: give one, or one each")
    order = {value: number for number, value in enumerate(dict.fromkeys(values))}
    which = np.array([order[value] for value in values], dtype=np.intp)
    return [_fraction(value, name) for value in order], which


def _fraction(value: Any, name: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Fraction | int | float):
        raise InputError(f"{name} must be a number, not {value!r}")
    if not isfinite(value) or not 0 < value <= LARGEST_SCALE:
        raise InputError(
            f"{name} must be above 0 and at most 2**44 (so that int64 cannot overflow), not {value}"
        )
    return Fraction(value)
