"""Accounting: from noise to (ε, δ) and back, and what several releases cost together (`compose`).

Every conversion errs on the safe side: δ is never below, ε never below and μ never above the true
value, by less than 10⁻⁹ of it in ordinary use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import erfc, exp, fsum, inf, isfinite, nextafter, sqrt

from scipy.special import erfcx

from epicrec.errors import InputError
from epicrec.privacy.guarantee import Guarantee, Relation, Status, Unit

# What rounding and the special functions (good to about 10⁻¹⁵) can be off by, with some room.
_ERROR = 2.0**-48


class NeedsDeltaError(InputError):
    """Releases that only hold for a δ above 0 were composed at a smaller one."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ at which a μ-Gaussian-DP release is (ε, δ)-DP (Balle & Wang 2018, Theorem 8).

    δ = Φ(-a) - e^ε Φ(-b) with a = ε/μ - μ/2 and b = ε/μ + μ/2. As φ(a) = e^ε φ(b), the second
    term is φ(a)·R(b) with Mills' ratio R = Φ(-·)/φ, and for a > 0 the first is φ(a)·R(a): nothing
    overflows, and a tiny δ is as accurate as a large one.
    """
    _check_positive(mu, "mu")
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, not {epsilon}")
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    error = (1 + abs(a)) * (1 + b) * _ERROR
    density, far = 0.5 * exp(-0.5 * a * a), float(erfcx(b / sqrt(2)))
    if a < 0:
        return min(0.5 * erfc(a / sqrt(2)) * (1 + error) - density * far * (1 - error), 1.0)
    near = float(erfcx(a / sqrt(2)))
    tiny = density * (1 + error) * (near * (1 + error) - far * (1 - error))
    return tiny or nextafter(0.0, 1.0)  # δ is never 0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Least ε at which a μ-Gaussian-DP release is (ε, δ)-DP; infinite for δ = 0."""
    _check_positive(mu, "mu")
    _check_delta(delta)
    if delta == 0:
        return inf
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu
    while gaussian_delta(mu, high) > delta:
        high *= 2
    return _bisect(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, high)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Greatest μ whose μ-Gaussian-DP releases are all (ε, δ)-DP."""
    if not epsilon >= 0 or not isfinite(epsilon):
        raise InputError(f"epsilon must be finite and at least 0, not {epsilon}")
    _check_delta(delta)
    if delta == 0:
        raise InputError("Gaussian noise needs a delta above 0; for delta = 0 use Laplace noise")
    low = high = max(epsilon, delta)
    while gaussian_delta(low, epsilon) > delta:
        low /= 2
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    return _bisect(lambda mu: gaussian_delta(mu, epsilon) > delta, low, high)[0]


def gaussian_sigma(sensitivity: float | Fraction, mu: float) -> float:
    """σ = sensitivity/μ rounded up, for a statistic with that L2 sensitivity."""
    _check_positive(sensitivity, "sensitivity")
    _check_positive(mu, "mu")
    exact = Fraction(sensitivity) / Fraction(mu)
    sigma = float(exact)
    return sigma if Fraction(sigma) >= exact else nextafter(sigma, inf)


def laplace_scale(sensitivity: float | Fraction, epsilon: float | Fraction) -> Fraction:
    """The scale sensitivity/ε as an exact fraction, for a statistic with that L1 sensitivity."""
    _check_positive(sensitivity, "sensitivity")
    _check_positive(epsilon, "epsilon")
    return Fraction(sensitivity) / Fraction(epsilon)


def gaussian_guarantee(
    mu: float, delta: float, *, unit: Unit, relation: Relation, assumes: tuple[str, ...] = ()
) -> Guarantee:
    """The proved guarantee of a μ-Gaussian-DP release, stated at `delta`."""
    return Guarantee(
        # ε = 0 at this δ is possible for minute μ; a guarantee states a positive ε.
        epsilon=gaussian_epsilon(mu, delta) or mu,
        delta=delta,
        unit=unit,
        relation=relation,
        assumes=assumes,
        mu=mu,
    )


def compose(guarantees: Iterable[Guarantee], delta: float = 0.0) -> Guarantee:
    """What releases about the same data cost together, stated at `delta`.

    All pure: ε add up (δ = 0). All Gaussian: μ² add up. Otherwise the better of plain sums and
    dp-accounting's privacy loss distributions, which take an (ε, δ) guarantee at its worst.
    """
    parts = list(guarantees)
    _check_delta(delta)
    if not parts:
        raise InputError("nothing to compose: give at least one guarantee")
    kinds = {(part.unit, part.relation) for part in parts}
    if len(kinds) > 1:
        raise InputError(
            f"guarantees about different things cannot be added up: {sorted(kinds)}; "
            "compose each unit and relation by itself"
        )
    mu: float | None = None
    status: Status = "claimed" if any(part.status == "claimed" for part in parts) else "proved"
    if any(part.status == "none" for part in parts):
        epsilon, delta = inf, 0.0
    elif all(part.delta == 0 for part in parts):
        epsilon, delta = fsum(part.epsilon for part in parts), 0.0
    elif all(part.mu is not None for part in parts):
        mu = nextafter(sqrt(fsum((part.mu or 0) ** 2 for part in parts)), inf)
        epsilon = gaussian_epsilon(mu, delta) or mu
    else:
        epsilon = min(_sum_epsilon(parts, delta), _pld_epsilon(parts, delta))
    if not isfinite(epsilon):
        if all(part.status != "none" for part in parts):
            raise NeedsDeltaError(_needs_delta(parts, delta))
        status, delta, mu = "none", 0.0, None
    unit, relation = kinds.pop()
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        relation=relation,
        status=status,
        assumes=tuple(dict.fromkeys(line for part in parts for line in part.assumes)),
        mu=mu,
        reproducible=any(part.reproducible for part in parts),
    )


def _needs_delta(parts: list[Guarantee], delta: float) -> str:
    least = fsum(part.delta for part in parts if part.mu is None)
    such = f"more than {least:g}" if least else "above 0, such as 1e-6"
    return (
        f"these releases hold for a δ above 0 only, and were asked for at δ = {delta:g}: give a "
        f"δ {such} (compose(…, delta=…), Ledger(…, limit_delta=…))"
    )


def _sum_epsilon(parts: list[Guarantee], delta: float) -> float:
    return fsum(part.epsilon for part in parts) if fsum(p.delta for p in parts) <= delta else inf


def _pld_epsilon(parts: list[Guarantee], delta: float) -> float:
    """Upper bound by composing privacy loss distributions.

    Each is built for one pair of worst-case outputs, whatever the relation: dp-accounting's own
    treatment of "replace one" is wrong for Gaussian noise, and its ε at δ = 0 is infinite.
    """
    if delta == 0:
        return inf
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    losses = [
        pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, own)
        ).self_compose(n)
        for (epsilon, own), n in Counter(
            (part.epsilon, part.delta) for part in parts if part.mu is None
        ).items()
    ]
    gaussian = sqrt(fsum(part.mu**2 for part in parts if part.mu is not None))
    if gaussian:
        losses.append(pld.from_gaussian_mechanism(standard_deviation=1 / gaussian))
    total = losses[0]
    for loss in losses[1:]:
        total = total.compose(loss)
    return float(total.get_epsilon_for_delta(delta))


def _bisect(above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Two neighbouring floats, `above` false at the first and true at the second."""
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if above(middle) else (middle, high)
    return low, high


def _check_positive(value: float | Fraction, name: str) -> None:
    if not value > 0 or not isfinite(value):
        raise InputError(f"{name} must be above 0 and finite, not {value}")


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise InputError(f"delta must be at least 0 and below 1, not {delta}")
