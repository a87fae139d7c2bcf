"""Parameters: a wrong name, type or range is an error before anything is done."""

from math import nan
from typing import Any, Literal

import pytest

from epicrec.errors import InputError
from epicrec.models import make_model
from epicrec.models.bias import Bias
from epicrec.parameters import check, check_complete
from epicrec.perturb import make_perturber


class Thing:
    def __init__(
        self,
        *,
        size: int,
        share: float = 0.5,
        name: str | None = None,
        mode: Literal["a", "b"] = "a",
        exact: bool = False,
        seed: int | None = None,
        rich: list[int] | None = None,
    ) -> None:
        pass


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 3, "share": 1, "name": None, "mode": "b", "exact": True},
        {"share": 0.25, "rich": "left to the class"},
        {"seed": 0},
    ],
)
def test_what_fits_passes(settings: dict[str, Any]) -> None:
    check("thing", Thing, settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sise": 3},
            r"no setting 'sise'; did you mean 'size'\? Its settings are: size,",
        ),
        ({"zzz": 0}, "no setting 'zzz'; its settings are"),
        ({"size": 2.5}, "size of thing is a whole number, not 2.5"),
        ({"size": True}, "whole number"),
        ({"size": "a"}, "whole number, not 'a'"),
        ({"share": "abc"}, "share of thing is a number, not 'abc'"),
        ({"share": None}, "a number, not None"),
        ({"share": nan}, "NaN"),
        ({"name": 3}, "a text or null"),
        ({"mode": "c"}, "'a' or 'b', not 'c'"),
        ({"exact": 1}, "true or false"),
        ({"seed": -1}, "seed of thing must be a whole number from 0 on"),
    ],
)
def test_what_does_not_fit_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check("thing", Thing, settings)


def test_a_class_with_names_only_a_type_checker_knows_is_checked_by_name() -> None:
    def made(*, size: "Unheard") -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    check("made", made, {"size": object()})
    with pytest.raises(InputError, match="no setting 'seize'"):
        check("made", made, {"seize": 1})


def test_what_is_missing_is_said() -> None:
    with pytest.raises(InputError, match="thing needs size; give a size"):
        check_complete("thing", Thing, {"share"}, {"size": "give a size"})
    check_complete("thing", Thing, {"size"})


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("item-knn", {"k": "a"}, "whole number"),
        ("bias", {"damping": "abc"}, "a number"),
        ("bias", {"damp": 1.0}, "did you mean 'damping'"),
        ("svd", {"epsilon": nan}, "epsilon"),
        ("svd", {"epsilon": -1.0}, "above 0"),
        ("svd", {"epsilon": "big"}, "number"),
        ("svd", {"epsilon": 1.0, "delta": 1.5}, "below 1"),
        ("svd", {"epsilon": 1.0, "delta": -0.1}, "at least 0"),
        ("svd", {"epsilon": 1.0, "unit": "town"}, "'rating' or 'user'"),
        ("svd", {"epsilon": 1.0, "seed": -4}, "from 0 on"),
        ("bias", {"epsilon": 1.0}, "no private version"),
    ],
)
def test_models(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_model(method, **settings)


def test_an_instance_is_checked_when_it_learns(viewers: Any) -> None:
    with pytest.raises(InputError, match="damping of Bias is a number, not 'abc'"):
        Bias(damping="abc").fit(viewers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("s-epicrec", {"p": 0}, "no setting 'p'"),
        ("s-epicrec", {"p": None}, "no setting 'p'"),
        ("s-epicrec", {"correct": False}, "no setting 'correct'"),
        ("s-epicrec", {"calibration": "x", "as_published": True}, "'category'"),
        ("d2p", {"p": "a"}, "number"),
        ("dpi", {"epsilon": 1.0}, "dpi needs scale; give the public scale"),
        ("nothing", {}, "no method 'nothing'"),
    ],
)
def test_perturbers(films: Any, method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_perturber(method, catalogue=films, **settings)


def test_perturbers_need_what_is_public() -> None:
    with pytest.raises(InputError, match="s-epicrec needs catalogue; give a catalogue"):
        make_perturber("s-epicrec")


def test_what_is_public_is_offered_to_who_takes_it(films: Any) -> None:
    from epicrec.data import Scale

    scale = Scale(1, 5, 1)
    hiding = make_perturber("hiding-dpi", catalogue=films, scale=scale, epsilon=1.0, seed=3)
    assert hiding.scale == scale
    assert (hiding.item_ids == films.item_ids).all()
    assert make_perturber("s-epicrec", catalogue=films, scale=scale, seed=3).seed == 3
