"""Sums on a graphics card: the same to the last bit, and no going on without a card."""

import sys

import numpy as np
import pytest

from epicrec import extras
from epicrec.cli import main
from epicrec.data import Ratings
from epicrec.engine import RemoteRatings
from epicrec.engine import cuda as engine
from epicrec.engine.cuda import check_cuda, cuda, pairs_on
from epicrec.engine.local import local
from epicrec.errors import InputError
from epicrec.models import make_model
from epicrec.models.covariance.statistics import ItemEffects, PairSums


def by_processor(a, b):
    return a.astype(np.int32) @ b.T.astype(np.int32)


def statistics(ratings: Ratings, unit, norm) -> list[PairSums]:
    levels = np.arange(ratings.n_items).astype(np.int16) % 100 - 50
    weights = np.arange(ratings.n_items).astype(np.int16) % 64 + 1
    return [PairSums(unit, norm, ratings.scale, levels), PairSums(unit, norm, None, weights)]


@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("users", "strip"), [(1 << 16, 1 << 12), (70, 64), (64, 32)])
def test_digits_blocks_and_strips_do_not_show(
    monkeypatch, viewers: Ratings, unit, norm, users, strip
) -> None:
    """By the card's code with NumPy in its place: all but the integer product itself."""
    monkeypatch.setattr(engine, "USERS", users)
    monkeypatch.setattr(engine, "STRIP", strip)
    some = viewers.users_at(np.arange(150))
    for statistic in statistics(some, unit, norm):
        found = pairs_on(np, by_processor, statistic, some)
        np.testing.assert_array_equal(found, local(statistic, some))


def test_no_sum_of_a_block_leaves_int32() -> None:
    assert engine.USERS * 128 * 128 < 1 << 31


def test_nobody_and_nothing(viewers: Ratings) -> None:
    for ratings in (viewers.users_at(np.arange(0)), viewers.users_at(np.arange(3)).first_users(0)):
        for statistic in statistics(ratings, "user", 2):
            assert not pairs_on(np, by_processor, statistic, ratings).any()


def test_without_cupy_the_extra_is_named(monkeypatch, viewers: Ratings) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"epicrec\[cuda\]"):
        cuda(ItemEffects("rating", 2, viewers.scale), viewers)


class _NoCard:
    """CuPy on a machine without a card, as it answers there."""

    class cuda:
        class runtime:
            class CUDARuntimeError(RuntimeError): ...

            @classmethod
            def getDeviceCount(cls):
                raise cls.CUDARuntimeError("cudaErrorNoDevice")


def test_without_a_card_nothing_is_summed(monkeypatch, viewers: Ratings) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: True)
    monkeypatch.setitem(sys.modules, "cupy", _NoCard)
    with pytest.raises(InputError, match="no graphics card"):
        cuda(ItemEffects("rating", 2, viewers.scale), viewers)
    monkeypatch.setattr(_NoCard.cuda.runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(InputError, match="no graphics card"):
        check_cuda()


def test_ratings_in_a_cluster_are_refused() -> None:
    class There(RemoteRatings):
        __len__ = as_history = first_users = total = None

    with pytest.raises(InputError, match="use spark"):
        cuda(ItemEffects("rating", 2, None), There())


@pytest.fixture
def card() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed here")
    try:
        check_cuda()
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("norm", [1, 2])
def test_on_a_card(viewers: Ratings, unit, norm) -> None:
    for statistic in statistics(viewers, unit, norm):
        np.testing.assert_array_equal(cuda(statistic, viewers), local(statistic, viewers))


@pytest.mark.usefixtures("card")
def test_a_fit_on_a_card(viewers: Ratings) -> None:
    here, there = (make_model("covariance-svd", epsilon=100.0, seed=1) for _ in range(2))
    there.engine = cuda
    here.fit(viewers)
    there.fit(viewers)
    assert "pairs of items" in there.released_
    np.testing.assert_array_equal(here.factors_, there.factors_)


def test_on_the_command_line(monkeypatch, tmp_path, capsys) -> None:
    """What cannot be done on a card is refused before anything is read or written."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    private = ("fit", "covariance-svd", "--epsilon", "1", str(tmp_path / "model.npz"))
    plain = ("fit", "bias", str(tmp_path / "model.npz"))
    measured = ("evaluate", "covariance-svd", "--epsilon", "1")
    for command, why in (
        (private, "epicrec[cuda]"),
        (plain, "does not learn from sums"),
        (measured, "--engine is local or spark here"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--engine", "cuda"])
        assert ended.value.code == 2
        assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
