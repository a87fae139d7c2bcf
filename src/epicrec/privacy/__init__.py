"""What a release costs: exact integer noise, guarantees, accounting, the ledger, audit bounds.

Names are loaded when first used: the noise needs numba and mixed accounting needs dp-accounting,
which take a second to import and are not needed to read a guarantee.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epicrec.privacy.accounting import (
        compose,
        gaussian_delta,
        gaussian_epsilon,
        gaussian_guarantee,
        gaussian_mu,
        gaussian_sigma,
        laplace_scale,
    )
    from epicrec.privacy.audit_bounds import AuditResult, audit_epsilon, audit_mu
    from epicrec.privacy.grid import Grid
    from epicrec.privacy.guarantee import Guarantee
    from epicrec.privacy.ledger import Entry, Ledger, LedgerDamagedError
    from epicrec.privacy.noise import (
        add_discrete_laplace,
        add_integer_gaussian,
        discrete_laplace,
        integer_gaussian,
    )


__all__ = [
    "AuditResult",
    "Entry",
    "Grid",
    "Guarantee",
    "Ledger",
    "LedgerDamagedError",
    "add_discrete_laplace",
    "add_integer_gaussian",
    "audit_epsilon",
    "audit_mu",
    "compose",
    "discrete_laplace",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_guarantee",
    "gaussian_mu",
    "gaussian_sigma",
    "integer_gaussian",
    "laplace_scale",
]

_HOMES = {
    "accounting": (
        "compose", "gaussian_delta", "gaussian_epsilon", "gaussian_guarantee", "gaussian_mu",
        "gaussian_sigma", "laplace_scale",
    ),
    "audit_bounds": ("AuditResult", "audit_epsilon", "audit_mu"),
    "grid": ("Grid",),
    "guarantee": ("Guarantee",),
    "ledger": ("Entry", "Ledger", "LedgerDamagedError"),
    "noise": (
        "add_discrete_laplace", "add_integer_gaussian", "discrete_laplace", "integer_gaussian",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
