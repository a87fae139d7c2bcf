"""Recommenders and perturbers by name, of this package and of any other: entry points.

A package adds its own with one line in its pyproject.toml, as this one does:

    [project.entry-points."epicrec.models"]
    my-method = "my_package.my_module:MyMethod"

A method of a paper can have two classes: the sound one in the group, and the paper's own version
in the group with the suffix `.as_published`, which `as_published=True` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from epicrec.errors import InputError

MODELS = "epicrec.models"
PERTURBERS = "epicrec.perturbers"
PROTOCOLS = "epicrec.protocols"
OURS = "epicrec"


@dataclass(frozen=True)
class Registered:
    """A name, the `module:class` behind it, and the package that says so."""

    name: str
    place: str
    package: str


@cache
def entries(group: str) -> Mapping[str, tuple[Registered, ...]]:
    """What is registered under each name: our names first, then others', each in order.

    Where two packages register the same name, only a request for that name fails.
    """
    found = [
        Registered(point.name, point.value.replace(" ", ""), point.dist.name if point.dist else "?")
        for point in entry_points(group=group)
    ]
    if group in (MODELS, PERTURBERS) and not any(entry.package == OURS for entry in found):
        raise InputError(
            "epicrec's own methods are not registered, because it is not installed or was "
            "installed before it had them; run pip install -e . in its folder"
        )
    by_name: dict[str, tuple[Registered, ...]] = {}
    for entry in sorted(found, key=lambda e: (e.package != OURS, e.name, e.package)):
        by_name[entry.name] = (*by_name.get(entry.name, ()), entry)
    return by_name


def names(group: str) -> list[str]:
    """The registered names: ours, then those of other packages."""
    return [*entries(group)]


def entry(group: str, name: str) -> Registered:
    """The one entry of this name."""
    known = entries(group)
    if name not in known:
        near = get_close_matches(str(name).lower().replace("_", "-"), known, n=1)
        meant = f"did you mean {near[0]!r}? C" if near else "c"
        raise InputError(f"there is no method {name!r}; {meant}hoose from {', '.join(known)}")
    first, *others = known[name]
    if others:
        packages = " and ".join(f"{e.package} ({e.place})" for e in (first, *others))
        raise InputError(f"{name!r} is registered by {packages}; uninstall or rename one of them")
    return first


def published(group: str) -> str:
    """The group of the papers' own versions."""
    return f"{group}.as_published"


def load_object(group: str, name: str) -> Any:
    """What is registered under a name, imported when asked for."""
    chosen = entry(group, name)
    module, _, qualname = chosen.place.partition(":")
    try:
        return attrgetter(qualname)(import_module(module))
    except Exception as error:
        raise InputError(
            f"{name!r} of the package {chosen.package} cannot be loaded from {chosen.place} "
            f"({type(error).__name__}: {error}); update or uninstall {chosen.package}"
        ) from error


def load_class(group: str, name: str, base: type, *, as_published: bool = False) -> type[Any]:
    """The class registered under a name, or the paper's own version of it."""
    if as_published:
        entry(group, name)  # an unknown name is the first error to report
        if name not in entries(published(group)):
            has = ", ".join(entries(published(group)))
            raise InputError(f"{name} has no version as published; those that have: {has}")
        group = published(group)
    chosen, found = entry(group, name), load_object(group, name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(
            f"{name!r} of the package {chosen.package} is no {base.__name__}: {chosen.place} must "
            f"be a class that derives from {base.__module__}.{base.__qualname__}"
        )
    return found


def name_of(group: str, cls: type) -> str | None:
    """The name a class is registered under, or None; nothing is imported."""
    place = place_of(cls)
    every = (e for g in (group, published(group)) for each in entries(g).values() for e in each)
    return next((entry.name for entry in every if entry.place == place), None)


def place_of(cls: type) -> str:
    """The `module:class` of a class, as an entry point has it."""
    return f"{cls.__module__}:{cls.__qualname__}"
