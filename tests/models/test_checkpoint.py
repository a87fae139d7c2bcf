"""A fit with a checkpoint that ends anywhere goes on with the same sums and the same draws."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from epicrec.collective.shared_model import Collective
from epicrec.data import Ratings
from epicrec.engine import where_they_are
from epicrec.errors import InputError
from epicrec.models import Recommender, make_model
from epicrec.models import checkpoint as module
from epicrec.models.bias import Bias, Popularity
from epicrec.models.checkpoint import digest, kept_in
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.pairs import PairSums
from epicrec.models.private.statistics import ItemEffects
from epicrec.models.private_bias import PrivateBias

MODELS = [
    CovarianceSVD(task="ratings", epsilon=30, unit="user"),
    CovarianceSVD(epsilon=300, task="lists"),
    PrivateBias(epsilon=1),
    Popularity(epsilon=1),
    Collective(epsilon=8, most=1000),
]


class Killed(Exception):
    pass


def on_disk(folder: Path, kind: str) -> dict[str, list[int]]:
    found = {}
    for path in folder.glob(f"*.{kind}.npz"):
        with np.load(path) as file:
            found[path.name] = file["numbers"].tolist()
    return found


@pytest.fixture
def public(viewers: Ratings) -> Ratings:
    return replace(viewers, items_given=True, scale_given=True)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("after", [False, True], ids=["before a file", "after it"])
def test_killed_at_every_file_it_goes_on_with_the_same_numbers(
    public: Ratings, tmp_path: Path, monkeypatch, model: Recommender, after
) -> None:
    """Without a seed: a second draw would be another one. Each attempt gets one file further, and
    one is killed when all are there."""
    write, sums = module.write_whole, []
    allowed = 0

    def summed(statistic, ratings):
        sums.append(digest(statistic))
        return where_they_are(statistic, ratings)

    def writing(path, fill):
        nonlocal allowed
        if not allowed:
            raise Killed
        allowed -= 1
        write(path, fill)
        if after:
            raise Killed

    monkeypatch.setattr(module, "write_whole", writing)
    model.engine = summed
    before: dict[str, list[int]] = {}
    complete = False
    for _ in range(40):
        allowed = 1
        try:
            with kept_in(tmp_path / "kept", model):
                model.fit(public)
                releases = on_disk(tmp_path / "kept", "release")
                if not complete:
                    complete = True
                    raise Killed
            break
        except Killed:
            now = on_disk(tmp_path / "kept", "release")
            assert {name: now[name] for name in before} == before
            before = now
    else:
        pytest.fail("it never ends")
    del model.engine
    assert releases == before != {}
    assert not on_disk(tmp_path / "kept", "release")  # cleared when it was done
    assert len(sums) == len(releases) * (1 if after else 2)  # none that was written is taken again


def test_exact_sums_go_when_their_release_is_there(public: Ratings, tmp_path: Path) -> None:
    model = CovarianceSVD(task="ratings", epsilon=30, unit="user")
    folder = tmp_path / "kept"
    with suppress(Killed), kept_in(folder, model):
        model.fit(public)
        raise Killed
    assert len(on_disk(folder, "release")) > 1
    assert on_disk(folder, "sum") == {}
    assert folder.stat().st_mode & 0o077 == 0


def test_the_same_as_without_a_checkpoint(public: Ratings, tmp_path: Path) -> None:
    plain = CovarianceSVD(task="ratings", epsilon=30, seed=1).fit(public)
    kept = CovarianceSVD(task="ratings", epsilon=30, seed=1)
    with kept_in(tmp_path, kept):
        kept.fit(public)
    np.testing.assert_array_equal(plain.factors_, kept.factors_)


def test_the_folder_of_another_fit_is_refused(public: Ratings, tmp_path: Path) -> None:
    model = CovarianceSVD(task="ratings", epsilon=1)
    with suppress(Killed), kept_in(tmp_path, model):
        model.fit(public)
        with pytest.raises(InputError, match="another fit is at work"), kept_in(tmp_path, model):
            pass
        raise Killed
    for other, ratings in (
        (CovarianceSVD(task="ratings", epsilon=2), public),
        (CovarianceSVD(task="ratings", epsilon=1), public.with_items(public.item_ids[:-1])),
    ):
        with pytest.raises(InputError, match="another fit began"), kept_in(tmp_path, other):
            other.fit(ratings)
    with FileLock(tmp_path / "lock", timeout=0):
        pass  # and nothing holds it


def test_a_model_that_reads_ratings_has_no_checkpoint(tmp_path: Path) -> None:
    for model in (
        Bias(),
        CovarianceSVD(),
        make_model("covariance-svd", epsilon=1, as_published=True),
    ):
        with pytest.raises(InputError, match="does not learn from sums"), kept_in(tmp_path, model):
            pass


def test_statistics_are_told_apart_by_what_they_hold(viewers: Ratings) -> None:
    levels = np.arange(viewers.n_items).astype(np.int16)
    found = [
        ItemEffects("user", 2, viewers.scale),
        ItemEffects("user", 2, viewers.scale, levels),
        ItemEffects("user", 2, viewers.scale, levels, 2),
        PairSums("user", 2, viewers.scale, levels),
        PairSums("user", 2, viewers.scale, levels + 1),
        PairSums("user", 1, viewers.scale, levels),
        PairSums("user", 1, None, levels),
    ]
    assert len({digest(statistic) for statistic in found}) == len(found)
    assert digest(found[3]) == digest(PairSums("user", 2, viewers.scale, levels.copy()))
