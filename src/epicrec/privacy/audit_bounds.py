"""Audit bounds: lower bounds on a mechanism's true ε or μ, from outputs on neighbouring inputs.

A proof bounds ε from above, an audit from below. Where the bounds cross, the proof or the code is
wrong. The games that produce the outputs are in `epicrec.evaluate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, norm

from epicrec.arrays import Bools, Floats
from epicrec.errors import InputError

_CELLS = 256
_PRIOR = 30  # imagined outputs in every cell, so that cells with few do not come first


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """With probability `confidence`, the mechanism's ε at `delta`, or its μ, is at least
    `lower_bound`."""

    lower_bound: float
    delta: float
    confidence: float
    runs: int  # on each input, a part to choose the event and the rest to test it
    event: str
    measure: Literal["ε", "μ"] = "ε"

    def holds(self, claimed: float) -> bool:
        """Whether a claimed ε, or μ, is compatible with the bound."""
        return self.lower_bound <= claimed


def audit_epsilon(
    outputs_a: npt.ArrayLike,
    outputs_b: npt.ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> AuditResult:
    """Bound ε from below, given many independent outputs on each of two neighbouring inputs.

    An output is one number; reduce a larger one to the number that best tells the inputs apart.
    (ε, δ)-DP gives P_a(S) ≤ e^ε P_b(S) + δ for every event S, and the same with a and b swapped.
    The event and the direction are chosen on the first half of the runs: outputs up to or from a
    threshold, or the values where one input's outputs are most in excess (a quarter of the runs
    ranks the values, the next decides how many to take). That one event is then tested on the
    second half with Clopper-Pearson bounds, so no correction for the search is needed.
    """
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise InputError("delta must be in [0, 1) and confidence in (0, 1)")
    a, b = _outputs(outputs_a, "outputs_a"), _outputs(outputs_b, "outputs_b")
    runs = min(a.size, b.size)
    half = runs // 2
    edges = _edges(np.concatenate([a[:half], b[:half]]))
    quarter = half // 2
    sorting = [_cells(x[:quarter], edges) for x in (a, b)]
    rest = [_cells(x[quarter:half], edges) for x in (a, b)]
    whole = [one + other for one, other in zip(sorting, rest, strict=True)]
    second = [_cells(x[half:runs], edges) for x in (a, b)]

    best, chosen = -np.inf, (0, np.zeros(edges.size, dtype=bool))
    forward = np.arange(edges.size)
    strict = 1 - (1 - confidence) / 1000  # luck in a small event must not win the choice
    for side in (0, 1):
        excess = np.argsort(-(sorting[side] + _PRIOR) / (sorting[1 - side] + _PRIOR), kind="stable")
        # cells in order by their luck are not judged by the same luck
        for order, seen, number in (
            (forward, whole, half), (forward[::-1], whole, half), (excess, rest, half - quarter),
        ):  # fmt: skip
            more, less = seen[side][order], seen[1 - side][order]
            bounds = _lower_bounds(np.cumsum(more), np.cumsum(less), number, delta, strict)
            size = int(np.argmax(bounds))
            if bounds[size] > best:
                best = bounds[size]
                event = np.zeros(edges.size, dtype=bool)
                event[order[: size + 1]] = True
                chosen = (side, event)

    side, event = chosen
    more, less = second[side][event].sum(), second[1 - side][event].sum()
    bound = float(_lower_bounds(more, less, runs - half, delta, confidence))
    return AuditResult(
        lower_bound=max(bound, 0.0),
        delta=delta,
        confidence=confidence,
        runs=runs,
        event=_describe(event, edges, "ab"[side]),
    )


def audit_mu(
    outputs_a: npt.ArrayLike, outputs_b: npt.ArrayLike, *, confidence: float = 0.95
) -> AuditResult:
    """Bound μ from below, for a mechanism that claims to be μ-Gaussian-DP.

    A test that tells a from b with the error rates α and β has β ≥ Φ(Φ⁻¹(1-α) - μ): the
    mechanism's trade-off curve lies there or above (Dong, Roth & Su). So μ ≥ Φ⁻¹(1-α) - Φ⁻¹(β),
    with Clopper-Pearson bounds from above for both rates (Nasr et al. 2023). The threshold is
    chosen on the first fifth of the runs and tested on the rest. A bound on ε at a tiny δ would see
    only one end of the curve, which hardly any run reaches.
    """
    if not 0 < confidence < 1:
        raise InputError("confidence must be in (0, 1)")
    a, b = _outputs(outputs_a, "outputs_a"), _outputs(outputs_b, "outputs_b")
    runs = min(a.size, b.size)
    first = runs // 5
    if a[:first].mean() > b[:first].mean():
        a, b = b, a
    edges = np.unique(np.quantile(np.concatenate([a[:first], b[:first]]), np.arange(1, 100) / 100))
    bounds = _mus(a[:first], b[:first], edges, 1 - (1 - confidence) / 1000)
    threshold = edges[[int(np.argmax(bounds))]]
    bound = float(_mus(a[first:runs], b[first:runs], threshold, confidence)[0])
    return AuditResult(
        lower_bound=max(bound, 0.0),
        delta=0.0,
        confidence=confidence,
        runs=runs,
        event=f"output from {threshold[0]:g} on",
        measure="μ",
    )


def _mus(a: Any, b: Any, thresholds: Floats, confidence: float) -> Any:
    """The bound on μ by each threshold: b lies at or above it, a below."""
    risk = (1 - confidence) / 2
    wrong_a = a.size - np.searchsorted(np.sort(a), thresholds, side="left")
    wrong_b = np.searchsorted(np.sort(b), thresholds, side="left")
    highest_a, highest_b = (
        np.where(wrong < size, beta.ppf(1 - risk, wrong + 1, np.maximum(size - wrong, 1)), 1)
        for wrong, size in ((wrong_a, a.size), (wrong_b, b.size))
    )
    return norm.ppf(1 - highest_a) - norm.ppf(highest_b)


def _lower_bounds(more: Any, less: Any, runs: int, delta: float, confidence: float) -> Any:
    """log((p - δ)/q) with p bounded from below and q from above, each with half the risk."""
    risk = (1 - confidence) / 2
    low = np.where(np.asarray(more) > 0, beta.ppf(risk, np.maximum(more, 1), runs - more + 1), 0)
    high = np.where(
        np.asarray(less) < runs, beta.ppf(1 - risk, less + 1, np.maximum(runs - less, 1)), 1
    )
    excess = low - delta
    return np.where(excess > 0, np.log(np.maximum(excess, 1e-300) / high), -np.inf)


def _edges(pooled: Floats) -> Floats:
    """Lower edges of cells around every distinct value, or quantiles where there are too many.

    A value that was not seen before belongs to the nearest one: a cell from one value to the next
    would take in half of the rare values.
    """
    values = np.unique(pooled)
    if values.size > _CELLS:
        values = np.unique(np.quantile(pooled, np.linspace(0, 1, _CELLS), method="lower"))
    halves = np.nan_to_num(values) / 2
    return np.concatenate([[-np.inf], halves[:-1] + halves[1:]])


def _cells(outputs: Floats, edges: Floats) -> Any:
    return np.bincount(np.searchsorted(edges, outputs, side="right") - 1, minlength=edges.size)


def _describe(event: Bools, edges: Floats, likelier: str) -> str:
    inside = np.flatnonzero(event)
    if inside.size == inside[-1] - inside[0] + 1:
        low = edges[inside[0]]
        high = edges[inside[-1] + 1] if inside[-1] + 1 < edges.size else np.inf
        what = f"output in [{low:g}, {high:g})"
    else:
        what = f"output in {inside.size} of {edges.size} cells"
    return f"{what}, likelier under {likelier}"


def _outputs(values: npt.ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size < 100 or np.isnan(array).any():
        raise InputError(f"{name} must be at least 100 numbers in one dimension, without NaN")
    return array
