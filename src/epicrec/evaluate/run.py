"""Any method, by name or as it is, measured on any data by any protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epicrec import registry
from epicrec.data import Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate.protocols import Evaluation, evaluate_model
from epicrec.models import Recommender
from epicrec.perturb.contract import Perturber
from epicrec.settings import check, given, taken

PROTOCOLS = ("rating", "topn", "aggregates", "mae-loss", "yang")
_OF_RELEASES = ("aggregates", "mae-loss")


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
        from epicrec.evaluate.releases import PROTOCOLS as MEASURES

        if protocol not in MEASURES:
            raise InputError(f"a perturber is measured by {', '.join(MEASURES)}, not by {protocol}")
        measure = MEASURES[protocol]
        options |= {name: own.pop(name) for name in [*own] if name in taken(measure)}
        options = _checked(protocol, measure, options)
        return measure(dataset, method=method, settings=own, **options)
    if protocol in _OF_RELEASES:
        raise InputError(
            f"the protocol {protocol!r} is for perturbers such as s-epicrec, not for {method}"
        )
    if protocol == "yang":
        from epicrec.evaluate.four_blocks import evaluate_yang

        if not isinstance(method, str):
            raise InputError("the protocol 'yang' makes one model a division; give a method's name")
        options |= {name: own.pop(name) for name in ("seeds", "k") if name in own}
        options = _checked(protocol, evaluate_yang, options)
        return evaluate_yang(method, dataset, settings=own, **options)
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


def _checked(protocol: str, measure: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, all of them known; two have defaults on the command line that mean nothing
    where a protocol does not take them."""
    known = taken(measure)
    kept = {k: v for k, v in options.items() if k in known or k not in ("test_fraction", "n")}
    check(f"the protocol {protocol!r}", measure, kept)
    return kept
