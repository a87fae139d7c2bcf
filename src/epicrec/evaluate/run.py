"""Any method, by name or as it is, measured on any data by any protocol.

Three protocols are here: `rating` and `topn` measure models, `release-topn` the releases of a
perturber. Others, such as the papers', are registered by their packages:

    [project.entry-points."epicrec.protocols"]
    my-protocol = "my_package.my_module:my_protocol"

A protocol is a function of `method`, `dataset`, `settings` (the method's) and its own options, all
given by name, and answers with an `Evaluation`. It makes models by the name of their method, or is
marked with `measures_releases`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from epicrec import registry
from epicrec.data import Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate.protocols import Evaluation, evaluate_model, usual_protocol
from epicrec.evaluate.release_lists import topn_cost
from epicrec.models import Recommender
from epicrec.parameters import check, given, taken
from epicrec.perturb.contract import Perturber

Protocol = TypeVar("Protocol", bound=Callable[..., Evaluation])

_OF_MODELS = ("rating", "topn")
_OF_RELEASES = {"release-topn": topn_cost}


def measures_releases(protocol: Protocol) -> Protocol:
    """Mark a protocol that measures the releases of a perturber."""
    protocol.of_releases = True  # type: ignore[attr-defined]
    return protocol


def evaluate(
    method: str | Recommender | Perturber,
    data: Any,
    *,
    protocol: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Evaluation:
    """Measure a method on data by a protocol; see `evaluate_model` for the usual options.

    Without a protocol, a model is measured by what it is for: lists by `topn`, ratings by `rating`.
    The method is a registered name, or a model or perturber with settings (and a seed) of its own.
    The data are a Dataset, Ratings, or any dataframe with `user_id, item_id, rating`.
    """
    known = protocols()
    if protocol is not None and protocol not in known:
        raise InputError(f"there is no protocol {protocol!r}; choose from {', '.join(known)}")
    dataset, options, own = as_dataset(data), given(**options), dict(settings or {})
    of_releases = protocol is not None and _is_of_releases(protocol)
    if _is_perturber(method, of_releases):
        if not of_releases:
            fitting = ", ".join(name for name in known if _is_of_releases(name))
            raise InputError(
                f"{method} makes releases, not a model; measure them by the protocol {fitting}"
            )
    elif of_releases:
        raise InputError(
            f"the protocol {protocol!r} is for perturbers such as s-epicrec, not for {method}"
        )
    if protocol is None:
        assert not isinstance(method, Perturber)
        protocol = usual_protocol(method, options | own)
    if protocol in _OF_MODELS:
        assert not isinstance(method, Perturber)
        options = _checked(protocol, evaluate_model, options)
        return evaluate_model(method, dataset, protocol=protocol, settings=own, **options)
    if not of_releases and not isinstance(method, str):
        raise InputError(
            f"the protocol {protocol!r} makes one model a division; give a method's name"
        )
    measure = _measure(protocol)
    its_own = {*taken(measure)} - {"method", "dataset", "settings"}
    options |= {name: own.pop(name) for name in [*own] if name in its_own}
    options = _checked(protocol, measure, options)
    return measure(method=method, dataset=dataset, settings=own, **options)


def protocols() -> list[str]:
    """The names of all protocols, those of this module first."""
    return [*_OF_MODELS, *_OF_RELEASES, *registry.names(registry.PROTOCOLS)]


def as_dataset(data: Any) -> Dataset:
    """Ratings or a dataframe as a data set without a catalogue."""
    if isinstance(data, Dataset):
        return data
    ratings = data if isinstance(data, Ratings) else Ratings.from_frame(data)
    return Dataset("ratings" if isinstance(data, Ratings) else "frame", ratings, None)


def _is_perturber(method: str | Recommender | Perturber, of_releases: bool) -> bool:
    """A name that a model and a perturber share (d2p) means the one that the protocol measures."""
    if not isinstance(method, str):
        return isinstance(method, Perturber)
    if method not in registry.names(registry.PERTURBERS):
        return False
    return of_releases or method not in registry.names(registry.MODELS)


def _is_of_releases(protocol: str) -> bool:
    if protocol in _OF_MODELS or protocol in _OF_RELEASES:
        return protocol in _OF_RELEASES
    return getattr(_measure(protocol), "of_releases", False)


def _measure(protocol: str) -> Callable[..., Evaluation]:
    found: Callable[..., Evaluation] = _OF_RELEASES.get(protocol) or registry.load_object(
        registry.PROTOCOLS, protocol
    )
    return found


def _checked(protocol: str, measure: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, all of them known; two have defaults on the command line that mean nothing
    where a protocol does not take them."""
    known = taken(measure)
    kept = {k: v for k, v in options.items() if k in known or k not in ("test_fraction", "n")}
    check(f"the protocol {protocol!r}", measure, kept)
    return kept
