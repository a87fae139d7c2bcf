"""An audit of your own mechanism: does it leak more than it claims?"""

import numpy as np

from epicrec.privacy import audit_epsilon, discrete_laplace, laplace_scale

EPSILON, RUNS = 1.0, 50_000


def how_many_comedies(history: list[str], *, scale: float) -> np.ndarray:
    """A count with noise, many times: one film more or less moves it by 1."""
    return history.count("Comedy") + discrete_laplace(RUNS, scale)


with_it, without = ["Comedy", "War", "Comedy"], ["Comedy", "War"]

right = laplace_scale(1, EPSILON)
found = audit_epsilon(
    how_many_comedies(with_it, scale=right), how_many_comedies(without, scale=right)
)
print(f"scale {float(right):g}: ε is at least {found.lower_bound:.2f}, claimed {EPSILON:g}")

too_small = right / 2  # as if a film could move the count by one half
caught = audit_epsilon(
    how_many_comedies(with_it, scale=too_small), how_many_comedies(without, scale=too_small)
)
print(f"scale {float(too_small):g}: ε is at least {caught.lower_bound:.2f}, claimed {EPSILON:g}")
assert not caught.holds(claimed=EPSILON)
