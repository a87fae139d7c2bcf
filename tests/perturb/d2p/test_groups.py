"""Groups from public features: one size, near, in little memory; and how λ is chosen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.d2p.groups import (
    Groups,
    PublicSimilarity,
    average_lambda,
    hiding_lambda,
    public_groups,
)


def test_public_groups_have_one_size_and_hold_their_item(films: Catalogue) -> None:
    groups = public_groups(films, 0.5, 25)
    assert (groups.sizes == 25).all()
    assert all(i in groups.members(i) for i in range(len(films)))
    assert len({groups.members(i).tobytes() for i in range(len(films))}) > 0.9 * len(films)


def test_public_groups_are_near(films: Catalogue) -> None:
    def shared(groups: Groups) -> float:
        rows = films.matrix.astype(np.int64)
        return float(np.mean([(rows[i] @ rows[groups.members(i)].T).sum() for i in range(100)]))

    assert shared(public_groups(films, 0.25, 20)) > 1.3 * shared(public_groups(films, 50.0, 20))


@pytest.mark.parametrize("lam", [0.0, 0.25, 1.0, 50.0])
@pytest.mark.parametrize("floor", [1, 2, 40, 536])
def test_members_are_within_reach_or_the_nearest(films: Catalogue, lam: float, floor: int) -> None:
    groups = public_groups(films, lam, floor)
    alike = PublicSimilarity(films).rows(np.arange(len(films)))
    for item in range(0, len(films), 29):
        members = groups.members(item)
        assert len(set(members.tolist())) == floor
        within = int((alike[item] >= np.float32(1 / (1 + lam))).sum())
        worst = alike[item, members].min()
        nearest = np.sort(alike[item])[-floor]
        assert worst >= (1 / (1 + lam) - 1e-6 if within >= floor else nearest)


def test_what_is_unknown_of_two_items_makes_them_no_more_alike() -> None:
    """Items without a year, or without popularity, have nothing in common by that."""
    films = Catalogue.from_columns(
        [1, 2, 3, 4], ["a (1990)", "b (1990)", "c", "d"], ["A", "B", "C", "D"]
    )
    by_year = PublicSimilarity(films).rows(np.arange(4))
    wanted = np.eye(4)
    wanted[0, 1] = wanted[1, 0] = 0.3  # the same year, and no category in common
    np.testing.assert_allclose(by_year, wanted, atol=1e-4)
    assert public_groups(films, 3.0, 2).members(0).tolist() == [0, 1], "the nearest, by year"
    unheard = replace(films, years=np.zeros(4, np.int32), popularity=np.array([5.0, 5.0, -1, -1]))
    by_popularity = PublicSimilarity(unheard).rows(np.arange(4))
    assert by_popularity[0, 1] > 0
    np.testing.assert_array_equal(by_popularity[2:, :2], 0)
    assert by_popularity[2, 3] == by_popularity[3, 2] == 0


def test_memory_is_that_of_the_groups() -> None:
    """Twice the items, twice the memory beside the groups: nothing is held for each pair."""
    import tracemalloc

    peaks = []
    for n in (4_000, 8_000):
        rng = np.random.default_rng(0)
        genres = ["|".join(f"g{j}" for j in rng.choice(200, 5)) for _ in range(n)]
        titles = [f"film ({1950 + i % 70})" for i in range(n)]
        films = Catalogue.from_columns(list(range(n)), titles, genres)
        public_groups.cache_clear()
        tracemalloc.start()
        groups = public_groups(films, 1.0, 20)
        peaks.append(tracemalloc.get_traced_memory()[1] - groups.items.nbytes)
        tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0]
    assert peaks[1] < 0.5 * 8_000**2


def test_lambda_hides_a_category() -> None:
    titles = ["a (1990)", "b (1991)", "c (1990)"]
    films = Catalogue.from_columns([1, 2, 3], titles, ["A", "A|B", "B"])
    far, near = 1 / 0.3 - 1, 1 / (0.7 / 2**0.5 + 0.3 * np.exp(-1 / 8)) - 1
    assert hiding_lambda(films, "A") == pytest.approx(far, abs=1e-2)
    assert hiding_lambda(films, "A", np.array([0, 2])) == pytest.approx(far, abs=1e-2)
    assert hiding_lambda(films, "A", np.array([1, 2])) == pytest.approx(near, abs=1e-2)
    assert hiding_lambda(films, "A", np.array([2])) == 0
    assert average_lambda(films, np.array([0, 2])) == pytest.approx(far, abs=1e-2)
    with pytest.raises(InputError, match="no category"):
        hiding_lambda(films, "C")


# ---- real data --------------------------------------------------------------------------------


@pytest.mark.realdata
@pytest.mark.soak
def test_groups_of_netflix_need_no_square_matrix(real_data: Any) -> None:
    import tracemalloc

    from epicrec.data.datasets import load_catalogue

    films = load_catalogue(real_data / "netflix")
    tracemalloc.start()
    groups = public_groups(films, 0.5, 500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(groups) == 17_768
    assert peak < 300e6 < len(films) ** 2
