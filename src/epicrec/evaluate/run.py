"""Any method, by name or as it is, measured on any data by any protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from epicrec import registry
from epicrec.data import Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate.protocols import Evaluation, evaluate_model
from epicrec.models import Recommender
from epicrec.parameters import check, given, taken
from epicrec.perturb.contract import Perturber

_OF_RELEASES = {
    "aggregates": "releases:aggregates",
    "mae-loss": "releases:mae_loss",
    "release-topn": "release_lists:topn_cost",
}
"""The protocols of perturbers, and the functions of `evaluate` that measure by them."""
_BY_NAME = {"yang": "yang", "d2p": "d2p_lists:evaluate_d2p"}
"""The papers' protocols, which make several models of one method."""
PROTOCOLS = ("rating", "topn", *_OF_RELEASES, *_BY_NAME)


def evaluate(
    method: str | Recommender | Perturber,
    data: Any,
    *,
    protocol: str = "rating",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Measure a method on data by a protocol; see `evaluate_model` for the usual options.

    The method is a registered name, or a model or perturber with settings (and a seed) of its own.
    The data are a Dataset, Ratings, or any dataframe with `user_id, item_id, rating`.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"there is no protocol {protocol!r}; choose from {', '.join(PROTOCOLS)}")
    dataset, options, own = as_dataset(data), given(**options), dict(settings or {})
    if _is_perturber(method, protocol):
        if protocol not in _OF_RELEASES:
            raise InputError(
                f"the protocol {protocol!r} is for models, and {method} makes releases; measure "
                f"them by {', '.join(_OF_RELEASES)}"
            )
        measure = _measure(_OF_RELEASES[protocol])
        options |= {name: own.pop(name) for name in [*own] if name in taken(measure)}
        options = _checked(protocol, measure, options)
        return measure(dataset, method=method, settings=own, **options)
    if protocol in _OF_RELEASES:
        raise InputError(
            f"the protocol {protocol!r} is for perturbers such as s-epicrec, not for {method}"
        )
    if protocol in _BY_NAME:
        if not isinstance(method, str):
            raise InputError(
                f"the protocol {protocol!r} makes one model a division; give a method's name"
            )
        measure = _measure(_BY_NAME[protocol])
        options |= {
            name: own.pop(name) for name in ("seeds", "k") if name in own and name in taken(measure)
        }
        options = _checked(protocol, measure, options)
        return measure(method, dataset, settings=own, **options)
    assert not isinstance(method, Perturber)
    options = _checked(protocol, evaluate_model, options)
    return evaluate_model(method, dataset, protocol=protocol, settings=own, **options)


def as_dataset(data: Any) -> Dataset:
    """Ratings or a dataframe as a data set without a catalogue."""
    if isinstance(data, Dataset):
        return data
    ratings = data if isinstance(data, Ratings) else Ratings.from_frame(data)
    return Dataset("ratings" if isinstance(data, Ratings) else "frame", ratings, None)


def _is_perturber(method: str | Recommender | Perturber, protocol: str) -> bool:
    """A name that a model and a perturber share (d2p) means the one that the protocol measures."""
    if not isinstance(method, str):
        return isinstance(method, Perturber)
    if method not in registry.names(registry.PERTURBERS):
        return False
    return protocol in _OF_RELEASES or method not in registry.names(registry.MODELS)


def _measure(place: str) -> Callable[..., Evaluation]:
    module, _, name = place.partition(":")
    found: Callable[..., Evaluation]
    if not name:
        found = registry.load_object(registry.PROTOCOLS, place)
    else:
        found = getattr(import_module(f"epicrec.evaluate.{module}"), name)
    return found


def _checked(protocol: str, measure: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, all of them known; two have defaults on the command line that mean nothing
    where a protocol does not take them."""
    known = taken(measure)
    kept = {k: v for k, v in options.items() if k in known or k not in ("test_fraction", "n")}
    check(f"the protocol {protocol!r}", measure, kept)
    return kept
