"""Small public data for the contract tests; `from epicrec.testing.fixtures import *`."""

from __future__ import annotations

import pytest

from epicrec.data import Catalogue, Ratings, Scale
from epicrec.data.embedded import embedded_items
from epicrec.data.simulate import simulate_table

__all__ = ["films", "viewers"]


@pytest.fixture(scope="session")
def films() -> Catalogue:
    """The embedded films."""
    return Catalogue.from_table(embedded_items())


@pytest.fixture(scope="session")
def viewers(films: Catalogue) -> Ratings:
    """300 simulated viewers of the embedded films."""
    ratings = Ratings.from_table(simulate_table(users=300, seed=7), scale=Scale(1, 5, 1))
    return ratings.with_items(films.item_ids)
