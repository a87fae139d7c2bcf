"""Contract tests to subclass: for recommenders, perturbers and guarantees of any package."""

import pytest

pytest.register_assert_rewrite(
    "epicrec.testing.guarantees", "epicrec.testing.perturbers", "epicrec.testing.recommenders"
)
