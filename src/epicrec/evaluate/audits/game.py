"""The game that every audit plays: in which of two neighbouring worlds did this happen?

Differential privacy bounds how well anybody can play it. An audit is a `Game`; `judge` plays it and
turns the result into a lower bound on ε, or on μ where the claim is Gaussian. `climb` searches for
the neighbouring inputs that are easiest to tell apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from epicrec.arrays import Bools, Floats
from epicrec.errors import EpicrecWarning, InputError
from epicrec.privacy import AuditResult, Guarantee, audit_epsilon, audit_mu
from epicrec.progress import report

LEAST = 400
"""Rounds below which an audit shows nothing."""
_STARTS, _TRIES = 4, 60


@dataclass(frozen=True, kw_only=True)
class Game:
    """Two neighbouring worlds, and an observer.

    `play` runs the method once for each bit, in the second world where the bit is set, and returns
    one score for each: how much the output looks like the second world. Rounds that are played
    together must not reveal each other's bits, but may share what is the same in both worlds.
    """

    claim: Guarantee
    neighbours: str
    """The two worlds in words."""
    play: Callable[[Bools], Floats]
    rounds: int = 20_000
    """How often it is played by default, both worlds together."""
    at_once: int = 500
    analytic: float = 0.0
    """An ε computed without playing: the largest log-ratio of probabilities, from the exact sums
    and the distribution of the noise. No number of rounds would show a loss that is spread over
    thousands of numbers."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an audit found, beside what is claimed."""

    method: str
    unit: str
    relation: str
    status: str
    measure: Literal["ε", "μ"]
    claimed: float
    lower_bound: float
    confidence: float
    runs: int
    event: str
    neighbours: str

    @property
    def share(self) -> float:
        """How much of the claim was found; above 1 the claim is false."""
        return self.lower_bound / self.claimed

    @property
    def holds(self) -> bool:
        return self.lower_bound <= self.claimed

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"share": self.share, "holds": self.holds}


def judge(
    method: str,
    games: list[Game],
    *,
    rounds: int | None = None,
    part: float = 1.0,
    confidence: float = 0.95,
) -> Finding:
    """The largest share of its claim that any game finds, with this confidence for all of them.

    `rounds` is how often each is played; by default as often as it asks for, times `part`.
    """
    if rounds is not None and rounds < LEAST:
        raise InputError(f"runs must be at least {LEAST} for an audit, not {rounds}")
    each = 1 - (1 - confidence) / len(games)
    found = [
        _judged(method, game, rounds or max(LEAST, int(part * game.rounds)), each) for game in games
    ]
    return max(found, key=lambda finding: finding.share)


def _judged(method: str, game: Game, rounds: int, confidence: float) -> Finding:
    bits = np.random.default_rng().random(rounds) < 0.5
    scores = np.empty(rounds)
    for start in range(0, rounds, game.at_once):
        report(f"auditing {method}", start, rounds)
        these = slice(start, min(start + game.at_once, rounds))
        with warnings.catch_warnings():  # to fit again and again is what an audit does
            warnings.simplefilter("ignore", EpicrecWarning)
            scores[these] = game.play(bits[these])
    report(f"auditing {method}", rounds, rounds)
    seen = bound(game.claim, scores[~bits], scores[bits], confidence)
    claim = game.claim
    computed = game.analytic > seen.lower_bound
    return Finding(
        method=method,
        unit=claim.unit,
        relation=claim.relation,
        status=claim.status,
        measure=seen.measure,
        claimed=claim.epsilon if claim.mu is None else claim.mu,
        lower_bound=game.analytic if computed else seen.lower_bound,
        confidence=confidence,
        runs=seen.runs,
        event="computed analytically from the exact sums" if computed else seen.event,
        neighbours=game.neighbours,
    )


def fisher(off: Floats, moved: Floats) -> Floats:
    """Scores by Fisher's direction, for rows of numbers whose means differ by `moved`.

    It removes the noise that the numbers have in common.
    """
    spread = np.atleast_2d(np.cov(off.T))
    small = 1e-9 * np.diag(np.diag(spread) + 1e-9)
    return np.asarray(off @ np.linalg.solve(spread + small, moved), np.float64)


def bound(claim: Guarantee, first: Floats, second: Floats, confidence: float) -> AuditResult:
    """A lower bound on μ for a Gaussian claim, else on ε at the claim's δ."""
    if claim.mu is not None:
        return audit_mu(first, second, confidence=confidence)
    return audit_epsilon(first, second, delta=claim.delta, confidence=confidence)


def climb(
    score: Callable[[tuple[int, ...]], float], choices: Sequence[int], *, seed: int = 0
) -> tuple[int, ...]:
    """The candidate with the best score found by hill climbing from some random starts.

    A candidate has a whole number below `choices[i]` at each place i. The seed fixes the search
    only; the methods under audit draw fresh noise.

    >>> climb(lambda candidate: -abs(candidate[0] - 7) + candidate[1], [10, 3])
    (7, 2)
    """
    rng = np.random.default_rng(seed)
    best, reached = (0,) * len(choices), -np.inf
    for _ in range(_STARTS):
        here = tuple(int(rng.integers(choice)) for choice in choices)
        height = score(here)
        for _ in range(_TRIES):
            place = int(rng.integers(len(choices)))
            there = (*here[:place], int(rng.integers(choices[place])), *here[place + 1 :])
            if (found := score(there)) >= height:
                here, height = there, found
        if height > reached:
            best, reached = here, height
    return best
