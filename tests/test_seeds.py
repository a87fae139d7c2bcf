"""One seed, many draws: each has its own, the same every time, and none shares another's words."""

import ast
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import epicrec
from epicrec.data import load_dataset
from epicrec.errors import InputError
from epicrec.models import model_class
from epicrec.privacy.noise import discrete_laplace
from epicrec.seeds import derived


def test_different_seeds_and_names_give_different_seeds() -> None:
    """Also seed 0's second draw and seed 1's first, which `seed + 1` had made the same."""
    named = list(product(range(50), ["release", "draw"], range(50)))
    found = {derived(seed, name, number) for seed, name, number in named}
    assert len(found) == len(named)
    assert not found & set(range(1000))


def test_the_same_every_time_and_no_seed_stays_none() -> None:
    assert derived(7, "release", "ann") == derived(np.int64(7), "release", "ann")
    assert derived(None, "release", "ann") is None


def test_fits_every_generator() -> None:
    seed = derived(3, "levels")
    np.random.default_rng(seed)
    assert (discrete_laplace(50, 100, seed=seed) == discrete_laplace(50, 100, seed=seed)).all()


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", True])
def test_what_is_no_seed_is_an_error(wrong) -> None:
    with pytest.raises(InputError, match="seed must be a non-negative integer"):
        derived(wrong, "release")
    ratings = load_dataset("films").ratings
    with pytest.raises(InputError, match="seed"):
        model_class("covariance-svd")(epsilon=1.0, delta=1e-6, seed=wrong).fit(ratings)


def test_no_seed_is_made_by_arithmetic() -> None:
    """`seed + 1`, `8 * seed + turn`, `[seed, 1]`: all of it goes through `derived`."""
    found = set()
    for file in Path(epicrec.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            inside = [node.left, node.right] if isinstance(node, ast.BinOp) else []
            inside += node.elts if isinstance(node, ast.List) else []
            if any(_is_seed(value) for value in inside):
                found.add((file.name, ast.unparse(node)))
    several = {"seed + seeds", "number - seed"}  # several seeds are run, and counted
    places = ("protocol.py",)
    assert found == {(place, text) for place in places for text in several}


def _is_seed(node: ast.AST) -> bool:
    name = getattr(node, "id", None) or getattr(node, "attr", None)
    return name == "seed"
